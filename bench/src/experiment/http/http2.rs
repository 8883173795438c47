//! Documents over HTTP/2, in plain text and over TLS: many streams on few connections, beside nginx and h2o.

use super::args::{Group, HttpArgs, PEER};
use super::session::Session;
use crate::experiment::cells::{compare, measure_cells};
use crate::report::{
    Case, Column, Ratio, Section, known_median, limited_by, median, outcomes, sum, usual,
};
use crate::stage::cpu;
use crate::stage::request::{Connection, Size};
use crate::stage::web::{
    Carried, H2load, LoadReport, Server, Serving, Setup, Used, WebLoad, h2load,
};
use exos_host::{Error, Result};
use exos_lab::{Lab, Side, WireKind};
use schemars::JsonSchema;
use serde::Serialize;
use std::fmt;

/// What is asked for.
const DOCUMENT: Size = Size::of_bytes(100);
/// Streams that are kept busy on a connection.
const STREAMS: u32 = 100;
/// For this many connections of the other groups there is one here: each carries what a hundred would.
const CONNECTIONS_FOR_ONE: u32 = 16;

/// Who loads the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Loader {
    /// h2load of nghttp2, on the kernel's sockets.
    H2load,
    /// `exos load`, on packets.
    Exos,
}

/// What HTTP/2 is spoken on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Carrier {
    /// TCP, by prior knowledge.
    Plain,
    /// TLS.
    Tls,
}

impl fmt::Display for Loader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Loader::H2load => "h2load",
            Loader::Exos => "exos",
        })
    }
}

impl fmt::Display for Carrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Carrier::Plain => "plain",
            Carrier::Tls => "tls",
        })
    }
}

/// One client and carrier.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Http2 {
    /// `http2/CLIENT/CARRIER/SIZE`.
    pub name: String,
    /// Who loaded the servers.
    pub client: Loader,
    /// What HTTP/2 was spoken on.
    pub carrier: Carrier,
    /// The size of the document in bytes.
    pub size_bytes: u64,
    /// Connections.
    pub connections: u32,
    /// Requests under way on each.
    pub streams: u32,
    /// What each server did.
    pub results: Vec<Http2Outcome>,
    /// Requests a second, of each of ours by each other.
    pub ratios: Vec<Ratio>,
    /// Time of the server's work for a request, of each other by each of ours.
    pub work_ratios: Vec<Ratio>,
}

outcomes! {
    /// One server over HTTP/2: medians over the runs, errors summed.
    pub struct Http2Outcome of
    /// `exos`, `exos-xokd`, `exos-sockets`, `nginx`, `h2o`, `haproxy`.
    server: String, "server";
    /// One measurement.
    pub struct Http2Run {
        /// Whole and right answers received in a second.
        requests_per_sec: f64 as median, "requests/s" 0;
        /// A megabyte is 1,000,000 bytes of answers, frames included, without what TLS puts around them.
        megabytes_per_sec: f64 as median, "MB/s" 1;
        /// Processor time of the server's processes for one request. Ours on packets looks for packets while it waits, which counts.
        server_cpu_us_per_request: f64 as median, "CPU us" 2;
        /// For how long ours had something to do for one request, by what it says of itself; `null` of others.
        server_busy_us_per_request: Option<f64> as known_median;
        /// The server's work for one request: its processor time, of ours that in which it had something to do.
        work_us_per_request: f64 as median, "work us" 2;
        /// Part of the time that the server's core was busy, 0 to 1.
        server_core_busy: f64 as median;
        /// Part of the time that the client had something to do, 0 to 1.
        client_busy: f64 as median, "busy %" 0 |r| [r.server_core_busy, r.client_busy].map(|part| 100.0 * part);
        /// Who had no time left: `client`, `server` or `neither`; of several runs, in most.
        limited_by: &'static str as usual, "limited by";
        /// The mean of the time from a request to its whole answer.
        latency_mean_us: f64 as median, "mean us" 0;
        /// Errors of all kinds.
        errors: u64 as sum, "errors";
    }
}

impl Case for Http2 {
    type Outcome = Http2Outcome;
    const NAMES: &'static str = "http2/client/carrier/size";
    const MORE: &'static [Column<Self, Http2Outcome>] = &[
        Column::text("x nginx", |case, r| {
            Ratio::shown(&case.ratios, &r.server, PEER)
        }),
        Column::text("work x nginx", |case, r| {
            Ratio::shown(&case.work_ratios, &r.server, PEER)
        }),
    ];

    fn parts(&self) -> (&str, &[Http2Outcome]) {
        (&self.name, &self.results)
    }
}

