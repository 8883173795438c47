//! What a segment brings: data and FIN (RFC 9293 §3.10.7.4, seventh and eighth), and when that is
//! acknowledged (§3.8.6.3, RFC 5681 §4.2).

use crate::limits::{ACK_DELAY, ACK_EVERY_SEGMENTS, MSS_DEFAULT_V4, QUICK_ACKS, RTO_VARIATION_MIN};
use crate::tcp::connection::{Connection, Owed};
use crate::tcp::event::EventSet;
use crate::tcp::input::{Context, Outcome, Segment};
use crate::tcp::receive::Placed;
use crate::tcp::state::{Action, Event, State};
use crate::time::Instant;
use exos_wire::tcp::TcpFlags;

impl Connection {
    /// Seventh: process the segment text.
    pub(in crate::tcp) fn handle_text(&mut self, seg: &Segment<'_>, cx: &mut Context<'_>) {
        if seg.payload.is_empty() || !self.state.can_receive() {
            return;
        }
        // Trim to the window.
        let room = (self.rcv_edge - seg.seq).max(0) as usize;
        let bytes = &seg.payload[..seg.payload.len().min(room)];
        let len = self.note_arrival(seg, bytes.len(), cx.now);
        let skipping = self.skipping();
        match self.receive.place(self.rcv_nxt, seg.seq, bytes, cx.memory) {
            Placed::InOrder {
                advanced,
                filled_gap,
                repeated,
            } => {
                let at_once = filled_gap || self.receive.has_gap();
                self.received_in_order(seg, (advanced, len), (at_once, skipping), cx);
                if let Some((left, right)) = repeated {
                    self.report_repeated(left, right, cx);
                }
            }
            Placed::OutOfOrder { repeated } => {
                cx.counters.tcp_out_of_order += 1;
                self.received.out_of_order = self.received.out_of_order.wrapping_add(1);
                self.owe_duplicate_ack();
                if let Some((left, right)) = repeated {
                    self.report_repeated(left, right, cx);
                }
            }
            Placed::Duplicate {
                repeated: (left, right),
            } => {
                cx.counters.tcp_duplicate_data += 1;
                self.ack_owed = Owed::Now;
                self.acknowledge_quickly();
                self.report_repeated(left, right, cx);
            }
            Placed::Refused => {
                cx.counters.drop_tcp_out_of_order_full += 1;
                self.ack_owed = Owed::Now;
            }
            Placed::NoMemory => {
                cx.counters.drop_tcp_memory += 1;
                self.ack_owed = Owed::Now;
            }
        }
    }

    /// Data has come, `len` bytes of it within the window: notes what that says of the peer. Gives the segment's size.
    #[inline]
    pub(in crate::tcp) fn note_arrival(
        &mut self,
        seg: &Segment<'_>,
        len: usize,
        now: Instant,
    ) -> u16 {
        let len = len.min(usize::from(self.mss_announced)) as u16;
        if len != self.rcv_mss {
            self.measure_segments(len, seg.has(TcpFlags::PSH));
        }
        self.note_rest_of_data(now);
        self.received_at = now;
        len
    }

    /// What was expected next has come, and perhaps what waited behind it: `advanced` numbers with a segment of size `len`.
    /// `skipping` bytes were to be skipped before.
    #[inline]
    pub(in crate::tcp) fn received_in_order(
        &mut self,
        seg: &Segment<'_>,
        (advanced, len): (u32, u16),
        (at_once, skipping): (bool, u32),
        cx: &mut Context<'_>,
    ) {
        self.rcv_nxt += advanced;
        if self.state == State::FinWait2 && !self.discarding {
            // The peer of a half-closed connection is at work.
            self.wait_for_fin(cx.now);
        }
        // What was owed repeats a number that is history now.
        self.duplicates_owed = 0;
        if self.discarding {
            let unread = self.receive.readable().len();
            self.receive.consume(unread, cx.memory);
            cx.counters.drop_tcp_after_close += 1;
        } else if self.skipping() == 0 {
            self.tell(EventSet::READABLE);
        }
        self.owe_ack_for_data(at_once, len, cx.now);
        let echo = seg.options.timestamps.map(|t| t.echo);
        self.tune(echo, seg.payload.len(), cx.now);
        if skipping > 0 {
            self.note_skipped(skipping);
        }
    }

    /// Bytes have come; before, so many were to be skipped.
    pub(in crate::tcp) fn note_skipped(&mut self, before: u32) {
        let skipped = before - self.skipping();
        if skipped > 0 {
            self.consumed(skipped as usize);
        }
    }

    /// What the peer's full-sized segments are: the longest seen, or a shorter length that comes twice
    /// in a row and was not pushed, for the path may have narrowed.
    #[cold]
    pub(in crate::tcp) fn measure_segments(&mut self, len: u16, pushed: bool) {
        let narrower = len == self.received.last_len && len >= MSS_DEFAULT_V4 && !pushed;
        if len > self.rcv_mss || narrower {
            self.rcv_mss = len;
        }
        self.received.last_len = len;
    }

