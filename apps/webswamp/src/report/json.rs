//! Results as JSON, with what follows from them for programs that do not want to compute it.

use schemars::JsonSchema;
use serde::Serialize;

use super::results::Results;
use super::traffic::Traffic;
use super::verdict::Verdict;

impl Results {
    /// One line: an object.
    pub fn json(&self) -> String {
        let traffic = Traffic::of(self);
        let report = Report {
            results: self,
            requests_per_second: self.per_second(self.responses),
            connections_per_second: self.per_second(self.connections),
            verdict: Verdict::of(self),
            busy_share: self.busy_share(),
            processor_secs: self.generators.iter().map(|g| g.processor_secs).sum(),
            retransmissions: traffic.as_ref().map(|t| t.segments_sent_again),
            bad_checksums: self.bad_checksums(),
            link: traffic,
        };
        let value = serde_json::to_value(report).expect("names are text");
        format!("{value}\n")
    }
}

/// What `exos load` prints when the load is over, and `exos load merge`. Times are in microseconds.
#[derive(Serialize, JsonSchema)]
pub struct Report<'a> {
    #[serde(flatten)]
    results: &'a Results,
    /// Responses in a second of the measured time.
    requests_per_second: f64,
    /// Connections that came to stand, in a second of the measured time.
    connections_per_second: f64,
    /// [Who was the limit](../load.md#who-was-the-limit).
    verdict: Verdict,
    /// The part of the time in which the busiest loop of all had something to do: near 1, the generator is the limit.
    busy_share: f64,
    /// Processor time of all generators, in the kernel and outside.
    processor_secs: f64,
    /// Segments that our stack sent again; `null` with `--sockets`.
    retransmissions: Option<u64>,
    /// Packets that were dropped because a checksum was wrong; `null` with `--sockets`.
    bad_checksums: Option<u64>,
    /// What went over the link; `null` with `--sockets`.
    link: Option<Traffic>,
}
