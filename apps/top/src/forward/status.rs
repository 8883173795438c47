//! What a forwarder says of itself (`docs/reference/json.md` has the schema), as values.
//!
//! It may be older or newer than the program that asks: what is missing is zero or `None`, and what is not known is left out.

use std::collections::BTreeMap;

use serde::Deserialize;

/// A forwarder's status.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
pub struct Status {
    /// Its process.
    pub pid: Option<u32>,
    /// How long it has been running.
    pub uptime_ms: Option<u64>,
    /// When the status was made: nanoseconds of CLOCK_MONOTONIC.
    pub time_ns: Option<u64>,
    /// How many flows there are, by how they stand, and how many there may be (`capacity`).
    pub flows: BTreeMap<String, u64>,
    /// Where clients come to.
    pub listeners: Vec<Listener>,
    /// The servers of all of them.
    pub servers: Vec<Server>,
    /// Everything that is counted, by name.
    pub counters: BTreeMap<String, u64>,
}

/// Where clients come to.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
pub struct Listener {
    /// `tcp` or `udp`.
    pub protocol: String,
    /// Address and port.
    pub listener: String,
    /// It was removed, and has flows yet.
    pub leaving: bool,
    /// What goes through.
    #[serde(flatten)]
    pub figures: Figures,
    /// Those that it chooses from.
    pub servers: Vec<Member>,
}

/// A server as one listener knows it.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
pub struct Member {
    /// Address and port.
    pub server: String,
    /// Compared with those of others.
    pub weight: u16,
    /// It gets no new flows, because somebody says so.
    pub draining: bool,
}

/// A server.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
pub struct Server {
    /// `tcp` or `udp`.
    pub protocol: String,
    /// Address and port.
    pub server: String,
    /// It was removed, and has flows yet.
    pub leaving: bool,
    /// It may have new flows.
    pub well: Option<bool>,
    /// It has none because of how those before began.
    pub resting: bool,
    /// What goes through.
    #[serde(flatten)]
    pub figures: Figures,
    /// Flows that are not over.
    pub flows_open: u64,
    /// Flows of which it said nothing.
    pub flows_unanswered: u64,
    /// Flows that did not begin well.
    pub flows_failed: u64,
    /// How often it rested.
    pub rests: u64,
    /// Checks that it has passed.
    pub checks_passed: u64,
    /// Those that it has not.
    pub checks_failed: u64,
    /// Why.
    pub last_failure: Option<String>,
}

/// What goes through a listener or to a server.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
pub struct Figures {
    /// Flows that are remembered.
    pub flows: u64,
    /// Begun so far.
    pub flows_begun: u64,
    /// Refused so far.
    pub flows_refused: u64,
    /// From clients.
    pub packets_to_servers: u64,
    /// From the IP header on.
    pub bytes_to_servers: u64,
    /// From servers.
    pub packets_to_clients: u64,
    /// From the IP header on.
    pub bytes_to_clients: u64,
}
