//! The ways by which bytes go from one process to another, each set up by a name in the file system.

use exos_host::error::Context as _;
use exos_host::{Error, Result};
use exos_iolite::{Options, Pool, Receiver, Sender, Shape, Trust, Wait};
use rustix::fs::{CWD, Mode, mkfifoat};
use rustix::pipe::{IoSliceRaw, SpliceFlags, fcntl_setpipe_size, vmsplice};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How a program waits that does not mind to have a core look for a moment.
const LOOK: Wait = Wait::PollFor(Duration::from_micros(50));
/// Slices in a pipe of ours: few buffers are in use, so that they stay in the caches.
const SLOTS: usize = 8;
/// Bytes in a pipe of the kernel's that is larger than usual.
const LARGE: usize = 1 << 18;

/// How bytes go.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Way {
    /// By our pipe.
    Ours {
        /// The consumer believes that the producer changes nothing.
        is_trusted: bool,
        /// Both sleep at once when they have to wait.
        is_sleeping: bool,
    },
    /// By a pipe of the kernel's, by write and read.
    Pipe,
    /// By one that holds more than usual.
    LargePipe,
    /// By a pipe into which pages are put and from which they are read, or thrown away.
    Vmsplice,
    /// By a Unix socket.
    Socket,
}

/// Ours, as a program uses it.
pub(crate) const OURS: Way = ours(true, false);

const fn ours(is_trusted: bool, is_sleeping: bool) -> Way {
    Way::Ours {
        is_trusted,
        is_sleeping,
    }
}

impl Way {
    pub const OF_STREAMS: [Self; 7] = [
        OURS,
        ours(true, true),
        ours(false, false),
        Self::Pipe,
        Self::LargePipe,
        Self::Vmsplice,
        Self::Socket,
    ];
    pub const OF_ROUND_TRIPS: [Self; 3] = [OURS, Self::Pipe, Self::Socket];

    /// What is asked of the consumer's belief.
    fn trust(self) -> Trust {
        match self {
            Self::Ours {
                is_trusted: true, ..
            } => Trust::Trusted,
            _ => Trust::Untrusted,
        }
    }

    pub fn wait(self) -> Wait {
        match self {
            Self::Ours {
                is_sleeping: true, ..
            } => Wait::Sleep,
            _ => LOOK,
        }
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ours {
                is_trusted: true,
                is_sleeping: false,
            } => "ours",
            Self::Ours {
                is_trusted: true,
                is_sleeping: true,
            } => "ours-sleeping",
            Self::Ours { .. } => "ours-untrusted",
            Self::Pipe => "pipe",
            Self::LargePipe => "large-pipe",
            Self::Vmsplice => "vmsplice",
            Self::Socket => "socket",
        })
    }
}

/// Where bytes are written.
pub(crate) enum Writing {
    Ours(Box<Sender>, Pool),
    Kernels(File),
    Spliced(File),
    Socket(UnixStream),
}

/// Where they are read.
pub(crate) enum Reading {
    Ours(Box<Receiver>),
    Kernels(File),
    Spliced(File),
    Socket(UnixStream),
}

/// A name that the other process can use, made before it starts. One direction each; two have two names.
pub(crate) enum Name {
    Listener(UnixListener),
    Fifo(PathBuf),
}

const WHAT: &str = "cannot connect two processes";

/// An error of our pipes, as a person reads it.
pub(super) fn told(error: exos_iolite::Error) -> Error {
    Error::new(error.to_string())
}

impl Way {
    /// Makes what has a name.
    pub fn name(self, path: &Path) -> Result<Name> {
        match self {
            Self::Ours { .. } | Self::Socket => UnixListener::bind(path)
                .map(Name::Listener)
                .context(|| WHAT),
            Self::Pipe | Self::LargePipe | Self::Vmsplice => {
                mkfifoat(CWD, path, Mode::RUSR | Mode::WUSR).context(|| WHAT)?;
                Ok(Name::Fifo(path.to_owned()))
            }
        }
    }

