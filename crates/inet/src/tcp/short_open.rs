//! The short ways of a handshake at its listener: the SYN-ACK, and the acknowledgement that completes it.
//!
//! Rule: as `short_in`'s and `short_out`'s. What goes these ways leaves the same state and the same segments as
//! `input` and `output` would.

use exos_wire::tcp::TcpFlags;

use super::connection::{Connection, Owed};
use super::event::EventSet;
use super::short_in::{Short, Taken};
use super::short_ways::Way;
use super::slab::ConnectionId;
use super::state::{Event, State};
use super::{Outgoing, Tcp};
use crate::counters::Counters;
use crate::time::Instant;

impl Tcp {
    /// Take in a segment to a connection in SYN-RECEIVED, if it is the acknowledgement that nearly all send.
    pub(super) fn take_opening(
        &mut self,
        now: Instant,
        id: ConnectionId,
        seg: &Short<'_>,
        counters: &mut Counters,
    ) -> Taken {
        let Some(c) = self.slab.get_mut(id).filter(|c| c.is_opened_by(seg)) else {
            return Taken::General(id);
        };
        c.open_plainly(now, seg);
        let listener = c.listener;
        counters.tcp_segments_received += 1;
        counters.tcp_accepted += 1;
        self.found = Some(id);
        self.half_open_ended(listener);
        self.settle(id);
        self.taken.count(Way::Opening);
        Taken::Yes(true)
    }

    /// The SYN-ACK that `poll_short` has found.
    pub(crate) fn poll_syn_ack(&mut self, now: Instant) -> Option<(ConnectionId, Outgoing)> {
        let &id = self.sending.front()?;
        let c = self.slab.get_mut(id)?;
        c.pressure = self.memory.pressure();
        let out = c.poll_syn(now)?;
        self.rest_from_sending(id);
        self.taken.count(Way::SynAck);
        Some((id, out))
    }
}

impl Connection {
    /// Our SYN-ACK, which left once, is acknowledged, and nothing else is said; and nothing is to be done but
    /// what is always done then.
    fn is_opened_by(&self, seg: &Short<'_>) -> bool {
        let special = self.active | self.early | self.syn_again | self.finishing;
        self.state == State::SynReceived
            && !special
            && seg.seq == self.rcv_nxt
            && seg.ack == self.snd_max
            && seg.ack.gt(self.iss)
            && seg.payload.is_empty()
            && seg.flags.0 & TcpFlags::FIN.0 == 0
            && self.timestamps
            && seg.timestamps.value.wrapping_sub(self.ts_recent) as i32 >= 0
            && self.rare.is_none()
    }

    fn open_plainly(&mut self, now: Instant, seg: &Short<'_>) {
        self.follow(Event::AckOfSyn);
        self.syn_acknowledged(Some(seg.timestamps), now);
        self.set_window(seg.seq, seg.ack, u32::from(seg.window) << self.snd_scale);
        self.heard_at = now;
        self.ts_recent = seg.timestamps.value;
        self.tell(EventSet::ACCEPTED);
    }

    /// It was begun by a SYN that nothing has answered yet, and by which nothing special was asked for.
    #[inline]
    pub(super) fn answers_first_syn(&self) -> bool {
        self.state == State::SynReceived
            && !self.active
            && !self.early
            && self.snd_nxt == self.iss
            && self.snd_max == self.iss
            && self.ack_owed == Owed::Nothing
            && self.rare.is_none()
    }
}