pub(super) const NOTE: &str = "A hundred requests are under way on each connection, of which there is one for 16 of --connections. Plain: by prior \
    knowledge (h2c); tls: TLS 1.3. Work: processor time of the server for a request, of ours that in which it had something to do. Where the \
    client is what limits, the work tells. x nginx: ratio of the rates, and of the works (nginx's by ours), median of the runs.";

/// What a client says that it saw.
struct Saw {
    responses: u64,
    per_sec: f64,
    bytes_per_sec: f64,
    mean_us: f64,
    /// `None` of one that does not say it.
    busy: Option<f64>,
    errors: u64,
}

impl From<&LoadReport> for Saw {
    fn from(report: &LoadReport) -> Self {
        Self {
            responses: report.responses,
            per_sec: report.per_sec(),
            bytes_per_sec: report.response_bytes as f64 / report.measured_secs,
            mean_us: report.time_us("total", "mean"),
            busy: Some(report.busy_share),
            errors: report.errors(),
        }
    }
}

impl From<&H2load> for Saw {
    fn from(measured: &H2load) -> Self {
        let seconds = measured.responses as f64 / measured.per_sec.max(1.0);
        Self {
            responses: measured.responses,
            per_sec: measured.per_sec,
            bytes_per_sec: measured.bytes as f64 / seconds.max(1e-9),
            mean_us: measured.mean_us,
            busy: None,
            errors: measured.errors,
        }
    }
}

/// One thing to measure.
#[derive(Clone, Copy)]
pub(super) struct Cell {
    client: Loader,
    carrier: Carrier,
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { client, carrier } = self;
        write!(f, "http2/{client}/{carrier}/{}", DOCUMENT.name())
    }
}

/// The sizes of all documents.
pub(super) fn sizes() -> Vec<Size> {
    vec![DOCUMENT]
}

pub(super) fn cells(args: &HttpArgs) -> Vec<Cell> {
    let clients = [Loader::H2load, Loader::Exos].into_iter();
    let all = clients
        .flat_map(|client| [Carrier::Plain, Carrier::Tls].map(|carrier| Cell { client, carrier }));
    let is_asked = args.connection.contains(&Connection::Persistent);
    args.wanted(Group::Http2, all.filter(|_| is_asked))
}

/// Measures them. Those of h2load are left out where it is not there, and that is noted.
pub(super) fn measure(session: &Session<'_>) -> Result<Vec<Http2>> {
    let mut cells = cells(session.args);
    if let Err(missing) = h2load::find() {
        let before = cells.len();
        cells.retain(|cell| cell.client != Loader::H2load);
        if cells.len() < before {
            session.note(format!("http2/h2load is left out: {missing}"));
        }
    }
    let servers = session.that(Server::has_http2);
    if cells.is_empty() || servers.is_empty() {
        return Ok(Vec::new());
    }
    let lab = session.lab(WireKind::Plain)?;
    measure_cells(session, &cells, servers.len(), |&cell| {
        let run = |server: &Server| run(session, &lab, cell, *server);
        let results = compare(session, cell, &servers, Server::to_string, run)?;
        Ok(vec![Http2::new(cell, connections(session), results)])
    })
}

fn connections(session: &Session<'_>) -> u32 {
    session.web.connections.div_ceil(CONNECTIONS_FOR_ONE)
}

/// Starts a server, has it loaded over HTTP/2, and stops it.
fn run(session: &Session<'_>, lab: &Lab, cell: Cell, server: Server) -> Result<Http2Run> {
    let setup = Setup {
        tls: true,
        http2: true,
        ..server.into()
    };
    let serving = session.serve(lab, setup, DOCUMENT)?;
    let is_tls = cell.carrier == Carrier::Tls;
    let load = WebLoad {
        at: server.http2_address(is_tls),
        resuming: is_tls.then_some(0.0),
        carried: Carried::Http2(STREAMS),
        connections: connections(session),
        ..session.load_of(server, Connection::Persistent, DOCUMENT)
    };
    measure_streams(session, lab, cell.client, &load, serving)
}

/// Has a server loaded over the streams of few connections, and stops it.
pub(super) fn measure_streams(
    session: &Session<'_>,
    lab: &Lab,
    client: Loader,
    load: &WebLoad,
    serving: Serving<'_>,
) -> Result<Http2Run> {
    let command = || match client {
        Loader::Exos => Ok(load.by_exos(lab.command(Side::B, &session.program)?, true)),
        Loader::H2load => Ok(load.by_h2load(lab.command(Side::B, h2load::find()?)?)),
    };
    let read = |output: &str| read(client, output).map(|saw| (saw.responses, saw));
    let times = || session.times(&serving);
    let (saw, [before, after]) = session.load_by(&client.to_string(), command, read, times)?;
    if saw.responses == 0 {
        let (server, errors) = (serving.server, saw.errors);
        return Err(Error::new(format!(
            "{server} did not answer a single request ({errors} errors)"
        )));
    }
    let busy_us = session.end_busy(WireKind::Plain, serving)?;
    Ok(Http2Run::new(&saw, after.since(&before), busy_us))
}

