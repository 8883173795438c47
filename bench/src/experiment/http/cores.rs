//! Two cores against one.
//!
//! A client that loads two cores needs a third, and this machine may have two. So it is measured what a request costs each
//! of the server's loops, of which each has a core: what the busiest has time for is what the server can do. The
//! client works in bursts: it sends a request, or the next segment, on each of many connections, and sleeps while the
//! loops answer, both at once. So they meet what they would meet under full load: long queues of frames, one another in
//! the caches and on the memory, and connections that are spread over the queues as a network card spreads them.
//!
//! What this leaves out: the cores' clock under full load, interrupts of a card, and what the cores of a larger machine
//! share beyond memory.
//!
//! With wrk the client is the kernel's TCP, whose segments may change the queue in the middle of a connection. It works on
//! the same two cores all the time, so that no rate means anything; it is counted how many frames come to the wrong core.

use super::args::Client;
use super::args::{Group, HttpArgs};
use super::latency;
use super::session::Session;
use crate::experiment::cells::{in_turn, measure_cells};
use crate::report::{Column, Ratio, Tabular, fixed, fixed_or_none, median_of};
use crate::stage::cpu;
use crate::stage::request::{Connection, Size};
use crate::stage::web::{Measured, Server, Serving, Setup, until_answered};
use exos_host::Result;
use exos_lab::{Lab, WireKind};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use std::fmt;
use std::time::Duration;

/// How many cores the server has.
const CORES: [u32; 2] = [1, 2];
/// Connections of the client that works in bursts: each step of all of them fits in the ring of one queue.
const CONNECTIONS: u32 = 1024;
/// How long it sleeps, so that the loops have done everything: some four microseconds for each of the connections.
const PAUSE: Duration = Duration::from_millis(10);
/// The document that is asked for.
const DOCUMENT: Size = latency::DOCUMENT;

/// The server on one core and on two.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct CoresResults {
    /// `cores/CLIENT/CONNECTION/SIZE`.
    pub name: String,
    /// Who loaded the server.
    pub client: Client,
    /// How requests were spread over connections.
    pub connection: Connection,
    /// The size of the document in bytes.
    pub size_bytes: u64,
    /// On one core, and on two.
    pub results: Vec<CoresOutcome>,
    /// How many times more requests two cores have time for; `null` of wrk.
    pub factor: Option<Ratio>,
}

/// The server on this many cores: medians over the runs, errors summed.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct CoresOutcome {
    /// Cores of the server.
    pub cores: u32,
    /// Requests a second that the busiest loop has time for: one by `busiest_us_per_request`; `null` of wrk.
    pub capacity_per_sec: Option<f64>,
    /// Processor time of the busiest loop by all requests.
    pub busiest_us_per_request: f64,
    /// Processor time of all threads by all requests.
    pub cpu_us_per_request: f64,
    /// Responses of the core that gave most by those of a core on average.
    pub imbalance: f64,
    /// Part of the frames received that came to another core than their connection's.
    pub handed_on: f64,
    /// Answers that were wrong or did not come, and segments that the client could not send, of all runs.
    pub errors: u64,
    /// Every run.
    pub runs: Vec<CoresRun>,
}

/// One measurement.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct CoresRun {
    /// Answers received in a second.
    pub requests_per_sec: f64,
    /// Processor time of each loop by all requests, in microseconds.
    pub loops_us_per_request: Vec<f64>,
    /// Of all threads.
    pub cpu_us_per_request: f64,
    /// Responses of each core, from start to end.
    pub responses: Vec<u64>,
    /// Frames received, from start to end.
    pub frames: u64,
    /// Of these, handed on to another core.
    pub frames_handed_on: u64,
    /// Segments that our client sent again, which it does when frames are lost; `null` of wrk.
    pub resent: Option<u64>,
    /// What went wrong.
    pub errors: u64,
}

impl CoresRun {
    fn busiest_us(&self) -> f64 {
        self.loops_us_per_request
            .iter()
            .copied()
            .fold(0.0, f64::max)
    }

    fn imbalance(&self) -> f64 {
        let (all, most) = (
            self.responses.iter().sum::<u64>(),
            self.responses.iter().max(),
        );
        let mean = all as f64 / self.responses.len() as f64;
        most.map_or(1.0, |&most| most as f64 / mean)
    }

    fn handed_on(&self) -> f64 {
        self.frames_handed_on as f64 / self.frames as f64
    }
}

