//! Pages that an application makes: `exos serve` and nginx before one and the same application, on one core with it.
//!
//! With php-fpm the interpreter is most of a request; with a responder that has its answers the server is. Processor time of
//! the application is told by itself, and what is left of the core's is the server's: its process, and what the kernel does
//! for both. Each server is measured with a connection to the application for each request, which is what both do by
//! themselves, and with connections that are kept; ours also with buffers that the application shares with it, and beside that with the same
//! pages as documents of its own.

use super::args::{Client, Group, HttpArgs};
use super::load::busy_us;
use super::session::Session;
use crate::report::{Ratio, case, known_median, limited_by, median, outcomes, sum, usual};
use crate::stage::cpu;
use crate::stage::process;
use crate::stage::request::{Connection, Size};
use crate::stage::web::{Application, Behind, Reached, Seen, Server, Setup, Used};
use exos_host::{Error, Result};
use exos_lab::{Guard, Lab, WireKind};
use serde_json::Value;
use std::fmt;
use std::path::Path;

/// What php-fpm says: hello, in a hundred bytes.
const HELLO: Size = Size::of_bytes(100);
/// What the responder says: from a page in one segment to one of many.
const ANSWERS: [Size; 4] = [
    Size::of_bytes(1024),
    Size::of_bytes(10 * 1024),
    Size::of_bytes(100 * 1024),
    Size::of_bytes(200 * 1024),
];

/// The servers that have FastCGI.
const SERVERS: [Server; 3] = [Server::Exos, Server::Sockets, Server::Nginx];

case! {
    /// One application, client, kind of connection and size.
    pub struct Fastcgi in "fastcgi/application/client/connections/size" from (cell: Cell, version: &str) {
        /// `fastcgi/APPLICATION/CLIENT/CONNECTION/SIZE`.
        name: String = cell.to_string();
        /// Who answers.
        application: Application = cell.application;
        /// What it calls itself.
        application_version: String = version.to_owned();
        /// Who loads the servers.
        client: Client = cell.client;
        /// How requests were spread over the client's connections.
        connection: Connection = cell.connection;
        /// The size of the page in bytes.
        size_bytes: u64 = cell.size.bytes();
    } of {
        /// What each server did.
        results: FastcgiOutcome;
        /// Requests a second, of each of ours by each other.
        ratios: Vec<Ratio> = Ratio::among(&results, |run| run.requests_per_sec);
        /// Time of the server's core without that of the application, of each other by each of ours: how many times more they need.
        server_ratios: Vec<Ratio> = Ratio::among(&results, |run| 1.0 / run.rest_us_per_request);
    } columns {
        "x nginx" (|case, r| Ratio::shown(&case.ratios, &r.server, &peer_of(&r.server)));
        "rest x nginx" (|case, r| Ratio::shown(&case.server_ratios, &r.server, &peer_of(&r.server)));
        "x static" (|case, r| Ratio::shown(&case.ratios, &r.server, &static_of(&r.server)));
    }
}

outcomes! {
    /// One server before the application: medians over the runs, errors summed.
    pub struct FastcgiOutcome of
    /// `exos`, `exos-sockets`: on the kernel's sockets, `nginx`: each with a connection to the application for each request; with
    /// `-kept` behind that, with connections that stay open; with `-shared`, with buffers that the application shares and a page that it keeps;
    /// with `-fresh`, and a page that it copies for each request; with `-static`, with the page as a document of its own.
    server: String, "server";
    /// One measurement.
    pub struct FastcgiRun {
        /// Answers received in a second; our client counts those that were whole and right.
        requests_per_sec: f64 as median, "requests/s" 0;
        /// A megabyte is 1,000,000 bytes, heads of answers included.
        megabytes_per_sec: f64 as median, "MB/s" 1;
        /// Time that the core of server and application was busy for one request, soft interrupts included. Ours on packets looks for
        /// packets while it waits, which counts as busy.
        core_us_per_request: f64 as median, "core us" 1;
        /// Of that, processor time of the application's processes.
        application_us_per_request: f64 as median, "application us" 1;
        /// Processor time of the server's processes for one request.
        server_cpu_us_per_request: f64 as median, "server us" 1;
        /// For how long ours on packets had something to do for one request, by what it says of itself; `null` of others.
        server_busy_us_per_request: Option<f64> as known_median, "with work us" 1;
        /// What is left of the core's time without the application's: the server's processes, and soft interrupts.
        rest_us_per_request: f64 as median, "rest us" 1;
        /// Part of the core's time that the application had, 0 to 1.
        application_share: f64 as median, "application part" 2;
        /// Part of the time that the core of server and application was busy, 0 to 1.
        core_busy: f64 as median;
        /// Part of the time that the client's core was busy, 0 to 1; of our client, that it had something to do.
        client_busy: f64 as median, "busy %" 0 |r| [r.core_busy, r.client_busy].map(|part| 100.0 * part);
        /// Who had no time left: `client`, `server` (which is also the application) or `neither`; of several runs, in most.
        limited_by: &'static str as usual, "limited by";
        /// The median of the time from a request to its whole answer.
        latency_p50_us: f64 as median, "p50 us" 0;
        /// The 99th percentile of that.
        latency_p99_us: f64 as median, "p99 us" 0;
        /// Errors of all kinds.
        errors: u64 as sum, "errors";
    }
}

