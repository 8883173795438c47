//! One connection: a socket that does not block, and what of its bytes waits.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::Duration;

use exos_buf::Slice;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SendFlags, Shutdown, SocketFlags, SocketType, sockopt};

/// A connection.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) socket: OwnedFd,
    /// What its events are told with.
    pub(super) token: u64,
    /// The handshake is over.
    pub(super) stands: bool,
    /// Bytes that were read and that nobody has consumed: a head of which not all has come.
    pub(super) rest: Vec<u8>,
    /// What the kernel had no room for, the first from `sent` on.
    unsent: VecDeque<Slice>,
    sent: usize,
    /// Our side ends behind that.
    finishes: bool,
}

impl Connection {
    /// A socket; [`connect`](Self::connect) follows.
    pub(super) fn new(to: &SocketAddr, token: u64) -> Result<Self, Errno> {
        let family = if to.is_ipv4() {
            AddressFamily::INET
        } else {
            AddressFamily::INET6
        };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
        // A request behind another on its way does not wait for the acknowledgement of that.
        sockopt::set_tcp_nodelay(&socket, true)?;
        Ok(Self {
            socket,
            token,
            stands: false,
            rest: Vec::new(),
            unsent: VecDeque::new(),
            sent: 0,
            finishes: false,
        })
    }

    /// Sends the SYN. The kernel chooses our address and port, a port that other connections have to other servers too.
    pub(super) fn connect(&self, to: &SocketAddr) -> Result<(), Errno> {
        match rustix::net::connect(&self.socket, to) {
            Err(Errno::INPROGRESS) => Ok(()),
            done => done,
        }
    }

    /// Why the connection did not come to stand, or is over.
    pub(super) fn error(&self) -> Option<Errno> {
        match sockopt::socket_error(&self.socket) {
            Ok(Ok(())) => None,
            Ok(Err(errno)) | Err(errno) => Some(errno),
        }
    }

    /// Sends this, behind what waits.
    pub(super) fn send(&mut self, bytes: &Slice) -> Result<(), Errno> {
        if !self.unsent.is_empty() {
            self.unsent.push_back(bytes.clone());
            return Ok(());
        }
        let sent = self.write(bytes.as_bytes())?;
        if sent < bytes.len() {
            self.unsent.push_back(bytes.clone());
            self.sent = sent;
        }
        Ok(())
    }

    /// The kernel has room again: sends what waits.
    pub(super) fn send_unsent(&mut self) -> Result<(), Errno> {
        while let Some(first) = self.unsent.front() {
            self.sent += self.write(&first.as_bytes()[self.sent..])?;
            if self.sent < first.len() {
                return Ok(());
            }
            self.unsent.pop_front();
            self.sent = 0;
        }
        if self.finishes {
            self.finish();
        }
        Ok(())
    }

    /// Writes until the kernel takes no more: only then does it tell of room. Returns how much it took.
    fn write(&self, bytes: &[u8]) -> Result<usize, Errno> {
        let mut sent = 0;
        while sent < bytes.len() {
            match rustix::net::send(&self.socket, &bytes[sent..], SendFlags::NOSIGNAL) {
                Ok(count) => sent += count,
                Err(Errno::INTR) => (),
                Err(Errno::AGAIN) => break,
                Err(errno) => return Err(errno),
            }
        }
        Ok(sent)
    }

    /// Ends our side, behind what waits.
    pub(super) fn finish(&mut self) {
        self.finishes = true;
        if self.unsent.is_empty() {
            // A connection that is over says so by its event.
            let _ = rustix::net::shutdown(&self.socket, Shutdown::Write);
        }
    }

    /// Closes it so that the server is reset.
    pub(super) fn reset(self) {
        // Where that fails, the connection is over already.
        let _ = sockopt::set_socket_linger(&self.socket, Some(Duration::ZERO));
    }
}