impl CoresOutcome {
    fn of(cores: u32, client: Client, runs: Vec<CoresRun>) -> Self {
        let is_capacity = client == Client::Packets;
        Self {
            cores,
            capacity_per_sec: is_capacity.then(|| median_of(&runs, |run| 1e6 / run.busiest_us())),
            busiest_us_per_request: median_of(&runs, CoresRun::busiest_us),
            cpu_us_per_request: median_of(&runs, |run| run.cpu_us_per_request),
            imbalance: median_of(&runs, CoresRun::imbalance),
            handed_on: median_of(&runs, CoresRun::handed_on),
            errors: runs.iter().map(|run| run.errors).sum(),
            runs,
        }
    }

    fn capacities(&self) -> (String, Vec<f64>) {
        let of = |run: &CoresRun| 1e6 / run.busiest_us();
        let name = match self.cores {
            1 => "exos on one core".to_owned(),
            cores => format!("exos on {cores} cores"),
        };
        (name, self.runs.iter().map(of).collect())
    }
}

impl Tabular for CoresResults {
    type Row = CoresOutcome;
    const NAMES: &'static str = "cores/client/connections/size";
    const COLUMNS: &'static [Column<Self, Self::Row>] = &[
        Column::number("cores", |_, r| r.cores.to_string()),
        Column::number("time for", |_, r| fixed_or_none(r.capacity_per_sec, 0)),
        Column::number("busiest us", |_, r| fixed(r.busiest_us_per_request, 2)),
        Column::number("all us", |_, r| fixed(r.cpu_us_per_request, 2)),
        Column::number("uneven", |_, r| fixed(r.imbalance, 3)),
        Column::number("wrong core %", |_, r| fixed(100.0 * r.handed_on, 4)),
        Column::number("errors", |_, r| r.errors.to_string()),
        Column::text("factor", |case, r| {
            let factor = case.factor.as_ref().filter(|_| r.cores > 1);
            factor.map_or("-".to_owned(), Ratio::to_string)
        }),
    ];

    fn name(&self) -> String {
        self.name.clone()
    }

    fn rows(&self) -> &[CoresOutcome] {
        &self.results
    }
}

pub(super) const NOTE: &str = "Time for: requests a second that the busiest core has time for; busiest, all: processor time of its loop, and of all threads, \
     by the requests that all loops answered; uneven: responses of the busiest by the mean; wrong core: of the frames. The client \
     has to share the server's second core, so no rate is told. Our client sends in bursts, and sleeps while they are answered; \
     wrk works all the time, and with it only the frames are of interest that came to another core than their connection's.";

impl CoresResults {
    pub(super) fn new(cell: Cell, [one, two]: [Vec<CoresRun>; 2]) -> Self {
        let Cell { client, connection } = cell;
        let [one, two] = [(CORES[0], one), (CORES[1], two)]
            .map(|(cores, runs)| CoresOutcome::of(cores, client, runs));
        let factor = || Ratio::of(&two.capacities(), &one.capacities());
        Self {
            name: cell.to_string(),
            client,
            connection,
            size_bytes: DOCUMENT.bytes(),
            factor: (client == Client::Packets).then(factor),
            results: vec![one, two],
        }
    }
}

/// Who loads it, and how.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cell {
    pub client: Client,
    pub connection: Connection,
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { client, connection } = self;
        write!(f, "cores/{client}/{connection}/{}", DOCUMENT.name())
    }
}

pub(super) fn cells(args: &HttpArgs) -> Vec<Cell> {
    if !args.servers.contains(&Server::Exos) || !args.wire.contains(&WireKind::Plain) {
        return Vec::new();
    }
    let of = |&client: &Client| {
        let kinds = args.connection.iter();
        kinds.map(move |&connection| Cell { client, connection })
    };
    args.wanted(Group::Cores, args.clients.iter().flat_map(of))
}

/// Measures them.
pub(super) fn measure(session: &Session<'_>) -> Result<Vec<CoresResults>> {
    measure_cells(session, &cells(session.args), CORES.len(), |&cell| {
        let (_, runs) = in_turn(
            session,
            cell,
            &CORES,
            |_| Ok(()),
            |(), &cores| {
                // Its interface has as many queues as the server has cores.
                let lab = session.lab_of(WireKind::Plain, cores)?;
                run(session, &lab, cell, cores)
            },
        )?;
        let runs = runs.try_into().expect("the runs of each number of cores");
        Ok(vec![CoresResults::new(cell, runs)])
    })
}