/// nginx with the same kind of connections to the application; of what has none, nginx with kept ones.
fn peer_of(server: &str) -> String {
    let is_new = [Server::Exos, Server::Sockets, Server::Nginx];
    let is_new = is_new.iter().any(|new| new.to_string() == server);
    let how = if is_new {
        How::Reached(Reached::New)
    } else {
        How::Reached(Reached::Kept)
    };
    named(&Server::Nginx, how)
}

/// This server's name, where the page is a document of its own.
fn static_of(server: &str) -> String {
    let of = if server.starts_with(&Server::Sockets.to_string()) {
        Server::Sockets
    } else {
        Server::Exos
    };
    named(&of, How::Static)
}

/// How a server comes by the page.
#[derive(Clone, Copy, PartialEq, Eq)]
enum How {
    Reached(Reached),
    /// It is a document of its own.
    Static,
}

fn named(server: &Server, how: How) -> String {
    let how = match how {
        How::Reached(Reached::New) => "",
        How::Reached(Reached::Kept) => "-kept",
        How::Reached(Reached::Shared) => "-shared",
        How::Reached(Reached::Fresh) => "-fresh",
        How::Static => "-static",
    };
    format!("{server}{how}")
}

pub(super) const NOTE: &str = "Server and application on one core, the client on another; as many processes or threads of the application as \
    connections. Core: all that the core did for a request; application and server: processor time of their processes; with work: turns of \
    ours in which there was something to do; rest: the core's time without the application's. x nginx: ratio of the rates, and of the rests \
    (nginx's by ours), to nginx with the same kind of connections to the application, of shared buffers and documents with kept ones, median of \
    the runs; x static: of the rates, to the same page as a document of the server's own.";

/// One thing to measure: pages of this size by an application, asked for by a client in this way.
#[derive(Clone, Copy)]
pub(super) struct Cell {
    pub application: Application,
    pub client: Client,
    pub connection: Connection,
    pub size: Size,
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (application, client) = (self.application, self.client);
        let (connection, size) = (self.connection, self.size.name());
        write!(f, "fastcgi/{application}/{client}/{connection}/{size}")
    }
}

/// The sizes of all pages.
pub(super) fn sizes() -> Vec<Size> {
    [&[HELLO], &ANSWERS[..]].concat()
}

pub(super) fn cells(args: &HttpArgs) -> Vec<Cell> {
    // Ours rather than wrk, which takes more of its core's time.
    let Some(&client) = args.clients.iter().max_by_key(|c| **c == Client::Packets) else {
        return Vec::new();
    };
    let pages = [
        (Application::PhpFpm, &[HELLO][..]),
        (Application::Responder, &ANSWERS),
    ];
    let pages = pages.into_iter();
    let pages =
        pages.flat_map(|(application, sizes)| sizes.iter().map(move |&size| (application, size)));
    let cells = pages.flat_map(|(application, size)| {
        args.connection.iter().map(move |&connection| Cell {
            application,
            client,
            connection,
            size,
        })
    });
    args.wanted(Group::Fastcgi, cells)
}

/// Of the applications that are asked for those that are there, with what each calls itself, and why the others are not.
pub(super) fn available(args: &HttpArgs, exos: &Path) -> (Vec<(Application, String)>, Vec<String>) {
    let cells = cells(args);
    let is_asked =
        |application: &Application| cells.iter().any(|cell| cell.application == *application);
    let all = [Application::PhpFpm, Application::Responder];
    let asked: Vec<Application> = all.into_iter().filter(is_asked).collect();
    if asked.is_empty() {
        return Default::default();
    }
    // Where none is there, that is all that is to be said.
    process::available(&asked, |application| application.version(exos))
        .unwrap_or_else(|error| (Vec::new(), vec![error.to_string()]))
}

/// A server, and how it comes by the page.
#[derive(Clone, Copy)]
struct Contender {
    server: Server,
    how: How,
}

/// Each server, in each way that there is: only ours shares buffers, and only the responder does.
fn contenders(servers: &[&Server], application: Application) -> Vec<Contender> {
    let connections = [Reached::New, Reached::Kept].map(How::Reached);
    let more = [
        How::Reached(Reached::Shared),
        How::Reached(Reached::Fresh),
        How::Static,
    ];
    let of = |&&server: &&Server| {
        let has_more = server.is_ours() && application == Application::Responder;
        let more = if has_more { &more[..] } else { &[] };
        let ways = connections.iter().chain(more).copied();
        ways.map(|how| Contender { server, how })
            .collect::<Vec<_>>()
    };
    servers.iter().flat_map(of).collect()
}

impl fmt::Display for Contender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&named(&self.server, self.how))
    }
}

