//! Answers that need no connection: resets, and acknowledgements for connections in TIME-WAIT.
//!
//! They wait in a bounded queue until the stack sends them. Resets and challenges are rate-limited
//! for the whole stack, so that no flood is answered one for one; the acknowledgement of a peer's
//! last FIN is not, for it is one for each connection that ends. The limit on SYN-ACKs sent again is
//! kept here too.

use std::collections::VecDeque;

use exos_wire::SeqNumber;
use exos_wire::tcp::{TcpFlags, TcpOptions};

use crate::counters::Counters;
use crate::limits::{
    CHALLENGE_PERIOD, CHALLENGES_PER_PERIOD, CHALLENGES_PER_SECOND, REPLIES_MAX, RESETS_PER_SECOND,
    SYN_ACKS_AGAIN_PER_SECOND,
};
use crate::tcp::values::flow::Flow;
use crate::tcp::values::segment::Segment;
use crate::time::Instant;

/// A segment without data or state.
#[derive(Copy, Clone, Debug)]
pub struct Reply {
    /// To whom.
    pub flow: Flow,
    /// Sequence number.
    pub seq: SeqNumber,
    /// Acknowledgement number.
    pub ack: SeqNumber,
    /// Control bits.
    pub flags: TcpFlags,
    /// The window field.
    pub window: u16,
    /// Options: timestamps where the connection has them, and those of a SYN-ACK.
    pub options: TcpOptions,
}

impl Reply {
    /// The reset that RFC 9293 §3.10.7.1 prescribes for a segment of no connection.
    pub fn reset_for(flow: Flow, seg: &Segment<'_>) -> Self {
        let (seq, ack, flags) = if seg.has(TcpFlags::ACK) {
            (seg.ack, SeqNumber(0), TcpFlags::RST)
        } else {
            (
                SeqNumber(0),
                seg.seq + seg.len(),
                TcpFlags(TcpFlags::RST.0 | TcpFlags::ACK.0),
            )
        };
        Self {
            flow,
            seq,
            ack,
            flags,
            window: 0,
            options: TcpOptions::NONE,
        }
    }
}

/// At most this many of something in a second of the clock.
#[derive(Clone, Debug)]
pub struct RateLimit {
    per_second: u32,
    second: u64,
    used: u32,
}

impl RateLimit {
    /// `per_second` in each second.
    pub const fn new(per_second: u32) -> Self {
        Self {
            per_second,
            second: 0,
            used: 0,
        }
    }

    /// Take one if there is one left.
    pub fn take(&mut self, now: Instant) -> bool {
        let second = now.micros() / 1_000_000;
        if second != self.second {
            (self.second, self.used) = (second, 0);
        }
        let left = self.used < self.per_second;
        self.used += u32::from(left);
        left
    }
}

/// Challenge acknowledgements of one connection: at most [`CHALLENGES_PER_PERIOD`] in each period of
/// [`CHALLENGE_PERIOD`], so that forged segments in one connection's window neither are answered one for one nor use
/// up what others may send (RFC 5961 §7).
///
/// A byte, of which each connection has one: the period's number in the upper half, what has been sent in the lower. That
/// the number comes round after 80 s may keep one period's answers back, no more.
#[derive(Clone, Copy, Debug)]
pub struct Challenges(u8);

impl Challenges {
    /// None has been sent.
    pub const NONE: Self = Self(0);

    /// Whether one may leave now, as far as the connection is concerned.
    pub fn has_room(&mut self, now: Instant) -> bool {
        let period = (now.micros() / CHALLENGE_PERIOD.as_micros() as u64 % 16) as u8;
        if self.0 >> 4 != period {
            self.0 = period << 4;
        }
        self.0 & 15 < CHALLENGES_PER_PERIOD
    }

    /// One leaves, for which there was room.
    pub fn count(&mut self) {
        self.0 += 1;
    }
}

const _: () = assert!(CHALLENGES_PER_PERIOD < 16);

/// The queue of answers.
pub struct Replies {
    queue: VecDeque<Reply>,
    resets: RateLimit,
    challenges: RateLimit,
    syn_acks_again: RateLimit,
}

impl Default for Replies {
    fn default() -> Self {
        Self {
            queue: VecDeque::new(),
            resets: RateLimit::new(RESETS_PER_SECOND),
            challenges: RateLimit::new(CHALLENGES_PER_SECOND),
            syn_acks_again: RateLimit::new(SYN_ACKS_AGAIN_PER_SECOND),
        }
    }
}

impl Replies {
    /// Queue an answer to something that ought not to have come, unless there are too many.
    pub fn push(&mut self, reply: Reply, now: Instant, counters: &mut Counters) {
        let reset = reply.flags.0 & TcpFlags::RST.0 != 0;
        let limit = if reset {
            &mut self.resets
        } else {
            &mut self.challenges
        };
        if !limit.take(now) {
            counters.drop_tcp_answer_rate_limited += 1;
            return;
        }
        self.push_due(reply, counters);
    }

    /// Queue an answer that the peer is owed: the acknowledgement of its FIN. No rate limits it, for
    /// it is one for each connection that ends.
    pub fn push_due(&mut self, reply: Reply, counters: &mut Counters) {
        if self.queue.len() >= REPLIES_MAX {
            counters.drop_tcp_answer_queue_full += 1;
            return;
        }
        counters.tcp_resets_sent += u64::from(reply.flags.0 & TcpFlags::RST.0 != 0);
        self.queue.push_back(reply);
    }

    /// Whether a connection may send a challenge acknowledgement now; counts it if so.
    pub fn may_challenge(&mut self, now: Instant) -> bool {
        self.challenges.take(now)
    }

    /// Whether a listener's connection may send its SYN-ACK again, unasked, now; counts it if so.
    pub fn may_repeat_syn_ack(&mut self, now: Instant) -> bool {
        self.syn_acks_again.take(now)
    }

    /// The next answer to send.
    pub fn pop(&mut self) -> Option<Reply> {
        self.queue.pop_front()
    }

    /// True when no answer waits.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_limit_starts_again_each_second() {
        let mut limit = RateLimit::new(2);
        let at = |ms| Instant::from_millis(ms);
        let taken: Vec<bool> = [0, 10, 999, 1000, 1001, 1002]
            .iter()
            .map(|&t| limit.take(at(t)))
            .collect();
        assert_eq!(taken, [true, true, false, true, true, false]);
    }

    /// However many connections challenge (RFC 5961 §7).
    #[test]
    fn challenges_of_the_stack_are_limited_too() {
        let mut replies = Replies::default();
        let sent = (0..1500).filter(|_| replies.may_challenge(Instant::START));
        assert_eq!(sent.count(), CHALLENGES_PER_SECOND as usize);
    }
}
