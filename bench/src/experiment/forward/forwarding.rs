//! A forwarder that runs: how long it was busy, and its end, after which nothing of it is left.

use super::network::{Host, Network, Receiving};
use crate::limits::ANSWER_TIMEOUT;
use crate::stage::Started;
use crate::stage::cpu::{self, ticks_to_us};
use crate::stage::daemon::Daemon;
use crate::stage::process::find_program;
use exos_host::{Error, Result};
use exos_program::control::ask;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// A forwarder that runs; it ends with this.
pub(super) struct Forwarding<'n> {
    network: &'n Network,
    core: usize,
    pub started: Option<Started>,
    /// Who lends it its part of the interface.
    pub daemon: Option<Daemon<'n>>,
    /// It is a set of rules in the kernel, which go.
    pub has_rules: bool,
    /// Where one of ours says how long it was busy.
    pub control: Option<PathBuf>,
    /// What has the other end of the wire take in what leaves it in the driver.
    pub receiving: Option<Receiving<'n>>,
}

impl<'n> Forwarding<'n> {
    /// One that is not there yet.
    pub fn new(network: &'n Network, core: usize) -> Self {
        Self {
            network,
            core,
            started: None,
            daemon: None,
            has_rules: false,
            control: None,
            receiving: None,
        }
    }

    /// An error when it has ended.
    pub fn check(&mut self) -> Result<()> {
        match &mut self.started {
            Some(started) => started.running.check(),
            None => Ok(()),
        }
    }

    /// For how many microseconds it was busy so far. One of ours that polls is, in turns that move frames, and says so; of
    /// others it is the time of their core.
    pub fn busy_us(&self) -> Result<f64> {
        match &self.control {
            Some(control) => busy_of(control),
            None => Ok(ticks_to_us(cpu::of_core(self.core)?.busy)),
        }
    }

    /// Ends it.
    pub fn stop(mut self) -> Result<()> {
        self.started.take().map_or(Ok(()), Started::stop)
    }
}

impl Drop for Forwarding<'_> {
    fn drop(&mut self) {
        if !self.has_rules {
            return;
        }
        let nft = find_program("nft", "nftables");
        let command = nft.and_then(|nft| self.network.command(Host::Forwarder, nft));
        let ended = command.map(|mut command| command.args(["flush", "ruleset"]).status());
        if !matches!(ended, Ok(Ok(status)) if status.success()) {
            exos_program::error!("cannot remove the rules of nftables");
        }
    }
}

/// What a forwarder of ours says at its control socket.
fn busy_of(control: &Path) -> Result<f64> {
    let line = ask(control, &json!({"request": "status"}), ANSWER_TIMEOUT)?;
    parse_busy(&line).ok_or_else(|| {
        Error::new(format!(
            "the forwarder does not say how long it was busy: {line}"
        ))
    })
}

fn parse_busy(line: &str) -> Option<f64> {
    let answer: Value = serde_json::from_str(line).ok()?;
    answer["status"]["counters"]["busy_micros"].as_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_long_one_of_ours_was_busy() {
        let line = r#"{"status":{"counters":{"busy_micros":1234567,"turns":3}}}"#;
        assert_eq!(parse_busy(line), Some(1_234_567.0));
        assert_eq!(parse_busy(r#"{"error":"what?"}"#), None);
        assert_eq!(parse_busy(""), None);
    }
}
