//! `lone`: a single frame there and back, and the next only when it is back.

use super::cell::{self, Cell};
use super::session::Session;
use super::way::Way;
use crate::report::{case, median, outcomes, sum};
use exos_host::Result;

/// The ways that are compared: live frame mode is not for lone frames.
const WAYS: [Way; 2] = [Way::Ring, Way::Cheaper];

case! {
    /// Frames of one length.
    pub struct Lone in "lone/bytes" from (cell: Cell) {
        /// `lone/LENGTH`.
        name: String = cell.to_string();
        /// Bytes of a frame, without its check sequence.
        frame_bytes: usize = cell.frame_bytes;
    } of {
        /// What each way did.
        results: LoneOutcome;
    }
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

pub(super) const NOTE: &str = "Microseconds there and back, both ends polling; lost: of all runs.";

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
    cell::measure(session, cells, &WAYS, run, Lone::new)
}
