//! Memory that one process writes and others read: a sealed memory file, seen as 64-bit words.
//!
//! [`SharedWords::create`] makes it and is the only one that can ever write to it: the seals allow no new writable
//! mapping, and no change of length, which would kill readers (SIGBUS). Its descriptor is passed to others, who
//! [`SharedWords::open`] it for reading.
//!
//! [`LentText`] is text for reading alone, whose memory its maker can take back. [`LentMemory`] is memory for writing,
//! whose maker can tell when neither a process nor the kernel has it any more.
//!
//! Storing to words that were opened for reading ends the process (SIGSEGV).

use crate::error::{Context as _, Error, Result};
use crate::mapping::Mapping;
use rustix::fs::{
    IFlags, MemfdFlags, Mode, SealFlags, fcntl_add_seals, fcntl_get_seals, memfd_create,
};
use std::fs::File;
use std::io::Write as _;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Words shared with other processes.
#[derive(Debug)]
pub struct SharedWords {
    fd: OwnedFd,
    mapping: Mapping,
}

/// What neither a reader nor the writer may change any more.
const SEALS: SealFlags = SealFlags::SHRINK
    .union(SealFlags::GROW)
    .union(SealFlags::FUTURE_WRITE)
    .union(SealFlags::SEAL);

/// An empty memory file of its own user and nobody else's: anyone who has a descriptor of it, for reading or for its name alone,
/// can neither open it for writing through /proc nor hang attributes on it, which would be the kernel's memory for as long
/// as the file is there (the kernel makes memory files with mode 0777, and `user.*` attributes ask for write permission).
pub fn memory_file(name: &str, flags: MemfdFlags, mode: Mode) -> rustix::io::Result<OwnedFd> {
    let file = memfd_create(name, flags | MemfdFlags::CLOEXEC)?;
    rustix::fs::fchmod(&file, mode)?;
    Ok(file)
}

impl SharedWords {
    /// Zeroed words that this process alone can write.
    pub fn create(name: &str, len: usize) -> Result<Self> {
        let what = || format!("cannot make {} bytes of shared memory", len * 8);
        let fd =
            memory_file(name, MemfdFlags::ALLOW_SEALING, Mode::RUSR | Mode::WUSR).context(what)?;
        rustix::fs::ftruncate(&fd, (len * 8) as u64).context(what)?;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the file has this length, and is sealed against another before anybody else has it.
        let mapping = unsafe { Mapping::new(fd.as_fd(), len, access) }.context(what)?;
        let words = Self { fd, mapping };
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
        // SAFETY: the file has this length, and is sealed against another.
        let mapping = unsafe { Mapping::new(fd.as_fd(), len, libc::PROT_READ) }.context(what)?;
        Ok(Self { fd, mapping })
    }

    /// The words.
    pub fn words(&self) -> &[AtomicU64] {
        self.mapping.words()
    }
}

impl AsFd for SharedWords {
    /// What to pass to readers.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// A text in memory that is lent for reading: anyone who has a descriptor of it can read it until it is taken back, and
/// never write it. A file of its own user and nobody else's, so that it cannot be opened for writing through /proc
/// either. Its readers read: a mapping of what was taken back is none (SIGBUS).
#[derive(Debug)]
pub struct LentText {
    file: File,
    len: usize,
}

impl LentText {
    /// Puts a text into memory.
    pub fn new(name: &str, text: &str) -> Result<Self> {
        let what = || format!("cannot make {} bytes of shared memory", text.len());
        let mut file =
            File::from(memory_file(name, MemfdFlags::empty(), Mode::RUSR).context(what)?);
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
        let path = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        let file = File::open(path).context(|| "cannot lend a text")?;
        Ok(file.into())
    }

