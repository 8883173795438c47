//! Datagrams of QUIC on a stack of our own: several sockets of it, so that a server's cores share the connections.

use exos::Error;
use exos_buf::Buffer;
use exos_inet::udp::{HeaderFields, UdpHandle};
use exos_inet::{Instant, Stack};
use exos_quic::Arrived;

use super::quic::Quic;
use crate::limits::QUIC_SEGMENTS_MAX;

/// The sockets of a stack.
pub struct OnPackets {
    sockets: Vec<UdpHandle>,
}

impl OnPackets {
    /// So many, each at a port of its own.
    ///
    /// # Errors
    ///
    /// There are no ports for them.
    pub fn new(stack: &mut Stack, count: usize) -> Result<Self, Error> {
        let sockets = (0..count.max(1)).map(|_| stack.udp.bind(None, 0));
        let sockets: Result<Vec<UdpHandle>, _> = sockets.collect();
        Ok(Self {
            sockets: sockets.map_err(|e| Error::new(format!("no datagrams can be sent: {e}")))?,
        })
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.sockets.len()
    }

    /// Takes what has come.
    pub fn receive(&mut self, quic: &mut Quic, stack: &mut Stack) {
        for socket in &self.sockets {
            while let Ok(Some(received)) = stack.udp.receive(*socket) {
                quic.receive(&Arrived {
                    remote: received.from,
                    local: None,
                    ecn: received.fields.traffic_class & 3,
                    payload: &received.payload,
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

    /// Sends what there is to be sent, as long as the stack has room.
    pub fn send(&mut self, quic: &mut Quic, stack: &mut Stack, now: Instant) {
        while stack.datagram_room() >= QUIC_SEGMENTS_MAX {
            let Some((number, leaving, payload)) = quic.transmit(QUIC_SEGMENTS_MAX) else {
                return;
            };
            let Some(socket) = self.sockets.get(number) else {
                continue;
            };
            let fields = HeaderFields {
                traffic_class: leaving.ecn,
                ..HeaderFields::default()
            };
            let mut unsent = 0;
            for payload in payload.chunks(leaving.segment) {
                let payload = (Buffer::from(payload.to_vec()).whole(), fields);
                let sent = stack.udp_send_with(now, *socket, None, leaving.remote, payload);
                unsent += u64::from(sent.is_err());
            }
            quic.count_unsent(unsent);
        }
    }
}
