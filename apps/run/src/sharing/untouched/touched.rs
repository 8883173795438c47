//! Sockets of TCP to which something was done by calls that came here: the library may have been told as new what such a call was of, for it
//! does not see those that the C library, or a library with instructions of its own, makes.

use std::collections::{HashMap, HashSet};

use exos_preload::memory::DESCRIPTORS;

/// Numbers of descriptors, by the parts of their processes. What was noted of one that is another file's by now costs a look at that, once.
#[derive(Default)]
pub(crate) struct Touched(HashMap<u32, HashSet<i32>>);

impl Touched {
    /// Something was done to a process's descriptor. Beyond the last that can be a shared socket nothing is taken for new.
    pub fn note(&mut self, part: u32, fd: i32) {
        if usize::try_from(fd).is_ok_and(|fd| fd < DESCRIPTORS) {
            self.0.entry(part).or_default().insert(fd);
        }
    }

    /// Whether something was done to it; that is known of the next file with this number no more.
    pub fn take(&mut self, part: u32, fd: i32) -> bool {
        self.0.get_mut(&part).is_some_and(|fds| fds.remove(&fd))
    }

    /// The part is another process's from now on.
    pub fn forget(&mut self, part: u32) {
        self.0.remove(&part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_done_is_known_once_of_that_processs_descriptor() {
        let mut touched = Touched::default();
        touched.note(1, 5);
        touched.note(2, 6);
        touched.note(1, -1);
        touched.note(1, DESCRIPTORS as i32);
        assert!(!touched.take(2, 5) && !touched.take(1, 6) && !touched.take(1, -1));
        assert!(!touched.take(1, DESCRIPTORS as i32));
        assert!(touched.take(1, 5) && !touched.take(1, 5));
        touched.forget(2);
        assert!(!touched.take(2, 6));
    }
}
