//! Documents over TLS, HTTP/2 and HTTP/3, beside servers that have them: handshakes, full and resumed, and records on standing connections; many streams
//! on few connections.
//!
//! Where the client is what limits, the server's work for a request tells. Of TLS there is also what the cryptography takes by itself.

use super::args::{Group, HttpArgs, PEER};
use super::session::{Session, some_answers};
use crate::experiment::asked::{Asked, Carrier, Kind};
use crate::report::{Ratio, case, known_median, limited_by, median, outcomes, sum, usual};
use crate::stage::crypto::Cryptography;
use crate::stage::request::Size;
use crate::stage::web::{AGREED, H2load, LoadReport, Seen, Server, Used, h2load, haproxy_has};
use exos_host::{Error, Result};
use exos_lab::{Guard, Lab, Side, WireKind};
use schemars::JsonSchema;
use serde::Serialize;
use std::fmt;

/// Handshakes and streams are measured with a short document, which takes next to nothing.
const SHORT: Size = Size::of_bytes(100);
/// Standing connections over TLS also with longer ones: in one record, and in many.
const LONGER: [Size; 3] = [Size::of_bytes(1 << 10), Size::of_bytes(100 << 10), LONG];
/// And streams of HTTP/3.
const LONG: Size = Size::of_bytes(1 << 20);
/// Whom ours is compared with over HTTP/3, which nginx of Debian does not have: the first that is there, as h2o of Debian does not have it either.
const PEERS_OF_HTTP3: [Server; 2] = [Server::H2o, Server::Caddy];

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

case! {
    /// One way of asking and size.
    pub struct CarrierResults in "protocol/how/size" from (cell: Cell, of_others: u32, takes_us: Option<f64>) {
        /// `tls/HANDSHAKE/SIZE`, `http2/CLIENT/CARRIER/SIZE` or `http3/exos/SIZE`.
        name: String = cell.to_string();
        /// Who loaded the servers.
        client: Loader = cell.client;
        /// Of HTTP/1.1 over TLS: what is done for a request; else `null`.
        handshake: Option<Kind> = cell.asked.handshake();
        /// Of HTTP/2: what it was spoken on; else `null`.
        carrier: Option<Carrier> = cell.asked.carrier();
        /// The size of the document in bytes.
        size_bytes: u64 = cell.size.bytes();
        /// Connections.
        connections: u32 = cell.asked.connections(of_others);
        /// Requests under way on each.
        streams: u32 = cell.asked.streams(cell.size);
        /// Of HTTP/1.1 over TLS: what the cryptography of a server takes for a request by itself, in microseconds: of a full handshake a signature
        /// with ECDSA P-256 and a key exchange with X25519, of a resumed one the key exchange, and AES-128-GCM of the answer, as one core does
        /// them in a loop; else `null`.
        cryptography_us: Option<f64> = takes_us;
    } of {
        /// What each server did.
        results: CarrierOutcome;
        /// Requests a second, of each of ours by each other.
        ratios: Vec<Ratio> = Ratio::among(&results, |run| run.requests_per_sec);
        /// Time of the server's work for a request, of each other by each of ours.
        work_ratios: Vec<Ratio> = Ratio::among(&results, |run| 1.0 / run.work_us_per_request);
    } columns {
        "cryptography us" 1 (|case, _| case.cryptography_us);
        "of work %" 0 (|case, r| case.cryptography_us.map(|us| 100.0 * us / r.work_us_per_request));
        "x peer" (|case, r| Ratio::shown(&case.ratios, &r.server, &case.peer()));
        "work x peer" (|case, r| Ratio::shown(&case.work_ratios, &r.server, &case.peer()));
    }
}

outcomes! {
    /// One server: medians over the runs, errors and handshakes summed.
    pub struct CarrierOutcome of
    /// `exos`, `exos-xokd`, `exos-sockets`; `nginx`, `h2o` (HTTP/2, and from 2.3 on HTTP/3), `haproxy` (HTTP/2, and over TLS with documents of up to 8 KiB), `caddy` (HTTP/3).
    server: String, "server";
    /// One measurement.
    pub struct CarrierRun {
        /// Whole and right answers received in a second.
        requests_per_sec: f64 as median, "requests/s" 0;
        /// A megabyte is 1,000,000 bytes of answers, heads and frames included, without what TLS puts around them.
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
        /// The median of the time from when a request was meant to begin to its whole answer, handshakes included; `null` of h2load.
        latency_p50_us: Option<f64> as known_median, "p50 us" 0;
        /// The 99th percentile of that.
        latency_p99_us: Option<f64> as known_median, "p99 us" 0;
        /// The mean of that.
        latency_mean_us: f64 as median, "mean us" 0;
        /// Handshakes that were full; `exos load` counts them.
        handshakes_full: u64 as sum;
        /// Those that resumed a session.
        handshakes_resumed: u64 as sum;
        /// Version, suite and group of the key exchange that client and server agreed upon, the same of all servers; `null` in plain text, and
        /// where the client counted no handshake.
        agreed: Option<&'static str> as usual;
        /// Errors of all kinds.
        errors: u64 as sum, "errors";
    }
}