fn run(session: &Session<'_>, lab: &Lab, cell: Cell, cores: u32) -> Result<CoresRun> {
    let setup = Setup {
        cores,
        ..Server::Exos.into()
    };
    let serving = session.serve(lab, setup, DOCUMENT)?;
    let seen = match cell.client {
        Client::Packets => visit(session, lab, &serving, cell.connection, cores)?,
        Client::Wrk => load(session, lab, &serving, cell.connection)?,
    };
    let statistics = serving.started.statistics()?;
    let us = |ns: u64| ns as f64 / 1000.0 / seen.requests_under_watch;
    let counter = |name: &str| statistics["counters"][name].as_u64().unwrap_or(0);
    Ok(CoresRun {
        requests_per_sec: seen.requests_per_sec,
        loops_us_per_request: seen.used.loops_ns.iter().map(|&ns| us(ns)).collect(),
        cpu_us_per_request: us(seen.used.all_ns),
        responses: responses_of_cores(&statistics),
        frames: counter("link_rx_frames"),
        frames_handed_on: counter("cores_frames_handed_on"),
        resent: seen.resent,
        errors: seen.errors,
    })
}

/// Of each core, where there are several; else of the one.
fn responses_of_cores(statistics: &Value) -> Vec<u64> {
    let of = |core: &Value| core["responses"].as_u64().unwrap_or(0);
    if let Some(cores) = statistics["cores"].as_array() {
        return cores.iter().map(of).collect();
    }
    let counters = statistics["counters"].as_object().into_iter().flatten();
    let responses = counters.filter(|(name, _)| name.starts_with("http_responses_"));
    vec![responses.filter_map(|(_, count)| count.as_u64()).sum()]
}

/// What a client saw, and what the server's threads did meanwhile.
struct Seen {
    requests_per_sec: f64,
    /// Those of the time in which the threads were watched.
    requests_under_watch: f64,
    used: cpu::ThreadTimes,
    resent: Option<u64>,
    errors: u64,
}

/// Our client, in bursts.
fn visit(
    session: &Session<'_>,
    lab: &Lab,
    serving: &Serving<'_>,
    connection: Connection,
    cores: u32,
) -> Result<Seen> {
    let mut visit = session.new_visit(lab, Server::Exos, connection, DOCUMENT)?;
    visit.connections = CONNECTIONS;
    visit.queues = cores;
    visit.pause_ms = Some(PAUSE.as_millis() as u64);
    let (visited, used, watched) = until_answered(|| {
        let client = session.start_visit(lab, &visit)?;
        let before = cpu::of_threads(serving.pid())?;
        let began = std::time::Instant::now();
        // Shorter than it measures: it began when we heard of it, or before.
        std::thread::sleep(Duration::from_secs_f64(0.9 * visit.seconds));
        let watched = began.elapsed().as_secs_f64();
        let used = cpu::of_threads(serving.pid())?.since(&before);
        let visited = client.measured(session, visit.seconds)?;
        Ok((visited.requests, (visited, used, watched)))
    })?;
    let requests_per_sec = visited.per_sec();
    Ok(Seen {
        requests_per_sec,
        requests_under_watch: requests_per_sec * watched,
        used,
        resent: Some(visited.resent),
        errors: visited.errors.total() + visited.no_room,
    })
}

/// wrk, all the time.
fn load(
    session: &Session<'_>,
    lab: &Lab,
    serving: &Serving<'_>,
    connection: Connection,
) -> Result<Seen> {
    let load = session.load_of(Server::Exos, connection, DOCUMENT);
    let (output, used) = until_answered(|| {
        let command = session.wrk(lab, &load)?;
        let before = cpu::of_threads(serving.pid())?;
        let client = session.start("wrk", command, session.cores[1])?;
        let output = session.output_of(client, load.whole_seconds().into())?;
        let used = cpu::of_threads(serving.pid())?.since(&before);
        Ok((Measured::read(&output)?.requests, (output, used)))
    })?;
    let measured = Measured::of_answers(&output, Server::Exos)?;
    Ok(Seen {
        requests_per_sec: measured.per_sec(),
        requests_under_watch: measured.requests as f64,
        used,
        resent: None,
        errors: measured.errors.total(),
    })
}

#[cfg(test)]
#[path = "cores_tests.rs"]
pub(super) mod tests;
