//! Sockets of which a process knows something that holds until something happens anywhere, which the memory counts: each stands beside how often that had happened when
//! it was asked for, in one word. So one that is added late is of that time still, and all are forgotten by the next time.

use std::sync::atomic::{AtomicU64, Ordering};

/// A socket, at a moment.
#[derive(Clone, Copy, Debug)]
pub struct At {
    /// Zero of what is none.
    pub inode: u32,
    /// How often it had happened by then.
    pub count: u32,
}

impl At {
    fn word(self) -> u64 {
        u64::from(self.inode) << 32 | u64::from(self.count)
    }
}

/// The last sockets, each at the place that its inode gives.
pub struct Known([AtomicU64; 64]);

impl Known {
    /// None.
    #[expect(clippy::new_without_default, reason = "it is a static's")]
    pub const fn new() -> Self {
        Self([const { AtomicU64::new(0) }; 64])
    }

    /// Whether it is known of this socket.
    pub fn has(&self, at: At) -> bool {
        at.inode != 0 && self.place(at).load(Ordering::Relaxed) == at.word()
    }

    /// It is, as of that moment.
    pub fn add(&self, at: At) {
        self.place(at).store(at.word(), Ordering::Relaxed);
    }

    fn place(&self, at: At) -> &AtomicU64 {
        &self.0[at.inode as usize % self.0.len()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A thread may add what it was answered long after that, when others have looked again.
    #[test]
    fn what_was_answered_before_is_forgotten() {
        let (known, at) = (Known::new(), |count| At { inode: 7, count });
        assert!(!known.has(at(1)));
        known.add(at(1));
        assert!(known.has(at(1)) && !known.has(at(2)));
        known.add(at(2));
        assert!(known.has(at(2)));
        known.add(at(1));
        assert!(!known.has(at(2)));
        let [same_place, none] = [71, 0].map(|inode| At { inode, count: 2 });
        known.add(same_place);
        assert!(known.has(same_place) && !known.has(at(1)));
        known.add(none);
        assert!(!known.has(none));
    }
}
