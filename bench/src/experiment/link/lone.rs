//! `lone`: a single frame there and back, and the next only when it is back.

use super::args::Group;
use super::round_trips::Asked;
use super::session::Session;
use super::way::Way;
use crate::experiment::cells::{in_turn, measure_cells};
use crate::report::{self, Column, Section, fixed, median_of};
use exos_host::Result;
use schemars::JsonSchema;
use serde::Serialize;
use std::fmt;

/// The ways that are compared: live frame mode is not for lone frames.
pub(super) const WAYS: [Way; 2] = [Way::Ring, Way::Cheaper];

/// Frames of one length.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Lone {
    /// `lone/LENGTH`.
    pub name: String,
    /// Bytes of a frame, without its check sequence.
    pub frame_bytes: usize,
    /// What each way did.
    pub results: Vec<LoneOutcome>,
}

/// One way: medians over the runs.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct LoneOutcome {
    /// The way, at both ends.
    pub way: Way,
    /// Time of a frame there and back in microseconds, both ends polling: the median.
    pub p50_us: f64,
    /// The 99th percentile.
    pub p99_us: f64,
    /// Every run.
    pub runs: Vec<LoneRun>,
}

/// One way in one run.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct LoneRun {
    /// Time of a frame there and back in microseconds: the median.
    pub p50_us: f64,
    /// The 99th percentile.
    pub p99_us: f64,
    /// Round trips that were timed.
    pub round_trips: u64,
    /// Frames that did not come back.
    pub lost: u64,
}

impl report::Tabular for Lone {
    type Row = LoneOutcome;
    const NAMES: &'static str = "lone/bytes";
    const COLUMNS: &'static [Column<Self, Self::Row>] = &[
        Column::text("way", |_, r| r.way.to_string()),
        Column::number("p50 us", |_, r| fixed(r.p50_us, 2)),
        Column::number("p99 us", |_, r| fixed(r.p99_us, 2)),
        Column::number("lost", |_, r| {
            let lost: u64 = r.runs.iter().map(|run| run.lost).sum();
            lost.to_string()
        }),
    ];

    fn name(&self) -> String {
        self.name.clone()
    }

    fn rows(&self) -> &[LoneOutcome] {
        &self.results
    }
}

const NOTE: &str = "Microseconds there and back, both ends polling; lost: of all runs.";

pub(super) fn section(cases: &[Lone]) -> Section {
    Section::of("A lone frame", NOTE, cases)
}

/// What is measured together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Cell {
    frame_bytes: usize,
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", Group::Lone, self.frame_bytes)
    }
}

/// All.
pub(super) fn cells(lens: &[usize]) -> Vec<Cell> {
    let cell = |&frame_bytes: &usize| Cell { frame_bytes };
    lens.iter().map(cell).collect()
}

/// Measures cells by those ways that were asked for.
pub(super) fn measure(session: &Session, cells: &[Cell], ways: &[Way]) -> Result<Vec<Lone>> {
    let ways: Vec<Way> = WAYS.into_iter().filter(|way| ways.contains(way)).collect();
    if cells.is_empty() || ways.is_empty() {
        return Ok(Vec::new());
    }
    measure_cells(session, cells, ways.len(), |cell| {
        let run = |(): &(), way: &Way| {
            let asked = session.ask(*way, cell.frame_bytes, 1)?;
            Ok(LoneRun::of(&asked))
        };
        let (_, runs) = in_turn(session, cell, &ways, |_| Ok(()), run)?;
        let results = ways.iter().zip(runs);
        let results = results.map(|(way, runs)| LoneOutcome::of(*way, runs));
        Ok(vec![Lone {
            name: cell.to_string(),
            frame_bytes: cell.frame_bytes,
            results: results.collect(),
        }])
    })
}

impl LoneRun {
    fn of(asked: &Asked) -> Self {
        Self {
            p50_us: f64::from(asked.p50_ns) / 1e3,
            p99_us: f64::from(asked.p99_ns) / 1e3,
            round_trips: asked.round_trips,
            lost: asked.lost,
        }
    }
}

impl LoneOutcome {
    pub(super) fn of(way: Way, runs: Vec<LoneRun>) -> Self {
        Self {
            way,
            p50_us: median_of(&runs, |r| r.p50_us),
            p99_us: median_of(&runs, |r| r.p99_us),
            runs,
        }
    }
}
