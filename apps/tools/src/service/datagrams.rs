//! Echo and discard over UDP.
//!
//! An answer has as many bytes as what it answers, so echo amplifies nothing. What comes from a
//! well-known port is not answered: it may be another service's answer to a datagram that somebody
//! forged, and the two would go on for ever. Nor is what was sent to a group, which would make many
//! answers of one datagram.

use std::net::IpAddr;

use exos_buf::Buffer;
use exos_inet::udp::{Received, UdpError, UdpHandle};
use exos_inet::{Instant, Stack};

use super::kind::Kind;
use super::totals::Totals;
use crate::limits::{DATAGRAMS_PER_TURN, WELL_KNOWN_PORTS};

pub(super) struct Datagrams {
    socket: UdpHandle,
    answers: bool,
    port: u16,
}

impl Datagrams {
    /// `None` for chargen.
    pub fn bind(kind: Kind, port: u16, stack: &mut Stack) -> Result<Option<Self>, UdpError> {
        if kind == Kind::Chargen {
            return Ok(None);
        }
        Ok(Some(Self {
            socket: stack.udp.bind(None, port)?,
            answers: kind == Kind::Echo,
            port,
        }))
    }

    pub fn handle(&mut self, now: Instant, stack: &mut Stack, totals: &mut Totals) {
        for _ in 0..DATAGRAMS_PER_TURN {
            let Ok(Some(received)) = stack.udp.receive(self.socket) else {
                return;
            };
            totals.datagrams_received += 1;
            if !self.answers {
                continue;
            }
            if self.may_answer(&received, stack) && self.answer(now, received, stack).is_ok() {
                totals.datagrams_answered += 1;
            } else {
                totals.datagrams_unanswered += 1;
            }
        }
    }

    fn may_answer(&self, received: &Received, stack: &Stack) -> bool {
        let port = received.from.port();
        let ours = |ip: &IpAddr| stack.has_address(*ip);
        !WELL_KNOWN_PORTS.contains(&port) && port != self.port && ours(&received.to)
    }

    fn answer(&self, now: Instant, received: Received, stack: &mut Stack) -> Result<(), UdpError> {
        let payload = Buffer::from(received.payload).whole();
        stack.udp_send(now, self.socket, Some(received.to), received.from, payload)
    }
}
