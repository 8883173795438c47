//! Datagrams of QUIC on the kernel's sockets: several, so that a server's cores share the connections.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd as _, BorrowedFd};

use exos::Error;
use exos_inet::Instant;
use exos_program::datagrams::{Buffers, Datagrams, Segments};
use exos_quic::Arrived;

use super::quic::Quic;
use crate::engine::Engine;
use crate::limits::{QUIC_CALLS_PER_TURN, QUIC_ROOM_PAUSE, QUIC_SOCKET_LEN};

/// The sockets.
pub struct OnSockets {
    sockets: Vec<Datagrams>,
    buffers: Buffers,
    /// There may be more than was taken.
    has_more: bool,
    /// The kernel has no room for what is to leave.
    is_full: bool,
}

impl OnSockets {
    /// So many, to this server.
    ///
    /// # Errors
    ///
    /// There are no ports or no descriptors for them, or no route leads there.
    pub fn new(to: SocketAddr, count: usize) -> Result<Self, Error> {
        let any: IpAddr = match to {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let open = |_| {
            let socket = Datagrams::bind(SocketAddr::new(any, 0), QUIC_SOCKET_LEN)?;
            socket.connect(to)?;
            Ok(socket)
        };
        let sockets: io::Result<Vec<Datagrams>> = (0..count.max(1)).map(open).collect();
        Ok(Self {
            sockets: sockets
                .map_err(|e| Error::io(format!("no datagrams can be sent to {to}"), e))?,
            buffers: Buffers::new(),
            has_more: false,
            is_full: false,
        })
    }

    /// What is readable when something has come.
    pub fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.sockets.iter().map(|socket| socket.as_fd())
    }

    /// Whether datagrams leave whole.
    pub fn are_whole(&self) -> bool {
        !self.sockets.iter().any(Datagrams::may_fragment)
    }

    /// Takes what has come, a turn's worth of it: the sockets by which nobody took what was sent.
    pub fn receive(&mut self, quic: &mut Quic) -> Vec<usize> {
        self.has_more = false;
        let mut refusing = Vec::new();
        for (number, socket) in self.sockets.iter().enumerate() {
            let mut calls = 0;
            loop {
                calls += 1;
                if calls > QUIC_CALLS_PER_TURN {
                    self.has_more = true;
                    break;
                }
                let received = socket.receive(&mut self.buffers, |datagram| {
                    quic.receive(Arrived {
                        remote: datagram.remote,
                        local: None,
                        ecn: datagram.ecn,
                        payload: datagram.payload.into(),
                    });
                });
                match received {
                    Ok(true) => {}
                    Ok(false) => break,
                    Err(e) if e.kind() == ErrorKind::ConnectionRefused => refusing.push(number),
                    Err(_) => break,
                }
            }
        }
        refusing.dedup();
        refusing
    }

    /// Takes what has come, and has the engine hear of it.
    pub fn turn(&mut self, quic: &mut Quic, engine: &mut Engine, now: Instant) {
        quic.begin_turn(now);
        for socket in self.receive(quic) {
            quic.refused(engine, now, socket);
        }
        quic.tell(engine, now);
    }

    /// Sends what there is to be sent. What the kernel does not take is lost, as on a wire.
    pub fn send(&mut self, quic: &mut Quic) {
        self.is_full = false;
        let segments = self.sockets.first().map_or(1, Datagrams::segments_max);
        while let Some((number, leaving, payload)) = quic.transmit(segments) {
            let Some(socket) = self.sockets.get(number) else {
                continue;
            };
            let sent = socket.send(&Segments {
                remote: leaving.remote,
                local: None,
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

    /// When to begin a turn at the latest.
    pub fn poll_timeout(&self, quic: &Quic, now: Instant) -> Option<Instant> {
        match self.has_more {
            true => Some(Instant::START),
            false if self.is_full => Some(now + QUIC_ROOM_PAUSE),
            false => quic.poll_timeout(),
        }
    }
}
