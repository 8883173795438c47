//! What has been answered, by status and by fault.

use crate::message::{Fault, Status};

/// What has been answered so far.
#[derive(Clone, Debug)]
pub struct Counters {
    pub(super) responses: [u64; Status::ALL.len()],
    pub(super) faults: [u64; Fault::ALL.len()],
    /// Responses of applications with a status that no response of ours has.
    pub(super) others: u64,
    /// Bytes of responses that clients have acknowledged, heads included.
    pub response_bytes: u64,
    /// Requests answered at once with a document that was in memory.
    pub cache_hits: u64,
    /// Requests that waited for their document to be read.
    pub cache_misses: u64,
    /// Requests refused because of their client's network.
    pub access_denied: u64,
    /// Requests refused because there were too many of their client.
    pub rate_limited: u64,
    /// Requests refused because of a wrong password.
    pub logins_refused: u64,
}

impl Counters {
    pub(super) const fn new() -> Counters {
        Counters {
            responses: [0; _],
            faults: [0; _],
            others: 0,
            response_bytes: 0,
            cache_hits: 0,
            cache_misses: 0,
            access_denied: 0,
            rate_limited: 0,
            logins_refused: 0,
        }
    }

    /// Responses with a status.
    pub fn responses(&self, status: Status) -> u64 {
        self.responses[status as usize]
    }

    /// Requests refused for a fault.
    pub fn faults(&self, fault: Fault) -> u64 {
        self.faults[fault as usize]
    }

    /// Responses of any status.
    pub fn response_count(&self) -> u64 {
        self.responses.iter().sum::<u64>() + self.others
    }

    /// An application has answered with this status.
    pub(super) fn count_code(&mut self, code: u16) {
        let status = Status::ALL.into_iter().find(|status| status.code() == code);
        let counter = status.map(|status| &mut self.responses[status as usize]);
        *counter.unwrap_or(&mut self.others) += 1;
    }

    /// All counters with their names.
    pub fn list(&self) -> Vec<(&'static str, u64)> {
        let responses = Status::ALL.map(|status| (status.counter(), self.responses(status)));
        let faults = Fault::ALL.map(|fault| (fault.counter(), self.faults(fault)));
        let others = [
            ("http_responses_other", self.others),
            ("http_response_bytes", self.response_bytes),
            ("http_cache_hits", self.cache_hits),
            ("http_cache_misses", self.cache_misses),
            ("http_access_denied", self.access_denied),
            ("http_rate_limited", self.rate_limited),
            ("http_logins_refused", self.logins_refused),
        ];
        responses.into_iter().chain(faults).chain(others).collect()
    }
}
