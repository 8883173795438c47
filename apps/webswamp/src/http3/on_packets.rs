//! Datagrams of QUIC on a stack of our own: several sockets of it, so that a server's cores share the connections.

use std::net::SocketAddr;

use bytes::Bytes;
use exos::{Error, Exos};
use exos_inet::udp::{HeaderFields, UdpError, UdpHandle};
use exos_inet::{Instant, Stack};
use exos_quic::Arrived;

use super::quic::Quic;
use crate::limits::{QUIC_QUEUE_LEN, QUIC_ROOM_PAUSE, QUIC_SEGMENTS_MAX};

/// The sockets of a stack.
pub struct OnPackets {
    sockets: Vec<UdpHandle>,
}

impl OnPackets {
    /// So many, each at a port of its own: of those that connections are opened from, or that a daemon lends for this server.
    ///
    /// # Errors
    ///
    /// There are no ports for them.
    pub fn open(exos: &mut Exos, to: SocketAddr, count: usize) -> Result<Self, Error> {
        let is_ours = exos.stack.has_address(to.ip());
        let mut sockets = Vec::new();
        for _ in 0..count.max(1) {
            let lent = exos.via().filter(|_| !is_ours);
            let from = lent.map(|via| via.claim_datagrams(to)).transpose()?;
            let bound = bind(&mut exos.stack, from);
            sockets.push(
                bound.map_err(|e| Error::new(format!("no datagrams can be sent to {to}: {e}")))?,
            );
        }
        Ok(Self { sockets })
    }

    /// Takes what has come.
    pub fn receive(&mut self, quic: &mut Quic, stack: &mut Stack) {
        for socket in &self.sockets {
            while let Ok(Some(received)) = stack.udp.receive(*socket) {
                quic.receive(Arrived {
                    remote: received.from,
                    local: None,
                    ecn: received.fields.traffic_class & 3,
                    payload: Bytes::from(received.payload).into(),
                });
            }
        }
    }

    /// Whether somebody has said that what was sent is taken by nobody there.
    pub fn is_refused(&self, stack: &mut Stack) -> bool {
        let mut sockets = self.sockets.iter();
        sockets.any(|socket| matches!(stack.udp.take_error(*socket), Ok(Some(_))))
    }

    /// Gives the ports back.
    pub fn close(self, stack: &mut Stack) {
        for socket in self.sockets {
            // It is there until then.
            let _ = stack.udp.close(socket);
        }
    }

    /// When to begin a turn at the latest.
    pub fn poll_timeout(&self, quic: &Quic, now: Instant, stack: &Stack) -> Option<Instant> {
        match stack.datagram_room() < QUIC_SEGMENTS_MAX {
            // The interface takes no frames: what is to leave waits with them.
            true => Some(now + QUIC_ROOM_PAUSE),
            false => quic.poll_timeout(),
        }
    }

    /// Sends what there is to be sent, as long as the stack has room.
    pub fn send(&mut self, quic: &mut Quic, stack: &mut Stack, now: Instant) {
        while stack.datagram_room() >= QUIC_SEGMENTS_MAX {
            let Some((number, leaving, payload)) = quic.transmit_owned(QUIC_SEGMENTS_MAX) else {
                return;
            };
            let Some(socket) = self.sockets.get(number) else {
                continue;
            };
            let fields = HeaderFields {
                traffic_class: leaving.ecn,
                ..HeaderFields::default()
            };
            let payload = (payload, leaving.segment, fields);
            let sent = stack.udp_send_burst(now, *socket, None, leaving.remote, payload);
            if sent.is_err() {
                quic.count_unsent(leaving.count());
            }
        }
    }
}

/// A socket at this address and port, or at a port that is free.
fn bind(stack: &mut Stack, from: Option<SocketAddr>) -> Result<UdpHandle, UdpError> {
    let socket = match from {
        Some(from) => stack.udp.bind(Some(from.ip()), from.port())?,
        None => {
            let mut ports = stack.config().local_ports.clone();
            let bound = ports.find_map(|port| stack.udp.bind(None, port).ok());
            bound.ok_or(UdpError::NoPortLeft)?
        }
    };
    stack.udp.set_queue_len(socket, QUIC_QUEUE_LEN)?;
    Ok(socket)
}
