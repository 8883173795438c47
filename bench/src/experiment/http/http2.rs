//! Documents over HTTP/2, in plain text and over TLS: many streams on few connections, beside nginx and h2o.

use super::args::{Group, HttpArgs, PEER};
use super::session::Session;
use crate::report::{Ratio, case, known_median, limited_by, median, outcomes, sum, usual};
use crate::stage::request::{Connection, Size};
use crate::stage::web::{
    Carried, H2load, LoadReport, Seen, Server, Serving, Setup, Used, WebLoad, h2load,
};
use exos_host::{Error, Result};
use exos_lab::{Guard, Lab, Side, WireKind};
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema, strum::Display)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Loader {
    /// h2load of nghttp2, on the kernel's sockets.
    H2load,
    /// `exos load`, on packets.
    Exos,
}

/// What HTTP/2 is spoken on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema, strum::Display)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Carrier {
    /// TCP, by prior knowledge.
    Plain,
    /// TLS.
    Tls,
}

case! {
    /// One client and carrier.
    pub struct Http2 in "http2/client/carrier/size" from (cell: Cell, kept_busy: u32) {
        /// `http2/CLIENT/CARRIER/SIZE`.
        name: String = cell.to_string();
        /// Who loaded the servers.
        client: Loader = cell.client;
        /// What HTTP/2 was spoken on.
        carrier: Carrier = cell.carrier;
        /// The size of the document in bytes.
        size_bytes: u64 = DOCUMENT.bytes();
        /// Connections.
        connections: u32 = kept_busy;
        /// Requests under way on each.
        streams: u32 = STREAMS;
    } of {
        /// What each server did.
        results: Http2Outcome;
        /// Requests a second, of each of ours by each other.
        ratios: Vec<Ratio> = Ratio::among(&results, |run| run.requests_per_sec);
        /// Time of the server's work for a request, of each other by each of ours.
        work_ratios: Vec<Ratio> = Ratio::among(&results, |run| 1.0 / run.work_us_per_request);
    } columns {
        "x nginx" (ratios by PEER);
        "work x nginx" (work_ratios by PEER);
    }
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

pub(super) const NOTE: &str = "A hundred requests are under way on each connection, of which there is one for 16 of --connections. Plain: by prior \
    knowledge (h2c); tls: TLS 1.3. Work: processor time of the server for a request, of ours that in which it had something to do. Where the \
    client is what limits, the work tells. x nginx: ratio of the rates, and of the works (nginx's by ours), median of the runs.";

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
    let servers = |_| session.that(Server::has_http2);
    let run = |lab: &Guard, cell, server: &Server| run(session, lab, cell, *server);
    let case = |cell, results| Http2::new(cell, connections(session), results);
    session.measure(&cells, servers, run, case)
}

/// Connections, each of which carries many streams.
pub(super) fn connections(session: &Session<'_>) -> u32 {
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
    let read = |output: &str| read(client, output).map(|seen| (seen.requests, seen));
    let times = || session.times(&serving);
    let (seen, [before, after]) = session.load_by(&client.to_string(), command, read, times)?;
    if seen.requests == 0 {
        let (server, errors) = (serving.server, seen.errors.total());
        return Err(Error::new(format!(
            "{server} did not answer a single request ({errors} errors)"
        )));
    }
    let busy_us = session.end_busy(WireKind::Plain, serving)?;
    Ok(Http2Run::new(&seen, after.since(&before), busy_us))
}

fn read(client: Loader, output: &str) -> Result<Seen> {
    match client {
        Loader::H2load => Ok(Seen::from(&H2load::read(output)?)),
        Loader::Exos => Ok(Seen::from(&LoadReport::read(output)?)),
    }
}

impl Http2Run {
    /// What a client saw, and the processors did.
    fn new(seen: &Seen, used: Used, busy_us: Option<f64>) -> Self {
        let process_us = used.process_us(seen.requests);
        let server_busy = used.server.busy_share();
        let client_busy = seen.busy.unwrap_or_else(|| used.client.busy_share());
        Self {
            requests_per_sec: seen.per_sec(),
            megabytes_per_sec: seen.megabytes_per_sec(),
            server_cpu_us_per_request: process_us,
            server_busy_us_per_request: busy_us,
            work_us_per_request: busy_us.map_or(process_us, |us| us.min(process_us)),
            server_core_busy: server_busy,
            client_busy,
            limited_by: limited_by(server_busy, client_busy),
            latency_mean_us: seen.mean_us.unwrap_or_default(),
            errors: seen.errors.total(),
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::report::{Case as _, Contender as _};
    use crate::stage::cpu::{CoreTime, ProcessTime};

    fn run(seen: &Seen, busy_us: Option<f64>) -> Http2Run {
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
        Http2Run::new(seen, used, busy_us)
    }

    fn by_h2load(responses: u64) -> Seen {
        Seen::from(&H2load {
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
        let seen = read(Loader::Exos, &report.to_string()).expect("a report");
        let run = run(&seen, None);
        assert_eq!((run.requests_per_sec, run.megabytes_per_sec), (500.0, 2.0));
        assert_eq!(
            (run.client_busy, run.latency_mean_us, run.errors),
            (0.25, 70.5, 2)
        );
        assert!(read(Loader::Exos, "nothing").is_err() && read(Loader::H2load, "nothing").is_err());
    }
}