/// Measures them.
pub(super) fn measure(session: &Session<'_>) -> Result<Vec<Fastcgi>> {
    let version = |cell: &Cell| {
        let mut there = session.applications.iter();
        there.find(|(application, _)| *application == cell.application)
    };
    let mut cells = cells(session.args);
    cells.retain(|cell| version(cell).is_some());
    let servers = session.servers.iter();
    let servers: Vec<&Server> = servers.filter(|s| SERVERS.contains(s)).collect();
    let contenders = |cell: Cell| contenders(&servers, cell.application);
    let run = |lab: &Guard, cell, contender: &Contender| run(session, lab, cell, *contender);
    session.measure(&cells, contenders, run, |cell, results| {
        let version = version(&cell).map_or("", |(_, version)| version);
        Fastcgi::new(cell, version, results)
    })
}

/// Starts the application and a server before it, has that loaded, and stops both.
fn run(session: &Session<'_>, lab: &Lab, cell: Cell, contender: Contender) -> Result<FastcgiRun> {
    let Cell {
        application,
        client,
        connection,
        size,
    } = cell;
    let (behind, reached) = match contender.how {
        How::Static => (None, Reached::New),
        How::Reached(reached) => {
            let behind = Behind {
                application,
                reached,
            };
            (Some(behind), reached)
        }
    };
    let mut answers = application.start(session, size, reached)?;
    let setup = Setup {
        behind,
        ..contender.server.into()
    };
    let serving = session.serve(lab, setup, size)?;
    // The application's time before and behind the core's: of both, what is within the core's is taken, also where others have the processor
    // between the readings.
    let family = cpu::Family::of(answers.running.pid())?;
    let watch = || {
        let first_ns = family.ns();
        Ok((first_ns, session.times(&serving)?, family.ns()))
    };
    let (seen, [before, after]) = match client {
        Client::Wrk => session.load(lab, &serving, (connection, size), watch)?,
        Client::Packets => {
            let visit = session.prepare_visit(lab, &serving, connection, size)?;
            let (visited, watched) = session.visit(lab, &serving, &visit, watch)?;
            (Seen::from(&visited), watched)
        }
    };
    let application_ns = after.0.saturating_sub(before.2);
    let mut used = after.1.since(&before.1);
    if client == Client::Wrk {
        // It is its requests that the processors' time is divided by, however long it took to start.
        used.seconds = seen.seconds;
    }
    let told = session.end(WireKind::Plain, serving)?;
    answers.running.check()?;
    answers.stop()?;
    if contender.how == How::Reached(Reached::Kept) && contender.server.is_ours() {
        check_reuse(&told, "fastcgi", session.web.connections)?;
    }
    let busy_us = contender.server.is_ours().then(|| busy_us(&told)).flatten();
    FastcgiRun::new(&seen, used, application_ns, busy_us)
}

/// Refuses what a server says of connections that it was to keep, if it has opened more than one for each of its client's and for
/// a tenth of the requests.
pub(super) fn check_reuse(told: &Value, language: &str, connections: u32) -> Result<()> {
    let counter = |what: &str| {
        let name = format!("{language}_connections{what}");
        told["counters"][name].as_u64().unwrap_or(0)
    };
    let (opened, reused) = (counter(""), counter("_reused"));
    let beyond = opened.saturating_sub(u64::from(connections));
    if reused > 0 && beyond * 10 <= opened + reused {
        return Ok(());
    }
    let what = format!(
        "of connections that were to be kept ({language}) {opened} were opened, and used again {reused} times"
    );
    Err(Error::new(what).mend("look why the other end closes them, or the server"))
}

impl FastcgiRun {
    /// What a client saw, and server and application did; an error where the application had more of the core's time than there was.
    pub(super) fn new(
        seen: &Seen,
        used: Used,
        application_ns: u64,
        busy_us: Option<f64>,
    ) -> Result<Self> {
        let requests = used.seconds * seen.per_sec();
        let ticks_us = |ticks: u64| cpu::ticks_to_us(ticks) / requests;
        let core_us = ticks_us(used.server.busy);
        let application_us = application_ns as f64 / 1e3 / requests;
        if application_us >= core_us {
            let what = format!(
                "the application had {application_us:.1} us for a request, and its core {core_us:.1} us"
            );
            return Err(
                Error::new(what).mend("hold it to the server's core, and measure for longer")
            );
        }
        let core_busy = used.server.busy_share();
        let client_busy = seen.busy.unwrap_or(used.client.busy_share());
        Ok(Self {
            requests_per_sec: seen.per_sec(),
            megabytes_per_sec: seen.megabytes_per_sec(),
            core_us_per_request: core_us,
            application_us_per_request: application_us,
            server_cpu_us_per_request: ticks_us(used.process.user + used.process.system),
            server_busy_us_per_request: busy_us,
            rest_us_per_request: core_us - application_us,
            application_share: application_us / core_us,
            core_busy,
            client_busy,
            limited_by: limited_by(core_busy, client_busy),
            latency_p50_us: seen.latency_us[0],
            latency_p99_us: seen.latency_us[1],
            errors: seen.errors.total(),
        })
    }
}

#[cfg(test)]
#[path = "fastcgi_tests.rs"]
pub(super) mod tests;
