//! Sets of this process's descriptors: a bit for each. Those beyond the last that can be a shared socket are in none.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::memory::DESCRIPTORS;

/// A set that several threads change at once.
pub struct DescriptorSet([AtomicU64; DESCRIPTORS / 64]);

impl DescriptorSet {
    /// The empty one, for a static.
    pub const fn new() -> Self {
        Self([const { AtomicU64::new(0) }; DESCRIPTORS / 64])
    }

    fn word(&self, fd: i32) -> Option<(&AtomicU64, u64)> {
        let word = self.0.get(usize::try_from(fd).ok()? / 64)?;
        Some((word, 1 << (fd % 64)))
    }

    /// Puts a descriptor in.
    pub fn insert(&self, fd: i32) {
        if let Some((word, bit)) = self.word(fd) {
            word.fetch_or(bit, Ordering::Relaxed);
        }
    }

    /// Whether it is in there.
    pub fn has(&self, fd: i32) -> bool {
        self.word(fd)
            .is_some_and(|(word, bit)| word.load(Ordering::Relaxed) & bit != 0)
    }

    /// Takes it out; whether it was in there, which one thread is told.
    pub fn remove(&self, fd: i32) -> bool {
        self.has(fd)
            && self
                .word(fd)
                .is_some_and(|(word, bit)| word.fetch_and(!bit, Ordering::Relaxed) & bit != 0)
    }

    /// Takes all out, and gives each to `each`.
    pub fn drain(&self, mut each: impl FnMut(i32)) {
        for (at, word) in self.0.iter().enumerate() {
            // One that is empty is not written to: between fork and exec that would copy its page, in the parent and in the child.
            if word.load(Ordering::Relaxed) == 0 {
                continue;
            }
            let mut bits = word.swap(0, Ordering::Relaxed);
            while bits != 0 {
                each((at * 64) as i32 + bits.trailing_zeros() as i32);
                bits &= bits - 1;
            }
        }
    }
}
