//! `exchange`: both directions, a number of frames going back and forth.

use super::args::Group;
use super::round_trips::Asked;
use super::session::Session;
use super::way::Way;
use crate::experiment::cells::{compare, measure_cells};
use crate::report::figure::Figure;
use crate::report::{Case, Column, Contender as _, Ratio, Section, median, outcomes};
use exos_host::Result;
use schemars::JsonSchema;
use serde::Serialize;
use std::fmt;

/// The ways that are compared.
pub(super) const WAYS: [Way; 3] = [Way::Ring, Way::Live, Way::Cheaper];

/// Frames of one length, and how many of them are under way.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Exchange {
    /// `exchange/LENGTH/NUMBER`.
    pub name: String,
    /// Bytes of a frame, without its check sequence.
    pub frame_bytes: usize,
    /// Frames under way.
    pub under_way: u32,
    /// What each way did.
    pub results: Vec<ExchangeOutcome>,
    /// Round trips a second of each way by those of the ring.
    pub ratios: Vec<Ratio>,
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

impl Case for Exchange {
    type Outcome = ExchangeOutcome;
    const NAMES: &'static str = "exchange/bytes/under way";
    const MORE: &'static [Column<Self, ExchangeOutcome>] = &[Column::text("x ring", |case, r| {
        Ratio::shown(&case.ratios, &r.name(), &Way::Ring.to_string())
    })];

    fn parts(&self) -> (&str, &[ExchangeOutcome]) {
        (&self.name, &self.results)
    }
}

const NOTE: &str = "trips: frames there and back; lost: by those that came back; x: trips/s by the ring's, median of the runs' ratios, \
    the least and the most.";

pub(super) fn section(cases: &[Exchange]) -> Section {
    let series = WAYS.map(|way| way.to_string());
    let series: Vec<&str> = series.iter().map(String::as_str).collect();
    let about = (
        "Frames there and back, by those of the ring",
        "The numbers are round trips a second.",
    );
    let kind = |case: &&Exchange| format!("frames of {} bytes", case.frame_bytes);
    let name = |case: &&Exchange| format!("{} under way", case.under_way);
    let value = |case: &&Exchange, way: &str| {
        ExchangeOutcome::find(&case.results, way).map(|r| r.round_trips_per_sec)
    };
    let by = ("by the ring", series[0]);
    let figure = Figure::by_peer(about, by, &series, cases, (kind, name), value, |_| None);
    Section::of("Both directions", NOTE, cases).with_figures(figure)
}

/// What is measured together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Cell {
    frame_bytes: usize,
    under_way: u32,
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}/{}/{}",
            Group::Exchange,
            self.frame_bytes,
            self.under_way
        )
    }
}

/// All.
pub(super) fn cells(lens: &[usize], under_way: &[u32]) -> Vec<Cell> {
    let cells = lens.iter().flat_map(|&frame_bytes| {
        let cell = move |&under_way| Cell {
            frame_bytes,
            under_way,
        };
        under_way.iter().map(cell)
    });
    cells.collect()
}

/// Measures cells by those ways that can do them.
pub(super) fn measure(session: &Session, cells: &[Cell], ways: &[Way]) -> Result<Vec<Exchange>> {
    let ways: Vec<Way> = WAYS.into_iter().filter(|way| ways.contains(way)).collect();
    if cells.is_empty() || ways.is_empty() {
        return Ok(Vec::new());
    }
    measure_cells(session, cells, ways.len(), |cell| {
        let run = |way: &Way| {
            let asked = session.ask(*way, cell.frame_bytes, cell.under_way)?;
            Ok(ExchangeRun::of(&asked))
        };
        let results = compare(session, cell, &ways, |way| *way, run)?;
        Ok(vec![Exchange::new(*cell, results)])
    })
}

impl ExchangeRun {
    fn of(asked: &Asked) -> Self {
        Self {
            round_trips_per_sec: asked.per_sec(),
            lost_share: asked.lost as f64 / asked.round_trips.max(1) as f64,
            live_share: asked.live_share,
        }
    }
}

impl Exchange {
    pub(super) fn new(cell: Cell, results: Vec<ExchangeOutcome>) -> Self {
        let rates = |r: &ExchangeOutcome| r.each_run(|run| run.round_trips_per_sec);
        let (ring, others): (Vec<_>, Vec<_>) = results.iter().partition(|r| r.way == Way::Ring);
        let by_ring = |ring: &&ExchangeOutcome| {
            let others = others.iter().map(|r| Ratio::of(&rates(r), &rates(ring)));
            others.collect()
        };
        Self {
            name: cell.to_string(),
            frame_bytes: cell.frame_bytes,
            under_way: cell.under_way,
            ratios: ring.first().map_or(Vec::new(), by_ring),
            results,
        }
    }
}
