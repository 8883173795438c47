//! The short way in: the segment that is expected next, of a connection on which nothing is wrong.
//!
//! Nearly all segments of a transfer are one of two: the data expected next, or an acknowledgement of what
//! was sent, in order and without a gap. The general way (`input`) takes both through every step of the
//! RFC; here a few comparisons show that no step would object (Jacobson's header prediction), and what then
//! remains to be done is done in a straight line. Whatever differs in anything goes the general way; the
//! comparisons are made before anything is changed.
//!
//! Rule: for a segment that goes this way the general way would have changed the connection to the very same
//! state. `tests/short_ways` plays random games with and without the short ways and compares the frames.

use exos_wire::SeqNumber;
use exos_wire::tcp::{TcpFlags, TcpOptions, Timestamps};

use crate::counters::Counters;
use crate::limits::{QUICK_ACKS, RTO_VARIATION_MIN};
use crate::tcp::Tcp;
use crate::tcp::connection::Connection;
use crate::tcp::ecn::Ecn;
use crate::tcp::event::EventSet;
use crate::tcp::input::Segment;
use crate::tcp::memory::{Memory, Pressure};
use crate::tcp::short_ways::Way;
use crate::tcp::slab::ConnectionId;
use crate::tcp::state::State;
use crate::time::Instant;

/// A received segment whose header is the usual one: timestamps and no other option, no flags but ACK, PSH and
/// FIN, no mark of congestion.
pub(crate) struct Short<'a> {
    pub seq: SeqNumber,
    pub ack: SeqNumber,
    pub flags: TcpFlags,
    pub window: u16,
    pub timestamps: Timestamps,
    pub payload: &'a [u8],
}

impl<'a> Short<'a> {
    /// The same, for the general way.
    pub fn to_segment(&self) -> Segment<'a> {
        Segment {
            seq: self.seq,
            ack: self.ack,
            flags: self.flags,
            window: self.window,
            options: TcpOptions::with_timestamps(self.timestamps.value, self.timestamps.echo),
            ecn: Ecn::NotEct,
            payload: self.payload,
        }
    }
}

/// What became of a segment that was tried.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(crate) enum Taken {
    /// It was taken in; true when it acknowledged something.
    Yes(bool),
    /// It is this connection's, and must go the general way.
    General(ConnectionId),
}

impl Tcp {
    /// Take a segment in if nothing about it needs the general way.
    #[inline]
    pub(crate) fn take_short(
        &mut self,
        now: Instant,
        id: ConnectionId,
        seg: &Short<'_>,
        counters: &mut Counters,
    ) -> Taken {
        let pressure = self.memory.pressure();
        let Some(entry) = self.slab.entry_mut(id) else {
            return Taken::General(id);
        };
        let c = &mut entry.connection;
        c.pressure = pressure;
        if pressure != Pressure::None || !self.short_ways {
            return Taken::General(id);
        }
        if !c.expects(seg) {
            return self.take_rare(now, id, seg, counters);
        }
        let progress = seg.ack != c.snd_una;
        if progress && c.take_plain_ack(now, seg).is_none() {
            return Taken::General(id);
        }
        c.take_next(now, seg, &mut self.memory);
        if progress {
            self.taken.count(Way::Acknowledgement);
        }
        if !seg.payload.is_empty() {
            self.taken.count(Way::Data);
        }
        counters.tcp_segments_received += 1;
        self.found = Some(id);
        entry.settle_taken(id, &mut self.telling, &mut self.sending, &mut self.wheel);
        Taken::Yes(progress)
    }
}

impl Tcp {
    /// The same of what comes once in a connection.
    #[inline(never)]
    fn take_rare(
        &mut self,
        now: Instant,
        id: ConnectionId,
        seg: &Short<'_>,
        counters: &mut Counters,
    ) -> Taken {
        match self.slab.get(id).map(Connection::state) {
            Some(State::SynReceived) => self.take_opening(now, id, seg, counters),
            _ => self.take_seldom(now, id, seg, counters),
        }
    }
}

impl Connection {
    /// All that the RFC's steps look at is as it should be, but for what is acknowledged, if it is new.
    #[inline]
    fn expects(&self, seg: &Short<'_>) -> bool {
        let room = (self.rcv_edge - self.rcv_nxt).max(0) as usize;
        let same_window = u32::from(seg.window) << self.snd_scale == self.snd_wnd;
        let nothing_new = seg.ack == self.snd_una;
        seg.seq == self.rcv_nxt
            && (!nothing_new || (same_window && !seg.payload.is_empty()))
            && seg.flags.0 & TcpFlags::FIN.0 == 0
            && seg.payload.len() <= room
            && self.receive.has_room_for(seg.payload.len())
            && self.state == State::Established
            && !self.discarding
            && self.is_untroubled(seg)
    }

    /// Nothing is wrong on either way, and it is not from the past.
    #[inline]
    pub(in crate::tcp) fn is_untroubled(&self, seg: &Short<'_>) -> bool {
        seg.timestamps.value.wrapping_sub(self.ts_recent) as i32 >= 0
            && self.timestamps
            && !self.probing
            && self.retries == 0
            && self.peer_fin.is_none()
    }

    /// The peer is there.
    #[inline]
    pub(in crate::tcp) fn hear(&mut self, now: Instant, seg: &Short<'_>) {
        self.heard_at = now;
        if seg.seq.le(self.last_ack_sent) {
            self.ts_recent = seg.timestamps.value;
        }
    }

    /// Take in what is expected next: data, if there is any.
    #[inline]
    pub(in crate::tcp) fn take_next(&mut self, now: Instant, seg: &Short<'_>, memory: &mut Memory) {
        self.hear(now, seg);
        if self.snd_wl1.le(seg.seq) {
            // Else what came beyond a gap has said something newer of the window.
            (self.snd_wl1, self.snd_wl2) = (seg.seq, seg.ack);
        }
        if seg.payload.is_empty() {
            return;
        }
        let skipping = self.receive.skipping();
        if skipping == 0 {
            self.receive.append_wanted(seg.payload, memory);
        } else {
            self.receive.append(seg.payload, memory);
        }
        let len = seg.payload.len().min(usize::from(self.mss_announced)) as u16;
        if len != self.rcv_mss {
            self.measure_segments(len, seg.flags.0 & TcpFlags::PSH.0 != 0);
        }
        self.note_rest_of_data(now);
        self.received_at = now;
        self.rcv_nxt += seg.payload.len() as u32;
        self.duplicates_owed = 0;
        if skipping == 0 || self.receive.skipping() == 0 {
            self.tell(EventSet::READABLE);
        }
        self.owe_ack_for_data(false, len, now);
        self.tune(Some(seg.timestamps.echo), seg.payload.len(), now);
        if skipping > 0 {
            self.note_skipped(skipping);
        }
    }

    /// After a rest single segments are acknowledged too.
    #[inline]
    pub(in crate::tcp) fn note_rest_of_data(&mut self, now: Instant) {
        // The timeout is never shorter than this, which is known without reckoning.
        const LEAST_US: u64 = RTO_VARIATION_MIN.as_micros() as u64;
        let rest_us = now.micros().saturating_sub(self.received_at.micros());
        if rest_us > LEAST_US && rest_us > self.rtt.timeout_us() {
            self.received.quick = QUICK_ACKS;
        }
    }
}
