//! `lone`: a single frame there and back, and the next only when it is back.

use super::cell::{self, Cell};
use super::session::Session;
use super::way::Way;
use crate::report::{Case, Section, median, outcomes, sum};
use exos_host::Result;
use schemars::JsonSchema;
use serde::Serialize;

/// The ways that are compared: live frame mode is not for lone frames.
const WAYS: [Way; 2] = [Way::Ring, Way::Cheaper];

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

/// Measures cells.
pub(super) fn measure(session: &Session, cells: &[Cell]) -> Result<Vec<Lone>> {
    let run = |cell: Cell, way| {
        let seen = session.exchange(way, cell.frame_bytes, cell.count)?;
        Ok(LoneRun {
            p50_us: f64::from(seen.p50_ns) / 1e3,
            p99_us: f64::from(seen.p99_ns) / 1e3,
            round_trips: seen.done,
            lost: seen.lost,
        })
    };
    let case = |cell: Cell, results| Lone {
        name: cell.to_string(),
        frame_bytes: cell.frame_bytes,
        results,
    };
    cell::measure(session, cells, &WAYS, run, case)
}
