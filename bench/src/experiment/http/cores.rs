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
use crate::experiment::cells::{compare, measure_cells};
use crate::report::{Contender as _, Ratio, case, each, known_median, median, outcomes, sum};
use crate::stage::cpu;
use crate::stage::request::{Connection, Size};
use crate::stage::web::{Seen, Server, Serving, Setup};
use exos_host::Result;
use exos_lab::{Lab, WireKind};
use serde_json::Value;
use std::fmt;
use std::time::{Duration, Instant};

/// How many cores the server has.
const CORES: [u32; 2] = [1, 2];
/// Connections of the client that works in bursts: each step of all of them fits in the ring of one queue.
const CONNECTIONS: u32 = 1024;
/// How long it sleeps, so that the loops have done everything: some four microseconds for each of the connections.
const PAUSE: Duration = Duration::from_millis(10);
/// The document that is asked for.
const DOCUMENT: Size = latency::DOCUMENT;

case! {
    /// The server on one core and on two.
    pub struct CoresResults in "cores/client/connections/size" from (cell: Cell) {
        /// `cores/CLIENT/CONNECTION/SIZE`.
        name: String = cell.to_string();
        /// Who loaded the server.
        client: Client = cell.client;
        /// How requests were spread over connections.
        connection: Connection = cell.connection;
        /// The size of the document in bytes.
        size_bytes: u64 = DOCUMENT.bytes();
    } of {
        /// On one core, and on two.
        results: CoresOutcome;
        /// How many times more requests two cores have time for; `null` of wrk.
        factor: Option<Ratio> = (cell.client == Client::Packets).then(|| factor(&results));
    } columns {
        "factor" (|case, r| case.factor.as_ref().filter(|_| r.cores > 1).map_or("-".to_owned(), Ratio::to_string));
    }
}

outcomes! {
    /// The server on this many cores: medians over the runs, numbers of all.
    pub struct CoresOutcome of
    /// Cores of the server.
    cores: u32, "cores";
    /// One measurement.
    pub struct CoresRun {
        /// Answers received in a second.
        requests_per_sec: f64 as median;
        /// Requests a second that the busiest loop has time for: one by `busiest_us_per_request`; `null` of wrk.
        capacity_per_sec: Option<f64> as known_median, "time for" 0;
        /// Processor time of each loop by all requests, in microseconds.
        loops_us_per_request: Vec<f64> as |loops| each(loops, median);
        /// Processor time of the busiest loop by all requests.
        busiest_us_per_request: f64 as median, "busiest us" 2;
        /// Processor time of all threads by all requests.
        cpu_us_per_request: f64 as median, "all us" 2;
        /// Responses of each core, from start to end.
        responses: Vec<u64> as |cores| each(cores, sum);
        /// Responses of the core that gave most by those of a core on average.
        imbalance: f64 as median, "uneven" 3;
        /// Frames received, from start to end.
        frames: u64 as sum;
        /// Of these, handed on to another core than they came to: their connection's.
        frames_handed_on: u64 as sum;
        /// The part that this is.
        handed_on: f64 as median, "wrong core %" 4 |r| 100.0 * r.handed_on;
        /// Segments that our client sent again, which it does when frames are lost; `null` of wrk.
        resent: Option<u64> as sum;
        /// Answers that were wrong or did not come, and segments that the client could not send.
        errors: u64 as sum, "errors";
    }
}

fn imbalance(responses: &[u64]) -> f64 {
    let mean = responses.iter().sum::<u64>() as f64 / responses.len() as f64;
    let most = responses.iter().max();
    most.map_or(1.0, |&most| most as f64 / mean)
}

pub(super) const NOTE: &str = "Time for: requests a second that the busiest core has time for; busiest, all: processor time of its loop, and of all threads, \
     by the requests that all loops answered; uneven: responses of the busiest by the mean; wrong core: of the frames. The client \
     has to share the server's second core, so no rate is told. Our client sends in bursts, and sleeps while they are answered; \
     wrk works all the time, and with it only the frames are of interest that came to another core than their connection's.";

