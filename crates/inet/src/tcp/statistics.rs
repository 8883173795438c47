//! Counters of one connection, for a program that asks for them (`Options::statistics`): what Linux counts for
//! every one in `tcp_info`, and more precisely said in RFC 4898's tables.
//!
//! They are off by default, because a million idle connections would pay for every byte; they lie with what
//! few connections need (`life::Rare`), so that the others have neither memory nor work for them but the
//! look at a pointer. They are kept when a connection rests.
//!
//! Four places count: a segment arrives (`count_arrival`), one leaves or nothing can (`count_departure`), an
//! acknowledgement has been worked in (`count_acknowledgement`), new data was acknowledged (`note_activity`).
//! What leaves beside a connection's own segments (keepalive's questions, resets) is not in it.

use exos_wire::SeqNumber;

use super::connection::Connection;
use super::handover::{HandoverError, Wire, travel};
use super::input::Segment;
use super::output::Outgoing;
use crate::time::{Duration, Instant};

/// What has happened on one connection since our first SYN or SYN-ACK. Segments are those on the wire: a super-packet
/// that the link cuts up counts for all of its segments.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Statistics {
    /// Segments that arrived (`tcpi_segs_in`).
    pub segments_in: u64,
    /// Of these, with data (`tcpi_data_segs_in`).
    pub data_segments_in: u64,
    /// Segments that left (`tcpi_segs_out`).
    pub segments_out: u64,
    /// Of these, with data (`tcpi_data_segs_out`).
    pub data_segments_out: u64,
    /// Of these, sent before, in whole or in part (`tcpi_total_retrans`).
    pub segments_retransmitted: u64,
    /// Bytes of data that left, also again (`tcpi_bytes_sent`).
    pub bytes_sent: u64,
    /// Of these, again (`tcpi_bytes_retrans`).
    pub bytes_retransmitted: u64,
    /// Acknowledged by the peer since the SYN (`tcpi_bytes_acked`); our FIN counts as a byte. Other than
    /// `Info::bytes_acked` it does not wrap.
    pub bytes_acked: u64,
    /// Received in order (`tcpi_bytes_received`); likewise.
    pub bytes_received: u64,
    /// Bytes that are known to have arrived, cumulatively or selectively (`tcpi_delivered`, which counts
    /// segments).
    pub bytes_delivered: u64,
    /// Of these, told of by acknowledgements with ECN's echo (`tcpi_delivered_ce`).
    pub bytes_delivered_marked: u64,
    /// Acknowledgements that showed data to have arrived after what was sent later (`tcpi_reord_seen`).
    pub reorderings: u32,
    /// The peer had it already, it said (RFC 2883; `tcpi_dsack_dups`).
    pub duplicates_reported: u32,
    /// Time with data queued or in flight, until the last segment (`tcpi_busy_time`).
    pub busy: Duration,
    /// Of this, time in which the peer's window let no more data out (`tcpi_rwnd_limited`).
    pub window_limited: Duration,
}

impl Statistics {
    fn travel(&mut self, wire: &mut Wire<'_>) -> Result<(), HandoverError> {
        travel!(wire, self => Statistics {
            segments_in: u64,
            data_segments_in: u64,
            segments_out: u64,
            data_segments_out: u64,
            segments_retransmitted: u64,
            bytes_sent: u64,
            bytes_retransmitted: u64,
            bytes_acked: u64,
            bytes_received: u64,
            bytes_delivered: u64,
            bytes_delivered_marked: u64,
            reorderings: u32,
            duplicates_reported: u32,
            busy: duration,
            window_limited: duration,
        } by_hand {} stay {});
        // Far from where they wrap: nobody has counted so much.
        let large = [
            segments_in,
            data_segments_in,
            segments_out,
            data_segments_out,
            segments_retransmitted,
            bytes_sent,
            bytes_retransmitted,
            bytes_acked,
            bytes_received,
            bytes_delivered,
            bytes_delivered_marked,
        ];
        let small = [reorderings, duplicates_reported];
        if large.iter().any(|n| **n >= 1 << 62) || small.iter().any(|n| **n >= 1 << 31) {
            return Err(HandoverError::Impossible("statistics"));
        }
        Ok(())
    }
}

/// What the connection has been about since a moment.
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq)]
enum Activity {
    #[default]
    Idle,
    Busy,
    WindowLimited,
}

/// The counters, and up to where they have counted.
#[derive(Clone, Debug)]
pub(super) struct Counting {
    so_far: Statistics,
    una: SeqNumber,
    next: SeqNumber,
    activity: Activity,
    since: Instant,
}

impl Counting {
    pub fn new() -> Self {
        Self {
            so_far: Statistics::default(),
            una: SeqNumber(0),
            next: SeqNumber(0),
            activity: Activity::Idle,
            since: Instant::START,
        }
    }

    /// Another stack's clock shows `now`.
    pub fn taken_over(&mut self, now: Instant) {
        self.since = now;
    }

