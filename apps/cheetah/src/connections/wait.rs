//! What a connection waits for, for how long, and how many waited in vain.

use std::time::Duration;

use crate::caching::is_answer;
use crate::http::Missing;
use crate::limits::{
    ANSWER_WAIT_TIME, APPLICATION_TIME, BODY_TIME, FETCH_TIME, HANDSHAKE_TIME, IDLE_TIME,
    LINGER_TIME, READ_TIME, REQUEST_TIME, SEND_TIME, UPSTREAM_TUNNEL_TIME,
};

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
    /// The client to send the body of a request to an application.
    Body,
    /// An application to answer; the time is the application's own.
    Application,
    /// The client to come to a session of TLS.
    Handshake,
    /// An upstream to answer, or its connection to stand; the time is the rule's.
    Upstream,
    /// Anybody to say something behind a change of protocol; the time is the rule's.
    Tunnel,
    /// The answer to another request, which may be kept. Then it goes to the upstream itself.
    Answer,
}

/// For each wait its longest time, and the counter of those that have reached it.
const ABOUT: [(Duration, &str); 12] = [
    (REQUEST_TIME, "http_request_timeouts"),
    (IDLE_TIME, "http_idle_timeouts"),
    (FETCH_TIME, "http_fetch_timeouts"),
    (READ_TIME, "http_read_timeouts"),
    (SEND_TIME, "http_send_timeouts"),
    (LINGER_TIME, "http_linger_timeouts"),
    (BODY_TIME, "http_body_timeouts"),
    (APPLICATION_TIME, "fastcgi_timeouts"),
    (HANDSHAKE_TIME, "tls_handshake_timeouts"),
    (APPLICATION_TIME, "proxy_timeouts"),
    (UPSTREAM_TUNNEL_TIME, "proxy_tunnel_timeouts"),
    (ANSWER_WAIT_TIME, "proxy_cache_wait_timeouts"),
];

impl Wait {
    /// For something that another one fetches.
    pub(super) fn is_for_content(self) -> bool {
        matches!(self, Wait::Fetching | Wait::Answer)
    }

    /// For what is missing.
    pub(super) fn for_missing(missing: &Missing) -> Wait {
        match is_answer(&missing.document.1) {
            true => Wait::Answer,
            false => Wait::Fetching,
        }
    }

    pub(super) const fn time(self) -> Duration {
        ABOUT[self as usize].0
    }
}

/// How many waits of each kind have ended in vain.
#[derive(Debug, Default)]
pub(super) struct Ends([u64; ABOUT.len()]);

impl Ends {
    /// A wait has ended; `is_idle` when no part of a request was there.
    pub(super) fn count(&mut self, wait: Wait, is_idle: bool) {
        let counted = match wait {
            Wait::Request if is_idle => Wait::Idle,
            wait => wait,
        };
        self.0[counted as usize] += 1;
    }

    /// All of them, by name.
    pub(super) fn list(&self) -> impl Iterator<Item = (&'static str, u64)> {
        ABOUT.iter().map(|(_, name)| *name).zip(self.0)
    }
}
