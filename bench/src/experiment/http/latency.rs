//! Latency at a given rate: half of what nginx manages at most, in the same run.
//!
//! Requests are meant to begin at times that do not depend on the server, and their time counts from then: one that
//! had to wait for a connection, because the server was busy with others, has waited.

use super::args::{Group, HttpArgs, PEER};
use super::session::Session;
use crate::experiment::cells::{in_turn, measure_cells};
use crate::report::figure::Figure;
use crate::report::{Ratio, Section, case, figures, median, median_of};
use crate::stage::packets::Visited;
use crate::stage::request::{Connection, Size};
use crate::stage::web::Server;
use exos_host::Result;
use exos_lab::{Guard, WireKind};
use exos_program::figure::distributions;
use std::fmt;

/// The document that is asked for.
pub(super) const DOCUMENT: Size = Size::of_bytes(1024);

/// The part of nginx's highest rate.
const PART: f64 = 0.5;

case! {
    /// One kind of connection at one rate.
    pub struct Latency in "latency/connections/size" from (cell: Cell, rates: &[f64]) {
        /// `latency/CONNECTION/SIZE`.
        name: String = cell.to_string();
        /// How requests were spread over connections.
        connection: Connection = cell.0;
        /// The size of the document in bytes.
        size_bytes: u64 = DOCUMENT.bytes();
        /// Requests a second that were meant to begin, at intervals distributed exponentially: half of nginx's highest rate in the
        /// same run; the median.
        rate_per_sec: f64 = median(rates.to_vec());
    } of {
        /// What each server did.
        results: LatencyOutcome;
        /// The 99th percentile of ours by that of each other: less than 1 is better.
        p99_ratios: Vec<Ratio> = Ratio::all(&results.iter().map(LatencyOutcome::p99).collect::<Vec<_>>());
    } columns {
        "requests/s" 0 (|case, _| case.rate_per_sec);
        "p99 x nginx" (|case, r| Ratio::shown(&case.p99_ratios, &r.server, PEER));
    }
}

figures! {
    /// One server at that rate.
    pub struct LatencyOutcome {
        /// The server.
        server: String, "server";
        /// `[percent, microseconds]`: this share of the requests took at most this time, from when they were meant to begin,
        /// whether or not a connection was free then; medians over the runs.
        curve_us: Vec<(f64, f64)>,
            "p50" 0 |r| r.at(50.0), "p90" 0 |r| r.at(90.0), "p99" 0 |r| r.at(99.0), "p99.9" 0 |r| r.at(99.9), "longest" 0 |r| r.at(100.0);
        /// Requests that were not answered within a second after the end, of all runs; they count with the time that had passed.
        unanswered: u64;
        /// Errors of all runs.
        errors: u64, "errors" |r| r.errors + r.unanswered;
        /// Every run, as our client told it.
        runs: Vec<Visited>;
    }
}

const NOTE: &str = "Microseconds from when each request was meant to begin, whether or not a connection was free then; errors: also those that \
     were not answered.";

pub(super) fn section(cases: &[Latency], series: &[&str]) -> Section {
    let part = |case: &Latency| {
        let curves: Vec<_> = case.results.iter().map(|r| r.curve_us.clone()).collect();
        let (size, rate) = (Size::of_bytes(case.size_bytes), case.rate_per_sec);
        let title = format!(
            "{}, {size}, {rate:.0} requests a second",
            case.connection.title()
        );
        (
            title,
            distributions("time that this part of all requests took at most", &curves),
        )
    };
    let about = ("Distributions", "");
    let series = series.iter().copied().enumerate();
    let figure = Figure::drawn(about, series, cases.iter().map(part).collect());
    Section::of("Latency at half of nginx's highest rate", NOTE, cases).with_figures([figure])
}

impl LatencyOutcome {
    pub(super) fn of(server: Server, runs: Vec<Visited>) -> Self {
        let shares = runs[0].latency_us.iter().map(|(share, _)| *share);
        let at = |share: f64| (share, median_of(&runs, |run| run.latency(share)));
        Self {
            server: server.to_string(),
            curve_us: shares.map(at).collect(),
            unanswered: runs.iter().map(|run| run.unanswered).sum(),
            errors: runs.iter().map(|run| run.errors.total()).sum(),
            runs,
        }
    }

    fn at(&self, share: f64) -> Option<f64> {
        let found = self.curve_us.iter().find(|(s, _)| *s == share);
        found.map(|(_, us)| *us)
    }

    fn p99(&self) -> (String, Vec<f64>) {
        let p99 = self.runs.iter().map(|run| run.latency(99.0));
        (self.server.clone(), p99.collect())
    }
}

/// A kind of connection.
#[derive(Clone, Copy)]
pub(super) struct Cell(pub Connection);

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "latency/{}/{}", self.0, DOCUMENT.name())
    }
}

pub(super) fn cells(args: &HttpArgs) -> Vec<Cell> {
    args.wanted(Group::Latency, args.connection.iter().copied().map(Cell))
}

/// Measures them, where there is somebody to take the rate of.
pub(super) fn measure(session: &Session<'_>) -> Result<Vec<Latency>> {
    let cells = cells(session.args);
    if cells.is_empty() {
        return Ok(Vec::new());
    }
    if !session.servers.contains(&Server::Nginx) {
        let why = "latency was not measured: its rate is half of nginx's, which is not there";
        session.note(why.to_owned());
        return Ok(Vec::new());
    }
    let lab = session.lab(WireKind::Plain)?;
    measure_cells(session, &cells, session.servers.len(), |&cell| {
        let rate = |_| {
            let peak = visit(session, &lab, Server::Nginx, cell, None)?;
            Ok((PART * peak.per_sec()).round())
        };
        let (rates, runs) = in_turn(session, cell, &session.servers, rate, |rate, server| {
            visit(session, &lab, *server, cell, Some(*rate))
        })?;
        let outcomes = session.servers.iter().zip(runs);
        let outcomes = outcomes.map(|(server, runs)| LatencyOutcome::of(*server, runs));
        Ok(vec![Latency::new(cell, &rates, outcomes.collect())])
    })
}

fn visit(
    session: &Session<'_>,
    lab: &Guard,
    server: Server,
    cell: Cell,
    rate: Option<f64>,
) -> Result<Visited> {
    let serving = session.serve(lab, server, DOCUMENT)?;
    let mut visit = session.prepare_visit(lab, &serving, cell.0, DOCUMENT)?;
    visit.rate = rate;
    let (visited, _) = session.visit(lab, &serving, &visit, || Ok(()))?;
    session.end(WireKind::Plain, serving)?;
    Ok(visited)
}
