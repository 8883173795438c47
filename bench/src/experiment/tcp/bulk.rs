//! Goodput of one connection over the emulated wire, both ways.

use super::args::{Group, TcpArgs};
use super::peer::Role;
use super::session::{EXOS, PEER, Session};
use crate::experiment::cells::{in_turn, measure_cells};
use crate::report::{figures, median, median_of, ratios};
use exos_host::Result;
use exos_lab::emulator::BurstLoss;
use exos_lab::{Conditions, Emulated, Side, Statistics};
use schemars::JsonSchema;
use serde::Serialize;
use std::fmt;
use std::time::Duration;

/// Round trips without queues, in milliseconds.
const ROUND_TRIPS_MS: [u64; 3] = [1, 20, 100];

/// Losses, in percent.
const LOSSES: [f64; 4] = [0.0, 0.1, 1.0, 3.0];

/// Frames that are lost together where losses come in bursts, on average: a queue that overflows loses some.
const BURST_FRAMES: f64 = 4.0;

/// Share of frames that others pass, where there is reordering.
const REORDERED: f64 = 0.01;

/// What is asked of our stack in every cell: this part of Linux's.
const WANTED: f64 = 0.95;

figures! {
    /// One cell of goodput.
    pub struct Bulk {
        /// Who sends, round trip, loss in each direction (`-burst`: four frames at a time on average), `reorder`: 1 % of frames are
        /// passed by others.
        name: String, "who sends/round trip/loss", "exos" 2 |r| r.goodput(0), "linux" 2 |r| r.goodput(1);
        /// What the wire did, in each direction, as in `exos lab status --json`.
        #[schemars(with = "serde_json::Value")]
        conditions: Conditions;
        /// Our goodput divided by Linux's in the same run: median over the runs. Linux's sender has CUBIC, ours too without
        /// `--ours`.
        ratio: f64, "x" 2;
        /// The means over the runs, divided: it varies less where a few long silences decide a run.
        ratio_of_means: f64, "x means" 2;
        /// What each did.
        results: Vec<Outcome>, "linux-bbr" 2 |r| r.goodput(2), "" |r| if r.ratio < WANTED { "<" } else { "" };
    }
}

/// One contender in one cell.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Outcome {
    /// `exos`, `linux` or, where the measured stack sends, `linux-bbr`.
    pub contender: String,
    /// Median over the runs.
    pub goodput_mbit_per_sec: f64,
    /// Every run.
    pub runs: Vec<Run>,
}

/// One measurement.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Run {
    /// The seed of the wire's losses.
    pub seed: u64,
    /// Data that arrived, from the connection's beginning.
    pub goodput_mbit_per_sec: f64,
    /// What was sent again.
    pub retransmissions: Retransmissions,
}

/// What the sender sent again, as far as it tells, else `null`.
#[derive(Clone, Copy, Debug, Default, Serialize, JsonSchema)]
pub struct Retransmissions {
    /// Segments.
    pub segments: Option<u64>,
    /// Timeouts of the retransmission timer.
    pub timeouts: Option<u64>,
}

pub(super) const NOTE: &str = "x: exos / linux, median of the runs.";

/// How many cells are below what is asked of them.
pub(super) fn below(cases: &[Bulk]) -> String {
    let below = cases.iter().filter(|case| case.ratio < WANTED).count();
    format!("{below} of {} cells below {WANTED}", cases.len())
}

impl Outcome {
    fn of(contender: impl ToString, runs: Vec<Run>) -> Self {
        Self {
            contender: contender.to_string(),
            goodput_mbit_per_sec: median_of(&runs, |run| run.goodput_mbit_per_sec),
            runs,
        }
    }

    fn goodputs(&self) -> Vec<f64> {
        self.runs.iter().map(|r| r.goodput_mbit_per_sec).collect()
    }
}

impl Bulk {
    /// The first result is ours, the second Linux's with the same congestion control.
    fn new(name: String, conditions: Conditions, results: Vec<Outcome>) -> Self {
        let [ours, linux] = [&results[0], &results[1]].map(Outcome::goodputs);
        let [our_sum, linux_sum]: [f64; 2] = [&ours, &linux].map(|all| all.iter().sum());
        Self {
            name,
            conditions,
            ratio: median(ratios(&ours, &linux)),
            ratio_of_means: our_sum / linux_sum.max(f64::MIN_POSITIVE),
            results,
        }
    }

