//! The memory that a program and the process with the stack share, and where everything lies in it.
//!
//! It is one file without a name, sparse: what is not used has no pages. All of it may be zero at first. Either side may write
//! nonsense into it; the other then does something useless to that program's connections, and stays within the memory.

use std::fs::File;
use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd as _, FromRawFd as _};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use std::time::{Duration, Instant};

use crate::bits::Bits;
use crate::ring::{Positions, Ring};

/// Sockets of all processes together; half a mebibyte of sparse memory each.
pub const SOCKETS: usize = 16_384;
/// Sets that are waited for: one for each epoll set with sockets in it, and one for each thread that polls.
pub const WATCHERS: usize = 256;
/// Processes at a time; more go the slower way.
pub const PROCESSES: usize = 1024;
/// Descriptors of a process that may be sockets of ours: lower ones.
pub const DESCRIPTORS: usize = 65_536;
/// Bytes that wait in one direction of a connection.
pub const RING: usize = 256 << 10;

mod datagram;
mod socket;

pub use datagram::{DATAGRAM_HEAD, DATAGRAM_MAX, DATAGRAM_ROOM, DatagramHead};
pub use socket::{Address, SharedAddress, Socket, options, state};

const MAGIC: u64 = 0x4558_4f53_5255_4e01;

/// What the other side does.
pub const AWAKE: u32 = 0;
/// It looks again within [`NAP_MICROSECONDS`], or when the bell rings.
pub const NAPS: u32 = 1;
/// It looks again when the bell rings.
pub const SLEEPS: u32 = 2;
/// How long what a program has written may wait while it computes on.
pub const NAP_MICROSECONDS: u64 = 100;

/// The environment variable that says where the memory is: `PID:MEMORY:BELL`, descriptors of that process.
pub const VARIABLE: &str = "EXOS_RUN";

/// A descriptor of a shared socket stands for its number alone: it is a copy of a counter (eventfd(2)) of this value. Which socket it is
/// the process's part of the memory says.
pub const MARK: u32 = 0xe805_0000;

/// The fourth argument of a system call that the library makes for the program: others cannot do with a shared socket.
pub const MARKED: u64 = 0x4558_4f53_6d61_726b;

/// As above, of a call on a shared socket for datagrams.
pub const MARKED_DATAGRAMS: u64 = MARKED + 1;

/// In the place of a socket's number: a descriptor of the library's own.
pub const OWN: u32 = u32::MAX;

/// What waits in a ring out when more is said to have room: less, and it is writable.
pub const ROOM: usize = RING / 4;

/// The level of `setsockopt` by which a program asks for something (`ask`). No level of the kernel's.
pub const ASK_LEVEL: i32 = 0x4558_4f53;

/// What is asked for: `setsockopt(descriptor, ASK_LEVEL, what, value, 0)`.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
#[repr(i32)]
pub enum Ask {
    /// The process takes this part of the memory for itself.
    Register = 1,
    /// The descriptor is what to write to when the watcher of this number sleeps.
    Watch = 2,
    /// The socket of this number is to be shared no more, and the descriptor to be a Unix socket in its place.
    Unshare = 3,
    /// What TCP knows of the socket whose number stands in place of the descriptor (`struct tcp_info`, its first 104 bytes), to be
    /// written at the address.
    Info = 4,
    /// The descriptor, a socket of the kernel's for datagrams that has no port, is to be a shared one.
    Datagrams = 5,
    /// The socket for datagrams whose number stands in place of the descriptor is to have a port.
    Port = 6,
    /// How long packets of the socket whose number stands in place of the descriptor can be.
    Mtu = 7,
}

impl Ask {
    /// By its number.
    pub fn of(number: i32) -> Option<Self> {
        let all = [
            Self::Register,
            Self::Watch,
            Self::Unshare,
            Self::Info,
            Self::Datagrams,
            Self::Port,
            Self::Mtu,
        ];
        all.into_iter().find(|ask| *ask as i32 == number)
    }
}

/// Who waits for many sockets.
#[repr(C, align(64))]
pub struct Watcher {
    /// How many threads sleep, or are about to: its descriptor is to be written to.
    pub sleepers: AtomicU32,
    /// It was written to, and nobody has woken up since.
    pub told: AtomicU32,
    _pad: [u32; 14],
    /// Sockets of which there is news.
    pub news: Bits,
}

