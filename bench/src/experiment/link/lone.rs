//! `lone`: a single frame there and back, and the next only when it is back.

use super::args::Group;
use super::round_trips::Asked;
use super::session::Session;
use super::way::Way;
use crate::experiment::cells::{compare, measure_cells};
use crate::report::{Case, Section, median, outcomes, sum};
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

outcomes! {
    /// One way: medians over the runs, numbers of all.
    pub struct LoneOutcome of
    /// The way, at both ends.
    way: Way, "way";
    /// One way in one run.
    pub struct LoneRun {
        /// Time of a frame there and back in microseconds, both ends polling: the median.
        p50_us: f64 as median, "p50 us" 2;
        /// The 99th percentile.
        p99_us: f64 as median, "p99 us" 2;
        /// Round trips that were timed.
        round_trips: u64 as sum;
        /// Frames that did not come back.
        lost: u64 as sum, "lost";
    }
}

impl Case for Lone {
    type Outcome = LoneOutcome;
    const NAMES: &'static str = "lone/bytes";

    fn parts(&self) -> (&str, &[LoneOutcome]) {
        (&self.name, &self.results)
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
        let run = |way: &Way| {
            let asked = session.ask(*way, cell.frame_bytes, 1)?;
            Ok(LoneRun::of(&asked))
        };
        Ok(vec![Lone {
            name: cell.to_string(),
            frame_bytes: cell.frame_bytes,
            results: compare(session, cell, &ways, |way| *way, run)?,
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
