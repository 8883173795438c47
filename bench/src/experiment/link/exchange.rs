//! `exchange`: both directions, a number of frames going back and forth.

use super::args::Group;
use super::round_trips::Asked;
use super::session::Session;
use super::way::Way;
use crate::experiment::cells::{in_turn, measure_cells};
use crate::report::figure::Figure;
use crate::report::{self, Column, Ratio, Section, fixed, median_of, percent_of};
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

/// One way: medians over the runs.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ExchangeOutcome {
    /// The way, at both ends.
    pub way: Way,
    /// Frames there and back in a second.
    pub round_trips_per_sec: f64,
    /// Lost frames by those that came back.
    pub lost_share: f64,
    /// Part of what the asking end sent that left in live frame mode.
    pub live_share: f64,
    /// Every run.
    pub runs: Vec<ExchangeRun>,
}

/// One way in one run.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ExchangeRun {
    /// Frames there and back in a second.
    pub round_trips_per_sec: f64,
    /// Lost frames by those that came back.
    pub lost_share: f64,
    /// Part of what the asking end sent that left in live frame mode.
    pub live_share: f64,
}

impl report::Tabular for Exchange {
    type Row = ExchangeOutcome;
    const NAMES: &'static str = "exchange/bytes/under way";
    const COLUMNS: &'static [Column<Self, Self::Row>] = &[
        Column::text("way", |_, r| r.way.to_string()),
        Column::number("trips/s", |_, r| fixed(r.round_trips_per_sec, 0)),
        Column::number("lost %", |_, r| percent_of(r.lost_share)),
        Column::number("live %", |_, r| percent_of(r.live_share)),
        Column::text("x ring", |case, r| {
            Ratio::shown(&case.ratios, &r.way.to_string(), &Way::Ring.to_string())
        }),
    ];

    fn name(&self) -> String {
        self.name.clone()
    }

    fn rows(&self) -> &[ExchangeOutcome] {
        &self.results
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
        let mut results = case.results.iter();
        let result = results.find(|r| r.way.to_string() == way)?;
        Some(result.round_trips_per_sec)
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
        let run = |(): &(), way: &Way| {
            let asked = session.ask(*way, cell.frame_bytes, cell.under_way)?;
            Ok(ExchangeRun::of(&asked))
        };
        let (_, runs) = in_turn(session, cell, &ways, |_| Ok(()), run)?;
        let results = ways.iter().zip(runs);
        let results = results.map(|(way, runs)| ExchangeOutcome::of(*way, runs));
        Ok(vec![Exchange::new(*cell, results.collect())])
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

impl ExchangeOutcome {
    pub(super) fn of(way: Way, runs: Vec<ExchangeRun>) -> Self {
        let of = |value: fn(&ExchangeRun) -> f64| median_of(&runs, value);
        Self {
            way,
            round_trips_per_sec: of(|r| r.round_trips_per_sec),
            lost_share: of(|r| r.lost_share),
            live_share: of(|r| r.live_share),
            runs,
        }
    }
}

impl Exchange {
    pub(super) fn new(cell: Cell, results: Vec<ExchangeOutcome>) -> Self {
        let rates = |r: &ExchangeOutcome| {
            let rates = r.runs.iter().map(|run| run.round_trips_per_sec);
            (r.way.to_string(), rates.collect::<Vec<f64>>())
        };
        let all: Vec<_> = results.iter().map(rates).collect();
        let ring = all.iter().find(|(way, _)| *way == Way::Ring.to_string());
        let others = all.iter().filter(|(way, _)| *way != Way::Ring.to_string());
        let ratios = ring.map_or(Vec::new(), |ring| {
            others.map(|way| Ratio::of(way, ring)).collect()
        });
        Self {
            name: cell.to_string(),
            frame_bytes: cell.frame_bytes,
            under_way: cell.under_way,
            results,
            ratios,
        }
    }
}