/// Of what it did on one core, and on two.
fn factor(results: &[CoresOutcome]) -> Ratio {
    let capacities = |at: usize| {
        let (_, rates) = results[at].each_run(|run| 1e6 / run.busiest_us_per_request);
        let cores = ["one core", "2 cores"][at];
        (format!("exos on {cores}"), rates)
    };
    Ratio::of(&capacities(1), &capacities(0))
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
        let run = |&cores: &u32| {
            // Its interface has as many queues as the server has cores.
            let lab = session.lab_of(WireKind::Plain, cores)?;
            run(session, &lab, cell, cores)
        };
        let results = compare(session, cell, &CORES, |&cores| cores, run)?;
        Ok(vec![CoresResults::new(cell, results)])
    })
}

fn run(session: &Session<'_>, lab: &Lab, cell: Cell, cores: u32) -> Result<CoresRun> {
    let setup = Setup {
        cores,
        ..Server::Exos.into()
    };
    let serving = session.serve(lab, setup, DOCUMENT)?;
    let loaded = load(session, lab, &serving, cell, cores)?;
    let statistics = serving.started.statistics()?;
    let counter = |name: &str| statistics["counters"][name].as_u64().unwrap_or(0);
    let frames = [counter("link_rx_frames"), counter("cores_frames_handed_on")];
    let responses = responses_of_cores(&statistics);
    Ok(CoresRun::new(cell.client, &loaded, responses, frames))
}

impl CoresRun {
    /// Of what the client saw, and of the responses of each core, the frames received and those handed on.
    fn new(
        client: Client,
        loaded: &Loaded,
        responses: Vec<u64>,
        [frames, handed_on]: [u64; 2],
    ) -> Self {
        let us = |ns: u64| ns as f64 / 1000.0 / loaded.requests_under_watch;
        let loops_us: Vec<f64> = loaded.used.loops_ns.iter().map(|&ns| us(ns)).collect();
        let busiest_us = loops_us.iter().copied().fold(0.0, f64::max);
        Self {
            requests_per_sec: loaded.seen.per_sec(),
            capacity_per_sec: (client == Client::Packets).then_some(1e6 / busiest_us),
            loops_us_per_request: loops_us,
            busiest_us_per_request: busiest_us,
            cpu_us_per_request: us(loaded.used.all_ns),
            imbalance: imbalance(&responses),
            responses,
            frames,
            frames_handed_on: handed_on,
            handed_on: handed_on as f64 / frames as f64,
            resent: loaded.seen.resent,
            errors: loaded.seen.errors.total() + loaded.seen.no_room,
        }
    }
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
struct Loaded {
    seen: Seen,
    /// Those of the time in which the threads were watched.
    requests_under_watch: f64,
    used: cpu::ThreadTimes,
}

/// By our client in bursts, or by wrk all the time.
fn load(
    session: &Session<'_>,
    lab: &Lab,
    serving: &Serving<'_>,
    cell: Cell,
    cores: u32,
) -> Result<Loaded> {
    let watch = || Ok((Instant::now(), cpu::of_threads(serving.pid())?));
    let (seen, [(began, before), (ended, after)]) = match cell.client {
        Client::Packets => {
            let mut visit = session.new_visit(lab, Server::Exos, cell.connection, DOCUMENT)?;
            visit.connections = CONNECTIONS;
            visit.queues = cores;
            visit.pause_ms = Some(PAUSE.as_millis() as u64);
            let (visited, watched) = session.visit(lab, serving, &visit, watch)?;
            (Seen::from(&visited), watched)
        }
        Client::Wrk => session.load(lab, serving, (cell.connection, DOCUMENT), watch)?,
    };
    Ok(Loaded {
        requests_under_watch: match cell.client {
            Client::Packets => seen.per_sec() * (ended - began).as_secs_f64(),
            Client::Wrk => seen.requests as f64,
        },
        used: after.since(&before),
        seen,
    })
}

#[cfg(test)]
#[path = "cores_tests.rs"]
pub(super) mod tests;
