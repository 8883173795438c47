//! Documents over HTTP/3, beside caddy: many streams on few connections where documents are short, few where they are long.

use super::args::{Group, HttpArgs};
use super::http2::{Http2Outcome, Http2Run, Loader, measure_streams};
use super::session::Session;
use crate::experiment::cells::{compare, measure_cells};
use crate::report::{Case, Column, Ratio, Section};
use crate::stage::request::{Connection, Size};
use crate::stage::web::{Carried, Server, Setup, WebLoad};
use exos_host::Result;
use exos_lab::{Lab, WireKind};
use schemars::JsonSchema;
use serde::Serialize;
use std::fmt;

/// Whom ours is compared with: Debian's nginx and h2o have no HTTP/3.
const PEER: &str = "caddy";
/// For this many connections of the other groups there is one here.
const CONNECTIONS_FOR_ONE: u32 = 16;

/// One size.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Http3 {
    /// `http3/exos/SIZE`.
    pub name: String,
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

impl Case for Http3 {
    type Outcome = Http2Outcome;
    const NAMES: &'static str = "http3/client/size";
    const MORE: &'static [Column<Self, Http2Outcome>] = &[
        Column::text("x caddy", |case, r| {
            Ratio::shown(&case.ratios, &r.server, PEER)
        }),
        Column::text("work x caddy", |case, r| {
            Ratio::shown(&case.work_ratios, &r.server, PEER)
        }),
    ];

    fn parts(&self) -> (&str, &[Http2Outcome]) {
        (&self.name, &self.results)
    }
}

pub(super) const NOTE: &str = "By `exos load --http 3` on packets; there is one connection for 16 of --connections, with a hundred requests under way on each \
    for documents of 100 bytes, and two for those of a megabyte. Work: processor time of the server for a request, of ours that in which it had something \
    to do. Where the client is what limits, the work tells. x caddy: ratio of the rates, and of the works (caddy's by ours), median of the runs.";

/// One thing to measure.
#[derive(Clone, Copy)]
pub(super) struct Cell {
    size: Size,
    streams: u32,
}

const CELLS: [Cell; 2] = [
    Cell {
        size: Size::of_bytes(100),
        streams: 100,
    },
    Cell {
        size: Size::of_bytes(1 << 20),
        streams: 2,
    },
];

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http3/{}/{}", Loader::Exos, self.size.name())
    }
}

/// The sizes of all documents.
pub(super) fn sizes() -> Vec<Size> {
    CELLS.map(|cell| cell.size).to_vec()
}

pub(super) fn cells(args: &HttpArgs) -> Vec<Cell> {
    let is_asked = args.connection.contains(&Connection::Persistent);
    let all = CELLS.into_iter().filter(|_| is_asked);
    args.wanted(Group::Http3, all)
}

/// Measures them.
pub(super) fn measure(session: &Session<'_>) -> Result<Vec<Http3>> {
    let cells = cells(session.args);
    let servers = &session.that(Server::has_http3);
    if cells.is_empty() || servers.is_empty() {
        return Ok(Vec::new());
    }
    let lab = session.lab(WireKind::Plain)?;
    measure_cells(session, &cells, servers.len(), |&cell| {
        let run = |server: &Server| run(session, &lab, cell, *server);
        let results = compare(session, cell, servers, Server::to_string, run)?;
        Ok(vec![Http3::new(cell, connections(session), results)])
    })
}

fn connections(session: &Session<'_>) -> u32 {
    session.web.connections.div_ceil(CONNECTIONS_FOR_ONE)
}

/// Starts a server, has it loaded over HTTP/3, and stops it.
fn run(session: &Session<'_>, lab: &Lab, cell: Cell, server: Server) -> Result<Http2Run> {
    let setup = Setup {
        tls: true,
        http3: true,
        ..server.into()
    };
    let serving = session.serve(lab, setup, cell.size)?;
    let load = WebLoad {
        at: server.tls_address(),
        resuming: Some(0.0),
        carried: Carried::Http3(cell.streams),
        connections: connections(session),
        ..session.load_of(server, Connection::Persistent, cell.size)
    };
    measure_streams(session, lab, Loader::Exos, &load, serving)
}

impl Http3 {
    fn new(cell: Cell, connections: u32, results: Vec<Http2Outcome>) -> Self {
        Self {
            name: cell.to_string(),
            size_bytes: cell.size.bytes(),
            connections,
            streams: cell.streams,
            ratios: Ratio::among(&results, |run| run.requests_per_sec),
            work_ratios: Ratio::among(&results, |run| 1.0 / run.work_us_per_request),
            results,
        }
    }
}

pub(super) fn section(cases: &[Http3]) -> Section {
    Section::of("Documents over HTTP/3", NOTE, cases)
}

/// Documents of two servers.
#[cfg(test)]
pub(super) fn documents() -> Http3 {
    let of_http2 = super::http2::tests::streams();
    let rename = |mut outcome: Http2Outcome| {
        if outcome.server == "nginx" {
            PEER.clone_into(&mut outcome.server);
        }
        outcome
    };
    let results = of_http2.results.into_iter().map(rename).collect();
    Http3::new(CELLS[0], 4, results)
}