    /// Gives the memory back, no matter who has a descriptor still.
    pub fn take_back(self) {
        // It cannot fail: the file is ours, and it is memory.
        let _ = self.file.set_len(0);
    }
}

/// Memory that is lent to another user for writing, whose maker can tell when nobody has it any more: no process
/// ([`Self::is_let_go`]), and nothing of the kernel's that was made of its pages ([`Self::take_back`]).
///
/// A file of its own user and nobody else's: who has only its name under /proc, or a descriptor for that alone (O_PATH),
/// cannot open it. It cannot grow. It can be cut short, which kills those who read behind its end (SIGBUS): its maker must
/// not map what is lent, and never takes back what was cut, or sealed against being cut or sealed. No single page can be taken out of it (the file is marked as
/// immutable), as far as its maker has CAP_LINUX_IMMUTABLE: pages that were could not be looked at any more.
#[derive(Debug)]
pub struct LentMemory {
    file: File,
    len: u64,
    returned: AtomicBool,
}

impl LentMemory {
    /// Zeroed memory, and the descriptor of it that is for the borrower.
    pub fn new(name: &str, len: u64) -> Result<(Self, OwnedFd)> {
        let what = || format!("cannot make {len} bytes of memory to be lent");
        let made =
            memory_file(name, MemfdFlags::ALLOW_SEALING, Mode::RUSR | Mode::WUSR).context(what)?;
        rustix::fs::ftruncate(&made, len).context(what)?;
        fcntl_add_seals(&made, SealFlags::GROW).context(what)?;
        // Each opened for itself: the kernel counts who has a file open, but not whom it was made open for.
        let path = format!("/proc/self/fd/{}", made.as_raw_fd());
        let open = || File::options().read(true).write(true).open(&path);
        let (file, lent) = (open().context(what)?, open().context(what)?);
        // Who may not, or has a kernel without this (before 6.1), does without.
        let _ = rustix::fs::ioctl_setflags(&file, IFlags::IMMUTABLE);
        let memory = Self {
            file,
            len,
            returned: AtomicBool::new(false),
        };
        Ok((memory, lent.into()))
    }

    /// True when no process has it any more, be it open, mapped, or on its way through a socket, and it is whole.
    pub fn is_let_go(&self) -> bool {
        // Nobody may open the file while a write lease is on it, so there is none while anybody else has it open
        // (fcntl(2), "Leases"). Only its owner gets one.
        let lease = |kind: i32| {
            // SAFETY: numbers only.
            unsafe { libc::fcntl(self.file.as_raw_fd(), libc::F_SETLEASE, kind) }
        };
        if lease(libc::F_WRLCK) < 0 {
            return std::io::Error::last_os_error().raw_os_error() != Some(libc::EAGAIN);
        }
        lease(libc::F_UNLCK);
        let whole = self
            .file
            .metadata()
            .is_ok_and(|file| file.len() == self.len);
        whole || self.is_returned()
    }

    /// Takes back what was let go, when the kernel has nothing of it either: a socket of AF_XDP keeps pages that no process
    /// has, and any socket, of any namespace, shares them with another. Its bytes are given back then, though somebody may
    /// have its name. Waits for a fifth of a second when the pages are in use.
    pub fn take_back(&self) {
        // The kernel seals against writing only what nothing but the file refers to (fcntl(2), `F_SEAL_WRITE`), and sealed
        // pages can get into no ring. So it is the same who did it. Where that was forbidden (`F_SEAL_SEAL`) there is no
        // telling, and what cannot be cut (`F_SEAL_SHRINK`) may keep its bytes.
        let is_sealed = |seals: SealFlags| seals.contains(SealFlags::WRITE);
        let unused = fcntl_get_seals(&self.file).is_ok_and(is_sealed)
            || fcntl_add_seals(&self.file, SealFlags::WRITE).is_ok();
        if unused && self.file.set_len(0).is_ok() {
            self.returned.store(true, Ordering::Release);
        }
    }

