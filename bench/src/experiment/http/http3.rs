//! Documents over HTTP/3, beside caddy: many streams on few connections where documents are short, few where they are long.

use super::args::{Group, HttpArgs};
use super::http2::{Http2Outcome, Http2Run, Loader, connections, measure_streams};
use super::session::Session;
use crate::report::{Ratio, case};
use crate::stage::request::{Connection, Size};
use crate::stage::web::{Carried, Server, Setup, WebLoad};
use exos_host::Result;
use exos_lab::{Guard, Lab};
use std::fmt;

/// Whom ours is compared with: Debian's nginx and h2o have no HTTP/3.
const PEER: &str = "caddy";

case! {
    /// One size.
    pub struct Http3 in "http3/client/size" from (cell: Cell, kept_busy: u32) {
        /// `http3/exos/SIZE`.
        name: String = cell.to_string();
        /// The size of the document in bytes.
        size_bytes: u64 = cell.size.bytes();
        /// Connections.
        connections: u32 = kept_busy;
        /// Requests under way on each.
        streams: u32 = cell.streams;
    } of {
        /// What each server did.
        results: Http2Outcome;
        /// Requests a second, of each of ours by each other.
        ratios: Vec<Ratio> = Ratio::among(&results, |run| run.requests_per_sec);
        /// Time of the server's work for a request, of each other by each of ours.
        work_ratios: Vec<Ratio> = Ratio::among(&results, |run| 1.0 / run.work_us_per_request);
    } columns {
        "x caddy" (ratios by PEER);
        "work x caddy" (work_ratios by PEER);
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
    let servers = |_| session.that(Server::has_http3);
    let run = |lab: &Guard, cell, server: &Server| run(session, lab, cell, *server);
    let case = |cell, results| Http3::new(cell, connections(session), results);
    session.measure(&cells(session.args), servers, run, case)
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
