//! The engine's connections on the kernel's sockets: the paper's baseline, and for where raw packets cannot be used.

use std::net::SocketAddr;
use std::os::fd::BorrowedFd;

use exos::Error;
use exos_buf::Slice;
use exos_inet::Instant;
use exos_inet::tcp::{ConnectionId, Event, OpenError};
use exos_program::sockets::{self, Shortage};
use rustix::io::Errno;

use crate::limits::HEAD_LEN_MAX;
use crate::transport::Transport;

/// Connections to a server.
pub struct Sockets {
    sockets: sockets::Sockets,
    to: SocketAddr,
    shortage: Option<Errno>,
    shortage_told: bool,
}

impl Sockets {
    /// Without connections yet.
    ///
    /// # Errors
    ///
    /// The kernel has no descriptor for it.
    pub fn new(to: SocketAddr) -> Result<Self, Error> {
        // Only heads are left unread.
        let sockets = sockets::Sockets::new(HEAD_LEN_MAX);
        Ok(Self {
            sockets: sockets.map_err(|e| Error::io("cannot wait for sockets", e))?,
            to,
            shortage: None,
            shortage_told: false,
        })
    }

    /// A wait ends, too, whenever something comes to be read here, for as long as it is open.
    ///
    /// # Errors
    ///
    /// The kernel has no memory for it.
    pub fn watch(&self, fd: BorrowedFd<'_>) -> Result<(), Error> {
        let added = self.sockets.watch(fd);
        added.map_err(|e| Error::io("cannot wait for signals", e))
    }

    /// Waits for events, until `until` at the latest. All events were polled before.
    ///
    /// # Errors
    ///
    /// The kernel refuses to wait.
    pub fn wait(&mut self, until: Option<Instant>) -> Result<(), Error> {
        let waited = self.sockets.wait(until);
        waited.map_err(|e| Error::io("cannot wait for sockets", e))
    }

    /// What happened next. What a connection read before is gone or kept, and not to be consumed any more.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.sockets.poll_event()
    }

    /// Why a connection could not be opened, and what can be done about it: told once.
    pub fn poll_shortage(&mut self) -> Option<Error> {
        let errno = self.shortage.take().filter(|_| !self.shortage_told)?;
        self.shortage_told = true;
        let mend = match errno {
            Errno::MFILE => {
                "each takes a descriptor of this process: raise `ulimit -n`, or give fewer --connections"
            }
            Errno::NFILE => {
                "each takes a descriptor of the system: raise fs.file-max, or give fewer --connections"
            }
            Errno::ADDRNOTAVAIL | Errno::AGAIN => {
                "every local port is used towards the server, or remembered by it: widen net.ipv4.ip_local_port_range, \
                 or let connections have more requests (--requests-per-connection)"
            }
            _ => "the kernel has no room for them: give fewer --connections",
        };
        let what = "some connections cannot be opened";
        Some(Error::io(what, errno).mend(mend))
    }
}

impl Transport for Sockets {
    fn open(&mut self, token: u64) -> Result<ConnectionId, OpenError> {
        let (errno, error) = match self.sockets.connect(&self.to, token) {
            Ok(id) => return Ok(id),
            Err(Shortage::Room(errno)) => (errno, OpenError::Full),
            Err(Shortage::Ports(errno)) => (errno, OpenError::NoPort),
        };
        self.shortage = Some(errno);
        Err(error)
    }

    fn send(&mut self, id: ConnectionId, bytes: &Slice) {
        self.sockets.send(id, bytes.clone());
    }

    fn readable(&self, id: ConnectionId) -> &[u8] {
        self.sockets.readable(id)
    }

    fn consume(&mut self, id: ConnectionId, count: usize) {
        self.sockets.consume(id, count);
    }

    /// The kernel does so when it thinks fit.
    fn acknowledge(&mut self, _id: ConnectionId) {}

    fn finish(&mut self, id: ConnectionId) {
        self.sockets.finish(id);
    }

    fn leave(&mut self, id: ConnectionId) {
        self.sockets.leave(id);
    }

    fn abort(&mut self, id: ConnectionId) {
        self.sockets.abort(id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shortage is told once, with what can be done about it.
    #[test]
    fn shortage() {
        let mut sockets = Sockets::new(SocketAddr::from(([127, 0, 0, 1], 9))).unwrap();
        assert!(sockets.poll_shortage().is_none());
        sockets.shortage = Some(Errno::MFILE);
        let said = sockets.poll_shortage().unwrap().to_string();
        assert!(said.contains("ulimit -n"), "{said}");
        sockets.shortage = Some(Errno::MFILE);
        assert!(sockets.poll_shortage().is_none());
    }
}