    /// True when it was taken back.
    pub fn is_returned(&self) -> bool {
        self.returned.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mapping::map;
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

    /// A user that is not its owner gets nothing by its mode, and no attribute onto it.
    #[test]
    fn every_memory_file_is_its_users_alone() {
        let words = SharedWords::create("exos-test", 8).expect("memory");
        let text = LentText::new("exos-test", "{}").expect("memory");
        let (memory, lent) = LentMemory::new("exos-test", 8192).expect("memory");
        let lent_text = text.lend().expect("a descriptor");
        for (fd, expected) in [
            (words.as_fd(), 0o600),
            // Its own user does not open it for writing either.
            (lent_text.as_fd(), 0o400),
            (memory.file.as_fd(), 0o600),
            (lent.as_fd(), 0o600),
        ] {
            let mode = rustix::fs::fstat(fd).expect("a file").st_mode & 0o777;
            assert_eq!(mode, expected);
        }
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

    /// Asks as the maker does.
    fn returned(memory: &LentMemory) -> bool {
        if memory.is_let_go() {
            memory.take_back();
        }
        memory.is_returned()
    }

    fn bytes_of(memory: &LentMemory) -> u64 {
        use std::os::unix::fs::MetadataExt as _;
        memory.file.metadata().expect("a file").blocks() * 512
    }

    /// Open, mapped, on its way through a socket, open for reading: it is not returned as long as any of these is true.
    #[test]
    fn memory_is_lent_until_nobody_has_it() {
        let (memory, lent) = LentMemory::new("exos-test", 8192).expect("memory");
        assert!(!returned(&memory), "open");
        let changed = rustix::fs::ftruncate(&lent, 16_384);
        assert_eq!(changed, Err(rustix::io::Errno::PERM));
        let start = map(lent.as_fd(), 1024, libc::PROT_READ | libc::PROT_WRITE).expect("ours");
        drop(lent);
        assert!(!returned(&memory), "mapped");
        // SAFETY: the mapping is this test's, and nothing refers to it.
        unsafe { libc::munmap(start.as_ptr().cast(), 8192) };
        assert!(returned(&memory));

        let (memory, lent) = LentMemory::new("exos-test", 8192).expect("memory");
        let path = format!("/proc/self/fd/{}", lent.as_raw_fd());
        let reader = File::open(path).expect("the user's own");
        drop(lent);
        assert!(!returned(&memory), "for reading");
        drop(reader);
        assert!(returned(&memory));

        let (memory, lent) = LentMemory::new("exos-test", 8192).expect("memory");
        let (one, other) = std::os::unix::net::UnixStream::pair().expect("a pair");
        let fds = [lent.as_fd()];
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = rustix::net::SendAncillaryBuffer::new(&mut space);
        ancillary.push(rustix::net::SendAncillaryMessage::ScmRights(&fds));
        let parts = [std::io::IoSlice::new(b"x")];
        let flags = rustix::net::SendFlags::empty();
        rustix::net::sendmsg(&one, &parts, &mut ancillary, flags).expect("room");
        drop(lent);
        assert!(!returned(&memory), "on its way");
        drop((one, other));
        assert!(returned(&memory));
    }

    /// A descriptor of the name alone keeps the file, and not its bytes.
    #[test]
    fn bytes_go_with_the_last_who_can_have_them() {
        let (memory, lent) = LentMemory::new("exos-test", 8192).expect("memory");
        rustix::io::write(&lent, &[7; 8192]).expect("room");
        let path = format!("/proc/self/fd/{}", lent.as_raw_fd());
        let flags = rustix::fs::OFlags::PATH | rustix::fs::OFlags::CLOEXEC;
        let name = rustix::fs::open(path, flags, Mode::empty()).expect("it is there");
        drop(lent);
        assert!(bytes_of(&memory) >= 8192);
        assert!(returned(&memory));
        assert_eq!(bytes_of(&memory), 0);
        let mode = rustix::fs::fstat(&name).expect("a file").st_mode & 0o777;
        assert_eq!(mode, 0o600, "nobody else opens it by its name");
    }

    /// What its borrower sealed against writing had no other user then, and gets none. What they sealed against anything else
    /// that takes it back stays theirs.
    #[test]
    fn memory_that_its_borrower_sealed() {
        for (seals, taken_back) in [
            (SealFlags::WRITE, true),
            (SealFlags::FUTURE_WRITE, true),
            (SealFlags::WRITE | SealFlags::SEAL, true),
            (SealFlags::SEAL, false),
            (SealFlags::SHRINK, false),
            (SealFlags::WRITE | SealFlags::SHRINK, false),
        ] {
            let (memory, lent) = LentMemory::new("exos-test", 8192).expect("memory");
            rustix::io::write(&lent, &[7; 8192]).expect("room");
            fcntl_add_seals(&lent, seals).expect("its borrower may");
            assert!(!returned(&memory), "open");
            drop(lent);
            assert_eq!(returned(&memory), taken_back, "{seals:?}");
            assert_eq!(bytes_of(&memory) == 0, taken_back, "{seals:?}");
        }
    }

    /// What was taken out of it could be in use without anybody's seeing it.
    #[test]
    fn memory_that_is_not_whole_is_not_returned() {
        let (memory, lent) = LentMemory::new("exos-test", 8192).expect("memory");
        rustix::fs::ftruncate(&lent, 4096).expect("its borrower may cut it");
        drop(lent);
        assert!(!returned(&memory));

        if !crate::caps::has(crate::caps::CapabilitySet::LINUX_IMMUTABLE) {
            eprintln!("SKIPPED: pages can be taken out, since only root forbids it");
            return;
        }
        let (_memory, lent) = LentMemory::new("exos-test", 8192).expect("memory");
        let hole = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
        let punched = rustix::fs::fallocate(&lent, hole, 0, 4096);
        assert_eq!(punched, Err(rustix::io::Errno::PERM));
        let start = map(lent.as_fd(), 1024, libc::PROT_READ | libc::PROT_WRITE).expect("ours");
        // SAFETY: the mapping is this test's, and nothing refers to it.
        let removed = unsafe { libc::madvise(start.as_ptr().cast(), 4096, libc::MADV_REMOVE) };
        let error = std::io::Error::last_os_error().raw_os_error();
        assert_eq!((removed, error), (-1, Some(libc::EPERM)));
        // SAFETY: as above.
        unsafe { libc::munmap(start.as_ptr().cast(), 8192) };
    }
}