fn read(client: Loader, output: &str) -> Result<Saw> {
    match client {
        Loader::H2load => Ok(Saw::from(&H2load::read(output)?)),
        Loader::Exos => Ok(Saw::from(&LoadReport::read(output)?)),
    }
}

impl Http2 {
    fn new(cell: Cell, connections: u32, results: Vec<Http2Outcome>) -> Self {
        Self {
            name: cell.to_string(),
            client: cell.client,
            carrier: cell.carrier,
            size_bytes: DOCUMENT.bytes(),
            connections,
            streams: STREAMS,
            ratios: Ratio::among(&results, |run| run.requests_per_sec),
            work_ratios: Ratio::among(&results, |run| 1.0 / run.work_us_per_request),
            results,
        }
    }
}

impl Http2Run {
    /// What a client saw, and the processors did.
    fn new(saw: &Saw, used: Used, busy_us: Option<f64>) -> Self {
        let process = used.process.user + used.process.system;
        let process_us = cpu::ticks_to_us(process) / saw.responses as f64;
        let server_busy = used.server.busy_share();
        let client_busy = saw.busy.unwrap_or_else(|| used.client.busy_share());
        Self {
            requests_per_sec: saw.per_sec,
            megabytes_per_sec: saw.bytes_per_sec / 1e6,
            server_cpu_us_per_request: process_us,
            server_busy_us_per_request: busy_us,
            work_us_per_request: busy_us.map_or(process_us, |us| us.min(process_us)),
            server_core_busy: server_busy,
            client_busy,
            limited_by: limited_by(server_busy, client_busy),
            latency_mean_us: saw.mean_us,
            errors: saw.errors,
        }
    }
}

pub(super) fn section(cases: &[Http2]) -> Section {
    Section::of("Documents over HTTP/2", NOTE, cases)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::report::Contender as _;
    use crate::stage::cpu::{CoreTime, ProcessTime};

    fn run(saw: &Saw, busy_us: Option<f64>) -> Http2Run {
        let core = CoreTime {
            busy: 100,
            user: 50,
            system: 30,
            softirq: 20,
            idle: 0,
        };
        let process = ProcessTime {
            user: 20,
            system: 30,
        };
        let used = Used {
            seconds: 1.0,
            process,
            server: core,
            client: core,
            softirqs_ns: None,
        };
        Http2Run::new(saw, used, busy_us)
    }

    fn by_h2load(responses: u64) -> Saw {
        Saw::from(&H2load {
            responses,
            per_sec: responses as f64,
            bytes: 200 * responses,
            mean_us: 900.0,
            errors: 0,
        })
    }

    /// Streams of two servers.
    pub(in super::super) fn streams() -> Http2 {
        let cell = Cell {
            client: Loader::H2load,
            carrier: Carrier::Plain,
        };
        let outcomes = [("exos", 100_000, Some(2.5)), ("nginx", 50_000, None)];
        let outcomes = outcomes.map(|(server, responses, busy_us)| {
            Http2Outcome::of(server.to_owned(), vec![run(&by_h2load(responses), busy_us)])
        });
        Http2::new(cell, 4, outcomes.into())
    }

    #[test]
    fn each_is_compared_with_nginx() {
        let case = streams();
        let row = |server: &str| {
            let result = Http2Outcome::find(&case.results, server).expect(server);
            let more = Http2::MORE.iter();
            more.map(|column| column.shown(&case, result))
                .collect::<Vec<_>>()
        };
        assert_eq!(row("exos"), ["2.00", "4.00"]);
        assert_eq!(row("nginx"), ["-", "-"]);
        assert_eq!(case.results[0].megabytes_per_sec, 20.0);
    }

    #[test]
    fn what_exos_load_says_counts_as_what_h2load_says() {
        let report = serde_json::json!({
            "responses": 1000, "measured_secs": 2.0, "busy_share": 0.25, "errors": { "reset": 2 },
            "response_bytes": 4_000_000, "times_us": { "total": { "mean": 70.5 } },
        });
        let saw = read(Loader::Exos, &report.to_string()).expect("a report");
        let run = run(&saw, None);
        assert_eq!((run.requests_per_sec, run.megabytes_per_sec), (500.0, 2.0));
        assert_eq!(
            (run.client_busy, run.latency_mean_us, run.errors),
            (0.25, 70.5, 2)
        );
        assert!(read(Loader::Exos, "nothing").is_err() && read(Loader::H2load, "nothing").is_err());
    }
}
