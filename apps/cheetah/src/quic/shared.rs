//! What all connections share: the time, their requests, what the server is to hear of these, and what is counted.

use exos_inet::Instant;

use super::clock::Clock;
use super::counters::Counters;
use super::news::News;
use super::requests::Requests;

/// What all connections share.
pub(super) struct Shared {
    pub(super) clock: Clock,
    pub(super) requests: Requests,
    pub(super) news: News,
    pub(super) counters: Counters,
}

impl Shared {
    pub(super) fn new(now: Instant) -> Shared {
        Shared {
            clock: Clock::new(now),
            requests: Requests::default(),
            news: News::default(),
            counters: Counters::default(),
        }
    }
}
