//! Results that `exos load --json` wrote, read again: a file may say anything, so that what follows from it is computed only
//! where it can be.

use std::path::Path;

use exos_host::{Error, Result};
use serde_json::Value;

use super::results::{Generator, OnCore, Results, SCHEMA};
use crate::limits::{COUNTS_MAX, LOAD_SECS_MAX, PROCESSOR_SECS_MAX, RESULTS_LEN_MAX};
use crate::statistics::{Multiplexing, Second, Tls};

impl Results {
    /// Those that `exos load --json` wrote into a file.
    ///
    /// # Errors
    ///
    /// It cannot be read, or is no such file.
    pub fn read(path: &Path) -> Result<Self> {
        let name = path.display();
        let cannot = |e| Error::io(format!("cannot read {name}"), e);
        if std::fs::metadata(path).map_err(cannot)?.len() > RESULTS_LEN_MAX {
            return Err(Error::new(format!(
                "{name} is too long for results of exos load"
            )));
        }
        let text = std::fs::read_to_string(path).map_err(cannot)?;
        Self::from_json(&text).map_err(|why| {
            Error::new(format!("{name} has no results of exos load: {why}"))
                .mend("give files that exos load --json wrote")
        })
    }

    /// Those that it wrote.
    ///
    /// # Errors
    ///
    /// The text is none of its, and why.
    pub fn from_json(text: &str) -> std::result::Result<Self, String> {
        let value: Value = serde_json::from_str(text).map_err(|e| e.to_string())?;
        match value.get("schema").and_then(Value::as_str) {
            Some(SCHEMA) => (),
            Some(other) => return Err(format!("its schema is {other}, not {SCHEMA}")),
            None => return Err(format!("it does not say that its schema is {SCHEMA}")),
        }
        let results: Self = serde_json::from_value(value).map_err(|e| e.to_string())?;
        let silent = results.longest_silence.secs;
        let lasted = [results.warm_up_secs, results.measured_secs, silent];
        let is_good = is_moment(results.started_unix_secs)
            && lasted
                .into_iter()
                .all(|secs| (0.0..=LOAD_SECS_MAX).contains(&secs));
        if results.generators.is_empty() || !is_good {
            return Err("it says neither who made the load nor when".to_owned());
        }
        if results.seconds.len() as f64 > LOAD_SECS_MAX {
            return Err("it has more seconds than a load".to_owned());
        }
        if !results.generators.iter().all(is_generator) {
            return Err("it says of a generator what none can be".to_owned());
        }
        if results.counted() > u128::from(COUNTS_MAX) {
            return Err("it counts more than a load can".to_owned());
        }
        Ok(results)
    }

    /// All that it counts, together.
    fn counted(&self) -> u128 {
        let own = [
            self.responses,
            self.connections,
            self.response_bytes,
            self.content_bytes,
            self.longest_silence.requests,
        ];
        let generators = self.generators.iter().map(|g| g.responses);
        let logs = self.generators.iter().filter_map(|g| g.log.as_ref());
        let logs = logs.flat_map(|log| {
            let left_out = log.left_out.values().copied();
            [log.requests, log.begun].into_iter().chain(left_out)
        });
        let named = self.statuses.values().chain(self.errors.values());
        let named = named.chain(self.counters.values()).copied();
        let handshakes = self.tls.iter().map(Tls::counted);
        let multiplexed = self
            .http2
            .iter()
            .chain(&self.http3)
            .map(Multiplexing::counted);
        let times = self.times_us.list().map(|(_, times)| times.0.len());
        let all = own
            .into_iter()
            .chain(generators)
            .chain(logs)
            .chain(named)
            .chain(times);
        all.map(u128::from).sum::<u128>()
            + handshakes.sum::<u128>()
            + multiplexed.sum::<u128>()
            + self.seconds.iter().map(of_second).sum::<u128>()
    }
}

fn of_second(second: &Second) -> u128 {
    let own = [
        second.begun,
        second.responses,
        second.errors,
        second.content,
    ];
    let times = second.times.iter().flatten().map(|(_, count)| *count);
    own.into_iter().chain(times).map(u128::from).sum()
}

/// From 1970 on, for some thousand years.
fn is_moment(unix_secs: f64) -> bool {
    (0.0..1e11).contains(&unix_secs)
}

fn is_generator(it: &Generator) -> bool {
    let is_effort = |busy_share, processor_secs| {
        (0.0..=1.0).contains(&busy_share) && (0.0..=PROCESSOR_SECS_MAX).contains(&processor_secs)
    };
    let is_core = |on: &OnCore| is_effort(on.busy_share, on.processor_secs);
    is_moment(it.started_unix_secs)
        && is_effort(it.busy_share, it.processor_secs)
        && it.cores.iter().all(is_core)
}
