//! What a client saw of one load, whichever it was.

use super::exos_load::{Handshakes, LoadReport};
use super::h2load::H2load;
use super::wrk::Measured;
use crate::stage::calls::Calls;
use crate::stage::packets::Visited;
use crate::stage::request::Errors;

/// What a client saw of one load.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    /// Answers in this many seconds.
    pub requests: u64,
    pub seconds: f64,
    /// Heads of answers included.
    pub bytes: u64,
    /// The time of requests: the median and the 99th percentile.
    pub latency_us: [f64; 2],
    /// Their mean, where it is known.
    pub mean_us: Option<f64>,
    pub errors: Errors,
    /// Of our client: requests that were due and not answered, and segments that the link had no room for.
    pub unanswered: u64,
    pub no_room: u64,
    /// Of our client: segments that it sent again.
    pub resent: Option<u64>,
    /// Of our client, which looks for packets all the time: the part of the time in which it had something to do.
    pub busy: Option<f64>,
    /// Of our client: its calls that handed frames over.
    pub calls: Option<Calls>,
    /// Of `exos load`: those that it made.
    pub handshakes: Handshakes,
    /// Versions with suites and groups of the key exchange that it agreed upon with the server, each once; none where no handshake was counted.
    pub agreed: Vec<String>,
}

impl Seen {
    /// Answers a second.
    pub fn per_sec(&self) -> f64 {
        self.requests as f64 / self.seconds
    }

    /// Megabytes (1,000,000 bytes) a second.
    pub fn megabytes_per_sec(&self) -> f64 {
        self.bytes as f64 / 1e6 / self.seconds
    }
}

impl From<&Measured> for Seen {
    fn from(measured: &Measured) -> Self {
        Self {
            requests: measured.requests,
            seconds: measured.seconds(),
            bytes: measured.bytes,
            latency_us: [measured.p50_us as f64, measured.p99_us as f64],
            errors: measured.errors,
            ..Self::default()
        }
    }
}

impl From<&LoadReport> for Seen {
    fn from(report: &LoadReport) -> Self {
        Self {
            requests: report.responses,
            seconds: report.measured_secs,
            bytes: report.response_bytes,
            latency_us: ["p50", "p99"].map(|point| report.time_us("total", point)),
            mean_us: Some(report.time_us("total", "mean")),
            errors: Errors::of_any_kind(report.errors()),
            busy: Some(report.busy_share),
            agreed: report
                .tls
                .iter()
                .flat_map(|tls| tls.agreed.keys().cloned())
                .collect(),
            handshakes: report.tls.clone().unwrap_or_default(),
            ..Self::default()
        }
    }
}

impl From<&H2load> for Seen {
    fn from(measured: &H2load) -> Self {
        let seconds = measured.responses as f64 / measured.per_sec.max(1.0);
        Self {
            requests: measured.responses,
            seconds: seconds.max(1e-9),
            bytes: measured.bytes,
            mean_us: Some(measured.mean_us),
            errors: Errors::of_any_kind(measured.errors),
            agreed: measured.agreed.iter().cloned().collect(),
            ..Self::default()
        }
    }
}

impl From<&Visited> for Seen {
    fn from(visited: &Visited) -> Self {
        Self {
            requests: visited.requests,
            seconds: visited.seconds,
            bytes: visited.bytes,
            latency_us: [50.0, 99.0].map(|percent| visited.latency(percent)),
            mean_us: None,
            errors: visited.errors,
            unanswered: visited.unanswered,
            no_room: visited.no_room,
            resent: Some(visited.resent),
            busy: Some(visited.working),
            calls: Some(visited.calls),
            handshakes: Handshakes::default(),
            agreed: Vec::new(),
        }
    }
}