impl Watcher {
    /// A thread is about to sleep: what comes from now on, it is woken for.
    pub fn lie_down(&self) {
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// It sleeps no more.
    pub fn get_up(&self) {
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
        self.told.store(0, Ordering::SeqCst);
    }

    /// Whether its descriptor is to be written to, after there was news.
    pub fn is_to_be_told(&self) -> bool {
        fence(Ordering::SeqCst);
        self.sleepers.load(Ordering::SeqCst) > 0 && self.told.swap(1, Ordering::SeqCst) == 0
    }

    /// Nobody has it.
    pub fn reset(&self) {
        self.sleepers.store(0, Ordering::Relaxed);
        self.told.store(0, Ordering::Relaxed);
    }
}

/// A process.
#[repr(C, align(64))]
pub struct Process {
    /// Its number; zero: nobody's. Until the process has registered itself, its parent's.
    pub pid: AtomicU32,
    /// One more than the highest descriptor that was ever a socket of ours.
    pub end: AtomicU32,
    /// For each descriptor one more than the number of its socket.
    pub descriptors: [AtomicU32; DESCRIPTORS],
}

#[repr(C, align(4096))]
struct Head {
    magic: AtomicU64,
    /// [`AWAKE`], [`NAPS`] or [`SLEEPS`].
    engine: AtomicU32,
    /// See [`Shared::interface`].
    interface: AtomicU32,
    watchers: [AtomicU64; WATCHERS / 64],
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
    fn syscall(number: i64, ...) -> i64;
}

#[cfg(target_arch = "x86_64")]
const SYS_FUTEX: i64 = 202;
#[cfg(target_arch = "aarch64")]
const SYS_FUTEX: i64 = 98;

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

