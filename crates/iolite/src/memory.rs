//! Memory files, and mappings of them: all unsafe code of this crate that has to do with memory.
//!
//! A mapping has words, which are atomic since another process may write them, and bytes. Bytes are copied out, once, and the copy is
//! what is used. References to bytes are given where nobody but this process can write them: a pool's owner to its own.
//!
//! No mapping is there in a child that this process forks: there is one writer of everything.

use crate::error::{Error, Refused as _, Result};
use exos_wait::Line;
use rustix::fs::{MemfdFlags, Mode, SealFlags, fcntl_add_seals, fcntl_get_seals};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

/// What this process may do with a mapping.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Access {
    Read,
    Write,
}

/// Seals that keep a mapping from ending behind the file (SIGBUS).
const LENGTH: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW);

/// A memory file of this many zeroed bytes, whose length stays as it is.
pub(crate) fn file(name: &str, len: usize) -> Result<OwnedFd> {
    let flags = MemfdFlags::ALLOW_SEALING;
    let file = exos_host::shared::memory_file(name, flags, Mode::RUSR | Mode::WUSR)
        .refused("cannot make a memory file")?;
    rustix::fs::ftruncate(&file, len as u64).refused("cannot make a memory file so long")?;
    fcntl_add_seals(&file, LENGTH).refused("cannot seal a memory file")?;
    Ok(file)
}

/// Lets nobody write a file from now on but by the mappings that are there, and nobody add another seal.
pub(crate) fn seal_writing(file: &OwnedFd) -> Result<()> {
    fcntl_add_seals(file, SealFlags::FUTURE_WRITE | SealFlags::SEAL)
        .refused("cannot seal a pool against writing")
}

/// The length of another's memory file, which it has to have for good.
pub(crate) fn sealed_len(file: &OwnedFd) -> Result<usize> {
    // Another kind of file has no seals (EINVAL).
    let seals = fcntl_get_seals(file).refused("what was passed is no memory file")?;
    if !seals.contains(LENGTH) {
        return Err(Error::PeerFault("its memory may change its length"));
    }
    let bytes = rustix::fs::fstat(file).refused("cannot look at shared memory")?;
    usize::try_from(bytes.st_size).map_err(|_| Error::PeerFault("a length below zero"))
}

/// A shared mapping of the whole of a memory file.
#[derive(Debug)]
pub(crate) struct Region {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: a mapping is the process's, not a thread's. Words are atomic; bytes are copied out, or referred to by callers who say that nobody
// writes there.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    /// Maps a file whose length is sealed.
    pub fn map(file: &OwnedFd, access: Access) -> Result<Self> {
        let len = sealed_len(file)?;
        if len == 0 {
            return Err(Error::PeerFault("it passed no memory"));
        }
        let protection = match access {
            Access::Read => ProtFlags::READ,
            Access::Write => ProtFlags::READ | ProtFlags::WRITE,
        };
        let nowhere = std::ptr::null_mut();
        // SAFETY: without MAP_FIXED a new mapping touches no existing memory.
        let start = unsafe { mmap(nowhere, len, protection, MapFlags::SHARED, file.as_fd(), 0) };
        let start = start.refused("cannot map shared memory")?;
        // SAFETY: the mapping was just made; its pages stay as they are here.
        let advised = unsafe { madvise(start, len, Advice::LinuxDontFork) };
        let start = NonNull::new(start.cast()).expect("the kernel maps nothing at 0 unasked");
        // From here on it is unmapped in any case.
        let region = Self { start, len };
        advised.refused("cannot keep shared memory from children")?;
        Ok(region)
    }

    pub fn len(&self) -> usize {
        self.len
    }

    /// A word, counted from the beginning.
    ///
    /// # Panics
    ///
    /// When the mapping is not that long.
    #[inline]
    pub fn word(&self, index: usize) -> &AtomicU64 {
        &self.words::<1>(index)[0]
    }

    /// Words in a row, the first counted from the beginning.
    ///
    /// # Panics
    ///
    /// When the mapping is not that long.
    #[inline]
    pub fn words<const N: usize>(&self, index: usize) -> &[AtomicU64; N] {
        let is_within = index.saturating_add(N) <= self.len / 8;
        assert!(is_within, "word {index} of {} bytes", self.len);
        // SAFETY: within the mapping, which is aligned to pages; its file cannot get shorter. All users of a place that has
        // words use it as such: no reference to bytes is ever there (the contract of `bytes` and `bytes_mut`).
        unsafe {
            let first = self.start.as_ptr().cast::<AtomicU64>().add(index);
            &*first.cast()
        }
    }

    /// Where a side publishes what it waits for, counted in words from the beginning.
    ///
    /// # Panics
    ///
    /// When the mapping is not that long, or no line begins there.
    #[inline]
    pub fn line(&self, index: usize) -> &Line {
        let words = size_of::<Line>() / 8;
        assert!(index.is_multiple_of(words) && index + words <= self.len / 8);
        // SAFETY: within the mapping and aligned, since that is to pages; its file cannot get shorter. A line is atomic words, of which all
        // values are valid, and all users of a place that has words use it as such.
        unsafe { &*self.start.as_ptr().cast::<Line>().add(index / words) }
    }

