//! Two flows through one bottleneck: what share each gets.

use super::args::Group;
use super::peer::{Listener, Role};
use super::session::{EXOS, PEER, Session};
use crate::experiment::cells::{in_turn, measure_cells};
use crate::report::{figures, median_of};
use crate::stage::Started;
use exos_host::Result;
use exos_lab::{Conditions, Side};
use std::fmt;
use std::time::Duration;

/// The bottleneck, in bits a second.
const RATE_BITS_PER_SEC: u64 = 100_000_000;

/// The round trip without a queue.
const ROUND_TRIP: Duration = Duration::from_millis(20);

/// The queue before the bottleneck: what it sends in a round trip.
const QUEUE_BYTES: u64 = 250_000;

/// The time from both connections' beginning until their shares are looked at.
const WARMUP_SECS: f64 = 3.0;

/// Both quickly, which shows that two flows share.
const QUICK_SECS: f64 = 1.0;

/// How long the shares are looked at, beyond `--seconds`: CUBIC's cycles last some seconds here.
const MORE_SECS: f64 = 4.0;

figures! {
    /// Two flows and their shares.
    pub struct Fair {
        /// Who sends: the first flow is ours, if one of them is.
        name: String, "who sends";
        /// Goodput of the first and the second flow in each run, in Mbit/s.
        runs: Vec<[f64; 2]>, "Mbit/s" 1 |r| median_of(&r.runs, |run| run[0]), "Mbit/s" 1 |r| median_of(&r.runs, |run| run[1]);
        /// Goodput of the first, divided by the mean of both: median over the runs.
        first_share: f64, "1st share" 2;
        /// Jain's index, 1 for equal shares and 1/2 when one gets all: median over the runs.
        jain_index: f64, "Jain" 3;
    }
}

impl Fair {
    fn of(name: String, runs: Vec<[f64; 2]>) -> Self {
        let share = |r: &[f64; 2]| 2.0 * r[0] / (r[0] + r[1]).max(f64::MIN_POSITIVE);
        Self {
            name,
            first_share: median_of(&runs, share),
            jain_index: median_of(&runs, |r| jain_index(*r)),
            runs,
        }
    }
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

/// How many of the two flows are ours.
#[derive(Clone, Copy)]
pub(super) struct Pair {
    ours: usize,
}

pub(super) const PAIRS: [Pair; 3] = [Pair { ours: 1 }, Pair { ours: 2 }, Pair { ours: 0 }];

impl fmt::Display for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.ours {
            0 => "fair/linux+linux",
            1 => "fair/exos+linux",
            _ => "fair/exos+exos",
        })
    }
}

/// Measures the cells that were asked for.
pub(super) fn measure(session: &Session<'_>) -> Result<Vec<Fair>> {
    let pairs = session.args.wanted(Group::Fair, PAIRS);
    measure_cells(session, &pairs, 1, |&pair| {
        let seed = |run| Ok(session.args.seed + u64::from(run));
        let run = |seed: &u64, pair: &Pair| measure_one(session, *pair, *seed);
        let (_, mut runs) = in_turn(session, "fair", &[pair], seed, run)?;
        Ok(vec![Fair::of(pair.to_string(), runs.remove(0))])
    })
}

fn measure_one(session: &Session<'_>, pair: Pair, seed: u64) -> Result<[f64; 2]> {
    let conditions = Conditions {
        delay: ROUND_TRIP / 2,
        rate_bits_per_sec: Some(RATE_BITS_PER_SEC),
        queue_bytes: Some(QUEUE_BYTES),
        ..Conditions::default()
    };
    let lab = session.emulated(&conditions, seed)?;
    let [warmup, more] = match session.args.common.quick {
        true => [QUICK_SECS; 2],
        false => [WARMUP_SECS, MORE_SECS],
    };
    let listener = Listener {
        role: Role::Receive,
        address: PEER,
        congestion: "cubic".to_owned(),
        connections: 2,
        warmup,
        seconds: session.args.seconds() + more,
    };
    let peer = session.help_on(&lab, Side::B, &listener)?;
    let mut started: Vec<Started> = Vec::new();
    if pair.ours > 0 {
        // One program, since a queue belongs to one.
        let (count, congestion) = (pair.ours, &session.args.ours);
        let chargen =
            format!("chargen --connect {PEER} --connections {count} --congestion {congestion}");
        started.push(session.exos(&lab, Side::A, &chargen)?);
    }
    for _ in pair.ours..2 {
        started.push(session.connect(&lab, Role::Send, "cubic")?.started);
    }
    let mut measured = peer.measured(session, warmup + listener.seconds)?;
    started.into_iter().try_for_each(Started::stop)?;
    // Ours first.
    measured.flows.sort_by_key(|flow| flow.peer.ip() != EXOS);
    Ok([0, 1].map(|flow| measured.mbit_per_sec(flow)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_and_jains_index() {
        assert_eq!(jain_index([5.0, 5.0]), 1.0);
        assert_eq!(jain_index([5.0, 0.0]), 0.5);
        assert_eq!(jain_index([0.0, 0.0]), 0.0);
        let case = Fair::of("x".into(), vec![[60.0, 40.0], [50.0, 50.0], [70.0, 30.0]]);
        assert!((case.first_share - 1.2).abs() < 1e-9);
        assert!((case.jain_index - 10_000.0 / (2.0 * 5_200.0)).abs() < 1e-9);
    }
}
