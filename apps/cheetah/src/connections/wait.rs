//! What a connection waits for, for how long, and how many waited in vain.

use std::time::Duration;

use crate::limits::{FETCH_TIME, IDLE_TIME, LINGER_TIME, READ_TIME, REQUEST_TIME, SEND_TIME};

/// What a connection waits for.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(super) enum Wait {
    /// The rest of a request, or the first one.
    Request,
    /// Another request, or the end.
    Idle,
    /// A document to be read that a request asks for.
    Fetching,
    /// What is to be sent next to be read.
    Reading,
    /// The client to take what is sent.
    Sending,
    /// The client to finish too.
    Lingering,
}

impl Wait {
    pub(super) const fn time(self) -> Duration {
        match self {
            Self::Request => REQUEST_TIME,
            Self::Idle => IDLE_TIME,
            Self::Fetching => FETCH_TIME,
            Self::Reading => READ_TIME,
            Self::Sending => SEND_TIME,
            Self::Lingering => LINGER_TIME,
        }
    }
}

/// Ends of waits.
#[derive(Debug, Default)]
pub(super) struct Ends {
    request: u64,
    idle: u64,
    fetch: u64,
    read: u64,
    send: u64,
    linger: u64,
}

impl Ends {
    /// A wait has ended; `is_idle` when no part of a request was there.
    pub(super) fn count(&mut self, wait: Wait, is_idle: bool) {
        *match wait {
            Wait::Request if !is_idle => &mut self.request,
            Wait::Request | Wait::Idle => &mut self.idle,
            Wait::Fetching => &mut self.fetch,
            Wait::Reading => &mut self.read,
            Wait::Sending => &mut self.send,
            Wait::Lingering => &mut self.linger,
        } += 1;
    }

    /// All of them, by name.
    pub(super) fn list(&self) -> [(&'static str, u64); 6] {
        [
            ("http_request_timeouts", self.request),
            ("http_idle_timeouts", self.idle),
            ("http_fetch_timeouts", self.fetch),
            ("http_read_timeouts", self.read),
            ("http_send_timeouts", self.send),
            ("http_linger_timeouts", self.linger),
        ]
    }
}
