//! One byte there and back.

use super::way::{Name, Way, accept, connect, read_byte, write_all};
use crate::stage::helper::{Helper, say_ready};
use exos_host::error::Context as _;
use exos_host::{Error, Result};
use exos_iolite::{Read, Receiver, Sender, Slice, Wait};
use rustix::io::ioctl_fionbio;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Round trips between two looks at the clock.
const ROUNDS: u32 = 64;

/// The process that answers.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Answering {
    pub way: Way,
    pub is_polling: bool,
    pub path: PathBuf,
}

/// The process that asks, and takes the time.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Timing {
    pub way: Way,
    pub is_polling: bool,
    pub path: PathBuf,
    pub seconds: f64,
}

/// Both directions.
enum Both {
    Ours(Box<Sender>, Box<Receiver>, Wait),
    Pipes(File, File),
    Socket(UnixStream),
}

/// The name of the direction back, where each has one.
fn back(path: &Path) -> PathBuf {
    path.with_extension("back")
}

impl Helper for Answering {
    const NAME: &'static str = "iolite-answer";
    type Measured = ();

    fn run(self) -> Result<()> {
        let name = self.way.name(&self.path)?;
        let second = match &name {
            Name::Fifo(path) => Some(self.way.name(&back(path))?),
            Name::Listener(_) => None,
        };
        say_ready()?;
        let mut both = match (&name, second) {
            (Name::Fifo(path), Some(_)) => {
                let reading = self.way.fifo(path, false)?;
                Both::Pipes(self.way.fifo(&back(path), true)?, reading)
            }
            (Name::Listener(listener), _) => {
                Both::of_socket(self.way, accept(listener)?, self.is_polling, true)?
            }
            (Name::Fifo(_), None) => unreachable!("it has two names"),
        };
        both.poll_if(self.is_polling)?;
        while both.receive() && both.send() {}
        Ok(())
    }
}

impl Helper for Timing {
    const NAME: &'static str = "iolite-time";
    /// Nanoseconds of a round trip.
    type Measured = f64;

    fn run(self) -> Result<f64> {
        let mut both = self.connect()?;
        both.poll_if(self.is_polling)?;
        let time = Duration::from_secs_f64(self.seconds);
        // Before it is measured, everything was used once.
        let _ = rounds(&mut both, ROUNDS)?;
        let (began, mut count) = (Instant::now(), 0_u64);
        while began.elapsed() < time {
            count += u64::from(rounds(&mut both, ROUNDS)?);
        }
        Ok(began.elapsed().as_nanos() as f64 / count as f64)
    }
}

fn rounds(both: &mut Both, count: u32) -> Result<u32> {
    for _ in 0..count {
        if !both.send() || !both.receive() {
            return Err(Error::new("the process that answers has ended"));
        }
    }
    Ok(count)
}

impl Timing {
    fn connect(&self) -> Result<Both> {
        Ok(match self.way {
            Way::Ours { .. } | Way::Socket => {
                Both::of_socket(self.way, connect(&self.path)?, self.is_polling, false)?
            }
            Way::Pipe | Way::LargePipe | Way::Vmsplice => {
                let writing = self.way.fifo(&self.path, true)?;
                Both::Pipes(writing, self.way.fifo(&back(&self.path), false)?)
            }
        })
    }
}

impl Both {
    /// Over one: ours, or it by itself. Of our pipes who answers makes the receiving end first, which the other side connects to first.
    fn of_socket(way: Way, socket: UnixStream, is_polling: bool, answers: bool) -> Result<Self> {
        let Way::Ours { .. } = way else {
            return Ok(Self::Socket(socket));
        };
        let socket = OwnedFd::from(socket);
        let clone = socket.try_clone().context(|| "no descriptor is left")?;
        let ((sender, _pool), receiver) = if answers {
            let receiver = way.receiver(clone)?;
            (way.sender(socket)?, receiver)
        } else {
            (way.sender(clone)?, way.receiver(socket)?)
        };
        let wait = if is_polling { Wait::Poll } else { Wait::Sleep };
        Ok(Self::Ours(sender, receiver, wait))
    }

    /// Those of the kernel are polled by asking them again and again.
    fn poll_if(&self, is_polling: bool) -> Result<()> {
        let what = || "cannot have reads not wait";
        match self {
            Self::Ours(..) => Ok(()),
            Self::Pipes(_, reading) => ioctl_fionbio(reading, is_polling).context(what),
            Self::Socket(socket) => socket.set_nonblocking(is_polling).context(what),
        }
    }

    #[inline]
    fn send(&mut self) -> bool {
        match self {
            Self::Ours(sender, _, wait) => {
                // As little as the kernel's pipes are given: it travels in its descriptor.
                let byte = Slice::of_few(b"x").expect("it is one");
                sender.write_all(&mut byte.into(), *wait).is_ok()
            }
            Self::Pipes(writing, _) => write_all(writing, b"x"),
            Self::Socket(socket) => write_all(socket, b"x"),
        }
    }

    #[inline]
    fn receive(&mut self) -> bool {
        match self {
            Self::Ours(_, receiver, wait) => {
                matches!(receiver.read_wait(1, *wait), Ok(Read::Data(_)))
            }
            Self::Pipes(_, reading) => read_byte(reading),
            Self::Socket(socket) => read_byte(socket),
        }
    }
}
