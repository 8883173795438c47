//! What the receiver takes in of a segment: data and FIN.

use crate::limits::{MSS_DEFAULT_V4, RTO_VARIATION_MIN};
use crate::tcp::receiving::autotune::Came;
use crate::tcp::receiving::queue::Placed;
use crate::tcp::receiving::receiver::{Receiver, Taken};
use crate::tcp::sending::rtt::Rtt;
use crate::tcp::shared::context::Context;
use crate::tcp::values::agreed::Agreed;
use crate::tcp::values::segment::Segment;
use crate::time::Instant;
use exos_wire::tcp::TcpFlags;

impl Receiver {
    /// Take in what of a segment's data lies in the window.
    pub(in crate::tcp) fn take(
        &mut self,
        seg: &Segment<'_>,
        agreed: Agreed,
        rtt: &Rtt,
        cx: &mut Context<'_>,
    ) -> Taken {
        // Trim to the window.
        let room = self.window.left(seg.seq) as usize;
        let bytes = &seg.payload[..seg.payload.len().min(room)];
        let len = self.note_arrival(seg, bytes.len(), rtt, cx.now);
        let skipping = self.queue.skipping();
        let placed = self.queue.place(self.rcv_nxt, seg.seq, bytes, cx.memory);
        match placed {
            Placed::InOrder {
                advanced,
                filled_gap,
                repeated,
            } => {
                let at_once = filled_gap || self.queue.has_gap();
                let taken = self.advance(seg, (advanced, len), (at_once, skipping), agreed, cx);
                if let Some((left, right)) = repeated {
                    self.report_repeated(left, right, agreed.sack, cx);
                }
                return taken;
            }
            Placed::OutOfOrder { repeated } => {
                cx.counters.tcp_out_of_order += 1;
                self.out_of_order = self.out_of_order.wrapping_add(1);
                self.acks.owe_duplicate(agreed.sack);
                if let Some((left, right)) = repeated {
                    self.report_repeated(left, right, agreed.sack, cx);
                }
            }
            Placed::Duplicate {
                repeated: (left, right),
            } => {
                cx.counters.tcp_duplicate_data += 1;
                self.acks.owe_now();
                // Our acknowledgements got lost, or came too late for its timer; as Linux.
                self.acks.acknowledge_quickly();
                self.report_repeated(left, right, agreed.sack, cx);
            }
            Placed::Refused => {
                cx.counters.drop_tcp_out_of_order_full += 1;
                self.acks.owe_now();
            }
            Placed::NoMemory => {
                cx.counters.drop_tcp_memory += 1;
                self.acks.owe_now();
            }
        }
        Taken::Nothing
    }

    /// Data has come, `len` bytes of it within the window: notes what that says of the peer. Gives the segment's size.
    #[inline]
    pub(super) fn note_arrival(
        &mut self,
        seg: &Segment<'_>,
        len: usize,
        rtt: &Rtt,
        now: Instant,
    ) -> u16 {
        // The timeout is never shorter than this, which is known without reckoning.
        const LEAST_US: u64 = RTO_VARIATION_MIN.as_micros() as u64;
        let len = len.min(usize::from(self.mss_announced)) as u16;
        if len != self.rcv_mss {
            self.measure_segments(len, seg.has(TcpFlags::PSH));
        }
        // After a rest single segments are acknowledged too.
        let rest_us = now.micros().saturating_sub(self.received_at.micros());
        if rest_us > LEAST_US && rest_us > rtt.timeout_us() {
            self.acks.acknowledge_quickly();
        }
        self.received_at = now;
        len
    }