/// Of a group.
pub(super) fn note(group: Group) -> &'static str {
    match group {
        Group::Tls => {
            "TLS 1.3 with AES-128-GCM, X25519 and ECDSA P-256 of both sides; the client is exos load on packets, which checks no \
             certificate. Work: processor time of the server for a request, of ours that in which it had something to do; cryptography: what that takes \
             by itself, in a loop on the server's core, and of the work: how much of that it is. A client has as much to encrypt as a server, and more to do \
             in a handshake: where it is what limits, the work tells. x peer: ratio of the rates, and of the works (nginx's by ours), median of the runs."
        }
        Group::Http2 => {
            "A hundred requests are under way on each connection, of which there is one for 16 of --connections. Plain: by prior \
             knowledge (h2c); tls: TLS 1.3. Work as over TLS; x peer: by nginx's."
        }
        _ => {
            "By `exos load --http 3` on packets; there is one connection for 16 of --connections, with a hundred requests under way on each \
             for documents of 100 bytes, and two for those of a megabyte. Work as over TLS; x peer: by h2o's, or caddy's where h2o has no HTTP/3."
        }
    }
}

/// One thing to measure.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cell {
    client: Loader,
    asked: Asked,
    size: Size,
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { client, asked, .. } = self;
        match asked {
            Asked::Http2(carrier) => write!(f, "http2/{client}/{carrier}"),
            Asked::Http3 => write!(f, "http3/{client}"),
            _ => write!(f, "{asked}"),
        }?;
        write!(f, "/{}", self.size.name())
    }
}

impl Cell {
    /// Whether a server is asked so, of a session.
    fn is_of(self, session: &Session<'_>, server: Server) -> bool {
        match self.asked {
            Asked::Http2(_) => server.has_http2(),
            Asked::Http3 => session.http3.contains(&server),
            _ => server.has_tls() && (server != Server::Haproxy || haproxy_has(self.size)),
        }
    }
}

/// The sizes of all documents.
pub(super) fn sizes() -> Vec<Size> {
    [&[SHORT], &LONGER[..]].concat()
}

/// Of a group.
pub(super) fn cells(args: &HttpArgs, group: Group) -> Vec<Cell> {
    let of = |client, asked, sizes: &[Size]| -> Vec<Cell> {
        let cell = |&size: &Size| Cell {
            client,
            asked,
            size,
        };
        sizes.iter().map(cell).collect()
    };
    let streams = |client, on| of(client, Asked::Http2(on), &[SHORT]);
    let all = match group {
        Group::Tls => vec![
            of(Loader::Exos, Asked::Tls(Kind::Full), &[SHORT]),
            of(Loader::Exos, Asked::Tls(Kind::Resumed), &[SHORT]),
            of(Loader::Exos, Asked::Tls(Kind::Persistent), &sizes()),
        ],
        Group::Http2 => vec![
            streams(Loader::H2load, Carrier::Plain),
            streams(Loader::H2load, Carrier::Tls),
            streams(Loader::Exos, Carrier::Plain),
            streams(Loader::Exos, Carrier::Tls),
        ],
        _ => vec![of(Loader::Exos, Asked::Http3, &[SHORT, LONG])],
    };
    let is_asked = |cell: &Cell| args.connection.contains(&cell.asked.connection());
    args.wanted(group, all.concat().into_iter().filter(is_asked))
}

/// Those servers that are measured over HTTP/3, of some with what each calls itself, and why others are not, where that is asked for.
pub(super) fn with_http3(
    args: &HttpArgs,
    servers: &[(Server, String)],
) -> (Vec<Server>, Vec<String>) {
    let (mut with, mut without) = (Vec::new(), Vec::new());
    if cells(args, Group::Http3).is_empty() {
        return (with, without);
    }
    for (server, version) in servers {
        match server.has_http3(version) {
            Ok(true) => with.push(*server),
            Ok(false) => {}
            Err(error) => without.push(format!("http3: {error}")),
        }
    }
    (with, without)
}

/// Measures a group. What h2load was to do is left out where it is not there, and that is noted.
pub(super) fn measure(session: &Session<'_>, group: Group) -> Result<Vec<CarrierResults>> {
    let mut cells = cells(session.args, group);
    let by_h2load = |cell: &Cell| cell.client == Loader::H2load;
    if let (true, Err(missing)) = (cells.iter().any(by_h2load), h2load::find()) {
        cells.retain(|cell| !by_h2load(cell));
        session.note(format!("http2/h2load is left out: {missing}"));
    }
    let has_handshakes = cells.iter().any(|cell| cell.asked.handshake().is_some());
    let cryptography = has_handshakes.then(|| Cryptography::measure(session.cores[0]));
    let cryptography = cryptography.transpose()?;
    let servers = |cell: Cell| session.that(|server| cell.is_of(session, server));
    let run = |lab: &Guard, cell, server: &Server| run(session, lab, cell, *server);
    session.measure(&cells, servers, run, |cell, results| {
        let takes_us = cryptography.as_ref().zip(cell.asked.handshake());
        let takes_us = takes_us.map(|(takes, kind)| {
            let handshake_us = match kind {
                Kind::Full => takes.signature_us + takes.exchange_us,
                Kind::Resumed => takes.exchange_us,
                Kind::Persistent => 0.0,
            };
            handshake_us + takes.cipher_us(cell.size.bytes())
        });
        CarrierResults::new(cell, session.web.connections, takes_us, results)
    })
}