    /// All of it, to or from another stack.
    pub fn travel(&mut self, wire: &mut Wire<'_>) -> Result<(), HandoverError> {
        travel!(wire, self => Counting {
            una: seq,
            next: seq,
        } by_hand {
            so_far,
            activity,
        } stay {
            since,
        });
        let mut number = *activity as u8;
        wire.u8(&mut number)?;
        *activity = match number {
            0 => Activity::Idle,
            1 => Activity::Busy,
            2 => Activity::WindowLimited,
            _ => return Err(HandoverError::Impossible("activity")),
        };
        so_far.travel(wire)
    }

    /// Time passes in what the connection was about, and it is about `activity` from now on.
    fn turn(&mut self, activity: Activity, now: Instant) {
        let passed = now - self.since.min(now);
        match self.activity {
            Activity::Idle => {}
            Activity::Busy => self.so_far.busy += passed,
            Activity::WindowLimited => {
                self.so_far.busy += passed;
                self.so_far.window_limited += passed;
            }
        }
        (self.activity, self.since) = (activity, now);
    }
}

impl Connection {
    fn counting(&mut self) -> Option<&mut Counting> {
        self.rare.as_deref_mut()?.counting.as_deref_mut()
    }

    /// True when there are counters to be kept.
    #[inline]
    pub(super) fn counts(&self) -> bool {
        self.rare.as_deref().is_some_and(|r| r.counting.is_some())
    }

    /// The counters, if the program asked for them.
    pub fn statistics(&self) -> Option<Statistics> {
        let counting = self.rare.as_deref()?.counting.as_deref()?;
        let mut all = counting.so_far.clone();
        if self.state.is_synchronized() {
            let (una, next) = (self.counted_una(counting), self.counted_next(counting));
            all.bytes_acked += u64::from(self.snd_una.0.wrapping_sub(una.0));
            all.bytes_received += u64::from(self.rcv_nxt.0.wrapping_sub(next.0));
        }
        Some(all)
    }

    /// Up to where acknowledged bytes have been counted: at first from behind the SYN.
    fn counted_una(&self, counting: &Counting) -> SeqNumber {
        match counting.so_far.bytes_acked {
            0 => self.iss + 1,
            _ => counting.una,
        }
    }

    fn counted_next(&self, counting: &Counting) -> SeqNumber {
        match counting.so_far.bytes_received {
            0 => self.irs + 1,
            _ => counting.next,
        }
    }

    /// A segment has arrived, and is to be looked at.
    #[cold]
    pub(super) fn count_arrival(&mut self, seg: &Segment<'_>) {
        let Some(up_to_here) = self.statistics() else {
            return;
        };
        let (una, next) = (self.snd_una, self.rcv_nxt);
        let Some(counting) = self.counting() else {
            return;
        };
        // Sequence numbers wrap; those of one segment do not.
        (counting.una, counting.next) = (una, next);
        counting.so_far = up_to_here;
        counting.so_far.segments_in += 1;
        counting.so_far.data_segments_in += u64::from(!seg.payload.is_empty());
    }

    /// A segment leaves, or none can.
    #[cold]
    pub(super) fn count_departure(&mut self, outgoing: Option<&Outgoing>, now: Instant) {
        if let Some(out) = outgoing
            && let Some(counting) = self.counting()
        {
            let so_far = &mut counting.so_far;
            let bytes = out.data.len() as u64;
            let segments = bytes.div_ceil(u64::from(out.mss.max(1))).max(1);
            so_far.segments_out += segments;
            so_far.bytes_sent += bytes;
            if bytes > 0 {
                so_far.data_segments_out += segments;
            }
            if out.again {
                so_far.segments_retransmitted += segments;
                so_far.bytes_retransmitted += bytes;
            }
        }
        self.note_activity(now);
    }

    /// An acknowledgement has been worked in.
    #[cold]
    pub(super) fn count_acknowledgement(&mut self, told: Told) {
        if let Some(counting) = self.counting() {
            let so_far = &mut counting.so_far;
            so_far.bytes_delivered += u64::from(told.delivered);
            if told.marked {
                so_far.bytes_delivered_marked += u64::from(told.delivered);
            }
            so_far.reorderings += u32::from(told.reordered);
            so_far.duplicates_reported += u32::from(told.duplicate);
        }
    }

    /// What the connection is about may have changed.
    pub(super) fn note_activity(&mut self, now: Instant) {
        let activity = self.activity();
        if let Some(counting) = self.counting() {
            counting.turn(activity, now);
        }
    }

    fn activity(&self) -> Activity {
        if !self.state.is_synchronized() {
            return Activity::Idle;
        }
        let unsent = self.unsent() as u64;
        let room = self.snd_wnd.saturating_sub(self.flight());
        if self.flight() == 0 && unsent == 0 {
            Activity::Idle
        } else if u64::from(room) < unsent.min(u64::from(self.mss)) {
            Activity::WindowLimited
        } else {
            Activity::Busy
        }
    }
}

/// What an acknowledgement told.
#[derive(Copy, Clone, Debug)]
pub(super) struct Told {
    /// Bytes that are newly known to have arrived.
    pub delivered: u32,
    /// It echoed a mark (ECE).
    pub marked: bool,
    /// It showed reordering.
    pub reordered: bool,
    /// It reported a duplicate.
    pub duplicate: bool,
}
