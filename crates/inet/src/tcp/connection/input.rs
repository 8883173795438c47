//! Segments coming in to a connection (RFC 9293 §3.10.7.3 and §3.10.7.4).
//!
//! The steps stand in the RFC's order: sequence number, reset, SYN, acknowledgement, data, FIN.
//! Timestamps are looked at before the first (RFC 7323 §5.3), and resets, SYNs and acknowledgements
//! are checked as narrowly as RFC 5961 asks.

use exos_wire::tcp::{TcpFlags, Timestamps};

use crate::limits::{PAWS_IDLE, PAWS_TICKS_BEHIND};
use crate::tcp::connection::Connection;
use crate::tcp::sending::acknowledgement::Acked;
use crate::tcp::shared::context::{Context, Outcome};
use crate::tcp::shared::reply::Reply;
use crate::tcp::values::event::{EventSet, Reason};
use crate::tcp::values::segment::Segment;
use crate::tcp::values::state::{Action, Event, State};
use crate::time::Instant;

/// What the checks before the acknowledgement decided.
enum Checked {
    Accept,
    Done(Outcome),
}

impl Connection {
    /// Take in a segment of this connection.
    pub fn handle_segment(&mut self, seg: &Segment<'_>, cx: &mut Context<'_>) -> Outcome {
        if self.state == State::SynSent {
            return self.in_syn_sent(seg, cx);
        }
        match self.check(seg, cx) {
            Checked::Done(outcome) => return outcome,
            Checked::Accept => {}
        }
        // Fifth: check the ACK field.
        if !seg.has(TcpFlags::ACK) {
            cx.counters.drop_tcp_no_ack += 1;
            return Outcome::Keep;
        }
        if self.state == State::SynReceived && !self.establish(seg, cx) {
            return Outcome::Keep;
        }
        if !self.sender.is_plausible(seg.ack) {
            cx.counters.drop_tcp_bad_ack += 1;
            self.challenge(cx);
            return Outcome::Keep;
        }
        self.liveness.heard(cx.now);
        self.update_ts_recent(seg);
        let acked = self.sender.handle_ack(seg, cx);
        let outcome = self.note_acked(acked, cx);
        if outcome != Outcome::Keep {
            return outcome;
        }
        self.note_ecn(seg, cx);
        // Sixth: the URG bit. The urgent pointer is not passed on; urgent data is ordinary data here.
        self.handle_text(seg, cx);
        self.handle_fin(seg, cx)
    }

    /// RFC 9293 §3.10.7.3: SYN-SENT.
    fn in_syn_sent(&mut self, seg: &Segment<'_>, cx: &mut Context<'_>) -> Outcome {
        // First: check the ACK bit.
        let acks = seg.has(TcpFlags::ACK);
        if acks && !self.sender.queue().is_answered_by(seg) {
            if !seg.has(TcpFlags::RST) {
                cx.replies
                    .push(Reply::reset_for(self.flow, seg), cx.now, cx.counters);
                // The peer may keep an older connection of these ports in TIME-WAIT, which the reset ends: the SYN follows it
                // at once, as a retransmission, so not a second time.
                if self.sender.rtt().retries() == 0 {
                    self.note_timeout(cx.now);
                    self.sender.send_syn();
                }
            }
            cx.counters.drop_tcp_bad_ack += 1;
            return Outcome::Keep;
        }
        // Second: check the RST bit; without an acceptable ACK it proves nothing.
        if seg.has(TcpFlags::RST) {
            return if acks {
                self.release(Reason::Refused, cx)
            } else {
                Outcome::Keep
            };
        }
        // Fourth: check the SYN bit. (Third was security, which we do not speak.)
        if !seg.has(TcpFlags::SYN) {
            cx.counters.drop_tcp_no_ack += 1;
            return Outcome::Keep;
        }
        self.learn_from_syn(cx.now, seg.seq, seg.window, &seg.options);
        self.learn_ecn_from_answer(seg);
        if acks {
            self.follow(Event::SynAck);
            self.syn_acknowledged(seg.options.timestamps, cx.now);
            self.receiver.acks_mut().owe_now();
            self.begin_to_listen(cx.now);
            self.tell(EventSet::CONNECTED);
            cx.counters.tcp_connected += 1;
            // Data and FIN that ride on the SYN-ACK are taken in like any other.
            let rest = Segment {
                seq: seg.seq + 1,
                flags: TcpFlags(seg.flags.0 & !TcpFlags::SYN.0),
                ..seg.clone()
            };
            self.handle_text(&rest, cx);
            return self.handle_fin(&rest, cx);
        }
        // Simultaneous open: answer with a SYN-ACK that repeats our SYN.
        self.follow(Event::Syn);
        self.sender.send_syn();
        Outcome::Keep
    }

