//! A record of the scoreboard: one segment in flight, and what acknowledgements make of it.

use exos_wire::SeqNumber;

use crate::time::Instant;

/// The peer has it, beyond a gap.
pub(super) const SACKED: u8 = 1;
/// Believed lost, and not yet sent again.
pub(super) const LOST: u8 = 2;
/// Sent more than once.
pub(super) const RETRANSMITTED: u8 = 4;
/// The program had no more to send when it left.
const APP_LIMITED: u8 = 8;
/// Sent once, and perhaps thrown away by a peer with a closed window: what acknowledges it measures nothing.
pub(super) const AMBIGUOUS: u8 = 16;

/// What is noted of the moment in which a segment leaves, for the delivery rate
/// (draft-cheng-iccrg-delivery-rate-estimation §3.2).
#[derive(Copy, Clone, Debug)]
pub struct Departure {
    /// When.
    pub at: Instant,
    /// Bytes delivered until then, modulo 2^32.
    pub delivered: u32,
    /// Microseconds since the last delivery.
    pub since_delivery_us: u32,
    /// Microseconds since the beginning of the flight that the last delivery ended.
    pub since_first_us: u32,
    /// The program had no more to send.
    pub app_limited: bool,
}

/// A segment in flight. 32 bytes.
#[derive(Copy, Clone, Debug)]
pub struct Sent {
    /// When it last left.
    pub at: Instant,
    /// The sequence number behind it.
    pub end: SeqNumber,
    /// See [`Departure`].
    pub delivered: u32,
    /// See [`Departure`].
    pub since_delivery_us: u32,
    /// See [`Departure`].
    pub since_first_us: u32,
    pub(super) flags: u8,
}

impl Sent {
    pub(super) fn new(end: SeqNumber, d: Departure) -> Self {
        Self {
            at: d.at,
            end,
            delivered: d.delivered,
            since_delivery_us: d.since_delivery_us,
            since_first_us: d.since_first_us,
            flags: if d.app_limited { APP_LIMITED } else { 0 },
        }
    }

    #[inline]
    pub(super) fn is(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// True when an acknowledgement does not tell which sending it answers (Karn): it was sent more than
    /// once, as a rule.
    pub fn was_retransmitted(&self) -> bool {
        self.is(RETRANSMITTED | AMBIGUOUS)
    }

    /// True when it was sent once, and nothing is known of it.
    #[inline]
    pub(super) fn is_plain(&self) -> bool {
        self.flags & !APP_LIMITED == 0
    }

    /// True when the program had no more to send when it left.
    #[inline]
    pub fn was_app_limited(&self) -> bool {
        self.is(APP_LIMITED)
    }

    /// True when this one left after `other` (RFC 8985 §6.2: ties go by sequence number).
    #[inline]
    pub fn left_after(&self, other: &Self) -> bool {
        self.at > other.at || (self.at == other.at && self.end.gt(other.end))
    }
}

/// What one acknowledgement delivered.
#[derive(Copy, Clone, Debug)]
pub struct Delivered {
    /// The end of the highest segment that had been delivered before it.
    pub(super) highest: SeqNumber,
    /// Bytes.
    pub bytes: u32,
    /// Of what was sent once: the one that left last, and when the first had left.
    pub newest_once: Option<Sent>,
    /// When the first of those sent once had left.
    pub oldest_once_at: Option<Instant>,
    /// Of what was sent again: the one that left last.
    pub newest_again: Option<Sent>,
    /// Something sent once arrived after what was sent later.
    pub reordered: bool,
}

impl Delivered {
    /// What left last of it.
    pub fn newest(&self) -> Option<&Sent> {
        match (&self.newest_once, &self.newest_again) {
            (Some(a), Some(b)) => Some(if a.left_after(b) { a } else { b }),
            (a, b) => a.as_ref().or(b.as_ref()),
        }
    }

    #[inline]
    pub(super) fn add(&mut self, record: &Sent, len: u32) {
        self.bytes += len;
        let newest = if record.was_retransmitted() {
            &mut self.newest_again
        } else {
            self.reordered |= record.end.lt(self.highest);
            self.oldest_once_at = Some(match self.oldest_once_at {
                Some(at) => at.min(record.at),
                None => record.at,
            });
            &mut self.newest_once
        };
        if newest.as_ref().is_none_or(|n| record.left_after(n)) {
            *newest = Some(*record);
        }
    }
}

/// `start` to `end` left again at this time.
#[derive(Copy, Clone, Debug)]
pub(super) struct Again {
    pub start: SeqNumber,
    pub end: SeqNumber,
    pub at: Instant,
}
