//! Everything that a session measured: medians for people, all of it for programs (docs/json.md).

use super::cores::CoresCase;
use super::latency::LatencyCase;
use super::limit::LimitCase;
use super::outcome::Case;
use super::readers::ReadersCase;
use super::specialisations::Specialised;
use serde::Serialize;

/// Everything that a session measured.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The schema's name.
    pub schema: &'static str,
    /// The kernel's release.
    pub kernel: String,
    /// What the exos program calls itself.
    pub exos: String,
    /// The congestion control that the kernel's TCP used.
    pub congestion_control: String,
    /// The wire's MTU in bytes.
    pub mtu: u32,
    /// Connections that the client kept busy.
    pub connections: u32,
    /// How often each cell was measured.
    pub runs: u32,
    /// How long one measurement was meant to last, in seconds.
    pub duration_secs: u32,
    /// The core of the server.
    pub server_core: usize,
    /// The core of the client.
    pub client_core: usize,
    /// The servers, in the order of the results.
    pub servers: Vec<Named>,
    /// Who was asked for and is not there, a sentence each.
    pub left_out: Vec<String>,
    /// What distorts the numbers, a sentence each.
    pub notes: Vec<String>,
    /// The packet limit of the link, on the plain wire.
    pub limits: Vec<LimitCase>,
    /// Documents as fast as they go.
    pub documents: Vec<Case>,
    /// Latency at a given rate.
    pub latency: Vec<LatencyCase>,
    /// Fast readers beside slow ones.
    pub readers: Vec<ReadersCase>,
    /// What each specialisation is worth.
    pub specialisations: Vec<Specialised>,
    /// The server on two cores against one.
    pub cores: Vec<CoresCase>,
}

/// A server, and what it calls itself.
#[derive(Clone, Debug, Serialize)]
pub struct Named {
    /// Its name in results.
    pub name: String,
    /// What it calls itself.
    pub version: String,
}

impl Report {
    /// As JSON.
    pub fn json(&self) -> String {
        serde_json::to_string_pretty(self).expect("plain data becomes JSON")
    }
}

#[cfg(test)]
#[path = "report_tests.rs"]
pub(super) mod tests;
