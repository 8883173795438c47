//! The Unix socket between two processes, read and written while the stack runs on.

use std::io::{self, ErrorKind};
use std::net::Shutdown;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use exos_inet::Instant;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use super::message::{GONE, Head, REFUSED, TAKEN};
use crate::clock;
use crate::limits::{LET_GO_STILL, LET_GO_TIME};
use crate::net::inner::Wait;
use crate::net::stack::Net;

/// How long a full socket is left to the other process before it is tried again.
const FULL_PAUSE: Duration = Duration::from_millis(1);

/// Bytes that are received at once.
const PIECE: usize = 256 << 10;

/// One end of the Unix socket.
pub struct Channel<'a> {
    net: &'a Net,
    socket: &'a UnixStream,
    /// How long the other process may be silent.
    patience: Option<Duration>,
}

impl<'a> Channel<'a> {
    /// # Errors
    ///
    /// It is no socket any more.
    pub fn new(net: &'a Net, socket: &'a UnixStream) -> io::Result<Self> {
        let patience = socket.read_timeout()?;
        Ok(Self {
            net,
            socket,
            patience,
        })
    }

    /// Sends a connection, and hears whether it was taken.
    ///
    /// # Errors
    ///
    /// It was not: `ConnectionRefused` with the other's sentence; `BrokenPipe` or `UnexpectedEof`, it has ended; `TimedOut`. But
    /// for a refusal the socket is of no use then, and shut down.
    pub fn give(&self, message: &[u8]) -> io::Result<()> {
        match self.send(message).and_then(|()| self.receive_answer()) {
            Err(error) if error.kind() != ErrorKind::ConnectionRefused => {
                // From here on the other process cannot say that it has it; what it has said before counts.
                self.close();
                let mut last = [0];
                let said = recv(self.socket, &mut last, RecvFlags::DONTWAIT);
                match said {
                    Ok((1, _)) if last == [TAKEN] => Ok(()),
                    _ => Err(error),
                }
            }
            answered => answered,
        }
    }

    fn receive_answer(&self) -> io::Result<()> {
        let mut kind = [0; 2];
        self.receive(&mut kind[..1])?;
        match kind[0] {
            TAKEN => return Ok(()),
            REFUSED => self.receive(&mut kind[1..])?,
            _ => {
                let why = "the other process answers what is no answer to a connection";
                return Err(io::Error::new(ErrorKind::InvalidData, why));
            }
        }
        let mut text = vec![0; usize::from(kind[1])];
        self.receive(&mut text)?;
        let text = String::from_utf8_lossy(&text);
        let why = format!("the other process does not take the connection: {text}");
        Err(io::Error::new(ErrorKind::ConnectionRefused, why))
    }

    /// Receives what the other process gives: memory is taken as the bytes come.
    ///
    /// # Errors
    ///
    /// It has ended, gives something else, or is silent.
    pub fn receive_connection(&self) -> io::Result<(Head, Vec<u8>)> {
        let mut head = [0; Head::BYTES];
        self.receive(&mut head)?;
        let head = Head::decode(&head)?;
        let (length, mut bytes) = (head.length as usize, Vec::new());
        while bytes.len() < length {
            let began = bytes.len();
            bytes.resize(length.min(began + PIECE), 0);
            self.receive(&mut bytes[began..])?;
        }
        Ok((head, bytes))
    }

    /// Waits until the giver has let go of the connection's packets. At first without the stack, which would send what the gate
    /// does not let pass yet. A giver that ends has let go, too; one that is silent is not heard any more.
    pub fn await_letting_go(&self) {
        let time = Timespec::try_from(LET_GO_STILL).ok();
        let _ = poll(
            &mut [PollFd::new(self.socket, PollFlags::IN)],
            time.as_ref(),
        );
        let patience = self.patience.map_or(LET_GO_TIME, |p| p.min(LET_GO_TIME));
        let bounded = Self {
            patience: Some(patience),
            ..*self
        };
        let mut word = [0];
        if bounded.receive(&mut word).is_err() || word != [GONE] {
            self.close();
        }
    }

    /// Sends all of it.
    pub fn send(&self, mut bytes: &[u8]) -> io::Result<()> {
        let mut until = self.until();
        while !bytes.is_empty() {
            match send(
                self.socket,
                bytes,
                SendFlags::DONTWAIT | SendFlags::NOSIGNAL,
            ) {
                Ok(count) => (bytes, until) = (&bytes[count..], self.until()),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    self.check(until)?;
                    let soon = Some(clock::now() + FULL_PAUSE);
                    self.net.turn_and_wait(Wait::Until(soon, &[]))?;
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Fills `into`.
    fn receive(&self, mut into: &mut [u8]) -> io::Result<()> {
        let mut until = self.until();
        while !into.is_empty() {
            match recv(self.socket, &mut *into, RecvFlags::DONTWAIT) {
                // Reset, where it has not read what was sent.
                Ok((0, _)) | Err(Errno::CONNRESET) => {
                    let why = "the other process has closed its end";
                    return Err(io::Error::new(ErrorKind::UnexpectedEof, why));
                }
                Ok((count, _)) => (into, until) = (&mut into[count..], self.until()),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    self.check(until)?;
                    let fds = [self.socket.as_fd()];
                    self.net.turn_and_wait(Wait::Until(until, &fds))?;
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn until(&self) -> Option<Instant> {
        self.patience.map(|time| clock::now() + time)
    }

    fn check(&self, until: Option<Instant>) -> io::Result<()> {
        match until.is_some_and(|at| at <= clock::now()) {
            true => Err(io::Error::new(
                ErrorKind::TimedOut,
                "the other process is silent",
            )),
            false => Ok(()),
        }
    }

    /// Neither side hears more of the other by it.
    pub fn close(&self) {
        let _ = self.socket.shutdown(Shutdown::Both);
    }
}
