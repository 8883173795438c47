//! Memory of a process that others of the same user open, without being passed anything: by its name under `/proc`.
//!
//! Who may open it is who may look into the process (proc(5), `/proc/PID/fd`; ptrace(2), `PTRACE_MODE_READ`): its user as
//! long as it has no privilege that this user has not, and root. The kernel checks it, and forgets the memory with the last
//! process that has it.
//!
//! Everybody who has it writes to it. Its length is sealed; pages that were never written to, or were
//! [discarded](UserMemory::discard), take no room. A [lock](UserMemory::lock) of a byte says that somebody is there: the
//! kernel lets go of it however its holder ends. In the same way it knows who made the memory.

use std::collections::HashSet;
use std::fs::{self, File};
use std::ops::Range;
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;

use rustix::fs::{
    FallocateFlags, MemfdFlags, Mode, SealFlags, fallocate, fcntl_add_seals, fcntl_get_seals,
};

use crate::error::{Context as _, Error, Result};
use crate::mapping::Mapping;
use crate::shared::memory_file;

/// What nobody may change: a shorter file would kill those who have it mapped (SIGBUS).
const SEALS: SealFlags = SealFlags::SHRINK
    .union(SealFlags::GROW)
    .union(SealFlags::SEAL);

/// The byte whose lock is the owner's: behind all others.
const OWNER: u64 = i64::MAX as u64 - 1;

/// Memory of one name that is looked at in one process: more than there are stacks in one, which have some each.
const OF_A_PROCESS_MAX: usize = 256;

/// Words that processes of one user share.
#[derive(Debug)]
pub struct UserMemory {
    file: File,
    mapping: Mapping,
}

impl UserMemory {
    /// Zeroed words, of which this process is the first owner.
    ///
    /// # Errors
    ///
    /// The kernel has no memory or no descriptor.
    pub fn create(name: &str, len: usize) -> Result<Self> {
        let what = || format!("cannot make {} bytes of shared memory", len * 8);
        let fd =
            memory_file(name, MemfdFlags::ALLOW_SEALING, Mode::RUSR | Mode::WUSR).context(what)?;
        rustix::fs::ftruncate(&fd, (len * 8) as u64).context(what)?;
        fcntl_add_seals(&fd, SEALS).context(what)?;
        let memory = Self::map(fd.into(), len)?;
        memory.lock(OWNER);
        Ok(memory)
    }

    /// Words of another process, of which there must be `len`.
    ///
    /// # Errors
    ///
    /// It is not for this process to open, or what has this name is no such memory.
    pub fn open(path: &Path, len: usize) -> Result<Self> {
        let what = || format!("cannot open {}", path.display());
        // Whatever it turns out to be, it is not waited for.
        let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
        let mut options = File::options();
        let file = options.read(true).write(true).custom_flags(flags);
        let file = file.open(path).context(what)?;
        let seals = fcntl_get_seals(&file).context(what)?;
        let bytes = file.metadata().context(what)?.len();
        if !seals.contains(SEALS) || bytes != len as u64 * 8 {
            return Err(Error::new(format!(
                "{} is not memory of the kind that is looked for",
                path.display()
            ))
            .mend("use programs of the same version"));
        }
        Self::map(file, len)
    }

    fn map(file: File, len: usize) -> Result<Self> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the file has this length, and is sealed against another.
        let mapping = unsafe { Mapping::new(file.as_fd(), len, access) };
        let mapping = mapping.context(|| "cannot map shared memory")?;
        Ok(Self { file, mapping })
    }

    /// The words.
    pub fn words(&self) -> &[AtomicU64] {
        self.mapping.words()
    }

    /// True as long as anyone who made it is there and has not dropped it.
    pub fn is_owned(&self) -> bool {
        self.is_locked(OWNER)
    }

    /// Takes the lock of a byte, until this is dropped; false when somebody else has it.
    pub fn lock(&self, byte: u64) -> bool {
        self.lock_call(libc::F_OFD_SETLK, &mut lock_of(byte))
    }

    /// True when somebody else has the lock of a byte.
    pub fn is_locked(&self, byte: u64) -> bool {
        let mut lock = lock_of(byte);
        self.lock_call(libc::F_OFD_GETLK, &mut lock) && i32::from(lock.l_type) != libc::F_UNLCK
    }

    fn lock_call(&self, call: i32, lock: &mut libc::flock) -> bool {
        // SAFETY: the kernel reads and writes this structure, which lives through the call.
        unsafe { libc::fcntl(self.file.as_raw_fd(), call, std::ptr::from_mut(lock)) == 0 }
    }

    /// Gives the memory of whole pages back; their words are 0 then.
    pub fn discard(&self, words: Range<usize>) {
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let (start, len) = (words.start as u64 * 8, words.len() as u64 * 8);
        // Where it fails the memory stays, which is bounded.
        let _ = fallocate(&self.file, hole, start, len);
    }
}

