//! The socket of datagrams, for HTTP/3: what comes on it to QUIC, what QUIC sends to it.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};

use exos_inet::Instant;
use exos_program::datagrams::{self, Buffers, Segments};
use exos_quic::Arrived;

use crate::limits::{QUIC_CALLS_PER_TURN, QUIC_ROOM_PAUSE, QUIC_SOCKET_LEN};
use crate::quic::Quic;

/// The socket.
pub(super) struct Datagrams {
    socket: datagrams::Datagrams,
    buffers: Buffers,
    /// There may be more than was taken.
    has_more: bool,
    /// The kernel has no room for what is to leave.
    is_full: bool,
}

impl Datagrams {
    /// At an address; at `::`, for IPv4 too where the kernel has it so.
    ///
    /// # Errors
    ///
    /// It is taken, or is none of this host's.
    pub(super) fn bind(address: SocketAddr) -> io::Result<Datagrams> {
        Ok(Datagrams {
            socket: datagrams::Datagrams::bind(address, QUIC_SOCKET_LEN)?,
            buffers: Buffers::new(),
            has_more: false,
            is_full: false,
        })
    }

    /// Gives QUIC what has come, a turn's worth of it.
    pub(super) fn receive(&mut self, quic: &mut Quic) {
        self.has_more = false;
        for _ in 0..QUIC_CALLS_PER_TURN {
            let received = self.socket.receive(&mut self.buffers, |datagram| {
                quic.receive(Arrived {
                    remote: datagram.remote,
                    local: datagram.local,
                    ecn: datagram.ecn,
                    payload: datagram.payload.into(),
                });
            });
            match received {
                Ok(true) => {}
                // Errors about what was sent before are told here; the next call goes on.
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => {}
                Ok(false) | Err(_) => return,
            }
        }
        self.has_more = true;
    }

    /// Whether datagrams are not fragmented on their way.
    pub(super) fn are_whole(&self) -> bool {
        !self.socket.may_fragment()
    }

    /// When to begin a turn at the latest.
    pub(super) fn poll_timeout(&self, quic: &Quic, now: Instant) -> Option<Instant> {
        match self.has_more {
            true => Some(Instant::START),
            false if self.is_full => Some(now + QUIC_ROOM_PAUSE),
            false => quic.poll_timeout(),
        }
    }

    /// Sends what QUIC has to send. What the kernel does not take is lost, and sent again when it is missed.
    pub(super) fn send(&mut self, quic: &mut Quic) {
        self.is_full = false;
        while let Some((leaving, payload)) = quic.transmit(self.socket.segments_max()) {
            let sent = self.socket.send(&Segments {
                remote: leaving.remote,
                local: leaving.local,
                ecn: leaving.ecn,
                payload,
                segment: leaving.segment,
            });
            if let Err(error) = sent {
                quic.count_unsent(leaving.count());
                // What is left waits for the next turn.
                if error.kind() == ErrorKind::WouldBlock {
                    self.is_full = true;
                    return;
                }
            }
        }
    }
}

impl AsFd for Datagrams {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
