//! What one load of a server showed: a run, the medians of some, and those of all servers in a case.

use super::Used;
use super::packets::Visited;
use super::wrk::{Errors, Measured};
use super::{Client, Connection, Size};
use crate::report::{Ratio, limited_by, median, median_of};
use crate::stage::cpu::ticks_to_us;
use exos_lab::WireKind;
use serde::Serialize;

/// One client, wire, kind of connection and size.
#[derive(Clone, Debug, Serialize)]
pub struct Case {
    /// Its name.
    pub name: String,
    /// Who loaded the servers.
    pub client: Client,
    /// The kind of wire: `plain` or `offload`.
    pub wire: String,
    /// How requests were spread over connections.
    pub connection: Connection,
    /// The size of the document in bytes.
    pub size_bytes: u64,
    /// What each server did.
    pub results: Vec<Outcome>,
    /// Requests a second of ours by those of each other.
    pub ratios: Vec<Ratio>,
}

/// One server in one case: medians over the runs, errors summed.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// The server.
    pub server: String,
    /// Median over the runs.
    pub requests_per_sec: f64,
    /// Median over the runs; a megabyte is 1,000,000 bytes, heads of answers included.
    pub megabytes_per_sec: f64,
    /// Part of the packet limit that was measured in the same run: the median. `null` on other wires than the plain.
    pub of_packet_limit: Option<f64>,
    /// Processor time of the server's processes for one request, in microseconds: median over the runs.
    pub server_cpu_us_per_request: f64,
    /// Time that the server's core was busy for one request, in microseconds: median over the runs.
    pub server_core_us_per_request: f64,
    /// Part of the time that the server's core was busy, 0 to 1: median over the runs.
    pub server_core_busy: f64,
    /// Part of the time that the client had something to do, 0 to 1: median over the runs.
    pub client_busy: f64,
    /// Who had no time left: `client`, `server` or `neither`.
    pub limited_by: &'static str,
    /// Median over the runs of the median latency, in microseconds.
    pub latency_p50_us: f64,
    /// Median over the runs of the 99th percentile of latency, in microseconds.
    pub latency_p99_us: f64,
    /// Errors of all runs.
    pub errors: u64,
    /// Every run.
    pub runs: Vec<Run>,
}

/// One measurement.
#[derive(Clone, Debug, Serialize)]
pub struct Run {
    /// Answers received in a second.
    pub requests_per_sec: f64,
    /// Megabytes (1,000,000 bytes) received in a second.
    pub megabytes_per_sec: f64,
    /// Part of the packet limit measured in this run.
    pub of_packet_limit: Option<f64>,
    /// Time of the server's processes in their own code, microseconds for one request.
    pub server_user_us_per_request: f64,
    /// Time of the server's processes in the kernel, microseconds for one request.
    pub server_system_us_per_request: f64,
    /// Time that the server's core was busy, microseconds for one request.
    pub server_core_us_per_request: f64,
    /// Of that, in soft interrupts.
    pub server_softirq_us_per_request: f64,
    /// Part of the time that the server's core was busy, 0 to 1.
    pub server_core_busy: f64,
    /// Part of the time that the client had something to do, 0 to 1.
    pub client_busy: f64,
    /// The median of the time that requests took.
    pub latency_p50_us: f64,
    /// The 99th percentile.
    pub latency_p99_us: f64,
    /// What went wrong.
    pub errors: Errors,
    /// Segments that our client sent again; `null` of wrk.
    pub resent: Option<u64>,
}

impl Run {
    /// What wrk saw.
    pub(super) fn of_wrk(measured: Measured, used: Used, limit: Option<f64>) -> Self {
        let rate = measured.requests as f64 * 1e6 / measured.duration_us as f64;
        // It is its requests that the processors' time is divided by, however long it took to start.
        let used = Used {
            seconds: measured.duration_us as f64 / 1e6,
            ..used
        };
        Self {
            megabytes_per_sec: measured.bytes as f64 / measured.duration_us as f64,
            latency_p50_us: measured.latency_us.p50 as f64,
            latency_p99_us: measured.latency_us.p99 as f64,
            errors: measured.errors,
            ..Self::new(rate, used, limit)
        }
    }

    /// What our client saw.
    pub(super) fn of_packets(visited: &Visited, used: Used, limit: Option<f64>) -> Self {
        Self {
            megabytes_per_sec: visited.bytes as f64 / 1e6 / visited.seconds,
            // It looks for packets all the time: that its core is busy says nothing.
            client_busy: visited.working,
            latency_p50_us: visited.latency(50.0),
            latency_p99_us: visited.latency(99.0),
            errors: visited.errors,
            resent: Some(visited.resent),
            ..Self::new(visited.requests as f64 / visited.seconds, used, limit)
        }
    }

    fn new(rate: f64, used: Used, limit: Option<f64>) -> Self {
        let per_request = |ticks: u64| ticks_to_us(ticks) / (used.seconds * rate);
        Self {
            requests_per_sec: rate,
            megabytes_per_sec: 0.0,
            of_packet_limit: limit.map(|limit| rate / limit),
            server_user_us_per_request: per_request(used.process.user),
            server_system_us_per_request: per_request(used.process.system),
            server_core_us_per_request: per_request(used.server.busy),
            server_softirq_us_per_request: per_request(used.server.softirq),
            server_core_busy: used.server.busy_share(),
            client_busy: used.client.busy_share(),
            latency_p50_us: 0.0,
            latency_p99_us: 0.0,
            errors: Errors::default(),
            resent: None,
        }
    }
}

impl Outcome {
    /// The medians of some runs.
    pub(super) fn of(server: impl ToString, runs: Vec<Run>) -> Self {
        let of = |value: fn(&Run) -> f64| median_of(&runs, value);
        let limits: Vec<f64> = runs.iter().filter_map(|run| run.of_packet_limit).collect();
        let (server_busy, client_busy) = (of(|r| r.server_core_busy), of(|r| r.client_busy));
        Self {
            server: server.to_string(),
            requests_per_sec: of(|r| r.requests_per_sec),
            megabytes_per_sec: of(|r| r.megabytes_per_sec),
            of_packet_limit: (!limits.is_empty()).then(|| median(limits)),
            server_cpu_us_per_request: of(|r| {
                r.server_user_us_per_request + r.server_system_us_per_request
            }),
            server_core_us_per_request: of(|r| r.server_core_us_per_request),
            server_core_busy: server_busy,
            client_busy,
            limited_by: limited_by(server_busy, client_busy),
            latency_p50_us: of(|r| r.latency_p50_us),
            latency_p99_us: of(|r| r.latency_p99_us),
            errors: runs.iter().map(|r| r.errors.total()).sum(),
            runs,
        }
    }
}

impl Case {
    pub(super) fn new(
        name: String,
        client: Client,
        wire: WireKind,
        connection: Connection,
        size: Size,
        results: Vec<Outcome>,
    ) -> Self {
        let rates = |o: &Outcome| o.runs.iter().map(|r| r.requests_per_sec).collect();
        let all: Vec<(String, Vec<f64>)> = results
            .iter()
            .map(|o| (o.server.clone(), rates(o)))
            .collect();
        Self {
            name,
            client,
            wire: wire.to_string(),
            connection,
            size_bytes: size.bytes(),
            ratios: Ratio::all(&all),
            results,
        }
    }

    /// Ours by theirs, where both were measured.
    pub(super) fn ratio(&self, ours: &str, theirs: &str) -> Option<&Ratio> {
        Ratio::find(&self.ratios, ours, theirs)
    }
}
