//! Where everything lies in the memory.

use std::fs::File;
use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd as _, FromRawFd as _};
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};

use super::parts::{Process, Watcher};
use super::sizes::{PROCESSES, RING, SOCKETS, WATCHERS};
use super::socket::Socket;
use crate::bits::Bits;
use crate::ring::{Positions, Ring};

const MAGIC: u64 = 0x4558_4f53_5255_4e01;

/// What changes often, apart from what is mostly read.
#[repr(C, align(64))]
pub(super) struct OwnLine<T>(pub T);

#[repr(C, align(4096))]
pub(super) struct Head {
    magic: AtomicU64,
    /// [`AWAKE`](super::AWAKE), [`NAPS`](super::NAPS), [`SLEEPS`](super::SLEEPS) or [`GATHERS`](super::GATHERS).
    engine: AtomicU32,
    /// See [`Shared::interface`].
    interface: AtomicU32,
    /// See [`Shared::mtu`].
    mtu: AtomicU32,
    /// See [`Shared::disconnected`].
    disconnected: AtomicU32,
    /// How many threads that were given something to do have not come to wait since: fewer than none where others did.
    pub awaited: OwnLine<AtomicI32>,
    /// Sockets to which programs have done something.
    work: Bits,
}

const SOCKETS_AT: usize = size_of::<Head>();
const WATCHERS_AT: usize = SOCKETS_AT + SOCKETS * size_of::<Socket>();
const PROCESSES_AT: usize = WATCHERS_AT + WATCHERS * size_of::<Watcher>();
const RINGS_AT: usize = (PROCESSES_AT + PROCESSES * size_of::<Process>()).next_multiple_of(RING);
const SIZE: usize = RINGS_AT + 2 * RING * SOCKETS;

unsafe extern "C" {
    fn memfd_create(name: *const std::ffi::c_char, flags: u32) -> i32;
    fn mmap(at: *mut u8, size: usize, access: i32, flags: i32, fd: i32, offset: i64) -> *mut u8;
    fn fcntl(fd: i32, what: i32, argument: usize) -> i32;
    fn munmap(at: *mut u8, size: usize) -> i32;
    fn fallocate(fd: i32, mode: i32, offset: i64, len: i64) -> i32;
}

/// The memory, mapped.
#[derive(Debug)]
pub struct Shared {
    at: *mut u8,
    /// Of the side that made it.
    file: Option<File>,
}