    /// The writing end, by a name that the other process made.
    pub fn writing(self, path: &Path) -> Result<Writing> {
        Ok(match self {
            Self::Ours { .. } => {
                let (sender, pool) = self.sender(connect(path)?.into())?;
                Writing::Ours(sender, pool)
            }
            Self::Socket => Writing::Socket(connect(path)?),
            Self::Pipe | Self::LargePipe => Writing::Kernels(self.fifo(path, true)?),
            Self::Vmsplice => Writing::Spliced(self.fifo(path, true)?),
        })
    }

    pub fn sender(self, socket: OwnedFd) -> Result<(Box<Sender>, Pool)> {
        let shape = Shape::of(4 * SLOTS as u32);
        let pool = Pool::new("bench", shape).map_err(told)?;
        let options = Options {
            slots: SLOTS,
            spares: 0,
            pools: 16,
        };
        let sender = Sender::connect(socket, &pool, options).map_err(told)?;
        Ok((Box::new(sender), pool))
    }

    pub fn receiver(self, socket: OwnedFd) -> Result<Box<Receiver>> {
        let receiver = Receiver::accept(socket, self.trust());
        receiver.map(Box::new).map_err(told)
    }

    /// The reading end of what this process has made.
    pub fn reading(self, name: &Name) -> Result<Reading> {
        Ok(match (self, name) {
            (Self::Ours { .. }, Name::Listener(listener)) => {
                Reading::Ours(self.receiver(accept(listener)?.into())?)
            }
            (_, Name::Listener(listener)) => Reading::Socket(accept(listener)?),
            (Self::Vmsplice, Name::Fifo(path)) => Reading::Spliced(self.fifo(path, false)?),
            (_, Name::Fifo(path)) => Reading::Kernels(self.fifo(path, false)?),
        })
    }

    /// An end of a pipe with a name; waits for the other.
    pub fn fifo(self, path: &Path, is_writing: bool) -> Result<File> {
        let mut options = File::options();
        let file = options.read(!is_writing).write(is_writing).open(path);
        let file = file.context(|| WHAT)?;
        if is_writing && self != Self::Pipe {
            fcntl_setpipe_size(&file, LARGE).context(|| "cannot make a pipe larger")?;
        }
        Ok(file)
    }
}

pub(super) fn connect(path: &Path) -> Result<UnixStream> {
    UnixStream::connect(path).context(|| WHAT)
}

pub(super) fn accept(listener: &UnixListener) -> Result<UnixStream> {
    listener.accept().map(|(stream, _)| stream).context(|| WHAT)
}

/// Writes all bytes into a file or socket; false when nobody reads any more.
pub(super) fn write_all(mut to: impl std::io::Write, bytes: &[u8]) -> bool {
    to.write_all(bytes).is_ok()
}

/// Puts pages into a pipe. They are not written again before the pipe has taken in as many bytes as it holds, and the reader has
/// those of before; false when nobody reads any more.
#[expect(unsafe_code, reason = "pages are lent to the kernel")]
pub(super) fn splice_all(pipe: &File, bytes: &[u8]) -> bool {
    let mut at = 0;
    while at < bytes.len() {
        let part = [IoSliceRaw::from_slice(&bytes[at..])];
        // SAFETY: the kernel reads these pages alone, until the other side has them; should they be changed before, it has other bytes,
        // which it takes for any.
        match unsafe { vmsplice(pipe, &part, SpliceFlags::empty()) } {
            Ok(len) => at += len,
            Err(_) => return false,
        }
    }
    true
}

/// How many messages a producer has memory for that are lent to a pipe.
pub(super) fn lent_messages(bytes: usize) -> usize {
    2 * LARGE.div_ceil(bytes) + 2
}

/// Reads one byte, by looking again and again if it is not to sleep; false at the end.
pub(super) fn read_byte(mut from: impl std::io::Read) -> bool {
    loop {
        match from.read(&mut [0]) {
            Ok(len) => return len == 1,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => std::hint::spin_loop(),
            Err(_) => return false,
        }
    }
}

/// What a file or socket has, at most so much.
pub(super) fn read_some(mut from: impl std::io::Read, into: &mut [u8]) -> usize {
    from.read(into).unwrap_or(0)
}
