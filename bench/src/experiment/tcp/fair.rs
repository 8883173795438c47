//! Two flows through one bottleneck: what share each gets.

use super::options::Group;
use super::session::{EXOS, PEER, PORT, Session};
use crate::report::median;
use exos_host::Result;
use exos_lab::{Conditions, Side};
use serde::Serialize;
use std::time::Duration;

/// The bottleneck, in bits a second.
const RATE_BITS_PER_SEC: u64 = 100_000_000;

/// The round trip without a queue.
const ROUND_TRIP: Duration = Duration::from_millis(20);

/// The queue before the bottleneck: what it sends in a round trip.
const QUEUE_BYTES: u64 = 250_000;

/// The time from both connections' beginning until their shares are looked at.
const WARMUP_SECS: f64 = 3.0;

/// How long the shares are looked at, beyond `--seconds`: CUBIC's cycles last some seconds here.
const MORE_SECS: f64 = 4.0;

/// Two flows and their shares.
#[derive(Clone, Debug, Serialize)]
pub struct FairCase {
    /// Its name.
    pub name: String,
    /// Goodput of the first and the second flow in each run, in Mbit/s.
    pub runs: Vec<[f64; 2]>,
    /// Goodput of the first, divided by the mean of both: median over the runs.
    pub first_share: f64,
    /// Jain's index, 1 for equal shares and 1/2 when one gets all: median over the runs.
    pub jain_index: f64,
}

/// Who sends.
const PAIRS: [[Sender; 2]; 3] = [
    [Sender::Exos, Sender::Linux],
    [Sender::Exos, Sender::Exos],
    [Sender::Linux, Sender::Linux],
];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Sender {
    Exos,
    Linux,
}

impl Sender {
    fn name(self) -> &'static str {
        match self {
            Sender::Exos => "exos",
            Sender::Linux => "linux",
        }
    }
}

fn name(pair: [Sender; 2]) -> String {
    format!("fair/{}+{}", pair[0].name(), pair[1].name())
}

/// The names of the cells.
pub(super) fn names() -> Vec<String> {
    PAIRS.map(name).to_vec()
}

/// Measures the cells that were asked for.
pub(super) fn measure(session: &Session<'_>) -> Result<Vec<FairCase>> {
    let pairs = PAIRS.into_iter();
    let pairs: Vec<_> = pairs
        .filter(|p| session.wants(Group::Fair, &name(*p)))
        .collect();
    let progress = session.progress(pairs.len() * session.args.runs() as usize);
    let mut cases = Vec::new();
    for pair in pairs {
        progress.set_message(name(pair));
        let mut runs = Vec::new();
        for run in 0..session.args.runs() {
            runs.push(measure_one(
                session,
                pair,
                session.args.seed + u64::from(run),
            )?);
            progress.inc(1);
        }
        let case = FairCase::of(name(pair), runs);
        progress.suspend(|| eprintln!("{}", case.row()));
        cases.push(case);
    }
    progress.finish_and_clear();
    Ok(cases)
}

fn measure_one(session: &Session<'_>, pair: [Sender; 2], seed: u64) -> Result<[f64; 2]> {
    let conditions = Conditions {
        delay: ROUND_TRIP / 2,
        rate_bits_per_sec: Some(RATE_BITS_PER_SEC),
        queue_bytes: Some(QUEUE_BYTES),
        ..Conditions::default()
    };
    let lab = session.emulated(&conditions, seed)?;
    let to = format!("{PEER}:{PORT}");
    let measuring = session.args.seconds + MORE_SECS;
    let (warmup, seconds) = (WARMUP_SECS.to_string(), measuring.to_string());
    let arguments = ["tcp-peer", "receive", "--listen", &to, "--connections", "2"];
    let times = ["--warmup", &warmup, "--seconds", &seconds];
    let peer = session.ready_helper(&lab, Side::B, &[&arguments[..], &times].concat())?;
    let mut started = Vec::new();
    let exos = pair.iter().filter(|s| **s == Sender::Exos).count();
    if exos > 0 {
        // One program, since a queue belongs to one.
        let count = exos.to_string();
        let arguments = ["chargen", "--connect", &to, "--connections", &count];
        let congestion = ["--congestion", &session.args.ours];
        let arguments = [&arguments[..], &congestion].concat();
        started.push(session.exos(&lab, Side::A, &arguments)?);
    }
    for _ in exos..2 {
        let arguments = [
            "tcp-peer",
            "send",
            "--connect",
            &to,
            "--congestion",
            "cubic",
        ];
        started.push(session.helper(&lab, Side::A, &arguments)?);
    }
    let mut measured = session.flows(peer, WARMUP_SECS + measuring)?;
    for program in started {
        program.stop()?;
    }
    // Ours first.
    measured
        .flows
        .sort_by_key(|flow| flow.peer.ip().to_string() != EXOS);
    let rate = |n: usize| measured.flows[n].bytes as f64 * 8.0 / 1e6 / measured.seconds;
    Ok([rate(0), rate(1)])
}

/// Jain's index of fairness: (sum of x)^2 / (n * sum of x^2).
fn jain_index(rates: [f64; 2]) -> f64 {
    let sum: f64 = rates.iter().sum();
    let squares: f64 = rates.iter().map(|x| x * x).sum();
    if squares == 0.0 {
        return 0.0;
    }
    sum * sum / (rates.len() as f64 * squares)
}

impl FairCase {
    fn of(name: String, runs: Vec<[f64; 2]>) -> Self {
        let share = |r: &[f64; 2]| 2.0 * r[0] / (r[0] + r[1]).max(f64::MIN_POSITIVE);
        Self {
            name,
            first_share: median(runs.iter().map(share).collect()),
            jain_index: median(runs.iter().map(|r| jain_index(*r)).collect()),
            runs,
        }
    }

    /// A line for people.
    pub(super) fn row(&self) -> String {
        let rates = |n: usize| median(self.runs.iter().map(|r| r[n]).collect());
        format!(
            "{:<40} {:>9.1} {:>9.1} {:>9.2} {:>9.3}",
            self.name,
            rates(0),
            rates(1),
            self.first_share,
            self.jain_index
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_and_jains_index() {
        assert_eq!(jain_index([5.0, 5.0]), 1.0);
        assert_eq!(jain_index([5.0, 0.0]), 0.5);
        assert_eq!(jain_index([0.0, 0.0]), 0.0);
        let case = FairCase::of("x".into(), vec![[60.0, 40.0], [50.0, 50.0], [70.0, 30.0]]);
        assert!((case.first_share - 1.2).abs() < 1e-9);
        assert!((case.jain_index - 10_000.0 / (2.0 * 5_200.0)).abs() < 1e-9);
    }
}
