//! What was seen: how long each part of a request took, what went wrong, and how it went second by second.
//!
//! Only requests whose intended start lies in the measured time count, and all of these do, when they end later too:
//! the last ones of a stall would be missing otherwise. Times are microseconds, from:
//!
//! | | from | to |
//! |---|---|---|
//! | connect | the connection was begun | it stood |
//! | handshake | it stood | TLS was agreed upon |
//! | first | the request was begun: its connection, where it needed a new one | the first byte of its response |
//! | service | the same | the last byte |
//! | total | the request was *meant* to begin | the last byte |
//!
//! A server that stands still for a second delays all requests that should have begun then. Their service times do
//! not tell, because they are not begun; total does ("coordinated omission"). In a closed loop nobody means a request to
//! begin before the one before it has ended, and both are the same.

mod answered;
mod errors;
mod handshakes;
mod histogram;
mod multiplexing;
mod seconds;

use exos_inet::Instant;
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::multiplexed::Code;

pub use answered::Answered;
pub use errors::{ErrorKind, Errors};
pub use handshakes::{EARLY_LEFT, Handshake, Handshakes, Tls};
pub use histogram::histogram;
pub(crate) use histogram::pairs;
pub use multiplexing::Multiplexing;
pub use seconds::{Second, Seconds};

/// Everything about the measured time.
#[derive(Clone, Debug)]
pub struct Statistics {
    /// When measuring began.
    pub from: Instant,
    /// When it ended; the far future as long as it goes on.
    pub until: Instant,
    /// To the end of the handshake.
    pub connect: Histogram<u64>,
    /// Those of TLS.
    pub handshakes: Handshakes,
    /// HTTP/2, where that is spoken.
    pub http2: Option<Multiplexing>,
    /// HTTP/3, where that is.
    pub http3: Option<Multiplexing>,
    /// To the first byte.
    pub first: Histogram<u64>,
    /// To the last byte, from when the request was begun.
    pub service: Histogram<u64>,
    /// To the last byte, from when the request was meant to begin.
    pub total: Histogram<u64>,
    /// How late requests of an open loop were begun by us, though a connection was free.
    pub slip: Histogram<u64>,
    /// Responses by status code, 100 to 599 and the rest at 0.
    statuses: Vec<u64>,
    /// What went wrong.
    pub errors: Errors,
    /// Responses.
    pub responses: u64,
    /// Bytes of them, heads and framing included.
    pub bytes: u64,
    /// Bytes of content.
    pub content: u64,
    /// Connections that stood.
    pub connections: u64,
    /// The longest time in which the server was silent.
    pub silence: Silence,
    /// Second by second, the warm-up too.
    pub seconds: Seconds,
}

/// A time in which nothing came of a response, though requests were under way or waited for a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Silence {
    /// How long.
    pub secs: f64,
    /// How many requests were there at its end.
    pub requests: u64,
}

impl Silence {
    /// The longer one.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        if other.secs > self.secs { other } else { self }
    }
}

fn record(histogram: &mut Histogram<u64>, from: Instant, to: Instant) {
    let micros = to.micros().saturating_sub(from.micros());
    histogram.saturating_record(micros);
}

impl Statistics {
    /// Of a load that begins now and is measured from a moment on.
    pub fn new(start: Instant, from: Instant) -> Self {
        Self {
            from,
            until: Instant::from_micros(u64::MAX),
            connect: histogram(),
            handshakes: Handshakes::default(),
            http2: None,
            http3: None,
            first: histogram(),
            service: histogram(),
            total: histogram(),
            slip: histogram(),
            statuses: vec![0; 600],
            errors: Errors::default(),
            responses: 0,
            bytes: 0,
            content: 0,
            connections: 0,
            silence: Silence::default(),
            seconds: Seconds::new(start),
        }
    }

    /// Whether what was meant to begin then counts.
    pub fn counts(&self, intended: Instant) -> bool {
        intended >= self.from && intended < self.until
    }

    /// A connection stands.
    pub fn connected(&mut self, begun: Instant, now: Instant) {
        if self.counts(begun) {
            self.connections += 1;
            record(&mut self.connect, begun, now);
        }
    }

    /// TLS was agreed upon, on a connection that was begun then.
    pub fn secured(&mut self, begun: Instant, handshake: &Handshake) {
        if self.counts(begun) {
            self.handshakes.done(handshake);
        }
    }

    /// TLS was not agreed upon, for this reason, on a connection that was begun then.
    pub fn not_secured(&mut self, begun: Instant, reason: &'static str) {
        if self.counts(begun) {
            self.handshakes.failed(reason);
        }
    }

    /// What is counted of the version of HTTP that is spoken, where that has many requests on a connection.
    fn multiplexing(&mut self) -> Option<&mut Multiplexing> {
        self.http2.as_mut().or(self.http3.as_mut())
    }

    /// The stream was reset of a request that was meant to begin then.
    pub fn stream_reset(&mut self, intended: Instant, code: Code) {
        let counts = self.counts(intended);
        if let Some(it) = self.multiplexing().filter(|_| counts) {
            it.reset(code);
        }
    }

    /// A server takes no more requests on a connection.
    pub fn went_away(&mut self, now: Instant, code: Code) {
        let counts = self.counts(now);
        if let Some(it) = self.multiplexing().filter(|_| counts) {
            it.went_away(code);
        }
    }

    /// A request that was meant to begin then is asked on another connection.
    pub fn asked_again(&mut self, intended: Instant) {
        let count = u64::from(self.counts(intended));
        if let Some(it) = self.multiplexing() {
            it.asked_again += count;
        }
    }

    /// A server allows this many streams on a connection.
    pub fn streams_allowed(&mut self, streams: u32) {
        if let Some(it) = self.multiplexing() {
            it.allowed(streams);
        }
    }

    /// A server breaks the protocol.
    pub fn server_fault(&mut self, now: Instant, fault: &'static str) {
        let counts = self.counts(now);
        if let Some(it) = self.multiplexing().filter(|_| counts) {
            it.fault(fault);
        }
    }

    /// A request of an open loop was begun.
    pub fn slipped(&mut self, intended: Instant, begun: Instant) {
        if self.counts(intended) {
            record(&mut self.slip, intended, begun);
        }
    }

    /// Nothing has come of a response since then, though this many requests were there.
    pub fn silent(&mut self, since: Instant, now: Instant, requests: u64) {
        if self.counts(now) {
            let secs = (now - since).as_secs_f64();
            self.silence = self.silence.or(Silence { secs, requests });
        }
    }

    /// A response came.
    pub fn answered(&mut self, answered: &Answered) {
        self.seconds.answered(answered);
        if !self.counts(answered.intended) {
            return;
        }
        self.responses += 1;
        self.bytes += answered.bytes;
        self.content += answered.content;
        let known = (100..600).contains(&answered.status);
        self.statuses[if known {
            usize::from(answered.status)
        } else {
            0
        }] += 1;
        record(&mut self.first, answered.begun, answered.first);
        record(&mut self.service, answered.begun, answered.last);
        record(&mut self.total, answered.intended, answered.last);
    }

    /// A request failed.
    pub fn failed(&mut self, kind: ErrorKind, intended: Instant, now: Instant) {
        self.seconds.failed(now);
        if self.counts(intended) {
            self.errors.count(kind);
        }
    }

    /// Responses by status code; 0 for codes that are none.
    pub fn statuses(&self) -> impl Iterator<Item = (u16, u64)> {
        let all = self.statuses.iter().enumerate();
        all.filter(|&(_, &count)| count > 0)
            .map(|(status, &count)| (status as u16, count))
    }
}

#[cfg(test)]
mod tests;
