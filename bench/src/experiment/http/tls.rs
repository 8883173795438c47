//! Documents over TLS: handshakes, full and resumed, and records on standing connections, beside nginx with one and the same
//! certificate and suite, and beside what the cryptography takes by itself.

use super::args::{Group, HttpArgs, PEER};
use super::session::Session;
use crate::report::{Ratio, case, known_median, limited_by, median, outcomes, sum, usual};
use crate::stage::crypto::Cryptography;
use crate::stage::request::{Connection, Size};
use crate::stage::web::{LoadReport, Server, Setup, Used, WebLoad, haproxy_has};
use exos_host::{Error, Result};
use exos_lab::{Guard, Lab, WireKind};
use schemars::JsonSchema;
use serde::Serialize;
use std::fmt;

/// Handshakes are measured with a short document, which takes next to nothing.
const SHORT: Size = Size::of_bytes(100);
/// Standing connections also with longer ones: in one record, and in many.
const LONGER: [Size; 3] = [
    Size::of_bytes(1 << 10),
    Size::of_bytes(100 << 10),
    Size::of_bytes(1 << 20),
];

/// What is done for a request beside answering it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema, strum::Display)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Kind {
    /// A new connection with a full handshake.
    Full,
    /// A new connection with a handshake that resumes an earlier session.
    Resumed,
    /// Many requests on each connection.
    Persistent,
}

case! {
    /// One kind of handshake and size.
    pub struct Tls in "tls/handshake/size" from (cell: Cell, takes_us: f64) {
        /// `tls/HANDSHAKE/SIZE`.
        name: String = cell.to_string();
        /// What is done for a request.
        handshake: Kind = cell.kind;
        /// The size of the document in bytes.
        size_bytes: u64 = cell.size.bytes();
        /// What the cryptography of a server takes for a request by itself, in microseconds: of a full handshake a signature with ECDSA P-256
        /// and a key exchange with X25519, of a resumed one the key exchange, and AES-128-GCM of the answer, as one core does them in a loop.
        cryptography_us: f64 = takes_us;
    } of {
        /// What each server did.
        results: TlsOutcome;
        /// Requests a second, of each of ours by each other.
        ratios: Vec<Ratio> = Ratio::among(&results, |run| run.requests_per_sec);
        /// Time of the server's work for a request, of each other by each of ours.
        work_ratios: Vec<Ratio> = Ratio::among(&results, |run| 1.0 / run.work_us_per_request);
    } columns {
        "cryptography us" 1 (|case, _| case.cryptography_us);
        "of work %" 0 (|case, r| 100.0 * case.cryptography_us / r.work_us_per_request);
        "x nginx" (ratios by PEER);
        "work x nginx" (work_ratios by PEER);
    }
}

outcomes! {
    /// One server over TLS: medians over the runs, errors summed.
    pub struct TlsOutcome of
    /// `exos`, `exos-xokd`, `exos-sockets`, `nginx`, and with documents of up to 8 KiB `haproxy`.
    server: String, "server";
    /// One measurement.
    pub struct TlsRun {
        /// Whole and right answers received in a second.
        requests_per_sec: f64 as median, "requests/s" 0;
        /// A megabyte is 1,000,000 bytes of answers, heads included, without what TLS puts around them.
        megabytes_per_sec: f64 as median, "MB/s" 1;
        /// Processor time of the server's processes for one request. Ours on packets looks for packets while it waits, which counts.
        server_cpu_us_per_request: f64 as median, "CPU us" 1;
        /// For how long ours had something to do for one request, by what it says of itself; `null` of others.
        server_busy_us_per_request: Option<f64> as known_median;
        /// The server's work for one request: its processor time, of ours that in which it had something to do.
        work_us_per_request: f64 as median, "work us" 1;
        /// Part of the time that the server's core was busy, 0 to 1.
        server_core_busy: f64 as median;
        /// Part of the time that the client had something to do, 0 to 1.
        client_busy: f64 as median, "busy %" 0 |r| [r.server_core_busy, r.client_busy].map(|part| 100.0 * part);
        /// Who had no time left: `client`, `server` or `neither`; of several runs, in most.
        limited_by: &'static str as usual, "limited by";
        /// The median of the time from when a request was meant to begin to its whole answer, handshakes included.
        latency_p50_us: f64 as median, "p50 us" 0;
        /// The 99th percentile of that.
        latency_p99_us: f64 as median, "p99 us" 0;
        /// Handshakes that were full, and that resumed a session.
        handshakes_full: u64 as sum;
        /// Those that resumed one.
        handshakes_resumed: u64 as sum;
        /// Errors of all kinds.
        errors: u64 as sum, "errors";
    }
}

pub(super) const NOTE: &str = "TLS 1.3 with AES-128-GCM, X25519 and ECDSA P-256 of both sides; the client is exos load on packets, which checks no \
    certificate. Work: processor time of the server for a request, of ours that in which it had something to do; cryptography: what that takes \
    by itself, in a loop on the server's core, and of the work: how much of that it is. A client has as much to encrypt as a server, and more to do in a handshake: where it is \
    what limits, the work tells. x nginx: ratio of the rates, and of the works (nginx's by ours), median of the runs.";