// SAFETY: all of it is changed by atomic operations, and rings by one side each.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Shared {
    /// Bytes of address space that it takes.
    pub const SIZE: u64 = SIZE as u64;

    /// Makes it.
    ///
    /// # Errors
    ///
    /// The kernel gives no memory.
    pub fn create() -> io::Result<Self> {
        const CLOEXEC_ALLOW_SEALING: u32 = 3;
        const F_ADD_SEALS: i32 = 1033;
        const SEAL_SHRINK_GROW: usize = 7;
        // SAFETY: the name ends with a zero.
        let fd = unsafe { memfd_create(c"exos-run".as_ptr(), CLOEXEC_ALLOW_SEALING) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just made it for us.
        let file = unsafe { File::from_raw_fd(fd) };
        file.set_len(SIZE as u64)?;
        // No program can take the memory away beneath us.
        // SAFETY: it touches no memory.
        if unsafe { fcntl(fd, F_ADD_SEALS, SEAL_SHRINK_GROW) } < 0 {
            return Err(io::Error::last_os_error());
        }
        let mut shared = Self::map(&file)?;
        shared.file = Some(file);
        shared.head().magic.store(MAGIC, Ordering::Release);
        Ok(shared)
    }

    /// Whether it may be mapped where a process may have so much address space in all (`RLIMIT_AS`): three quarters of that are left to it.
    pub fn fits(address_space: u64) -> bool {
        address_space / 4 >= Self::SIZE
    }

    /// Maps what another process has made.
    ///
    /// # Errors
    ///
    /// It is not such memory, or there is no room for it.
    pub fn open(file: &File) -> io::Result<Self> {
        if file.metadata()?.len() != SIZE as u64 {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let shared = Self::map(file)?;
        match shared.head().magic.load(Ordering::Acquire) {
            MAGIC => Ok(shared),
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    fn map(file: &File) -> io::Result<Self> {
        const READ_AND_WRITE: i32 = 3;
        const SHARED_NORESERVE: i32 = 0x4001;
        let fd = file.as_raw_fd();
        // SAFETY: a new mapping, where the kernel has room.
        let at = unsafe {
            mmap(
                std::ptr::null_mut(),
                SIZE,
                READ_AND_WRITE,
                SHARED_NORESERVE,
                fd,
                0,
            )
        };
        match at.addr() as isize {
            -1 => Err(io::Error::last_os_error()),
            _ => Ok(Self { at, file: None }),
        }
    }

    /// The file behind it, on the side that made it.
    pub fn file(&self) -> Option<&File> {
        self.file.as_ref()
    }

    /// What lies at a place, which is within the memory and aligned for it.
    fn part<T>(&self, at: usize) -> &T {
        debug_assert!(at + size_of::<T>() <= SIZE && at.is_multiple_of(align_of::<T>()));
        // SAFETY: it lies in the mapping, which lives as long as `self`; all are atomics, for which any bytes will do.
        unsafe { &*self.at.add(at).cast::<T>() }
    }

    pub(super) fn head(&self) -> &Head {
        self.part(0)
    }

    /// What the process with the stack does.
    pub fn engine(&self) -> &AtomicU32 {
        &self.head().engine
    }

    /// The number of the interface that datagrams come by, as programs are told it (`IP_PKTINFO`).
    pub fn interface(&self) -> &AtomicU32 {
        &self.head().interface
    }

    /// Bytes of the longest packet of the link.
    pub fn mtu(&self) -> &AtomicU32 {
        &self.head().mtu
    }

    /// How often a socket of the kernel's for datagrams may have left its peer, and its port with that: it may come to be shared, in all
    /// processes that have it.
    pub fn disconnected(&self) -> &AtomicU32 {
        &self.head().disconnected
    }

    /// Sockets to which programs have done something.
    pub fn work(&self) -> &Bits {
        &self.head().work
    }

    /// A socket. Numbers beyond the last are others' names for it.
    pub fn socket(&self, number: u32) -> &Socket {
        self.part(SOCKETS_AT + number as usize % SOCKETS * size_of::<Socket>())
    }

    /// A watcher, as above.
    pub fn watcher(&self, number: u32) -> &Watcher {
        self.part(WATCHERS_AT + number as usize % WATCHERS * size_of::<Watcher>())
    }

    /// A process's part, as above.
    pub fn process(&self, number: u32) -> &Process {
        self.part(PROCESSES_AT + number as usize % PROCESSES * size_of::<Process>())
    }

    /// What comes to the program.
    pub fn inward(&self, number: u32) -> Ring<'_> {
        self.ring(&self.socket(number).into, number, 0)
    }

    /// What the program sends.
    pub fn outward(&self, number: u32) -> Ring<'_> {
        self.ring(&self.socket(number).out, number, 1)
    }

    fn ring<'a>(&'a self, positions: &'a Positions, number: u32, which: usize) -> Ring<'a> {
        let at = Self::ring_at(number) + which * RING;
        // SAFETY: it lies in the mapping, and only rings use this part of it.
        unsafe { Ring::new(positions, self.at.add(at), RING) }
    }

    const fn ring_at(number: u32) -> usize {
        RINGS_AT + number as usize % SOCKETS * 2 * RING
    }

    /// Gives the pages of a socket's rings back, which nobody uses any more.
    pub fn free_rings(&self, number: u32) {
        const PUNCH_HOLE_KEEP_SIZE: i32 = 3;
        let (at, size) = (Self::ring_at(number) as i64, 2 * RING as i64);
        if let Some(file) = &self.file {
            // SAFETY: it touches no memory but this. What cannot be given back stays.
            unsafe { fallocate(file.as_raw_fd(), PUNCH_HOLE_KEEP_SIZE, at, size) };
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: nothing of the mapping outlives `self`.
        unsafe { munmap(self.at, SIZE) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{Address, DESCRIPTORS};

    #[test]
    fn parts_do_not_overlap() {
        let shared = Shared::create().expect("memory");
        let other = Shared::open(shared.file().expect("ours")).expect("it is one");
        let last = SOCKETS as u32 - 1;
        assert_eq!(shared.inward(last).push(&[1; RING]), RING);
        assert_eq!(shared.outward(last).push(&[2; RING + 1]), RING);
        assert_eq!(shared.outward(last - 1).push(&[3; 10]), 10);
        assert_eq!(other.inward(last).take(usize::MAX), [1; RING]);
        assert_eq!(other.outward(last).take(usize::MAX), [2; RING]);
        assert_eq!(other.outward(last - 1).take(usize::MAX), [3; 10]);
        shared.free_rings(last);
        let process = shared.process(PROCESSES as u32 - 1);
        process.descriptors[DESCRIPTORS - 1].store(7, Ordering::Relaxed);
        assert!(shared.inward(0).is_empty());
        assert_eq!(shared.inward(0).push(b"first"), 5);
        assert_eq!(
            process.descriptors[DESCRIPTORS - 1].load(Ordering::Relaxed),
            7
        );
    }

    #[test]
    fn what_is_no_such_memory_is_refused() {
        let file = File::open("/dev/null").expect("it is there");
        assert!(Shared::open(&file).is_err());
    }

    #[test]
    fn watchers_and_processes_are_taken_once() {
        let shared = Shared::create().expect("memory");
        let all: Vec<u32> = std::iter::from_fn(|| shared.take_watcher(5)).collect();
        assert_eq!(all, (0..WATCHERS as u32).collect::<Vec<_>>());
        shared.leave_watcher(77, 6);
        assert_eq!(shared.take_watcher(6), None, "it is not that process's");
        shared.leave_watcher(77, 5);
        assert_eq!(shared.take_watcher(6), Some(77));
        assert_eq!(
            (shared.take_process(5), shared.take_process(6)),
            (Some(0), Some(1))
        );
        shared.watch(3, 200, true);
        shared.watch(3, 1, true);
        assert_eq!(shared.watchers(3).collect::<Vec<_>>(), [1, 200]);
        shared.watch(3, 1, false);
        assert_eq!(shared.watchers(3).collect::<Vec<_>>(), [200]);
    }

    #[test]
    fn addresses_are_kept() {
        let shared = Shared::create().expect("memory");
        let address = Address {
            bytes: std::array::from_fn(|n| n as u8),
            len: 16,
        };
        shared.socket(9).peer.set(address);
        assert_eq!(shared.socket(9).peer.get(), address);
    }
}