    #[inline]
    fn check(&self, range: &Range<usize>) {
        let is_within = range.start <= range.end && range.end <= self.len;
        assert!(is_within, "{range:?} of {} bytes", self.len);
    }

    /// Copies bytes out, which another process may be writing: then they are any bytes, but the copy does not change.
    ///
    /// # Panics
    ///
    /// When the mapping is not that long.
    #[inline]
    pub fn copy_out(&self, start: usize, out: &mut [u8]) {
        self.check(&(start..start.saturating_add(out.len())));
        // SAFETY: both are so long; `out` is this process's own memory, and no mapping of ours.
        unsafe {
            let from = self.start.as_ptr().add(start);
            out.as_mut_ptr().copy_from_nonoverlapping(from, out.len());
        }
        // The compiler may take what is read of the copy from where it was copied from, if nothing writes there between; for all that it
        // knows this does. No instruction comes of it.
        // SAFETY: it does nothing.
        unsafe {
            std::arch::asm!("/* {} */", in(reg) out.as_mut_ptr(), options(nostack, preserves_flags));
        }
    }

    /// Bytes in place.
    ///
    /// # Safety
    ///
    /// No other process can write the file, this one does not write these bytes as long as they are borrowed, and they are no
    /// words.
    ///
    /// # Panics
    ///
    /// When the mapping is not that long.
    #[inline]
    pub unsafe fn bytes(&self, range: Range<usize>) -> &[u8] {
        self.check(&range);
        // SAFETY: within the mapping; nobody writes there, says the caller.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().add(range.start), range.len()) }
    }

    /// Bytes in place, to be written.
    ///
    /// # Safety
    ///
    /// This mapping is for writing, no other process can write the file, in this one nothing refers to these bytes as long as
    /// they are borrowed, and they are no words.
    ///
    /// # Panics
    ///
    /// When the mapping is not that long.
    #[inline]
    #[expect(
        clippy::mut_from_ref,
        reason = "whose bytes these are is the caller's to say"
    )]
    pub unsafe fn bytes_mut(&self, range: Range<usize>) -> &mut [u8] {
        self.check(&range);
        // SAFETY: within the mapping; nobody else has a reference to them, says the caller.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr().add(range.start), range.len()) }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and all references borrowed from `self`. What cannot be unmapped stays.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::Errno;
    use std::sync::atomic::Ordering::Relaxed;

    #[test]
    fn what_is_sealed_nobody_else_writes_and_nobody_cuts() {
        let made = file("exos-test", 8192).expect("memory");
        let ours = Region::map(&made, Access::Write).expect("memory");
        seal_writing(&made).expect("not sealed yet");
        ours.word(7).store(9, Relaxed);
        let theirs = Region::map(&made, Access::Read).expect("for reading");
        assert_eq!((theirs.word(7).load(Relaxed), theirs.len()), (9, 8192));
        assert!(Region::map(&made, Access::Write).is_err());
        assert_eq!(rustix::io::write(&made, &[1]), Err(Errno::PERM));
        for len in [0, 4096, 16_384] {
            assert_eq!(rustix::fs::ftruncate(&made, len), Err(Errno::PERM));
        }
        let hole = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
        assert_eq!(
            rustix::fs::fallocate(&made, hole, 0, 4096),
            Err(Errno::PERM)
        );
    }

    /// What was checked of a copy is what is used, though another writes. A build without optimisation reads once anyway.
    #[test]
    fn shared_bytes_are_read_once() {
        use std::sync::atomic::AtomicBool;
        let made = file("exos-test", 4096).expect("memory");
        let theirs = Region::map(&made, Access::Read).expect("memory");
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let ours = Region::map(&made, Access::Write).expect("memory");
                for value in (0_u64..).take_while(|_| !is_over.load(Relaxed)) {
                    ours.word(0).store(value, Relaxed);
                }
            });
            let mut torn = 0;
            for _ in 0..100_000 {
                let (mut block, mut used) = ([0; 4096], [0; 4096]);
                theirs.copy_out(0, &mut block);
                used.copy_from_slice(&block);
                torn += u32::from(std::hint::black_box(used) != block);
            }
            is_over.store(true, Relaxed);
            assert_eq!(torn, 0);
        });
    }

    #[test]
    fn memory_whose_length_may_change_is_refused() {
        let name = "exos-test";
        let flags = MemfdFlags::ALLOW_SEALING;
        let open = exos_host::shared::memory_file(name, flags, Mode::RUSR | Mode::WUSR);
        let open = open.expect("memory");
        rustix::fs::ftruncate(&open, 4096).expect("room");
        for access in [Access::Read, Access::Write] {
            assert!(matches!(
                Region::map(&open, access),
                Err(Error::PeerFault(_))
            ));
        }
        let (pipe, _) = rustix::pipe::pipe().expect("descriptors");
        assert!(matches!(
            Region::map(&pipe, Access::Read),
            Err(Error::System(..))
        ));
    }
}
