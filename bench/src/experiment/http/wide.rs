//! Throughput over long round trips: many connections, of whose answers each is on its way, or waits to be acknowledged, for most of the time, and
//! what memory they take meanwhile (*IO-Lite*, Figure 7).
//!
//! A server keeps what it has sent until it is acknowledged: in its cache, once for all connections, or in a send buffer of each. With enough
//! connections a longer round trip leaves the rate as it is, and makes more wait.

use super::args::{Group, HttpArgs, PEER};
use super::session::Session;
use crate::experiment::cells::{compare, measure_cells};
use crate::report::{Ratio, case, median, outcomes, sum};
use crate::stage::memory::{self, segments_resent};
use crate::stage::request::{Connection, Size};
use crate::stage::web::{LoadReport, Server};
use exos_host::{Error, Result};
use exos_lab::{Conditions, Emulated, Side};
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// What is asked for: about what a request of the paper's trace is for.
pub(super) const DOCUMENT: Size = Size::of_bytes(16 * 1024);

/// Round trips until all connections stand, and windows have grown.
const WARM_UP_TRIPS: u32 = 8;
/// And time for connecting them.
const WARM_UP: Duration = Duration::from_millis(500);

/// When memory is looked at: this part of what is measured has passed.
const LOOK_AT: f64 = 0.8;

case! {
    /// A round trip.
    pub struct Wide in "round trip" from (cell: Cell, kept_busy: u32) {
        /// `wide/MS`.
        name: String = cell.to_string();
        /// The round trip in milliseconds.
        round_trip_ms: u32 = cell.0;
        /// Connections, each of which asks for a document of 16 KB as soon as it has one.
        connections: u32 = kept_busy;
    } of {
        /// What each server did.
        results: WideOutcome;
        /// Answers a second, of ours by each other server.
        ratios: Vec<Ratio> = Ratio::among(&results, |run| run.per_sec);
        /// By server, its answers a second by those over the first round trip of the session.
        kept: BTreeMap<String, f64> = BTreeMap::new();
    } columns {
        "kept" 2 (|case, r| case.kept.get(&r.server).copied().unwrap_or(1.0));
        "x nginx" (ratios by PEER);
    }
}

outcomes! {
    /// One server over a round trip: medians over the runs, errors summed.
    pub struct WideOutcome of
    /// The server.
    server: String, "server";
    /// One measurement.
    pub struct WideRun {
        /// Answers a second.
        per_sec: f64 as median, "answers/s" 0;
        /// The median time of an answer, from its request on.
        p50_ms: f64 as median, "p50 ms" 1;
        /// Resident memory that each connection adds to the server's process.
        process_bytes_per_connection: f64 as median, "process B" 0;
        /// Memory that each adds to the kernel, for sockets of the server's side: what is charged to them (pages of files being sent
        /// included), and their objects.
        kernel_bytes_per_connection: f64 as median, "kernel B" 0;
        /// Segments that the server's side sent again, for an answer: what the client's end or the emulator had no time for is lost, too.
        resent_per_answer: f64 as median, "resent" 2;
        /// Answers that were wrong or did not come, and connections that could not be made.
        errors: u64 as sum, "errors";
    }
}

pub(super) const NOTE: &str = "Answers of 16 KB a second to many connections over an emulated wire with this round trip in milliseconds, and the bytes that each \
     connection adds to the server's process and to the kernel's sockets on its side meanwhile.";

/// A round trip, in milliseconds.
#[derive(Clone, Copy)]
pub(super) struct Cell(pub u32);

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "wide/{}", self.0)
    }
}

pub(super) fn cells(args: &HttpArgs) -> Vec<Cell> {
    args.wanted(Group::Wide, args.round_trips.iter().copied().map(Cell))
}

/// Measures them: ours on the interface, and nginx.
pub(super) fn measure(session: &Session<'_>) -> Result<Vec<Wide>> {
    let cells = cells(session.args);
    if cells.is_empty() {
        return Ok(Vec::new());
    }
    let servers = session.that(|server| matches!(server, Server::Exos | Server::Nginx));
    let mut first = BTreeMap::new();
    measure_cells(session, &cells, servers.len(), |&cell| {
        let lab = session.emulated(&Conditions {
            delay: Duration::from_millis(cell.0.into()) / 2,
            ..Conditions::default()
        })?;
        let run = |server: &Server| run(session, &lab, *server, cell);
        let results = compare(session, cell, &servers, Server::to_string, run)?;
        let mut wide = Wide::new(cell, session.args.wide_connections, results);
        for result in &wide.results {
            let first = first.entry(result.server.clone()).or_insert(result.per_sec);
            wide.kept
                .insert(result.server.clone(), result.per_sec / *first);
        }
        Ok(vec![wide])
    })
}

fn run(session: &Session<'_>, lab: &Emulated, server: Server, cell: Cell) -> Result<WideRun> {
    let serving = session.serve(lab, server, DOCUMENT)?;
    let memory = || -> Result<[u64; 2]> {
        let process = memory::resident(serving.pid())?;
        Ok([process, memory::of_sockets(lab, Side::A)?])
    };
    let warm_up = WARM_UP + Duration::from_millis(cell.0.into()) * WARM_UP_TRIPS;
    let mut load = session.load_of(server, Connection::Persistent, DOCUMENT);
    load.connections = session.args.wide_connections;
    load.seconds += warm_up.as_secs_f64();
    let command = lab.command(Side::B, &session.program)?;
    let mut command = load.by_exos(command, true);
    command.args(["--warm-up", &format!("{}ms", warm_up.as_millis())]);
    let kernel_resent = segments_resent(lab, Side::A)?;
    let before = memory()?;
    let client = session.start("exos load", command, session.cores[1])?;
    std::thread::sleep(warm_up + Duration::from_secs_f64(LOOK_AT * session.seconds));
    let after = memory()?;
    let report = LoadReport::read(&session.output_of(client, load.seconds)?)?;
    let resent = match server {
        Server::Exos => {
            let told = session.stop(serving)?;
            told["counters"]["tcp_segments_retransmitted"].as_u64()
        }
        _ => {
            session.stop(serving)?;
            let now = segments_resent(lab, Side::A)?;
            now.checked_sub(kernel_resent)
        }
    };
    let resent = resent.ok_or_else(|| Error::new(format!("{server} told of no segments")))?;
    let grown = |at: usize| (after[at] as f64 - before[at] as f64) / f64::from(load.connections);
    Ok(WideRun {
        per_sec: report.per_sec(),
        p50_ms: report.time_us("total", "p50") / 1000.0,
        process_bytes_per_connection: grown(0),
        kernel_bytes_per_connection: grown(1),
        resent_per_answer: resent as f64 / report.responses.max(1) as f64,
        errors: report.errors(),
    })
}
