//! What is counted, for Prometheus: who scrapes is answered between packets.
//!
//! Connections, their bytes and their time are bounded as those of `exos metrics`, by the same server; the text is made four times a second at
//! most, however often it is asked for.

use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use exos::Error;
use exos_metrics::server::Server;
use rustix::event::PollFlags;
use rustix::io::Errno;

use crate::limits::CONTROL_EVERY;

/// The socket, and who is connected.
pub struct Exporter {
    server: Server,
    began: Instant,
}

impl Exporter {
    /// Listens at a loopback address of the host.
    ///
    /// # Errors
    ///
    /// It is none, or cannot be listened at.
    pub fn listen(at: SocketAddr) -> Result<Self, Error> {
        Ok(Self {
            server: Server::listen(at)?,
            began: Instant::now(),
        })
    }

    /// Whether it may be listened there, as far as can be seen while another forwarder has the place.
    ///
    /// # Errors
    ///
    /// As those of [`listen`](Self::listen), but that the address is in use.
    pub fn check(at: SocketAddr) -> Result<(), Error> {
        match Server::listen(at) {
            Err(error) if !error.is(Errno::ADDRINUSE.raw_os_error()) => Err(error),
            _ => Ok(()),
        }
    }

    /// What is readable when there is something to do.
    pub fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let heard = self.server.interest();
        heard.filter_map(|(fd, flags)| (flags == PollFlags::IN).then_some(fd))
    }

    /// How long until there is something to do of which nothing tells: somebody has an answer to take, or has taken too long.
    pub fn due_in(&self) -> Option<Duration> {
        let is_answered = |(_, flags)| flags == PollFlags::OUT;
        if self.server.interest().any(is_answered) {
            return Some(CONTROL_EVERY);
        }
        let deadline = self.server.deadline()?;
        Some(deadline.saturating_sub(self.began.elapsed()))
    }

    /// Hears and answers who is there.
    pub fn serve(&mut self, make: impl FnOnce() -> String) {
        self.server.serve(self.began.elapsed(), make);
    }
}
