//! What all connections share: the time, their requests, what the server is to hear of these, and what is counted.

use exos_inet::Instant;

use super::counters::Counters;
use super::news::News;
use super::requests::Requests;

/// What all connections share.
pub(super) struct Shared {
    /// The time of this turn, by our clock and by QUIC's.
    pub(super) now: Instant,
    pub(super) time: std::time::Instant,
    pub(super) requests: Requests,
    pub(super) news: News,
    pub(super) counters: Counters,
}

impl Shared {
    pub(super) fn new(now: Instant, time: std::time::Instant) -> Shared {
        Shared {
            now,
            time,
            requests: Requests::default(),
            news: News::default(),
            counters: Counters::default(),
        }
    }
}
