//! Opening and reading files without waiting for them (io_uring).
//!
//! # Rules of the interface
//!
//! - [`FileRing::queue`] takes a [`Request`] while there is [`room`](FileRing::room); [`FileRing::submit`] gives all that
//!   are queued to the kernel at once; [`FileRing::poll`] gives what has come of one, in no order, and costs a look at
//!   memory when nothing has. Readable, for a sleeper: [`FileRing::fd`].
//! - What is in the page cache is copied within `submit`. Everything else goes on while the caller does other things.
//! - A read fills as many bytes as were asked for, or fails; a file that ends before that is
//!   [`UnexpectedEof`](io::ErrorKind::UnexpectedEof).
//!
//! [`Request::perform`] does the same by waiting: for where the kernel offers no io_uring, and to compare with.
//!
//! # Memory
//!
//! A buffer belongs to its request, and the request to the ring until the kernel has answered it. Between that it is
//! held by its address alone: no reference points into memory that the kernel may write. What a dropped ring has under
//! way is never freed.

mod word;

pub use word::WordWait;

use std::collections::VecDeque;
use std::ffi::CString;
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd};
use std::sync::Arc;

use io_uring::{IoUring, cqueue, opcode, squeue, types};
use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;

/// Requests at once: more than a disk gains from, and a few pages of memory.
pub const REQUESTS_MAX: usize = 64;

/// What shall be done.
#[derive(Debug)]
pub enum Request {
    /// Open a file below a directory for reading, without following links.
    Open {
        /// The directory.
        root: Arc<OwnedFd>,
        /// Where the file is below it.
        path: CString,
    },
    /// Read into the start of a buffer.
    Read {
        /// The file.
        file: Arc<OwnedFd>,
        /// From here in the file.
        offset: u64,
        /// This many bytes.
        len: usize,
        /// Where to; at least `len` long.
        buffer: Box<[u8]>,
    },
    /// Close a file on another thread: of one whose name has gone, closing removes the content, which may take long.
    Close {
        /// The file.
        file: OwnedFd,
    },
}

/// What came of a request.
#[derive(Debug)]
pub enum Outcome {
    /// Of opening. The file may be of any kind; a pipe does not wait for its other end (`O_NONBLOCK`).
    Opened(io::Result<OwnedFd>),
    /// Of reading.
    Read {
        /// From where, so that the caller decides where it is closed.
        file: Arc<OwnedFd>,
        /// Where to.
        buffer: Box<[u8]>,
        /// Whether all that was asked for is there.
        read: io::Result<()>,
    },
    /// Of closing, which cannot fail in a way that would matter to who only reads.
    Closed,
}

const FLAGS: OFlags = OFlags::RDONLY
    .union(OFlags::CLOEXEC)
    .union(OFlags::NONBLOCK);
const RESOLVE: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS);

impl Request {
    /// Does it, however long it takes.
    pub fn perform(self) -> Outcome {
        match self {
            Request::Open { root, path } => {
                let opened = openat2(&root, path, FLAGS, Mode::empty(), RESOLVE);
                Outcome::Opened(opened.map_err(Into::into))
            }
            Request::Read {
                file,
                offset,
                len,
                mut buffer,
            } => {
                let read = read_all(&file, &mut buffer[..len], offset);
                Outcome::Read { file, buffer, read }
            }
            Request::Close { file } => {
                drop(file);
                Outcome::Closed
            }
        }
    }
}

