//! `exos load`: how it is told to load a server, and what it reports.

use super::load::WebLoad;
use super::tls::{GROUP, SUITE};
use crate::stage::request::Connection;
use exos_host::{Error, Result};
use exos_lab::INTERFACE;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::process::Command;

/// An address on side b that the kernel does not have, and so does not answer for.
const ADDRESS: &str = "10.10.0.20/24";

/// What it measured.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct LoadReport {
    /// Answers received.
    pub responses: u64,
    /// How long it took.
    pub measured_secs: f64,
    /// The part of the time in which it had something to do.
    pub busy_share: f64,
    /// Of all answers, heads included.
    #[serde(default)]
    pub response_bytes: u64,
    errors: Map<String, Value>,
    #[serde(default)]
    generators: Vec<Generator>,
    #[serde(default)]
    times_us: Map<String, Value>,
    /// Over TLS.
    #[serde(default)]
    pub tls: Option<Handshakes>,
}

/// Who made the load.
#[derive(Clone, Debug, Deserialize)]
struct Generator {
    #[serde(default)]
    log: Option<Extent>,
}

/// Of a log: its requests, and those that were begun.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
struct Extent {
    requests: u64,
    begun: u64,
}

/// Handshakes of TLS that it made.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Handshakes {
    #[serde(rename = "handshakes_full")]
    pub full: u64,
    #[serde(rename = "handshakes_resumed")]
    pub resumed: u64,
    /// Versions with suites and groups of the key exchange that were agreed upon, and how often.
    #[serde(default)]
    pub agreed: BTreeMap<String, u64>,
}

impl WebLoad {
    /// A command by which `exos load` makes it, of one that starts our program: on a stack of its own, which looks for packets
    /// while it waits, or on the kernel's sockets.
    pub fn by_exos(&self, mut command: Command, has_stack: bool) -> Command {
        command.args(["load", "--quiet", "--json", "--expect-status", "200"]);
        match &self.log {
            Some(log) => command
                .arg("--as-fast-as-possible")
                .arg("--replay")
                .arg(log),
            None => command.args(["--expect-length", &self.size.bytes().to_string()]),
        };
        command.args(["--connections", &self.connections.to_string()]);
        let milliseconds = (1000.0 * self.seconds) as u64;
        command.args(["--duration", &format!("{milliseconds}ms")]);
        if self.connection == Connection::New {
            command.args(["--requests-per-connection", "1"]);
        }
        if let Some(share) = self.resuming {
            command.args(["--insecure", "--tls-resume", &share.to_string()]);
            command.args(["--tls-suite", SUITE, "--tls-group", GROUP]);
        }
        if let Some((version, streams)) = self.carried.streams() {
            command.args(["--http", &version.to_string()]);
            command.args(["--streams", &streams.to_string()]);
        }
        if has_stack {
            command.args(["--via", "none", "--link", &format!("xdp:{INTERFACE}")]);
            command.args(["--address", ADDRESS, "--idle", "poll"]);
        } else {
            command.args(["--sockets", "--idle", "sleep"]);
        }
        command.arg(self.url());
        command
    }
}

impl LoadReport {
    /// Of what it wrote: an object of JSON.
    pub fn read(output: &str) -> Result<Self> {
        let strange = |_| {
            Error::new(format!(
                "exos load did not report what it measured: {output}"
            ))
        };
        serde_json::from_str(output).map_err(strange)
    }

    /// Answers that were wrong or did not come, connections that could not be made.
    pub fn errors(&self) -> u64 {
        self.errors.values().filter_map(Value::as_u64).sum()
    }

    /// All requests of the log were begun: there was nothing to ask for any more.
    pub fn came_to_its_end(&self) -> bool {
        let mut logs = self.generators.iter().filter_map(|one| one.log);
        logs.any(|log| log.begun >= log.requests)
    }

    /// A point of a distribution of times, by their names, in microseconds.
    pub fn time_us(&self, which: &str, point: &str) -> f64 {
        let times = self.times_us.get(which);
        times.and_then(|it| it[point].as_f64()).unwrap_or(0.0)
    }

    /// Answers a second.
    pub fn per_sec(&self) -> f64 {
        self.responses as f64 / self.measured_secs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_that_came_to_its_end() {
        let report = |generators: &str| {
            let text = format!(
                r#"{{"responses": 1, "measured_secs": 1, "busy_share": 0, "errors": {{}}, "generators": {generators}}}"#
            );
            LoadReport::read(&text).expect("a report")
        };
        let of_log = |begun| {
            report(&format!(
                r#"[{{"log": {{"requests": 5, "begun": {begun}, "left_out": {{}}}}}}]"#
            ))
        };
        assert!(of_log(5).came_to_its_end() && !of_log(4).came_to_its_end());
        assert!(!report(r#"[{"log": null}]"#).came_to_its_end());
    }
}