fn lock_of(byte: u64) -> libc::flock {
    libc::flock {
        l_type: libc::F_WRLCK as i16,
        l_whence: libc::SEEK_SET as i16,
        l_start: byte.cast_signed(),
        l_len: 1,
        l_pid: 0,
    }
}

/// Memory of this name in the process that made it, as far as this process may look into that one.
#[derive(Debug, Clone)]
pub struct FoundMemory {
    /// The process.
    pub pid: u32,
    /// What to [open](UserMemory::open).
    pub path: PathBuf,
    /// What tells it from other memory as long as it is there.
    pub inode: u64,
}

/// All memory of this name, in the process `only` or in all; of one process at most 256 pieces.
pub fn find(name: &str, only: Option<u32>) -> Vec<FoundMemory> {
    let pids: Vec<u32> = match only {
        Some(pid) => vec![pid],
        None => numbers_in(Path::new("/proc")),
    };
    // A child has what its parent had open.
    let mut known = HashSet::new();
    let all = pids.into_iter().flat_map(|pid| of_process(name, pid));
    all.filter(|memory| known.insert(memory.inode)).collect()
}

fn of_process(name: &str, pid: u32) -> Vec<FoundMemory> {
    // As memfd_create(2) has it.
    let target = format!("/memfd:{name} (deleted)");
    let process = PathBuf::from(format!("/proc/{pid}"));
    let descriptors = numbers_in(&process.join("fd"));
    let memory = |fd: u32| {
        let path = process.join(format!("fd/{fd}"));
        let is_named = fs::read_link(&path).is_ok_and(|to| to == Path::new(&target));
        // Others have it open too, who look at it.
        if !is_named || !is_owner(&process.join(format!("fdinfo/{fd}"))) {
            return None;
        }
        let inode = fs::metadata(&path).ok()?.ino();
        Some(FoundMemory { pid, path, inode })
    };
    let found = descriptors.into_iter().filter_map(memory);
    found.take(OF_A_PROCESS_MAX).collect()
}

/// Whether the owner's lock was taken by this open file: `lock: 1: OFDLCK ADVISORY WRITE -1 00:01:5 START END` (proc(5)).
fn is_owner(fdinfo: &Path) -> bool {
    let text = fs::read_to_string(fdinfo).unwrap_or_default();
    let mut locks = text.lines().filter(|line| line.starts_with("lock:"));
    locks.any(|line| {
        line.split_whitespace()
            .any(|word| word == OWNER.to_string())
    })
}

/// The names in a directory that are numbers; none where it may not be read.
fn numbers_in(directory: &Path) -> Vec<u32> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering::Relaxed;

    const LEN: usize = 4096;

    fn open(name: &str) -> UserMemory {
        let own = std::process::id();
        let found = find(name, Some(own));
        assert_eq!(found.len(), 1, "{found:?}");
        UserMemory::open(&found[0].path, LEN).expect("it is ours")
    }

    #[test]
    fn a_process_of_the_same_user_finds_it_and_writes_to_it() {
        let ours = UserMemory::create("exos-test-found", LEN).expect("memory");
        let theirs = open("exos-test-found");
        theirs.words()[7].store(5, Relaxed);
        assert_eq!(ours.words()[7].load(Relaxed), 5);
        ours.discard(0..512);
        assert_eq!(theirs.words()[7].load(Relaxed), 0);
        let mode = ours.file.metadata().expect("a file");
        assert_eq!(mode.mode() & 0o777, 0o600);
        assert!(ours.file.set_len(0).is_err() && theirs.file.set_len(1 << 20).is_err());
        assert!(find("exos-test-found", None).len() == 1);
        drop((ours, theirs));
        assert!(find("exos-test-found", Some(std::process::id())).is_empty());
    }

    #[test]
    fn a_lock_is_there_as_long_as_its_holder() {
        let ours = UserMemory::create("exos-test-locked", LEN).expect("memory");
        let (one, other) = (open("exos-test-locked"), open("exos-test-locked"));
        assert!(one.is_owned());
        assert!(!ours.is_locked(1) && one.lock(1) && ours.is_locked(1));
        assert!(!other.lock(1) && other.lock(2));
        drop(one);
        assert!(!ours.is_locked(1) && ours.is_locked(2));
        drop(ours);
        assert!(!other.is_owned());
    }

    #[test]
    fn what_has_another_length_or_is_not_sealed_is_refused() {
        let ours = UserMemory::create("exos-test-other", LEN).expect("memory");
        let path = find("exos-test-other", Some(std::process::id()));
        let path = path[0].path.clone();
        assert!(UserMemory::open(&path, LEN / 2).is_err());
        drop(ours);
        assert!(UserMemory::open(Path::new("/dev/null"), LEN).is_err());
    }
}
