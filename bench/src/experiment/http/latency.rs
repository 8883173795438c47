//! Latency at a given rate: half of what nginx manages at most, in the same run.
//!
//! Requests are meant to begin at times that do not depend on the server, and their time counts from then: one that
//! had to wait for a connection, because the server was busy with others, has waited.

use super::packets::Visited;
use super::{Connection, Group, HttpArgs, Server, Session, Size};
use crate::report::{Ratio, median, median_of};
use exos_host::Result;
use exos_lab::{Guard, WireKind};
use serde::Serialize;

/// The document that is asked for.
pub(super) const DOCUMENT: Size = Size::of_bytes(1024);

/// The part of nginx's highest rate.
const PART: f64 = 0.5;

/// One kind of connection at one rate.
#[derive(Clone, Debug, Serialize)]
pub struct LatencyCase {
    /// Its name.
    pub name: String,
    /// How requests were spread over connections.
    pub connection: Connection,
    /// The size of the document in bytes.
    pub size_bytes: u64,
    /// Requests a second that were meant to begin: half of nginx's highest rate in the same run; the median.
    pub rate_per_sec: f64,
    /// What each server did.
    pub results: Vec<LatencyOutcome>,
    /// The 99th percentile of ours by that of each other.
    pub p99_ratios: Vec<Ratio>,
}

/// One server at that rate.
#[derive(Clone, Debug, Serialize)]
pub struct LatencyOutcome {
    /// The server.
    pub server: String,
    /// `[percent, microseconds]`: this share of the requests took at most this time, from when they were meant to begin; medians
    /// over the runs.
    pub curve_us: Vec<(f64, f64)>,
    /// Requests that were not answered within a second after the end, of all runs.
    pub unanswered: u64,
    /// Errors of all runs.
    pub errors: u64,
    /// Every run, as our client told it.
    pub runs: Vec<Visited>,
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
}

impl LatencyCase {
    pub(super) fn new(
        name: String,
        connection: Connection,
        size: Size,
        rates: &[f64],
        results: Vec<LatencyOutcome>,
    ) -> Self {
        let p99 = |o: &LatencyOutcome| o.runs.iter().map(|run| run.latency(99.0)).collect();
        let all: Vec<(String, Vec<f64>)> =
            results.iter().map(|o| (o.server.clone(), p99(o))).collect();
        Self {
            name,
            connection,
            size_bytes: size.bytes(),
            rate_per_sec: median(rates.to_vec()),
            p99_ratios: Ratio::all(&all),
            results,
        }
    }
}

fn name(connection: Connection) -> String {
    format!("latency/{connection}/{}", DOCUMENT.name())
}

/// The names of the cells.
pub(super) fn names(args: &HttpArgs) -> Vec<String> {
    let names = args.connection.iter().map(|&connection| name(connection));
    names
        .filter(|name| args.wants(Group::Latency, name))
        .collect()
}

/// Measures them, where there is somebody to take the rate of.
pub(super) fn measure(session: &Session<'_>) -> Result<Vec<LatencyCase>> {
    let wanted = |c: &&Connection| session.args.wants(Group::Latency, &name(**c));
    let connections: Vec<_> = session
        .args
        .connection
        .iter()
        .filter(wanted)
        .copied()
        .collect();
    if connections.is_empty() {
        return Ok(Vec::new());
    }
    if !session
        .servers
        .iter()
        .any(|(server, _)| *server == Server::Nginx)
    {
        session.note(
            "latency was not measured: its rate is half of nginx's, which is not there".to_owned(),
        );
        return Ok(Vec::new());
    }
    let lab = session.lab(WireKind::Plain)?;
    connections
        .into_iter()
        .map(|c| measure_one(session, &lab, c))
        .collect()
}

fn measure_one(session: &Session<'_>, lab: &Guard, connection: Connection) -> Result<LatencyCase> {
    let runs = session.args.runs();
    let progress = session.progress(session.servers.len() * runs as usize);
    let (mut rates, mut all) = (Vec::new(), vec![Vec::new(); session.servers.len()]);
    for _ in 0..runs {
        progress.set_message(format!("{}, the rate", name(connection)));
        let peak = visit(session, lab, Server::Nginx, connection, None)?;
        let rate = (PART * peak.requests as f64 / peak.seconds).round();
        rates.push(rate);
        for ((server, _), visits) in session.servers.iter().zip(&mut all) {
            progress.set_message(format!("{}, {server}", name(connection)));
            visits.push(visit(session, lab, *server, connection, Some(rate))?);
            progress.inc(1);
        }
    }
    progress.finish_and_clear();
    let servers = session.servers.iter().map(|(server, _)| *server);
    let results = servers
        .zip(all)
        .map(|(server, runs)| LatencyOutcome::of(server, runs));
    let case = LatencyCase::new(
        name(connection),
        connection,
        DOCUMENT,
        &rates,
        results.collect(),
    );
    eprint!("{}", case.rows());
    Ok(case)
}

fn visit(
    session: &Session<'_>,
    lab: &Guard,
    server: Server,
    connection: Connection,
    rate: Option<f64>,
) -> Result<Visited> {
    let serving = session.serve(lab, server, DOCUMENT)?;
    let mut arguments = vec!["--kind".to_owned(), connection.to_string()];
    arguments.extend(["--size".to_owned(), DOCUMENT.bytes().to_string()]);
    arguments.extend([
        "--connections".to_owned(),
        session.args.connections.to_string(),
    ]);
    if let Some(rate) = rate {
        arguments.extend(["--rate".to_owned(), rate.to_string()]);
    }
    let (visited, _, ()) = session.visit(lab, (server, &serving), &arguments, || Ok(()))?;
    session.end(WireKind::Plain, server, serving)?;
    Ok(visited)
}