/// One thing to measure.
#[derive(Clone, Copy)]
pub(super) struct Cell {
    pub kind: Kind,
    pub size: Size,
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tls/{}/{}", self.kind, self.size.name())
    }
}

/// The sizes of all documents.
pub(super) fn sizes() -> Vec<Size> {
    [&[SHORT], &LONGER[..]].concat()
}

pub(super) fn cells(args: &HttpArgs) -> Vec<Cell> {
    let new = [Kind::Full, Kind::Resumed].map(|kind| Cell { kind, size: SHORT });
    let standing = sizes().into_iter().map(|size| Cell {
        kind: Kind::Persistent,
        size,
    });
    let is_asked = |cell: &Cell| {
        let connection = match cell.kind {
            Kind::Persistent => Connection::Persistent,
            _ => Connection::New,
        };
        args.connection.contains(&connection)
    };
    args.wanted(Group::Tls, new.into_iter().chain(standing).filter(is_asked))
}

/// Measures them.
pub(super) fn measure(session: &Session<'_>) -> Result<Vec<Tls>> {
    let cells = cells(session.args);
    let servers = session.that(Server::has_tls);
    if cells.is_empty() || servers.is_empty() {
        return Ok(Vec::new());
    }
    let cryptography = Cryptography::measure(session.cores[0])?;
    let that_have_it = |cell: Cell| {
        let mut servers = servers.clone();
        servers.retain(|server| *server != Server::Haproxy || haproxy_has(cell.size));
        servers
    };
    let run = |lab: &Guard, cell, server: &Server| run(session, lab, cell, *server);
    session.measure(&cells, that_have_it, run, |cell, results| {
        let handshake_us = match cell.kind {
            Kind::Full => cryptography.signature_us + cryptography.exchange_us,
            Kind::Resumed => cryptography.exchange_us,
            Kind::Persistent => 0.0,
        };
        let us = handshake_us + cryptography.cipher_us(cell.size.bytes());
        Tls::new(cell, us, results)
    })
}

/// Starts a server, has it loaded over TLS, and stops it.
fn run(session: &Session<'_>, lab: &Lab, cell: Cell, server: Server) -> Result<TlsRun> {
    let setup = Setup {
        tls: true,
        ..server.into()
    };
    let serving = session.serve(lab, setup, cell.size)?;
    let (connection, share) = match cell.kind {
        Kind::Full => (Connection::New, 0.0),
        Kind::Resumed => (Connection::New, 1.0),
        Kind::Persistent => (Connection::Persistent, 0.0),
    };
    let load = WebLoad {
        at: server.tls_address(),
        resuming: Some(share),
        ..session.load_of(server, connection, cell.size)
    };
    let times = || session.times(&serving);
    let (report, [before, after]) = session.load_by_exos(lab, &load, times)?;
    let busy_us = session.end_busy(WireKind::Plain, serving)?;
    let run = TlsRun::new(&report, after.since(&before), busy_us);
    run.check(cell, session.web.connections)?;
    Ok(run)
}

impl TlsRun {
    /// What a client saw, and the processors did.
    pub(super) fn new(report: &LoadReport, used: Used, busy_us: Option<f64>) -> Self {
        let process_us = used.process_us(report.responses);
        let busy = used.server.busy_share();
        let handshakes = report.tls.unwrap_or_default();
        Self {
            requests_per_sec: report.per_sec(),
            megabytes_per_sec: report.response_bytes as f64 / 1e6 / report.measured_secs,
            server_cpu_us_per_request: process_us,
            server_busy_us_per_request: busy_us,
            work_us_per_request: busy_us.map_or(process_us, |us| us.min(process_us)),
            server_core_busy: busy,
            client_busy: report.busy_share,
            limited_by: limited_by(busy, report.busy_share),
            latency_p50_us: report.time_us("total", "p50"),
            latency_p99_us: report.time_us("total", "p99"),
            handshakes_full: handshakes.full,
            handshakes_resumed: handshakes.resumed,
            errors: report.errors(),
        }
    }

    /// Refuses what is not what it was to be: handshakes that were to resume sessions and did not would be compared with others that did.
    fn check(&self, cell: Cell, connections: u32) -> Result<()> {
        let (full, resumed) = (self.handshakes_full, self.handshakes_resumed);
        // The first ones of a load have nothing to resume.
        let beyond = full.saturating_sub(connections.into());
        let is_right = match cell.kind {
            Kind::Full | Kind::Persistent => resumed == 0 && full > 0,
            Kind::Resumed => resumed > 0 && beyond * 10 <= full + resumed,
        };
        if is_right {
            return Ok(());
        }
        let what = format!("{cell}: {full} handshakes were full, and {resumed} resumed a session");
        Err(Error::new(what).mend("look at the server's tickets"))
    }
}

#[cfg(test)]
#[path = "tls_tests.rs"]
pub(super) mod tests;
