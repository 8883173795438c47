//! Memory that one process writes and others read: a sealed memory file, seen as 64-bit words.
//!
//! [`SharedWords::create`] makes it and is the only one that can ever write to it: the seals allow no new writable
//! mapping, and no change of length, which would kill readers (SIGBUS). Its descriptor is passed to others, who
//! [`SharedWords::open`] it for reading.
//!
//! [`LentText`] is text for reading alone, whose memory its maker can take back.
//!
//! Words are atomic because another process may change them at any time; what they mean together is for the user
//! to secure (sequence numbers, say). Storing to words that were opened for reading ends the process (SIGSEGV).

use crate::error::{Context as _, Error, Result};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, memfd_create};
use std::io::Write as _;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

/// Words shared with other processes.
#[derive(Debug)]
pub struct SharedWords {
    fd: OwnedFd,
    start: NonNull<AtomicU64>,
    len: usize,
}

// SAFETY: the mapping is as good on one thread as on another, and all accesses are atomic.
unsafe impl Send for SharedWords {}

/// What neither a reader nor the writer may change any more.
const SEALS: SealFlags = SealFlags::SHRINK
    .union(SealFlags::GROW)
    .union(SealFlags::FUTURE_WRITE)
    .union(SealFlags::SEAL);

impl SharedWords {
    /// Zeroed words that this process alone can write.
    pub fn create(name: &str, len: usize) -> Result<Self> {
        let what = || format!("cannot make {} bytes of shared memory", len * 8);
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let fd = memfd_create(name, flags).context(what)?;
        rustix::fs::ftruncate(&fd, (len * 8) as u64).context(what)?;
        let start = map(fd.as_fd(), len, libc::PROT_READ | libc::PROT_WRITE).context(what)?;
        let words = Self { fd, start, len };
        // After our own mapping: FUTURE_WRITE leaves that one, and allows no other.
        fcntl_add_seals(&words.fd, SEALS).context(what)?;
        Ok(words)
    }

    /// Words of another process, for reading.
    pub fn open(fd: OwnedFd) -> Result<Self> {
        let what = || "cannot read the shared memory that was passed";
        let seals = fcntl_get_seals(&fd).context(what)?;
        if !seals.contains(SealFlags::SHRINK | SealFlags::GROW) {
            return Err(
                Error::new("the shared memory that was passed is not sealed")
                    .mend("use a daemon of the same version as the program"),
            );
        }
        let bytes = rustix::fs::fstat(&fd).context(what)?.st_size;
        let len = usize::try_from(bytes).unwrap_or(0) / 8;
        let start = map(fd.as_fd(), len, libc::PROT_READ).context(what)?;
        Ok(Self { fd, start, len })
    }

    /// The words.
    pub fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping has this length as long as `self` lives, since the file's length is sealed; a mapping
        // is aligned to pages; any bits are a valid word, and nobody in this process accesses them otherwise.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl AsFd for SharedWords {
    /// What to pass to readers.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for SharedWords {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and `words` borrowed from `self`.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len * 8) };
    }
}

fn map(fd: BorrowedFd<'_>, len: usize, access: i32) -> std::io::Result<NonNull<AtomicU64>> {
    use std::os::fd::AsRawFd as _;
    let (nowhere, raw) = (std::ptr::null_mut(), fd.as_raw_fd());
    // SAFETY: without MAP_FIXED a new mapping touches no existing memory.
    let start = unsafe { libc::mmap(nowhere, len * 8, access, libc::MAP_SHARED, raw, 0) };
    if start == libc::MAP_FAILED {
        return Err(std::io::Error::last_os_error());
    }
    Ok(NonNull::new(start.cast()).expect("the kernel maps nothing at 0 unasked"))
}

/// A text in memory that is lent for reading: whoever has a descriptor of it can read it until it is taken back, and
/// never write it. A file of its own user and nobody else's, so that it cannot be opened for writing through /proc
/// either. Its readers read: a mapping of what was taken back is none (SIGBUS).
#[derive(Debug)]
pub struct LentText {
    file: std::fs::File,
    len: usize,
}

impl LentText {
    /// Puts a text into memory.
    pub fn new(name: &str, text: &str) -> Result<Self> {
        let what = || format!("cannot make {} bytes of shared memory", text.len());
        let mut file = std::fs::File::from(memfd_create(name, MemfdFlags::CLOEXEC).context(what)?);
        rustix::fs::fchmod(&file, rustix::fs::Mode::RUSR).context(what)?;
        file.write_all(text.as_bytes()).context(what)?;
        let len = text.len();
        Ok(Self { file, len })
    }

    /// Its length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True when there is nothing to read.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// A descriptor for one reader, at the beginning.
    pub fn lend(&self) -> Result<OwnedFd> {
        use std::os::fd::AsRawFd as _;
        let path = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        let file = std::fs::File::open(path).context(|| "cannot lend a text")?;
        Ok(file.into())
    }

    /// Gives the memory back, whoever has a descriptor still.
    pub fn take_back(self) {
        // It cannot fail: the file is ours, and it is memory.
        let _ = self.file.set_len(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;
    use std::sync::atomic::Ordering::Relaxed;

    #[test]
    fn what_the_maker_writes_readers_see_and_cannot_change() {
        let ours = SharedWords::create("exos-test", 1000).expect("memory");
        let theirs = ours.as_fd().try_clone_to_owned().expect("a descriptor");
        let theirs = SharedWords::open(theirs).expect("it is sealed");
        ours.words()[999].store(7, Relaxed);
        assert_eq!(theirs.words()[999].load(Relaxed), 7);
        let writable = map(theirs.as_fd(), 1000, libc::PROT_READ | libc::PROT_WRITE);
        assert_eq!(
            writable.expect_err("sealed").raw_os_error(),
            Some(libc::EPERM)
        );
        for bytes in [0, 16_000] {
            let changed = rustix::fs::ftruncate(theirs.as_fd(), bytes);
            assert_eq!(changed, Err(rustix::io::Errno::PERM));
        }
        let mut file = std::fs::File::from(theirs.as_fd().try_clone_to_owned().expect("another"));
        let written = file.write(&[1]).expect_err("sealed");
        assert_eq!(written.raw_os_error(), Some(libc::EPERM));
    }

    #[test]
    fn memory_that_may_shrink_is_refused() {
        let fd = memfd_create("exos-test", MemfdFlags::CLOEXEC).expect("memory");
        let error = SharedWords::open(fd).expect_err("not sealed");
        assert!(error.what.contains("not sealed"), "{error}");
    }

    #[test]
    fn a_text_is_read_from_its_beginning_until_it_is_taken_back() {
        let text = LentText::new("exos-test", "{}").expect("memory");
        let [one, other] =
            [(); 2].map(|()| std::fs::File::from(text.lend().expect("a descriptor")));
        for mut file in [&one, &other] {
            let mut read = String::new();
            file.read_to_string(&mut read).expect("readable");
            assert_eq!((read.as_str(), text.len()), ("{}", 2));
            assert!(file.write_all(b"x").is_err());
            assert!(file.set_len(0).is_err());
        }
        text.take_back();
        assert_eq!(one.metadata().expect("still a file").len(), 0);
    }
}
