//! The kernel's copy of a file that is read: the pages that it keeps.
//!
//! While the cache of documents has less of the memory than is left to the kernel, the kernel's pages are a second cache: what
//! the first gives up is found there. Where the cache has most of the memory they hold little but what it has just read, and where a
//! control group counts both, that is memory for fewer documents. Then the pages go behind the read; but not where
//! some were there before: another program reads that file, too.

use std::fs::File;
use std::io::IoSliceMut;

use rustix::fs::{Advice, fadvise};
use rustix::io::{Errno, ReadWriteFlags, preadv2};

/// What becomes of the kernel's copy of a file that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelCopy {
    /// It stays for as long as the kernel likes.
    Stays,
    /// It goes if it came by the read.
    Goes,
}

impl KernelCopy {
    /// What becomes of it where the cache may have this much memory.
    pub fn beside(cache_len: u64) -> KernelCopy {
        match exos_host::memory::total() {
            Some(total) if cache_len > total / 2 => KernelCopy::Goes,
            _ => KernelCopy::Stays,
        }
    }

    /// What becomes of it, told before the file is read.
    #[must_use]
    pub fn before(self, file: &File) -> KernelCopy {
        match self {
            KernelCopy::Goes if is_read_from_disk(file) => KernelCopy::Goes,
            _ => KernelCopy::Stays,
        }
    }

    /// The file was read.
    pub fn after(self, file: &File) {
        if self == KernelCopy::Goes {
            // Advice: where it is not taken, the pages stay.
            let _ = fadvise(file, 0, None, Advice::DontNeed);
        }
    }
}

/// Whether a read of the file's beginning has to wait for a disk.
fn is_read_from_disk(file: &File) -> bool {
    let mut byte = [0];
    let read = preadv2(
        file,
        &mut [IoSliceMut::new(&mut byte)],
        0,
        ReadWriteFlags::NOWAIT,
    );
    read == Err(Errno::AGAIN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;
    use std::path::Path;

    /// Reads a file, and says whether the kernel has no copy of it afterwards.
    fn is_gone_after(path: &Path, copy: KernelCopy) -> bool {
        let mut file = File::open(path).expect("it is there");
        let copy = copy.before(&file);
        let mut content = Vec::new();
        file.read_to_end(&mut content).expect("it can be read");
        copy.after(&file);
        assert_eq!(content.len(), 20_000);
        is_read_from_disk(&file)
    }

    /// The kernel has no copy of it, if the file system lets it have none.
    fn forget(path: &Path) {
        is_gone_after(path, KernelCopy::Stays);
        KernelCopy::Goes.after(&File::open(path).expect("it is there"));
    }

    #[test]
    fn the_copy_goes_that_came_by_the_read() {
        // Where tests are built is a disk: a directory for temporary files may be in memory.
        let test = std::env::current_exe().expect("it is known");
        let folder = tempfile::tempdir_in(test.parent().expect("a directory")).expect("room");
        let path = folder.path().join("document");
        std::fs::write(&path, [7; 20_000]).expect("room");
        let file = File::open(&path).expect("it is there");
        file.sync_all().expect("it can be written");
        assert!(!is_gone_after(&path, KernelCopy::Goes), "it was written");
        forget(&path);
        if !is_read_from_disk(&file) {
            return; // The file system keeps it, or does not say.
        }
        forget(&path);
        assert!(is_gone_after(&path, KernelCopy::Goes));
        forget(&path);
        assert!(!is_gone_after(&path, KernelCopy::Stays));
        assert!(!is_gone_after(&path, KernelCopy::Goes), "others read it");
    }

    #[test]
    fn pages_go_where_the_cache_has_most_of_the_memory() {
        let total = exos_host::memory::total().expect("this machine has memory");
        assert_eq!(KernelCopy::beside(total / 2), KernelCopy::Stays);
        assert_eq!(KernelCopy::beside(total / 4 * 3), KernelCopy::Goes);
    }
}