/// Starts a server, has it loaded, and stops it.
fn run(session: &Session<'_>, lab: &Lab, cell: Cell, server: Server) -> Result<CarrierRun> {
    let (client, asked) = (cell.client, cell.asked);
    let serving = session.serve(lab, asked.setup(server), cell.size)?;
    let load = asked.load(session, server, cell.size);
    let command = || match client {
        Loader::Exos => Ok(load.by_exos(lab.command(Side::B, &session.program)?, true)),
        Loader::H2load => Ok(load.by_h2load(lab.command(Side::B, h2load::find()?)?)),
    };
    let read = |output: &str| read(client, output).map(|seen| (seen.requests, seen));
    let times = || session.times(&serving);
    let (seen, [before, after]) = session.load_by(&client.to_string(), command, read, times)?;
    some_answers(server, seen.requests, seen.errors.total())?;
    agreed_alike(cell, server, &seen)?;
    let busy_us = session.end_busy(WireKind::Plain, serving)?;
    let run = CarrierRun::new(&seen, after.since(&before), busy_us);
    run.check(cell, session.web.connections)?;
    Ok(run)
}

fn read(client: Loader, output: &str) -> Result<Seen> {
    match client {
        Loader::H2load => Ok(Seen::from(&H2load::read(output)?)),
        Loader::Exos => Ok(Seen::from(&LoadReport::read(output)?)),
    }
}

/// Refuses what is agreed upon otherwise than with other servers, which would be compared with it.
fn agreed_alike(cell: Cell, server: impl fmt::Display, seen: &Seen) -> Result<()> {
    match seen.agreed.iter().find(|it| *it != AGREED) {
        Some(other) => Err(Error::new(format!(
            "{cell}: {server} has agreed upon {other} with the client, others upon {AGREED}"
        ))),
        None => Ok(()),
    }
}

impl CarrierResults {
    fn peer(&self) -> String {
        if self.handshake.is_some() || self.carrier.is_some() {
            return PEER.to_owned();
        }
        let [first, other] = PEERS_OF_HTTP3.map(|server| server.to_string());
        match self.results.iter().any(|it| it.server == first) {
            true => first,
            false => other,
        }
    }
}

impl CarrierRun {
    /// What a client saw, and the processors did.
    fn new(seen: &Seen, used: Used, busy_us: Option<f64>) -> Self {
        let process_us = used.process_us(seen.requests);
        let server_busy = used.server.busy_share();
        let client_busy = seen.busy.unwrap_or_else(|| used.client.busy_share());
        let [p50_us, p99_us] = seen.latency_us.map(|us| (us > 0.0).then_some(us));
        Self {
            requests_per_sec: seen.per_sec(),
            megabytes_per_sec: seen.megabytes_per_sec(),
            server_cpu_us_per_request: process_us,
            server_busy_us_per_request: busy_us,
            work_us_per_request: busy_us.map_or(process_us, |us| us.min(process_us)),
            server_core_busy: server_busy,
            client_busy,
            limited_by: limited_by(server_busy, client_busy),
            latency_p50_us: p50_us,
            latency_p99_us: p99_us,
            latency_mean_us: seen.mean_us.unwrap_or_default(),
            handshakes_full: seen.handshakes.full,
            handshakes_resumed: seen.handshakes.resumed,
            agreed: seen.agreed.iter().any(|it| it == AGREED).then_some(AGREED),
            errors: seen.errors.total(),
        }
    }

    /// Refuses what is not what it was to be: handshakes that were to resume sessions and did not would be compared with others that did.
    fn check(&self, cell: Cell, connections: u32) -> Result<()> {
        let (full, resumed) = (self.handshakes_full, self.handshakes_resumed);
        // The first ones of a load have nothing to resume.
        let beyond = full.saturating_sub(connections.into());
        let is_right = match cell.asked {
            Asked::Tls(Kind::Full | Kind::Persistent) => resumed == 0 && full > 0,
            Asked::Tls(Kind::Resumed) => resumed > 0 && beyond * 10 <= full + resumed,
            _ => true,
        };
        if is_right {
            return Ok(());
        }
        let what = format!("{cell}: {full} handshakes were full, and {resumed} resumed a session");
        Err(Error::new(what).mend("look at the server's tickets"))
    }
}

#[cfg(test)]
#[path = "carriers_tests.rs"]
pub(super) mod tests;