    /// After a rest single segments are acknowledged too.
    #[inline]
    fn note_rest_of_data(&mut self, now: Instant) {
        // The timeout is never shorter than this, which is known without reckoning.
        const LEAST_US: u64 = RTO_VARIATION_MIN.as_micros() as u64;
        let rest_us = now.micros().saturating_sub(self.received_at.micros());
        if rest_us > LEAST_US && rest_us > self.rtt.timeout_us() {
            self.received.quick = QUICK_ACKS;
        }
    }

    /// What was owed is paid by a segment of ours, perhaps `with_data`. A program that answers what it
    /// gets has its acknowledgements carried by the answers: it needs no quick ones.
    #[inline]
    pub(in crate::tcp) fn acknowledged(&mut self, with_data: bool) {
        if self.ack_owed == Owed::Later && with_data {
            self.received.quick = 0;
        } else if self.ack_owed == Owed::Now {
            self.received.quick = self.received.quick.saturating_sub(1);
        }
    }

    /// RFC 5681 §4.2: what comes beyond a gap is acknowledged at once, each for itself: the peer counts
    /// these. One that is told which ranges are there counts what is in them, and gets an acknowledgement for
    /// each range that grew.
    fn owe_duplicate_ack(&mut self) {
        self.ack_owed = Owed::Now;
        if !self.sack {
            self.duplicates_owed = self.duplicates_owed.saturating_add(1);
        }
    }

    /// The peer sent again what has come: our acknowledgements got lost, or came too late for its timer. Its
    /// window is small now, and the next full segments are acknowledged each, as by Linux.
    fn acknowledge_quickly(&mut self) {
        self.received.quick = QUICK_ACKS;
    }

    /// Data that lies outside of the window. What lies before it was received: the peer should know
    /// that it sent it again for nothing (RFC 2883 §4).
    pub(in crate::tcp) fn handle_old_text(&mut self, seg: &Segment<'_>, cx: &mut Context<'_>) {
        if seg.payload.is_empty() {
            return;
        }
        cx.counters.tcp_duplicate_data += 1;
        self.acknowledge_quickly();
        let end = (seg.seq + seg.payload.len() as u32).min(self.rcv_nxt);
        if seg.seq.gt(self.irs) {
            self.report_repeated(seg.seq, end, cx);
        }
    }

    /// In-order data: acknowledge every second full segment at once, else within the delay. At the
    /// beginning and after a rest also single ones: the peer's window is small then, and grows with
    /// what is acknowledged. "At once" is when the turn ends: what came in one batch is
    /// acknowledged together, as by hosts whose network interfaces join segments.
    #[inline]
    pub(in crate::tcp) fn owe_ack_for_data(&mut self, at_once: bool, len: u16, now: Instant) {
        let pending = (self.rcv_nxt - self.last_ack_sent) as u32;
        let quick = self.received.quick > 0 && len >= self.rcv_mss;
        let enough = u32::from(ACK_EVERY_SEGMENTS) * u32::from(self.rcv_mss);
        if at_once || quick || pending >= enough {
            self.ack_owed = Owed::Now;
        } else if self.ack_owed == Owed::Nothing {
            self.ack_owed = Owed::Later;
            self.ack_at = now + ACK_DELAY;
        }
    }

    /// Eighth: check the FIN bit.
    pub(in crate::tcp) fn handle_fin(
        &mut self,
        seg: &Segment<'_>,
        cx: &mut Context<'_>,
    ) -> Outcome {
        let fin_at = seg.seq + seg.payload.len() as u32;
        if seg.has(TcpFlags::FIN) && fin_at.ge(self.rcv_nxt) && fin_at.le(self.rcv_edge) {
            self.peer_fin = Some(fin_at);
            if fin_at.gt(self.rcv_nxt) && seg.payload.is_empty() && self.state.can_receive() {
                // RFC 5681 §4.2: like data beyond a gap, it is answered with what is missing.
                self.owe_duplicate_ack();
            }
        }
        // A FIN beyond a gap waits until the gap is filled.
        if self.peer_fin != Some(self.rcv_nxt) || !self.state.can_receive() {
            return Outcome::Keep;
        }
        self.fin_received(cx)
    }

    /// The peer's FIN has come, and all before it.
    pub(in crate::tcp) fn fin_received(&mut self, cx: &mut Context<'_>) -> Outcome {
        let Some(action) = self.follow(Event::Fin) else {
            return Outcome::Keep;
        };
        self.peer_fin = None;
        self.rcv_nxt += 1;
        self.rcv_edge = self.rcv_edge.max(self.rcv_nxt);
        self.tell(EventSet::FINISHED);
        if action == Action::SendAckStartTimeWait {
            cx.counters.tcp_closed += 1;
            return Outcome::TimeWait;
        }
        // Soon: a program that now finishes too answers with one segment.
        self.ack_owed = Owed::Now;
        Outcome::Keep
    }
}