    /// Timestamps, then first to fourth of RFC 9293 §3.10.7.4.
    fn check(&mut self, seg: &Segment<'_>, cx: &mut Context<'_>) -> Checked {
        let keep = Checked::Done(Outcome::Keep);
        if self.is_syn_again(seg) {
            return self.handle_syn_again(seg, cx);
        }
        if !self.timestamp_is_fresh(seg, cx.now) {
            cx.counters.drop_tcp_timestamp += 1;
            self.owe_ack_for_unacceptable(seg, cx);
            return keep;
        }
        // First: check the sequence number.
        if !self.receiver.accepts(seg) {
            cx.counters.drop_tcp_out_of_window += 1;
            self.owe_ack_for_unacceptable(seg, cx);
            return keep;
        }
        // Second: check the RST bit, as RFC 5961 §3.2: only at the left edge exactly.
        if seg.has(TcpFlags::RST) {
            if seg.seq == self.receiver.rcv_nxt() {
                return Checked::Done(self.release(Reason::Reset, cx));
            }
            cx.counters.drop_tcp_reset_challenged += 1;
            self.challenge(cx);
            return keep;
        }
        // Fourth: check the SYN bit, as RFC 5961 §4.2: challenge, whatever the sequence number.
        if seg.has(TcpFlags::SYN) {
            cx.counters.drop_tcp_syn_challenged += 1;
            self.challenge(cx);
            return keep;
        }
        Checked::Accept
    }

    /// The peer's SYN once more, while we are in SYN-RECEIVED for it.
    fn is_syn_again(&self, seg: &Segment<'_>) -> bool {
        self.state == State::SynReceived
            && seg.has(TcpFlags::SYN)
            && !seg.has(TcpFlags::RST)
            && seg.seq == self.receiver.irs()
    }

    /// It missed our SYN-ACK; or both sides opened and this is its SYN-ACK.
    fn handle_syn_again(&mut self, seg: &Segment<'_>, cx: &mut Context<'_>) -> Checked {
        let answers_ours = seg.has(TcpFlags::ACK) && self.sender.queue().is_answered_by(seg);
        if self.active && answers_ours {
            self.follow(Event::SynAck);
            self.syn_acknowledged(seg.options.timestamps, cx.now);
            self.sender
                .set_window(seg.seq, seg.ack, u32::from(seg.window));
            self.receiver.acks_mut().owe_now();
            self.begin_to_listen(cx.now);
            self.tell(EventSet::CONNECTED);
            cx.counters.tcp_connected += 1;
        } else {
            self.sender.send_syn();
            // One that goes without asks no more (RFC 3168 §6.1.1.1).
            self.agree_on_ecn(seg.asks_for_ecn());
        }
        Checked::Done(Outcome::Keep)
    }

    /// PAWS (RFC 7323 §5.3 R1, but for one tick): true unless the timestamp is from the past, or missing (§3.2).
    fn timestamp_is_fresh(&self, seg: &Segment<'_>, now: Instant) -> bool {
        if !self.sender.agreed().timestamps || seg.has(TcpFlags::RST) {
            return true;
        }
        let Some(t) = seg.options.timestamps else {
            return false;
        };
        let behind = self.receiver.ts_recent().wrapping_sub(t.value) as i32;
        behind <= PAWS_TICKS_BEHIND || now - self.liveness.heard_at() > PAWS_IDLE
    }

