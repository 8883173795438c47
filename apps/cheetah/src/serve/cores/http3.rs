//! HTTP/3 on a stack of its own: datagrams of the stack to QUIC, QUIC's to the stack.
//!
//! A connection belongs to the core to which its client's first datagram comes: interfaces spread them by addresses and ports, as they do
//! segments of TCP. A client that comes from another address (RFC 9000 §9) may come to another core, whose stack hands its datagrams on:
//! connection identifiers say which core's they are.

use std::sync::Arc;

use bytes::Bytes;
use exos::{Error, Exos};
use exos_inet::udp::{HeaderFields, UdpHandle};
use exos_inet::{Instant, Stack};
use exos_quic::{Arrived, Loops};

use crate::limits::{
    QUIC_DATAGRAM_LEN, QUIC_DATAGRAMS_PER_TURN, QUIC_HEADERS_LEN, QUIC_ROOM_PAUSE,
    QUIC_SEGMENTS_MAX, QUIC_SOCKET_LEN,
};
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
    /// At the port of HTTPS. Where several loops share it, it is said which this one is.
    ///
    /// # Errors
    ///
    /// The port is taken, or HTTPS has no TLS 1.3.
    pub(super) fn new(
        acceptor: Arc<Acceptor>,
        shared: Option<(Loops, u16)>,
        exos: &mut Exos,
    ) -> Result<Http3, Error> {
        let port = acceptor.port();
        let bound = exos.stack.udp.bind(None, port);
        let socket = bound.map_err(|e| {
            Error::new(format!("cannot have UDP port {port} for HTTP/3: {e}"))
                .mend("choose another port of HTTPS, or leave http3 out")
        })?;
        // It was bound above.
        let _ = exos.stack.udp.set_queue_len(socket, QUIC_SOCKET_LEN);
        let identifiers = shared.map(|(loops, number)| {
            let identifiers = loops.identifiers(number);
            let of_another =
                move |datagram: &[u8]| loops.number_in(datagram).is_some_and(|it| it != number);
            exos.stack.share_datagrams(port, Box::new(of_another));
            identifiers
        });
        let mtu = exos.stack.config().mtu;
        let datagram_max = longest_datagram(mtu);
        if datagram_max < QUIC_DATAGRAM_LEN {
            // RFC 9000 §14: shorter ones carry no QUIC, and none may be fragmented.
            let least = usize::from(QUIC_DATAGRAM_LEN) + QUIC_HEADERS_LEN;
            return Err(Error::new(format!(
                "HTTP/3 takes packets of {least} bytes, and the interface has an MTU of {mtu}"
            ))
            .mend("raise its MTU, or leave http3 out"));
        }
        let quic = Quic::new(acceptor, identifiers, Some(datagram_max), exos.now())?;
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
            self.quic.receive(Arrived {
                remote: received.from,
                local: Some(received.to),
                ecn: received.fields.traffic_class & 3,
                payload: Bytes::from(received.payload).into(),
            });
        }
        self.has_more = true;
    }

    /// Sends what there is to be sent, as long as the stack has room; true when that was all.
    pub(super) fn send(&mut self, now: Instant, stack: &mut Stack) -> bool {
        while stack.datagram_room() >= QUIC_SEGMENTS_MAX {
            let spare = || stack.burst_buffer();
            let made = self.quic.transmit_owned(QUIC_SEGMENTS_MAX, spare);
            let Some((leaving, payload)) = made else {
                return true;
            };
            let fields = HeaderFields {
                traffic_class: leaving.ecn,
                ..HeaderFields::default()
            };
            let (socket, from, to) = (self.socket, leaving.local, leaving.remote);
            let payload = (payload, leaving.segment, fields);
            if stack
                .udp_send_burst(now, socket, from, to, payload)
                .is_err()
            {
                self.quic.count_unsent(leaving.count());
            }
        }
        false
    }

    /// When to begin a turn at the latest.
    pub(super) fn poll_timeout(&self, now: Instant, stack: &Stack) -> Option<Instant> {
        match self.has_more {
            true => Some(Instant::START),
            // The interface takes no frames: what is to leave waits with them.
            false if stack.datagram_room() < QUIC_SEGMENTS_MAX => Some(now + QUIC_ROOM_PAUSE),
            false => self.quic.poll_timeout(),
        }
    }

    /// What happened, by name.
    pub(super) fn counters(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
        self.quic.counters()
    }
}

/// The longest datagram in packets of this length, of either family.
fn longest_datagram(mtu: usize) -> u16 {
    u16::try_from(mtu.saturating_sub(QUIC_HEADERS_LEN)).unwrap_or(u16::MAX)
}
