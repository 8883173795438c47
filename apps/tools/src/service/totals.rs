//! What a service has done so far, for its statistics.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use exos_inet::Instant;
use exos_inet::tcp::Reason;

use crate::limits::LISTED_MAX;

/// Bytes that moved on a connection in one step.
#[derive(Copy, Clone, Debug, Default)]
pub(super) struct Moved {
    pub received: u64,
    pub sent: u64,
}

/// One connection.
#[derive(Copy, Clone, Debug)]
pub struct Summary {
    /// Our end.
    pub local: SocketAddr,
    /// The other end.
    pub peer: SocketAddr,
    /// From its beginning until something last moved.
    pub time: Duration,
    /// Bytes that the peer has acknowledged.
    pub bytes_sent: u64,
    /// Bytes that arrived in order and were taken.
    pub bytes_received: u64,
    /// We finished it: it reached a limit, or its peer had finished.
    pub ended_by_us: bool,
}

impl Summary {
    /// Bits of data a second, of this many bytes.
    pub fn bits_per_sec(&self, bytes: u64) -> f64 {
        bits_per_sec(bytes, self.time)
    }
}

/// A connection that is over.
#[derive(Copy, Clone, Debug)]
pub struct Ended {
    /// What it was.
    pub summary: Summary,
    /// Why it ended.
    pub reason: Reason,
    /// It ended as it should: everything delivered, or stopped by us at its limit.
    pub well: bool,
}

/// All connections and datagrams together.
#[derive(Clone, Debug)]
pub struct Totals {
    began: Instant,
    /// When the first connection stood, and when something last moved on any.
    span: Option<(Instant, Instant)>,
    /// Connections that ended as they should.
    pub completed: u64,
    /// Connections that did not, those that never stood included.
    pub failed: u64,
    /// Connections refused because there were too many.
    pub refused: u64,
    /// Connections reset because nothing moved.
    pub idle_timeouts: u64,
    /// Bytes that peers have acknowledged.
    pub bytes_sent: u64,
    /// Bytes that arrived in order and were taken.
    pub bytes_received: u64,
    /// Datagrams that arrived.
    pub datagrams_received: u64,
    /// Datagrams that were answered.
    pub datagrams_answered: u64,
    /// Datagrams that were not, by rule or because they do not fit a packet of the way back.
    pub datagrams_unanswered: u64,
    /// Why the last of the failed ones failed.
    pub failure: Option<Reason>,
    /// The latest connections that are over, oldest first.
    pub ended: VecDeque<Ended>,
}

impl Totals {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            began: now,
            span: None,
            completed: 0,
            failed: 0,
            refused: 0,
            idle_timeouts: 0,
            bytes_sent: 0,
            bytes_received: 0,
            datagrams_received: 0,
            datagrams_answered: 0,
            datagrams_unanswered: 0,
            failure: None,
            ended: VecDeque::new(),
        }
    }

    pub(super) fn opened(&mut self, now: Instant) {
        self.span.get_or_insert((now, now));
    }

    pub(super) fn moved(&mut self, now: Instant, moved: Moved) {
        self.bytes_received += moved.received;
        self.bytes_sent += moved.sent;
        if let Some((_, last)) = &mut self.span
            && moved.received + moved.sent > 0
        {
            *last = now;
        }
    }

    pub(super) fn never_stood(&mut self, reason: Reason) {
        self.failed += 1;
        self.failure = Some(reason);
    }

    pub(super) fn ended(&mut self, summary: &Summary, reason: Reason) {
        let stopped = reason == Reason::Aborted && summary.ended_by_us;
        let well = reason == Reason::Done || stopped;
        self.completed += u64::from(well);
        if !well {
            self.never_stood(reason);
        }
        if self.ended.len() == LISTED_MAX {
            self.ended.pop_front();
        }
        self.ended.push_back(Ended {
            summary: *summary,
            reason,
            well,
        });
    }

    /// Since the program began.
    pub fn age(&self, now: Instant) -> Duration {
        now - self.began
    }

    /// From the first connection's beginning until something last moved.
    pub fn active(&self) -> Duration {
        self.span
            .map_or(Duration::ZERO, |(first, last)| last - first)
    }

    /// Bits of data a second while active, of this many bytes.
    pub fn bits_per_sec(&self, bytes: u64) -> f64 {
        bits_per_sec(bytes, self.active())
    }

    /// What happened beside the connections, by name.
    pub fn counters(&self) -> [(&'static str, u64); 5] {
        [
            ("service_refused", self.refused),
            ("service_idle_timeouts", self.idle_timeouts),
            ("service_datagrams_received", self.datagrams_received),
            ("service_datagrams_answered", self.datagrams_answered),
            ("service_datagrams_unanswered", self.datagrams_unanswered),
        ]
    }
}

/// Zero where no time has passed: there is no rate yet.
fn bits_per_sec(bytes: u64, time: Duration) -> f64 {
    if time.is_zero() {
        0.0
    } else {
        bytes as f64 * 8.0 / time.as_secs_f64()
    }
}