    /// An unacceptable segment is acknowledged: repeated data always, since its sender waits for
    /// that; anything else at the rate of challenges, so that two confused sides cannot keep each
    /// other busy.
    fn owe_ack_for_unacceptable(&mut self, seg: &Segment<'_>, cx: &mut Context<'_>) {
        if seg.has(TcpFlags::RST) {
            return;
        }
        self.receiver.refuse(seg, self.sender.agreed().sack, cx);
        if !seg.is_empty() && self.receiver.was_sent_to_us(seg) {
            self.receiver.acks_mut().owe_now();
        } else {
            self.challenge(cx);
        }
    }

    /// A challenge acknowledgement (RFC 5961 §7: at a bounded rate, of the connection and of the stack).
    fn challenge(&mut self, cx: &mut Context<'_>) {
        if self.receiver.acks_mut().may_challenge(cx.now) && cx.replies.may_challenge(cx.now) {
            self.receiver.acks_mut().challenge();
            cx.counters.tcp_challenges_sent += 1;
        } else {
            cx.counters.drop_tcp_answer_rate_limited += 1;
        }
    }

    /// Whether what a segment acknowledges, if it does, is our SYN.
    pub(in crate::tcp) fn is_answered_by(&self, seg: &Segment<'_>) -> bool {
        !seg.has(TcpFlags::ACK) || self.sender.queue().is_answered_by(seg)
    }

    /// Our SYN is acknowledged: a wish to finish can be followed.
    fn syn_acknowledged(&mut self, stamp: Option<Timestamps>, now: Instant) {
        self.sender.syn_acknowledged(stamp, now);
        if self.sender.queue().is_finishing() {
            self.follow(Event::Finish);
        }
    }

    /// SYN-RECEIVED: the ACK must be of our SYN; then the connection stands.
    fn establish(&mut self, seg: &Segment<'_>, cx: &mut Context<'_>) -> bool {
        if !self.is_answered_by(seg) {
            cx.counters.drop_tcp_bad_ack += 1;
            cx.replies
                .push(Reply::reset_for(self.flow, seg), cx.now, cx.counters);
            return false;
        }
        self.follow(Event::AckOfSyn);
        self.syn_acknowledged(seg.options.timestamps, cx.now);
        let window = self.sender.window().of(seg);
        self.sender.set_window(seg.seq, seg.ack, window);
        self.begin_to_listen(cx.now);
        if self.active {
            self.tell(EventSet::CONNECTED);
            cx.counters.tcp_connected += 1;
        } else {
            self.tell(EventSet::ACCEPTED);
            cx.counters.tcp_accepted += 1;
        }
        true
    }

    /// RFC 7323 §4.3: the timestamp of the segment that our next acknowledgement will answer.
    fn update_ts_recent(&mut self, seg: &Segment<'_>) {
        if let Some(stamp) = seg
            .options
            .timestamps
            .filter(|_| self.sender.agreed().timestamps)
        {
            self.receiver.stamped(seg.seq, stamp.value);
        }
    }

    /// Something of ours is acknowledged.
    #[inline]
    pub(in crate::tcp) fn note_acked(&mut self, acked: Acked, cx: &mut Context<'_>) -> Outcome {
        if acked.data {
            self.tell(EventSet::ACKNOWLEDGED);
        }
        if acked.fin {
            return self.fin_acknowledged(cx);
        }
        Outcome::Keep
    }

    /// Our FIN is acknowledged.
    fn fin_acknowledged(&mut self, cx: &mut Context<'_>) -> Outcome {
        match self.follow(Event::AckOfFin) {
            Some(Action::StartTimeWait) => {
                cx.counters.tcp_closed += 1;
                Outcome::TimeWait
            }
            Some(Action::Release) => {
                cx.counters.tcp_closed += 1;
                Outcome::Close(Reason::Done)
            }
            Some(_) => {
                self.wait_for_fin(cx.now);
                Outcome::Keep
            }
            None => Outcome::Keep,
        }
    }

    /// The peer's reset ends the connection.
    fn release(&mut self, reason: Reason, cx: &mut Context<'_>) -> Outcome {
        let standing = self.state != State::SynReceived && self.state != State::SynSent;
        self.follow(Event::Rst);
        cx.counters.tcp_reset_received += 1;
        Outcome::Close(if self.active && !standing {
            Reason::Refused
        } else {
            reason
        })
    }
}
