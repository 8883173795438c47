//! Which acknowledgement is owed, and by when (RFC 9293 §3.8.6.3, RFC 5681 §4.2).
//!
//! Whatever leaves pays what is owed: each segment acknowledges all that has come. Only what is owed *now* makes a segment leave
//! for its own sake.

use exos_wire::SeqNumber;

use crate::limits::{ACK_DELAY, ACK_EVERY_SEGMENTS, QUICK_ACKS};
use crate::tcp::shared::reply::Challenges;
use crate::tcp::values::codec::{HandoverError, Wire, travel};
use crate::time::Instant;

/// Whether an acknowledgement is owed.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(in crate::tcp) enum Owed {
    Nothing,
    /// When its time has come, or on the next segment that leaves anyway.
    Later,
    Now,
}

/// What is owed to the peer of one connection.
#[derive(Debug)]
pub(in crate::tcp) struct Acknowledgements {
    /// When what is owed later is due.
    at: Instant,
    /// What the last segment that left acknowledged.
    last_sent: SeqNumber,
    owed: Owed,
    /// Acknowledgements still owed to segments that came out of order, one each: the peer counts
    /// them, also when they arrived in one batch (RFC 5681 §4.2).
    duplicates_owed: u8,
    /// Full segments that are still to be acknowledged at once.
    quick: u8,
    /// How often what has come was challenged.
    challenges: Challenges,
}

impl Acknowledgements {
    /// Nothing has come yet.
    pub const fn new() -> Self {
        Self {
            at: Instant::NEVER,
            last_sent: SeqNumber(0),
            owed: Owed::Nothing,
            duplicates_owed: 0,
            quick: QUICK_ACKS,
            challenges: Challenges::NONE,
        }
    }

    // What comes.

    /// The peer's SYN has come: data begins at `next`.
    pub fn syn_received(&mut self, next: SeqNumber) {
        self.last_sent = next;
    }

    /// Something must be acknowledged at once.
    #[inline]
    pub fn owe_now(&mut self) {
        self.owed = Owed::Now;
    }

    /// Data has come in order, up to `next`, in a segment of `len` bytes, where full ones have `mss`: acknowledge every second full
    /// segment at once, else within the delay. At the beginning and after a rest also single ones: the peer's window is
    /// small then, and grows with what is acknowledged. "At once" is when the turn ends: what came in one batch is
    /// acknowledged together, as by hosts whose network interfaces join segments.
    #[inline]
    pub fn owe_for_data(
        &mut self,
        next: SeqNumber,
        (len, mss): (u16, u16),
        at_once: bool,
        now: Instant,
    ) {
        // What was owed repeats a number that is history now.
        self.duplicates_owed = 0;
        let pending = (next - self.last_sent) as u32;
        let quick = self.quick > 0 && len >= mss;
        let enough = u32::from(ACK_EVERY_SEGMENTS) * u32::from(mss);
        if at_once || quick || pending >= enough {
            self.owed = Owed::Now;
        } else if self.owed == Owed::Nothing {
            self.owed = Owed::Later;
            self.at = now + ACK_DELAY;
        }
    }

    /// RFC 5681 §4.2: what comes beyond a gap is acknowledged at once, each for itself: the peer counts
    /// these. One that is told which ranges are there counts what is in them, and gets an acknowledgement for
    /// each range that grew.
    pub fn owe_duplicate(&mut self, sack: bool) {
        self.owed = Owed::Now;
        if !sack {
            self.duplicates_owed = self.duplicates_owed.saturating_add(1);
        }
    }

    /// The peer's window is small now: acknowledge the next full segments each.
    #[inline]
    pub fn acknowledge_quickly(&mut self) {
        self.quick = QUICK_ACKS;
    }

    /// Whether a challenge may leave, as far as the connection is concerned.
    pub fn may_challenge(&mut self, now: Instant) -> bool {
        self.challenges.has_room(now)
    }

    /// Owe a challenge acknowledgement, for which there was room.
    pub fn challenge(&mut self) {
        self.challenges.count();
        self.owed = Owed::Now;
    }

    /// Owe now what would otherwise wait.
    pub fn hurry(&mut self) {
        if self.owed == Owed::Later {
            self.owed = Owed::Now;
        }
    }

    /// Owe now what was to wait until now.
    pub fn end_delay(&mut self, now: Instant) {
        if now >= self.at {
            self.at = Instant::NEVER;
            self.hurry();
        }
    }

    /// Go on in another stack, which acknowledges at once: the peer may have waited, and learns that we are here.
    pub fn resume(&mut self, next: SeqNumber) {
        self.last_sent = next;
        self.owed = Owed::Now;
    }

    // What leaves.

    /// A segment leaves that acknowledges all that has come up to `next`, `with_data` or without. There may be `more` to
    /// say that takes another one. A program that answers what it gets has its acknowledgements carried by the answers:
    /// it needs no quick ones.
    #[inline]
    pub fn left(&mut self, next: SeqNumber, with_data: bool, more: bool) {
        if self.owed == Owed::Later && with_data {
            self.quick = 0;
        } else if self.owed == Owed::Now {
            self.quick = self.quick.saturating_sub(1);
        }
        self.owed = match more || self.duplicates_owed > 0 {
            true => Owed::Now,
            false => Owed::Nothing,
        };
        self.at = Instant::NEVER;
        self.last_sent = next;
    }

    /// A segment leaves that acknowledges what has come up to `part`.
    pub fn left_in_part(&mut self, part: SeqNumber) {
        self.last_sent = part;
    }

    /// An acknowledgement leaves for one of the segments that came out of order.
    pub fn duplicate_left(&mut self) {
        self.duplicates_owed = self.duplicates_owed.saturating_sub(1);
    }

    // What is known.

    #[inline]
    pub fn owed(&self) -> Owed {
        self.owed
    }

    #[inline]
    pub fn owes_now(&self) -> bool {
        self.owed == Owed::Now
    }

    /// When an acknowledgement is due at the latest.
    #[inline]
    pub fn at(&self) -> Instant {
        self.at
    }

    /// What the last segment that left acknowledged.
    #[inline]
    pub fn last_sent(&self) -> SeqNumber {
        self.last_sent
    }

    /// To or from another stack. What is owed is paid at once there ([`Self::resume`]).
    pub fn travel(&mut self, wire: &mut Wire<'_>) -> Result<(), HandoverError> {
        travel!(wire, self => Acknowledgements {
            quick: u8,
        } by_hand {} stay {
            owed, at, duplicates_owed, last_sent,
            // The old stack's own.
            challenges,
        });
        Ok(())
    }
}
