//! What programs are measured at: the table in `bench/programs/jobs.toml`, which says what its fields mean.

use super::requests::Store;
use exos_host::{Error, Result};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt;

/// Jobs, and what is made before.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Table {
    pub prepare: BTreeMap<String, String>,
    pub job: Vec<Job>,
}

/// A program at one of its jobs.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Job {
    pub name: String,
    pub programs: String,
    #[serde(default)]
    pub prepare: Vec<String>,
    #[serde(default)]
    pub measured: Measured,
    pub user: Option<String>,
    pub server: String,
    port: Option<u16>,
    ready: Option<String>,
    pub beside: Option<String>,
    pub store: Option<Store>,
    #[serde(default)]
    pub client: String,
    #[serde(default)]
    pub counts: Counts,
    #[serde(default = "not_slower")]
    pub goal: f64,
}

/// Whose sockets are measured.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Measured {
    #[default]
    Server,
    Client,
}

/// What of a client's job is counted.
#[derive(Clone, Default, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Counts {
    #[default]
    Megabytes,
    Times(f64),
    Requests(String),
    Mbit(String),
}

/// What is asked of any program.
fn not_slower() -> f64 {
    0.9
}

impl Table {
    /// The one that this program has.
    pub fn read() -> Self {
        const TABLE: &str = include_str!("../../../programs/jobs.toml");
        toml::from_str(TABLE).expect("a test reads it")
    }
}

impl fmt::Display for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl Job {
    /// Its port; for a server that is waited for in another way, that of no service.
    pub fn port(&self) -> u16 {
        self.port.unwrap_or(0)
    }

    /// Of what is counted.
    pub fn unit(&self) -> &'static str {
        match self.counts {
            Counts::Megabytes if self.store.is_none() => "MB/s",
            Counts::Mbit(_) => "Mbit/s",
            _ => "req/s",
        }
    }

    /// What succeeds once its server serves.
    pub fn ready(&self) -> String {
        let port = self.port();
        let ready = self.ready.clone();
        ready.unwrap_or_else(|| format!("exec 3<>/dev/tcp/$host/{port}"))
    }
}

impl Counts {
    /// What was done in a second, by what the client said, where docs/large has this many megabytes.
    pub fn rate(&self, said: &str, megabytes: f64) -> Result<f64> {
        let rate = match self {
            Self::Megabytes => seconds(said).map(|seconds| megabytes / seconds),
            Self::Times(times) => seconds(said).map(|seconds| times / seconds),
            Self::Requests(text) | Self::Mbit(text) => number_behind(text, said),
        };
        rate.filter(|rate| *rate > 0.0 && rate.is_finite())
            .ok_or_else(|| Error::new(format!("a client did not say its rate: {said}")))
    }
}

/// What comes last of a client's text: `took BEGIN END`, in seconds.
pub(super) const TOOK: &str = "took ";

fn seconds(said: &str) -> Option<f64> {
    let (begin, end) = said.rsplit_once(TOOK)?.1.trim().split_once(' ')?;
    Some(end.parse::<f64>().ok()? - begin.parse::<f64>().ok()?)
}

fn number_behind(text: &str, said: &str) -> Option<f64> {
    let behind = said.split_once(text)?.1.trim_start();
    let end = behind.find(|c: char| !c.is_ascii_digit() && c != '.');
    behind[..end.unwrap_or(behind.len())].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_job_can_be_done() {
        let table = Table::read();
        let mut names = BTreeSet::new();
        for job in &table.job {
            assert!(names.insert(&job.name), "{job} is there twice");
            assert!(job.name.contains('/') && !job.programs.is_empty(), "{job}");
            assert!(job.port.is_some() || job.ready.is_some(), "{job}");
            assert_eq!(job.store.is_some(), job.client.is_empty(), "{job}");
            for made in &job.prepare {
                assert!(table.prepare.contains_key(made), "{job}: {made}");
            }
        }
        let is_used = |made: &str| {
            table
                .job
                .iter()
                .any(|job| job.prepare.iter().any(|m| m == made))
        };
        let unused: Vec<_> = table.prepare.keys().filter(|made| !is_used(made)).collect();
        assert_eq!(unused, ["docs"]);
    }

    #[test]
    fn what_clients_say() {
        let rate = |counts: Counts, said| counts.rate(said, 200.0).ok();
        let said = "got it\ntook 1000.25 1000.75\n";
        assert_eq!(rate(Counts::Megabytes, said), Some(400.0));
        assert_eq!(rate(Counts::Times(10.0), said), Some(20.0));
        let tps = || Counts::Requests("tps = ".into());
        let said = "latency average = 0.6 ms\ntps = 32700.5 (without initial connection time)\n";
        assert_eq!(rate(tps(), said), Some(32700.5));
        assert_eq!(
            rate(
                Counts::Requests("Requests/sec:".into()),
                "Requests/sec:   12.5\n"
            ),
            Some(12.5)
        );
        assert_eq!(
            rate(Counts::Mbit("rate ".into()), "rate 4880"),
            Some(4880.0)
        );
        assert_eq!(rate(tps(), "FATAL: no"), None);
        assert_eq!(rate(Counts::Megabytes, "took 1 1"), None);
    }
}
