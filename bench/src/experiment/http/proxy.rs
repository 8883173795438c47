//! Requests that are passed on: `exos serve`, nginx and HAProxy before one and the same upstream, on one core with it, to which they keep
//! connections.
//!
//! The upstream is nginx with documents, reached by TCP over the loopback interface. Its processor time is told by itself, and what is left of the
//! core's is the proxy's: its process, and what the kernel does for both, as with [FastCGI applications](super::fastcgi).

use super::args::{Group, HttpArgs, PEER};
use super::fastcgi::{FastcgiOutcome, FastcgiRun, check_reuse};
use super::load::busy_us;
use super::session::Session;
use crate::experiment::asked::Carrier;
use crate::report::{Ratio, case};
use crate::stage::cpu;
use crate::stage::process::find_program;
use crate::stage::request::{Connection, Size};
use crate::stage::web::{Seen, Server, Setup, WebLoad};
use exos_host::Result;
use exos_lab::{Guard, Lab, WireKind};
use std::fmt;

/// Another server that ours is compared with.
const SECOND_PEER: &str = "haproxy";
/// Documents, in one segment and in some.
const SIZES: [Size; 2] = [Size::of_bytes(100), Size::of_bytes(10 << 10)];

case! {
    /// One carrier, kind of connection and size.
    pub struct Proxying in "proxy/carrier/connections/size" from (cell: Cell) {
        /// `proxy/CARRIER/CONNECTION/SIZE`.
        name: String = cell.to_string();
        /// What the client speaks HTTP/1.1 on; the upstream is always spoken to in plain text.
        carrier: Carrier = cell.carrier;
        /// How requests were spread over the client's connections.
        connection: Connection = cell.connection;
        /// The size of the document in bytes.
        size_bytes: u64 = cell.size.bytes();
    } of {
        /// What each server did: `exos`, `exos-sockets`, `nginx`, `haproxy`; the application is the upstream.
        results: FastcgiOutcome;
        /// Requests a second, of each of ours by each other.
        ratios: Vec<Ratio> = Ratio::among(&results, |run| run.requests_per_sec);
        /// Time of the server's core without that of the upstream, of each other by each of ours: how many times more they need.
        server_ratios: Vec<Ratio> = Ratio::among(&results, |run| 1.0 / run.rest_us_per_request);
    } columns {
        "x nginx" (ratios by PEER);
        "x haproxy" (ratios by SECOND_PEER);
        "rest x nginx" (server_ratios by PEER);
        "rest x haproxy" (server_ratios by SECOND_PEER);
    }
}

pub(super) const NOTE: &str = "All requests go on to an upstream, nginx with documents, over connections that are kept; proxy and upstream on one core, the client, \
    exos load on packets, on another. Core: all that the core did for a request; application and server: processor time of the upstream and of the proxy; with \
    work: turns of ours in which there was something to do; rest: the core's time without the upstream's. x: ratio of the rates, and of the rests (theirs \
    by ours), median of the runs.";

/// One thing to measure.
#[derive(Clone, Copy)]
pub(super) struct Cell {
    carrier: Carrier,
    connection: Connection,
    size: Size,
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (carrier, connection) = (self.carrier, self.connection);
        write!(f, "proxy/{carrier}/{connection}/{}", self.size.name())
    }
}

/// The sizes of all documents.
pub(super) fn sizes() -> Vec<Size> {
    SIZES.to_vec()
}

pub(super) fn cells(args: &HttpArgs) -> Vec<Cell> {
    // Handshakes are measured by themselves.
    let ways = [
        (Carrier::Plain, Connection::New),
        (Carrier::Plain, Connection::Persistent),
        (Carrier::Tls, Connection::Persistent),
    ];
    let all = ways.into_iter().flat_map(|(carrier, connection)| {
        SIZES.map(|size| Cell {
            carrier,
            connection,
            size,
        })
    });
    let is_asked = |cell: &Cell| args.connection.contains(&cell.connection);
    args.wanted(Group::Proxy, all.filter(is_asked))
}

/// Measures them. They are left out where the upstream is not there, and that is noted.
pub(super) fn measure(session: &Session<'_>) -> Result<Vec<Proxying>> {
    let cells = cells(session.args);
    let servers = session.that(Server::has_upstreams);
    let is_asked = !cells.is_empty() && !servers.is_empty();
    if let (true, Err(missing)) = (is_asked, find_program("nginx", "nginx")) {
        session.note(format!(
            "proxy is left out, without its upstream: {missing}"
        ));
        return Ok(Vec::new());
    }
    let run = |lab: &Guard, cell, server: &Server| run(session, lab, cell, *server);
    session.measure(&cells, |_| servers.clone(), run, Proxying::new)
}

/// Starts the upstream and a server before it, has that loaded, and stops both.
fn run(session: &Session<'_>, lab: &Lab, cell: Cell, server: Server) -> Result<FastcgiRun> {
    let upstream = session.start_upstream(lab, cell.size)?;
    let is_tls = cell.carrier == Carrier::Tls;
    let setup = Setup {
        proxies: true,
        tls: is_tls,
        ..server.into()
    };
    let serving = session.serve(lab, setup, cell.size)?;
    let load = WebLoad {
        at: match is_tls {
            true => server.tls_address(),
            false => server.address(),
        },
        resuming: is_tls.then_some(0.0),
        ..session.load_of(server, cell.connection, cell.size)
    };
    // The upstream's time before and behind the core's: of both, what is within the core's is taken.
    let family = cpu::Family::of(upstream.running.pid())?;
    let watch = || -> Result<_> {
        let first_ns = family.ns();
        Ok((first_ns, session.times(&serving)?, family.ns()))
    };
    let (report, [before, after]) = session.load_by_exos(lab, &load, watch)?;
    let upstream_ns = after.0.saturating_sub(before.2);
    let mut used = after.1.since(&before.1);
    // It is its requests that the processors' time is divided by, however long it took to start.
    used.seconds = report.measured_secs;
    let told = session.end(WireKind::Plain, serving)?;
    upstream.stop()?;
    if server.is_ours() {
        check_reuse(&told, "proxy", session.web.connections)?;
    }
    let busy_us = server.is_ours().then(|| busy_us(&told)).flatten();
    FastcgiRun::new(&Seen::from(&report), used, upstream_ns, busy_us)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Documents by the servers that made pages.
    pub(in super::super) fn passed_on() -> Proxying {
        let cell = Cell {
            carrier: Carrier::Plain,
            connection: Connection::Persistent,
            size: SIZES[0],
        };
        Proxying::new(cell, super::super::fastcgi::tests::pages().results)
    }
}
