//! What all connections share: the time, their requests, heads of responses, what the server is to hear of requests, and what is counted.

use exos_http3::heads::Heads;
use exos_inet::Instant;

use super::counters::Counters;
use super::news::News;
use super::requests::Requests;
use super::sections::Sections;

/// What all connections share.
pub(super) struct Shared {
    /// The time of this turn, by our clock and by QUIC's.
    pub(super) now: Instant,
    pub(super) time: std::time::Instant,
    pub(super) requests: Requests,
    /// Where the heads of requests are decoded, and those of some are kept.
    pub(super) heads: Heads,
    pub(super) sections: Sections,
    pub(super) news: News,
    pub(super) counters: Counters,
}

impl Shared {
    pub(super) fn new(now: Instant, time: std::time::Instant) -> Shared {
        Shared {
            now,
            time,
            requests: Requests::default(),
            heads: Heads::default(),
            sections: Sections::default(),
            news: News::default(),
            counters: Counters::default(),
        }
    }
}
