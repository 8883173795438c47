//! HTTP/3 on a stack of its own: datagrams of the stack to QUIC, QUIC's to the stack.
//!
//! A connection belongs to the core to which its client's datagrams come: interfaces spread them by addresses and ports, as they do
//! segments of TCP. Where there are several cores, a client that comes from another address may come to another one, so it may not.

use std::sync::Arc;

use exos::{Error, Exos};
use exos_buf::Buffer;
use exos_inet::udp::{HeaderFields, UdpHandle};
use exos_inet::{Instant, Stack};
use exos_quic::Arrived;

use crate::limits::{QUIC_DATAGRAMS_PER_TURN, QUIC_SEGMENTS_MAX};
use crate::quic::Quic;
use crate::secure::Acceptor;

/// QUIC, and its socket of the stack.
pub(super) struct Http3 {
    quic: Quic,
    socket: UdpHandle,
    /// There may be more than was taken.
    has_more: bool,
}

impl Http3 {
    /// At the port of HTTPS. Only where the loop `is_alone`, clients may come from another address.
    ///
    /// # Errors
    ///
    /// The port is taken, or HTTPS has no TLS 1.3.
    pub(super) fn new(
        acceptor: Arc<Acceptor>,
        is_alone: bool,
        exos: &mut Exos,
    ) -> Result<Http3, Error> {
        let port = acceptor.port();
        let bound = exos.stack.udp.bind(None, port);
        let socket = bound.map_err(|e| {
            Error::new(format!("cannot have UDP port {port} for HTTP/3: {e}"))
                .mend("choose another port of HTTPS, or leave http3 out")
        })?;
        let quic = Quic::new(acceptor, is_alone, exos.now())?;
        Ok(Http3 {
            quic,
            socket,
            has_more: false,
        })
    }

    pub(super) fn quic(&mut self) -> &mut Quic {
        &mut self.quic
    }

    /// Begins a turn, and takes what has come, a turn's worth of it.
    pub(super) fn receive(&mut self, now: Instant, stack: &mut Stack) {
        self.quic.begin_turn(now);
        self.has_more = false;
        for _ in 0..QUIC_DATAGRAMS_PER_TURN {
            let Ok(Some(received)) = stack.udp.receive(self.socket) else {
                return;
            };
            self.quic.receive(&Arrived {
                remote: received.from,
                local: Some(received.to),
                ecn: received.fields.traffic_class & 3,
                payload: &received.payload,
            });
        }
        self.has_more = true;
    }

    /// Sends what there is to be sent, as long as the stack has room.
    pub(super) fn send(&mut self, now: Instant, stack: &mut Stack) {
        while stack.datagram_room() >= QUIC_SEGMENTS_MAX {
            let Some((leaving, payload)) = self.quic.transmit(QUIC_SEGMENTS_MAX) else {
                return;
            };
            let fields = HeaderFields {
                traffic_class: leaving.ecn,
                ..HeaderFields::default()
            };
            let (socket, from, to) = (self.socket, leaving.local, leaving.remote);
            let mut unsent = 0;
            for payload in payload.chunks(leaving.segment) {
                let payload = (Buffer::from(payload).whole(), fields);
                let sent = stack.udp_send_with(now, socket, from, to, payload);
                unsent += u64::from(sent.is_err());
            }
            self.quic.count_unsent(unsent);
        }
    }

    /// When to begin a turn at the latest.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        match self.has_more {
            true => Some(Instant::START),
            false => self.quic.poll_timeout(),
        }
    }

    /// What happened, by name.
    pub(super) fn counters(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
        self.quic.counters()
    }
}