    fn head(&self) -> &Head {
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

    /// Takes a watcher that nobody has.
    pub fn take_watcher(&self) -> Option<u32> {
        for (at, word) in self.head().watchers.iter().enumerate() {
            let taken = word.fetch_update(Ordering::AcqRel, Ordering::Acquire, |word| {
                (word != u64::MAX).then_some(word | word.wrapping_add(1))
            });
            if let Ok(before) = taken {
                return Some(at as u32 * 64 + before.trailing_ones());
            }
        }
        None
    }

    /// Gives a watcher back.
    pub fn leave_watcher(&self, number: u32) {
        let word = &self.head().watchers[number as usize / 64 % (WATCHERS / 64)];
        word.fetch_and(!(1 << (number % 64)), Ordering::AcqRel);
    }

    /// Takes a part for a process that this one, of number `pid`, is or starts.
    pub fn take_process(&self, pid: u32) -> Option<u32> {
        let take = |number: &u32| {
            let owner = &self.process(*number).pid;
            owner.compare_exchange(0, pid, Ordering::AcqRel, Ordering::Relaxed)
        };
        (0..PROCESSES as u32).find(|number| take(number).is_ok())
    }

    /// A descriptor of a process is this socket.
    pub fn assign(&self, process: u32, fd: i32, socket: u32) {
        let process = self.process(process);
        let Some(place) = process.descriptors.get(fd as usize) else {
            return;
        };
        self.socket(socket).refs.fetch_add(1, Ordering::AcqRel);
        self.socket(socket).add(state::TAKEN);
        place.store(socket + 1, Ordering::Release);
        process.end.fetch_max(fd as u32 + 1, Ordering::AcqRel);
    }

    /// A socket is another from now on. Those that wait for it, or are about to use it, find that.
    pub fn renew(&self, number: u32) {
        let socket = self.socket(number);
        {
            let _still = (
                self.lock_soon(&socket.reads),
                self.lock_soon(&socket.writes),
            );
            socket.reset();
        }
        self.wake(&socket.came);
        self.wake(&socket.left);
    }

    /// As [`lock`](Self::lock), for the side that may not wait for long: gives up on one that holds it for too long, for it is stopped.
    pub fn lock_soon<'a>(&self, word: &'a AtomicU32) -> Option<Lock<'a>> {
        const AT_MOST: Duration = Duration::from_millis(20);
        const NOBODY: u32 = u32::MAX;
        let began = Instant::now();
        for tries in 0_u32.. {
            let taken = word.compare_exchange(0, NOBODY, Ordering::Acquire, Ordering::Relaxed);
            if taken.is_ok() {
                return Some(Lock(word));
            }
            match tries % 16 {
                15 if began.elapsed() > AT_MOST => break,
                15 => std::thread::yield_now(),
                _ => std::hint::spin_loop(),
            }
        }
        None
    }

    /// The socket that a descriptor of a process is.
    pub fn assigned(&self, process: u32, fd: i32) -> Option<u32> {
        let place = self.process(process).descriptors.get(fd as usize)?;
        let number = place.load(Ordering::Acquire);
        (number != 0 && number != OWN).then(|| number - 1)
    }

    /// A descriptor of a process is the library's own.
    pub fn own(&self, process: u32, fd: i32) {
        let process = self.process(process);
        if let Some(place) = process.descriptors.get(fd as usize) {
            place.store(OWN, Ordering::Release);
            process.end.fetch_max(fd as u32 + 1, Ordering::AcqRel);
        }
    }

    /// A process has ended: its part is anybody's.
    pub fn leave_process(&self, number: u32) {
        let process = self.process(number);
        let end = process.end.swap(0, Ordering::AcqRel) as usize;
        for place in process.descriptors.iter().take(end) {
            place.store(0, Ordering::Relaxed);
        }
        process.pid.store(0, Ordering::Release);
    }

    /// A descriptor of a process is no socket any more. Gives what it was; true with it when it was the last that referred to it.
    pub fn unassign(&self, process: u32, fd: i32) -> Option<(u32, bool)> {
        let place = self.process(process).descriptors.get(fd as usize)?;
        let number = place.swap(0, Ordering::AcqRel);
        if number == 0 || number == OWN {
            return None;
        }
        let socket = number - 1;
        let refs = self.socket(socket).refs.fetch_sub(1, Ordering::AcqRel);
        Some((socket, refs <= 1))
    }

    /// All descriptors of a process that are sockets.
    pub fn descriptors(&self, process: u32) -> impl Iterator<Item = (i32, u32)> + '_ {
        let process = self.process(process);
        let end = process.end.load(Ordering::Acquire) as usize;
        let all = process.descriptors.iter().enumerate().take(end);
        all.filter_map(|(fd, number)| {
            let number = number.load(Ordering::Acquire);
            (number != 0 && number != OWN).then(|| (fd as i32, number - 1))
        })
    }

    /// One thread holds this at a time. Those of a process that has ended do not ([`unlock_of`](Self::unlock_of)).
    pub fn lock<'a>(&self, word: &'a AtomicU32, pid: u32) -> Lock<'a> {
        let mut tries = 0_u32;
        while word
            .compare_exchange_weak(0, pid, Ordering::Acquire, Ordering::Relaxed)
            .is_err()
        {
            tries += 1;
            match tries % 64 {
                0 => std::thread::yield_now(),
                _ => std::hint::spin_loop(),
            }
        }
        Lock(word)
    }

    /// A process has ended: nobody waits for it, at any of the first `count` sockets.
    pub fn unlock_of(&self, pid: u32, count: usize) {
        for number in 0..count as u32 {
            let socket = self.socket(number);
            for word in [&socket.reads, &socket.writes] {
                let _ = word.compare_exchange(pid, 0, Ordering::AcqRel, Ordering::Relaxed);
            }
        }
    }

    /// Waits until the word is not `value` any more, is woken, a signal comes, or that many milliseconds pass. Gives `false` when a
    /// signal has interrupted it.
    pub fn wait_on(&self, word: &AtomicU32, value: u32, timeout: Option<u64>) -> bool {
        const WAIT: i32 = 0;
        let time = timeout.map(|ms| [ms / 1000, ms % 1000 * 1_000_000]);
        let time = time.as_ref().map_or(std::ptr::null(), |time| time.as_ptr());
        // SAFETY: the word and the time live as long as the call.
        let waited = unsafe { syscall(SYS_FUTEX, word.as_ptr(), WAIT, value, time) };
        waited == 0 || io::Error::last_os_error().kind() != io::ErrorKind::Interrupted
    }

    /// Wakes all that wait on a word.
    pub fn wake(&self, word: &AtomicU32) {
        const WAKE: i32 = 1;
        word.fetch_add(1, Ordering::AcqRel);
        // SAFETY: the word lives as long as the call.
        unsafe { syscall(SYS_FUTEX, word.as_ptr(), WAKE, i32::MAX) };
    }

    /// Numbers of the watchers that are told of a socket.
    pub fn watchers(&self, number: u32) -> impl Iterator<Item = u32> + '_ {
        let words = self.socket(number).watchers.iter().enumerate();
        words.flat_map(|(at, word)| {
            let mut word = word.load(Ordering::Acquire);
            std::iter::from_fn(move || {
                let place = (word != 0).then(|| word.trailing_zeros())?;
                word &= word - 1;
                Some(at as u32 * 64 + place)
            })
        })
    }

    /// Whether a watcher is told of a socket.
    pub fn watch(&self, number: u32, watcher: u32, on: bool) {
        let word = &self.socket(number).watchers[watcher as usize / 64 % (WATCHERS / 64)];
        let bit = 1 << (watcher % 64);
        match on {
            true => word.fetch_or(bit, Ordering::AcqRel),
            false => word.fetch_and(!bit, Ordering::AcqRel),
        };
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: nothing of the mapping outlives `self`.
        unsafe { munmap(self.at, SIZE) };
    }
}

/// What [`Shared::lock`] gives, until it is dropped.
pub struct Lock<'a>(&'a AtomicU32);

impl Drop for Lock<'_> {
    fn drop(&mut self) {
        self.0.store(0, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let all: Vec<u32> = std::iter::from_fn(|| shared.take_watcher()).collect();
        assert_eq!(all, (0..WATCHERS as u32).collect::<Vec<_>>());
        shared.leave_watcher(77);
        assert_eq!(shared.take_watcher(), Some(77));
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
