//! `exchange`: both directions, a number of frames going back and forth.

use super::cell::{self, Cell, by_ring};
use super::session::Session;
use super::way::Way;
use crate::report::{Contender as _, Ratio, Section, case, median, outcomes};
use exos_host::Result;

/// The ways that are compared.
const WAYS: [Way; 3] = [Way::Ring, Way::Live, Way::Cheaper];

case! {
    /// Frames of one length, and how many of them are under way.
    pub struct Exchange in "exchange/bytes/under way" from (cell: Cell) {
        /// `exchange/LENGTH/NUMBER`.
        name: String = cell.to_string();
        /// Bytes of a frame, without its check sequence.
        frame_bytes: usize = cell.frame_bytes;
        /// Frames under way.
        under_way: u32 = cell.count;
    } of {
        /// What each way did.
        results: ExchangeOutcome;
        /// Round trips a second of each way by those of the ring.
        ratios: Vec<Ratio> = by_those_of_the_ring(&results);
    } columns {
        "x ring" (|case, r| Ratio::shown(&case.ratios, &r.name(), &Way::Ring.to_string()));
    }
}

outcomes! {
    /// One way: medians over the runs.
    pub struct ExchangeOutcome of
    /// The way, at both ends.
    way: Way, "way";
    /// One way in one run.
    pub struct ExchangeRun {
        /// Frames there and back in a second.
        round_trips_per_sec: f64 as median, "trips/s" 0;
        /// Lost frames by those that came back.
        lost_share: f64 as median, "lost %" 0 |r| 100.0 * r.lost_share;
        /// Part of what the asking end sent that left in live frame mode.
        live_share: f64 as median, "live %" 0 |r| 100.0 * r.live_share;
    }
}

const NOTE: &str = "trips: frames there and back; lost: by those that came back; x: trips/s by the ring's, median of the runs' ratios, \
    the least and the most.";

pub(super) fn section(cases: &[Exchange]) -> Section {
    let about = (
        "Frames there and back, by those of the ring",
        "The numbers are round trips a second.",
    );
    let label = |case: &Exchange| (case.frame_bytes, format!("{} under way", case.under_way));
    let figure = by_ring(about, &WAYS, cases, label, |r| r.round_trips_per_sec);
    Section::of("Both directions", NOTE, cases).with_figures(figure)
}

/// Measures cells.
pub(super) fn measure(session: &Session, cells: &[Cell]) -> Result<Vec<Exchange>> {
    let run = |cell: Cell, way| {
        let seen = session.exchange(way, cell.frame_bytes, cell.count)?;
        Ok(ExchangeRun {
            round_trips_per_sec: seen.per_sec,
            lost_share: seen.lost as f64 / seen.done.max(1) as f64,
            live_share: seen.live_share,
        })
    };
    cell::measure(session, cells, &WAYS, run, Exchange::new)
}

fn by_those_of_the_ring(results: &[ExchangeOutcome]) -> Vec<Ratio> {
    let rates = |r: &ExchangeOutcome| r.each_run(|run| run.round_trips_per_sec);
    let (ring, others): (Vec<_>, Vec<_>) = results.iter().partition(|r| r.way == Way::Ring);
    let by_ring = |ring: &&ExchangeOutcome| {
        let others = others.iter().map(|r| Ratio::of(&rates(r), &rates(ring)));
        others.collect()
    };
    ring.first().map_or(Vec::new(), by_ring)
}