    /// What was expected next has come, and perhaps what waited behind it: `advanced` numbers with a segment of size `len`.
    /// `skipping` bytes were to be skipped before.
    #[inline(always)]
    pub(super) fn advance(
        &mut self,
        seg: &Segment<'_>,
        (advanced, len): (u32, u16),
        (at_once, skipping): (bool, u32),
        agreed: Agreed,
        cx: &mut Context<'_>,
    ) -> Taken {
        self.rcv_nxt += advanced;
        let mut taken = Taken::InOrder;
        if self.discarding {
            let unread = self.queue.readable().len();
            self.queue.consume(unread, cx.memory);
            cx.counters.drop_tcp_after_close += 1;
        } else if self.queue.skipping() == 0 {
            taken = Taken::Readable;
        }
        let (next, sizes) = (self.rcv_nxt, (len, self.rcv_mss));
        self.acks.owe_for_data(next, sizes, at_once, cx.now);
        if self.window.grows() {
            self.tune(seg, agreed, cx.now);
        }
        let skipped = skipping - self.queue.skipping();
        if skipped > 0 {
            // Data comes, so it is in a state in which it may.
            self.consumed(skipped, true);
        }
        taken
    }

    /// Data has come in order: see whether the buffer should grow.
    fn tune(&mut self, seg: &Segment<'_>, agreed: Agreed, now: Instant) {
        let came = Came {
            len: seg.payload.len(),
            in_all: self.rcv_nxt.0.wrapping_sub(self.irs.0),
            next: self.rcv_nxt,
            edge: self.window.edge(),
            mss: self.rcv_mss,
            stamp: seg.options.timestamps.filter(|_| agreed.timestamps),
            ts_offset: agreed.ts_offset,
        };
        if let Some(taken) = self.autotune.note(came, now) {
            self.adjust_buffer(taken);
        }
    }

    /// A round trip is over, in which the program took this many bytes.
    #[cold]
    fn adjust_buffer(&mut self, taken: u32) {
        if self.window.is_under_pressure() {
            self.window.narrow_buffer();
            self.autotune.shrink();
        } else if let Some(wanted) = self.autotune.wanted(taken, self.rcv_mss) {
            self.window.widen_buffer(wanted);
        }
    }

    /// What the peer's full-sized segments are: the longest seen, or a shorter length that comes twice
    /// in a row and was not pushed, for the path may have narrowed.
    #[cold]
    fn measure_segments(&mut self, len: u16, pushed: bool) {
        let narrower = len == self.last_len && len >= MSS_DEFAULT_V4 && !pushed;
        if len > self.rcv_mss || narrower {
            self.rcv_mss = len;
        }
        self.last_len = len;
    }

    /// Data that lies outside of the window. What lies before it was received: the peer should know
    /// that it sent it again for nothing (RFC 2883 §4).
    pub fn refuse(&mut self, seg: &Segment<'_>, sack: bool, cx: &mut Context<'_>) {
        if seg.payload.is_empty() {
            return;
        }
        cx.counters.tcp_duplicate_data += 1;
        self.acks.acknowledge_quickly();
        let end = (seg.seq + seg.payload.len() as u32).min(self.rcv_nxt);
        if seg.seq.gt(self.irs) {
            self.report_repeated(seg.seq, end, sack, cx);
        }
    }

    /// A segment has the FIN bit: it is remembered where it stands, if that is in the window.
    pub(in crate::tcp) fn note_fin(&mut self, seg: &Segment<'_>, receives: bool, sack: bool) {
        let fin_at = seg.seq + seg.payload.len() as u32;
        if fin_at.ge(self.rcv_nxt) && fin_at.le(self.window.edge()) {
            self.peer_fin = Some(fin_at);
            if fin_at.gt(self.rcv_nxt) && seg.payload.is_empty() && receives {
                // RFC 5681 §4.2: like data beyond a gap, it is answered with what is missing.
                self.acks.owe_duplicate(sack);
            }
        }
    }

    /// The peer's FIN has come, and all before it. One beyond a gap waits until the gap is filled.
    pub(in crate::tcp) fn fin_is_next(&self) -> bool {
        self.peer_fin == Some(self.rcv_nxt)
    }

    pub(in crate::tcp) fn take_fin(&mut self) {
        self.peer_fin = None;
        self.rcv_nxt += 1;
        self.window.fin_received(self.rcv_nxt);
    }
}