    fn goodput(&self, at: usize) -> Option<f64> {
        let result = self.results.get(at);
        result.map(|r| r.goodput_mbit_per_sec)
    }
}

/// A cell: what the stack that is measured does, and what its wire does.
#[derive(Clone, Debug)]
pub(super) struct Cell {
    role: Role,
    name: String,
    conditions: Conditions,
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// All cells, in the order in which they are measured.
pub(super) fn cells(args: &TcpArgs) -> Vec<Cell> {
    let mut cells = Vec::new();
    for round_trip in ROUND_TRIPS_MS {
        for percent in LOSSES {
            for bursts in [false, true] {
                if bursts && percent == 0.0 {
                    continue;
                }
                for reorder in [false, true] {
                    for role in [Role::Send, Role::Receive] {
                        cells.push(cell(args, role, round_trip, percent, bursts, reorder));
                    }
                }
            }
        }
    }
    cells
}

/// A few of them: with and without losses and reordering, both ways.
fn is_quick(cell: &Cell) -> bool {
    let few = ["20ms/0%", "20ms/1%", "20ms/1%/reorder"];
    few.iter().any(|end| cell.name.ends_with(end))
}

fn cell(
    args: &TcpArgs,
    role: Role,
    round_trip: u64,
    percent: f64,
    bursts: bool,
    reorder: bool,
) -> Cell {
    let burst = if bursts { "-burst" } else { "" };
    let order = if reorder { "/reorder" } else { "" };
    let who = match role {
        Role::Send => "send",
        Role::Receive => "receive",
    };
    let share = percent / 100.0;
    Cell {
        role,
        name: format!("bulk/{who}/{round_trip}ms/{percent}%{burst}{order}"),
        conditions: Conditions {
            delay: Duration::from_micros(round_trip * 500),
            loss: if bursts { 0.0 } else { share },
            burst_loss: bursts.then_some(BurstLoss {
                loss: share,
                burst_frames: BURST_FRAMES,
                loss_in_burst: 1.0,
            }),
            reorder: if reorder { REORDERED } else { 0.0 },
            rate_bits_per_sec: (args.rate > 0).then_some(args.rate * 1_000_000),
            ..Conditions::default()
        },
    }
}

/// Who is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug, strum::Display)]
#[strum(serialize_all = "kebab-case")]
enum Contender {
    Exos,
    Linux,
    LinuxBbr,
}

/// Measures the cells that were asked for.
pub(super) fn measure(session: &Session<'_>) -> Result<Vec<Bulk>> {
    let args = session.args;
    let mut cells = args.wanted(Group::Bulk, cells(args));
    if args.common.quick && args.common.only.is_empty() {
        cells.retain(is_quick);
    }
    measure_cells(session, &cells, 3, |cell| {
        let mut contenders = vec![Contender::Exos, Contender::Linux];
        // Who receives has no congestion control.
        if cell.role == Role::Send && !args.no_bbr {
            contenders.push(Contender::LinuxBbr);
        }
        let seed = |run| Ok(args.seed + u64::from(run));
        let run = |seed: &u64, who: &Contender| measure_one(session, cell, *who, *seed);
        let (_, runs) = in_turn(session, cell, &contenders, seed, run)?;
        let outcomes = contenders.iter().zip(runs);
        let outcomes = outcomes.map(|(who, runs)| Outcome::of(who, runs));
        let (name, conditions) = (cell.name.clone(), cell.conditions.clone());
        Ok(vec![Bulk::new(name, conditions, outcomes.collect())])
    })
}

fn measure_one(session: &Session<'_>, cell: &Cell, who: Contender, seed: u64) -> Result<Run> {
    let lab = session.emulated(&cell.conditions, seed)?;
    // Of the sender, whichever side that is on.
    let congestion = match who {
        Contender::Exos | Contender::Linux => "cubic",
        Contender::LinuxBbr => "bbr",
    };
    let peer = session.listen(&lab, cell.role.other(), congestion)?;
    let seconds = session.args.seconds();
    let (measured, own) = if who == Contender::Exos {
        let ours = start_ours(session, &lab, cell.role)?;
        let measured = peer.measured(session, seconds)?;
        (measured, ours.statistics()?)
    } else {
        let theirs = session.connect(&lab, cell.role, congestion)?;
        let measured = peer.measured(session, seconds)?;
        theirs.stop()?;
        (measured, serde_json::Value::Null)
    };
    let retransmissions = match cell.role {
        Role::Send => Retransmissions {
            segments: own["counters"]["tcp_segments_retransmitted"].as_u64(),
            timeouts: own["counters"]["tcp_timeouts"].as_u64(),
        },
        Role::Receive => Retransmissions {
            segments: Some(measured.flows[0].retransmitted_segments.into()),
            timeouts: measured.flows[0].timeouts.map(u64::from),
        },
    };
    note_own_losses(session, cell, &lab.finish()?);
    Ok(Run {
        seed,
        goodput_mbit_per_sec: measured.mbit_per_sec(0),
        retransmissions,
    })
}

fn start_ours(session: &Session<'_>, lab: &Emulated, role: Role) -> Result<crate::stage::Started> {
    let congestion = match role {
        Role::Send => format!(" --congestion {}", session.args.ours),
        Role::Receive => String::new(),
    };
    let program = role.program();
    let arguments = format!("{program} --connect {PEER}{congestion}");
    session.exos(lab, Side::A, &arguments)
}

/// What the emulator itself could not carry is no loss that was asked for.
fn note_own_losses(session: &Session<'_>, cell: &Cell, wire: &Statistics) {
    for (way, direction) in [("to", &wire.a_to_b), ("from", &wire.b_to_a)] {
        let lost = direction.own.total();
        if lost > 0 {
            session.note(format!(
                "{cell}: the emulator lost {lost} frames {way} {EXOS} against its instructions"
            ));
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use clap::Parser as _;
    use std::collections::BTreeSet;

    #[derive(clap::Parser)]
    struct Cli {
        #[command(flatten)]
        tcp: TcpArgs,
    }

    #[test]
    fn the_matrix_is_whole_and_every_cell_possible() {
        let args = Cli::try_parse_from(["bench"]).expect("defaults").tcp;
        let cells = cells(&args);
        let names: BTreeSet<&str> = cells.iter().map(|c| c.name.as_str()).collect();
        assert_eq!((cells.len(), names.len()), (84, 84));
        assert!(
            names.contains("bulk/send/1ms/0%")
                && names.contains("bulk/receive/100ms/3%-burst/reorder")
        );
        for cell in &cells {
            cell.conditions.check().expect(&cell.name);
        }
        assert_eq!(cells.iter().filter(|c| is_quick(c)).count(), 6);
    }

    pub(in crate::experiment::tcp) fn outcome(contender: &str, goodputs: [f64; 3]) -> Outcome {
        let run = |goodput| Run {
            seed: 1,
            goodput_mbit_per_sec: goodput,
            retransmissions: Retransmissions::default(),
        };
        Outcome::of(contender, goodputs.map(run).to_vec())
    }

    pub(in crate::experiment::tcp) fn bulk(results: Vec<Outcome>) -> Bulk {
        Bulk::new("bulk/send/1ms/0%".into(), Conditions::default(), results)
    }

    /// The ratio is of each run: here the medians of the goodputs alone would say 1.
    #[test]
    fn ratios_are_taken_run_by_run() {
        let results = vec![
            outcome("exos", [10.0, 30.0, 20.0]),
            outcome("linux", [20.0, 10.0, 40.0]),
        ];
        let case = bulk(results);
        assert_eq!(case.ratio, 0.5);
        assert!((case.ratio_of_means - 60.0 / 70.0).abs() < 1e-9);
        let row = crate::report::Table::of(&[case]).rows_text();
        let words: Vec<&str> = row.split_whitespace().collect();
        assert_eq!(words[1..], ["20.00", "20.00", "0.50", "0.86", "-", "<"]);
    }
}