fn read_all(file: &OwnedFd, mut into: &mut [u8], mut offset: u64) -> io::Result<()> {
    while !into.is_empty() {
        match rustix::io::pread(file, &mut *into, offset) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => {
                into = &mut into[count..];
                offset += count as u64;
            }
            Err(Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
    Ok(())
}

/// Tries whether files can be read so here, by reading from this program's own file.
///
/// # Errors
///
/// Why not.
pub fn examine() -> io::Result<()> {
    let file = std::fs::File::open("/proc/self/exe")?;
    let mut ring = FileRing::new(&[])?;
    ring.queue(
        0,
        Request::Read {
            file: Arc::new(file.into()),
            offset: 0,
            len: 4,
            buffer: Box::new([0; 4]),
        },
    );
    ring.submit()?;
    loop {
        match ring.poll() {
            Some((_, Outcome::Read { read, .. })) => return read,
            Some(_) => return Err(io::ErrorKind::InvalidData.into()),
            None => ring.wait()?,
        }
    }
}

/// A request that the kernel may be at.
enum UnderWay {
    Open {
        _root: Arc<OwnedFd>,
        _path: CString,
        _how: Box<types::OpenHow>,
    },
    Read {
        file: Arc<OwnedFd>,
        offset: u64,
        len: usize,
        filled: usize,
        /// From [`Box::into_raw`].
        buffer: *mut [u8],
    },
    /// The descriptor is the kernel's.
    Close,
}

/// Requests on their way through one ring, which belongs to the thread that made it.
pub struct FileRing {
    ring: IoUring,
    /// By number, which the kernel repeats in its answer: the caller's tag and the request.
    under_way: Vec<Option<(u64, ManuallyDrop<UnderWay>)>>,
    free: Vec<u32>,
    /// Entries that wait for [`submit`](FileRing::submit).
    queued: VecDeque<squeue::Entry>,
}

impl FileRing {
    /// A ring. What the kernel does on threads of its own runs on these cores, where there are any.
    ///
    /// # Errors
    ///
    /// The kernel has no io_uring or none for this process, or not all that is needed (Linux 5.19).
    pub fn new(cores: &[usize]) -> io::Result<FileRing> {
        let ring = IoUring::builder()
            .setup_coop_taskrun()
            .setup_taskrun_flag()
            .build(REQUESTS_MAX as u32)?;
        if !cores.is_empty() {
            // Where it may not, its threads run where this one does.
            let _ = ring.submitter().register_iowq_aff(&cpu_set(cores));
        }
        Ok(FileRing {
            ring,
            under_way: (0..REQUESTS_MAX).map(|_| None).collect(),
            free: (0..REQUESTS_MAX as u32).collect(),
            queued: VecDeque::with_capacity(REQUESTS_MAX),
        })
    }

    /// How many further requests may be queued.
    pub fn room(&self) -> usize {
        self.free.len()
    }

    /// Takes a request; `tag` comes back with what becomes of it.
    ///
    /// # Panics
    ///
    /// When there is no [`room`](FileRing::room), or a buffer is shorter than what is to be read.
    pub fn queue(&mut self, tag: u64, request: Request) {
        let number = self.free.pop().expect("the caller has looked for room");
        let (request, entry) = match request {
            Request::Open { root, path } => {
                let how = types::OpenHow::new()
                    .flags(FLAGS.bits().into())
                    .resolve(RESOLVE.bits());
                let how = Box::new(how);
                let fd = types::Fd(root.as_raw_fd());
                let entry = opcode::OpenAt2::new(fd, path.as_ptr(), &raw const *how).build();
                let request = UnderWay::Open {
                    _root: root,
                    _path: path,
                    _how: how,
                };
                (request, entry)
            }
            Request::Close { file } => {
                let entry = opcode::Close::new(types::Fd(file.into_raw_fd())).build();
                (UnderWay::Close, entry.flags(squeue::Flags::ASYNC))
            }
            Request::Read {
                file,
                offset,
                len,
                buffer,
            } => {
                assert!(len <= buffer.len(), "the buffer holds what is read");
                let request = UnderWay::Read {
                    file,
                    offset,
                    len,
                    filled: 0,
                    buffer: Box::into_raw(buffer),
                };
                let entry = request.read_on();
                (request, entry)
            }
        };
        self.under_way[number as usize] = Some((tag, ManuallyDrop::new(request)));
        self.queued.push_back(entry.user_data(number.into()));
    }

    /// Gives the kernel all that is queued, in one call, or lets it go on with what it has: nothing, when there is
    /// neither.
    ///
    /// # Errors
    ///
    /// The kernel has no memory for it now; to be called again.
    pub fn submit(&mut self) -> io::Result<()> {
        let mut queue = self.ring.submission();
        while let Some(entry) = self.queued.front() {
            // SAFETY: what the entry points to, buffer, path and flags, is owned by `under_way` and neither moved nor
            // freed before the kernel has answered; so is the descriptor.
            if unsafe { queue.push(entry) }.is_err() {
                break;
            }
            self.queued.pop_front();
        }
        let has_work = !queue.is_empty() || queue.taskrun() || queue.cq_overflow();
        drop(queue);
        if !has_work {
            return Ok(());
        }
        match self.ring.submit() {
            Ok(_) => Ok(()),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => Ok(()),
            Err(e) => Err(e),
        }
    }

    /// What has come of a request, with its tag.
    pub fn poll(&mut self) -> Option<(u64, Outcome)> {
        loop {
            let entry = self.ring.completion().next()?;
            if let Some(outcome) = self.complete(&entry) {
                return Some(outcome);
            }
        }
    }

    /// Readable when something has come of a request.
    pub fn fd(&self) -> BorrowedFd<'_> {
        let fd = self.ring.as_raw_fd();
        // SAFETY: the ring keeps its descriptor open for as long as `self` is borrowed.
        unsafe { BorrowedFd::borrow_raw(fd) }
    }

    /// True when [`submit`](FileRing::submit) has something to give to the kernel. What the kernel goes on with when it is
    /// called does not count: a sleeper's `poll` lets it do that too, and costs less.
    pub fn wants_submit(&self) -> bool {
        !self.queued.is_empty()
    }

    /// Waits until something has come of a request.
    fn wait(&mut self) -> io::Result<()> {
        self.ring.submit_and_wait(1).map(drop)
    }

    /// Takes an answer; `None` when the kernel has read less than all, and is asked for the rest.
    fn complete(&mut self, entry: &cqueue::Entry) -> Option<(u64, Outcome)> {
        let number = entry.user_data() as usize;
        let result = entry.result();
        let (tag, request) = self.under_way.get_mut(number)?.take()?;
        let mut request = ManuallyDrop::into_inner(request);
        if let Some(entry) = request.go_on(result) {
            self.under_way[number] = Some((tag, ManuallyDrop::new(request)));
            self.queued.push_back(entry.user_data(number as u64));
            return None;
        }
        self.free.push(number as u32);
        Some((tag, request.end(result)))
    }
}

impl UnderWay {
    /// The entry that reads what is not read yet.
    fn read_on(&self) -> squeue::Entry {
        let UnderWay::Read {
            file,
            offset,
            len,
            filled,
            buffer,
        } = self
        else {
            unreachable!("all others are one step");
        };
        let start = buffer.cast::<u8>().wrapping_add(*filled);
        let left = u32::try_from(len - filled).unwrap_or(u32::MAX);
        let read = opcode::Read::new(types::Fd(file.as_raw_fd()), start, left);
        read.offset(offset + *filled as u64).build()
    }

    /// The entry for the rest, when only a part was read, or nothing yet.
    fn go_on(&mut self, result: i32) -> Option<squeue::Entry> {
        let UnderWay::Read { len, filled, .. } = self else {
            return None;
        };
        let again = result == -libc::EINTR || result == -libc::EAGAIN;
        if !again {
            *filled += usize::try_from(result).unwrap_or(0);
        }
        let is_short = *filled < *len && (again || result > 0);
        is_short.then(|| self.read_on())
    }

    /// What the kernel's last answer means.
    fn end(self, result: i32) -> Outcome {
        let failed = (result < 0).then(|| io::Error::from_raw_os_error(-result));
        match (self, failed) {
            (UnderWay::Open { .. }, Some(error)) => Outcome::Opened(Err(error)),
            (UnderWay::Open { .. }, None) => {
                // SAFETY: the kernel has just made this descriptor for us, and nobody else has it.
                let file = unsafe { OwnedFd::from_raw_fd(result) };
                Outcome::Opened(Ok(file))
            }
            (UnderWay::Close, _) => Outcome::Closed,
            (
                UnderWay::Read {
                    file,
                    buffer,
                    len,
                    filled,
                    ..
                },
                failed,
            ) => {
                // SAFETY: it came from `Box::into_raw`, is taken back once since `self` is consumed, and the kernel has
                // answered, so it does not write any more.
                let buffer = unsafe { Box::from_raw(buffer) };
                let read = match failed {
                    Some(error) => Err(error),
                    None if filled < len => Err(io::ErrorKind::UnexpectedEof.into()),
                    None => Ok(()),
                };
                Outcome::Read { file, buffer, read }
            }
        }
    }
}

fn cpu_set(cores: &[usize]) -> libc::cpu_set_t {
    // SAFETY: it is an array of integers, of which all bits are valid.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    for &core in cores.iter().filter(|&&c| c < libc::CPU_SETSIZE as usize) {
        // SAFETY: `core` is within the set.
        unsafe { libc::CPU_SET(core, &mut set) };
    }
    set
}

#[cfg(test)]
mod tests;
