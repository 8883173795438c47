//! Servers whose memory is bounded: a log of requests for more documents than fit (*IO-Lite*, Table 1), and many connections over long round trips, of
//! whose answers each is on its way, or waits to be acknowledged, for most of the time (Figure 7).
//!
//! A server keeps what it has sent until it is acknowledged: in its cache, once for all connections, or in a send buffer of each, for which others have
//! to go from the cache. With enough connections a longer round trip leaves the rate as it is, and makes more wait.

use super::args::{Group, HttpArgs, PEER};
use super::log::{EQUAL, PARTS, Part, Set};
use super::session::Session;
use crate::experiment::cells::{compare, measure_cells};
use crate::report::figure::{Figure, group as bars};
use crate::report::{Ratio, Section, case, known_median, median, outcomes, sum};
use crate::stage::bound::Bound;
use crate::stage::memory::{self, segments_resent};
use crate::stage::request::{Connection, Size};
use crate::stage::web::{DOCUMENTS, LoadReport, Server, Setup};
use exos_host::{Error, Result};
use exos_lab::{Conditions, Lab, Side, WireKind};
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// What is asked for where no log is: about what a request of the paper's trace is for.
pub(super) const DOCUMENT: Size = Size::of_bytes(16 * 1024);

/// Round trips until all connections stand, and windows have grown.
const WARM_UP_TRIPS: u32 = 8;
/// And time for connecting them.
const WARM_UP: Duration = Duration::from_millis(500);
/// Until memory has those documents that it keeps: this many times what is measured.
const FILLING: f64 = 2.0;
/// More than the fastest answers in a second: a log is not to come to its end.
const LINES_PER_SEC: f64 = 50_000.0;

/// When memory is looked at: this part of what is measured has passed.
const LOOK_AT: f64 = 0.8;

case! {
    /// Requests of a log over a plain wire, or many connections over a round trip.
    pub struct Bounded in "documents" from (cell: Cell, kept_busy: u32, may_use: Option<u64>, of_log: Option<u64>) {
        /// `log/TIMES`, of as many times the bytes of the memory; `wide/MS`, `wide/MS/log`.
        name: String = cell.to_string();
        /// The round trip over an emulated wire in milliseconds; `null` of the plain wire.
        round_trip_ms: Option<u32> = cell.round_trip_ms();
        /// Connections, each of which asks as soon as it has been answered.
        connections: u32 = kept_busy;
        /// Bytes of memory that each server may use, pages of files that the kernel keeps for it included; `null` where it is not bounded.
        memory_bytes: Option<u64> = may_use;
        /// Bytes of all documents of the log; `null` where one document of 16 KB is asked for.
        documents_bytes: Option<u64> = of_log;
    } of {
        /// What each server did.
        results: BoundedOutcome;
        /// Answers a second, of each of ours by each other server.
        ratios: Vec<Ratio> = Ratio::among(&results, |run| run.per_sec);
        /// By server, its answers a second by those in the first case of this kind in the session.
        kept: BTreeMap<String, f64> = BTreeMap::new();
    } columns {
        "kept" 2 (|case, r| case.kept.get(&r.server).copied().unwrap_or(1.0));
        "x nginx" (ratios by PEER);
    }
}

outcomes! {
    /// One server: medians over the runs, errors summed.
    pub struct BoundedOutcome of
    /// The server.
    server: String, "server";
    /// One measurement.
    pub struct BoundedRun {
        /// Answers a second.
        per_sec: f64 as median, "answers/s" 0;
        /// A megabyte is 1,000,000 bytes, heads of answers included.
        megabytes_per_sec: f64 as median, "MB/s" 1;
        /// The median time of an answer, from its request on.
        p50_ms: f64 as median, "p50 ms" 1;
        /// Of a log: what the server's processes read from the disk, for a byte that they answered; `null` where the kernel does not count it.
        from_disk: Option<f64> as known_median, "from disk" 3;
        /// Memory that the server uses, pages of files that the kernel keeps for it included; `null` where it is not bounded.
        memory_bytes: Option<f64> as known_median, "memory MB" 0 |r| r.memory_bytes.map(|bytes| bytes / 1e6);
        /// Resident memory that each connection adds to the server's processes; `null` of logs, whose documents come into memory meanwhile.
        process_bytes_per_connection: Option<f64> as known_median, "process B" 0;
        /// Memory that each adds to the kernel, for sockets of the server's side: what is charged to them (pages of files being sent
        /// included), and their objects.
        kernel_bytes_per_connection: f64 as median, "kernel B" 0;
        /// Segments that the server's side sent again, for an answer: what the client's end or the emulator had no time for is lost, too.
        resent_per_answer: f64 as median, "resent" 2;
        /// Answers that were wrong or did not come, and connections that could not be made.
        errors: u64 as sum, "errors";
    }
}

const LOG_NOTE: &str = "Requests of a log (Zipf's law, some 18 KB each) for documents of so many times the bytes of memory that each server may use (--memory), \
     pages of files that the kernel keeps for it included. From disk: bytes that it read, for a byte that it answered; kept: its rate by that of the first row.";

const WIDE_NOTE: &str = "Answers a second to many connections over an emulated wire with this round trip in milliseconds, of a document of 16 KB, and (log) of \
     documents of as many bytes as each server may use of the memory; and the bytes that each connection adds to the server's processes and to the \
     kernel's sockets on its side meanwhile. Kept: the rate by that over the first round trip.";

const FIGURE: (&str, &str) = (
    "Answers a second",
    "IO-Lite's Table 1 and Figure 7: the numbers are answers a second.",
);

/// What is asked for, and over what.
#[derive(Clone, Copy)]
pub(super) enum Cell {
    Log(Part),
    Wide { round_trip_ms: u32, is_log: bool },
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Log(part) => write!(f, "log/{}", part.times),
            Self::Wide {
                round_trip_ms,
                is_log,
            } => write!(
                f,
                "wide/{round_trip_ms}{}",
                if *is_log { "/log" } else { "" }
            ),
        }
    }
}

impl Cell {
    /// Of a log: the documents.
    fn part(self) -> Option<Part> {
        match self {
            Self::Log(part) => Some(part),
            Self::Wide { is_log, .. } => is_log.then_some(EQUAL),
        }
    }

    fn round_trip_ms(self) -> Option<u32> {
        match self {
            Self::Log(_) => None,
            Self::Wide { round_trip_ms, .. } => Some(round_trip_ms),
        }
    }

    fn connections(self, session: &Session<'_>) -> u32 {
        match self {
            Self::Log(_) => session.web.connections,
            Self::Wide { .. } => session.args.wide_connections,
        }
    }

    /// What is left out of the results: connecting, and until memory has what it keeps.
    fn warm_up(self, seconds: f64) -> Duration {
        let trips = Duration::from_millis(self.round_trip_ms().unwrap_or(0).into());
        let filling = self.part().map_or(0.0, |_| FILLING * seconds);
        WARM_UP + trips * WARM_UP_TRIPS + Duration::from_secs_f64(filling)
    }
}

/// Of a group.
pub(super) fn cells(args: &HttpArgs, group: Group) -> Vec<Cell> {
    if group == Group::Log {
        let all = PARTS.into_iter().skip(if args.quick { 2 } else { 0 });
        return args.wanted(group, all.map(Cell::Log));
    }
    let trips = args.round_trips.iter();
    let cells = trips.flat_map(|&round_trip_ms| {
        [false, true].map(|is_log| Cell::Wide {
            round_trip_ms,
            is_log,
        })
    });
    args.wanted(group, cells)
}

/// What each server may use of the memory in these groups; nothing where it cannot be bounded, which is noted.
pub(super) fn memory(args: &HttpArgs, note: impl FnOnce(String)) -> Option<u64> {
    let is_asked = |group: &Group| !cells(args, *group).is_empty();
    let bound = [Group::Log, Group::Wide].iter().any(is_asked);
    let bound = bound.then(|| Bound::new(args.memory).map(|_| args.memory))?;
    let told = bound.inspect_err(|error| {
        note(format!(
            "memory is not bounded in wide, and log is left out: {error}"
        ));
    });
    told.ok()
}

pub(super) fn section(group: Group, cases: &[Bounded]) -> Section {
    let (title, note) = match group {
        Group::Log => ("More documents than memory", LOG_NOTE),
        _ => ("Long round trips", WIDE_NOTE),
    };
    let kind = |case: &&Bounded| match (case.round_trip_ms, case.documents_bytes) {
        (None, _) => String::new(),
        (_, None) => "A document of 16 KB".to_owned(),
        (_, Some(_)) => "Requests of a log".to_owned(),
    };
    let results = cases.first().map_or(&[][..], |case| &case.results[..]);
    let series: Vec<&str> = results
        .iter()
        .map(|result| result.server.as_str())
        .collect();
    let figure = Figure::bars(FIGURE, ("answers/s", None), &series, cases, kind, |case| {
        let name = match (case.round_trip_ms, case.documents_bytes, case.memory_bytes) {
            (Some(ms), ..) => format!("{ms} ms"),
            (None, Some(documents), Some(memory)) => {
                format!("{:.1} x memory", documents as f64 / memory as f64)
            }
            (None, ..) => case.name.clone(),
        };
        let value = |server: &str| {
            let result = case.results.iter().find(|result| result.server == server)?;
            Some((result.per_sec, result.per_sec))
        };
        bars(name, &series, value, None)
    });
    Section::of(title, note, cases).with_figures(figure)
}

/// Measures a group: ours on the interface, nginx, and h2o with a log.
pub(super) fn measure(session: &Session<'_>, group: Group) -> Result<Vec<Bounded>> {
    let mut cells = cells(session.args, group);
    cells.retain(|cell| session.memory.is_some() || cell.part().is_none());
    if cells.is_empty() {
        return Ok(Vec::new());
    }
    let servers = session.that(|server| match server {
        Server::Exos | Server::Nginx => true,
        Server::H2o => group == Group::Log,
        _ => false,
    });
    let mut first = BTreeMap::new();
    measure_cells(session, &cells, servers.len(), |&cell| {
        let seconds = cell.warm_up(session.seconds).as_secs_f64() + session.seconds;
        let asked = (LINES_PER_SEC * seconds) as usize;
        let set = cell.part().zip(session.memory);
        let set = set.map(|(part, memory)| Set::make(session, part, memory, asked, DOCUMENT));
        let set = set.transpose()?;
        let results = {
            let compare = |lab: &Lab| {
                let run = |server: &Server| run(session, lab, *server, cell, set.as_ref());
                compare(session, cell, &servers, Server::to_string, run)
            };
            match cell.round_trip_ms() {
                None => compare(&*session.lab(WireKind::Plain)?),
                Some(ms) => compare(&*session.emulated(&Conditions {
                    delay: Duration::from_millis(ms.into()) / 2,
                    ..Conditions::default()
                })?),
            }
        }?;
        let bytes = set.map(|set| set.bytes);
        let connections = cell.connections(session);
        let mut case = Bounded::new(cell, connections, session.memory, bytes, results);
        for result in &case.results {
            let kind = (result.server.clone(), bytes.is_some());
            let first = first.entry(kind).or_insert(result.per_sec);
            let kept = result.per_sec / *first;
            case.kept.insert(result.server.clone(), kept);
        }
        Ok(vec![case])
    })
}

/// Starts a server with bounded memory, has it loaded, and stops it.
fn run(
    session: &Session<'_>,
    lab: &Lab,
    server: Server,
    cell: Cell,
    set: Option<&Set>,
) -> Result<BoundedRun> {
    set.map_or(Ok(()), Set::forget)?;
    let setup = Setup {
        memory: session.memory,
        folder: set.map_or(DOCUMENTS, |set| set.folder),
        ..server.into()
    };
    let serving = session.serve(lab, setup, DOCUMENT)?;
    let memory = || -> Result<[u64; 2]> {
        let process = memory::resident(serving.pid())?;
        Ok([process, memory::of_sockets(lab, Side::A)?])
    };
    let read = || memory::read_from_disk(serving.pid());
    let warm_up = cell.warm_up(session.seconds);
    let mut load = session.load_of(server, Connection::Persistent, DOCUMENT);
    load.connections = cell.connections(session);
    load.seconds += warm_up.as_secs_f64();
    load.log = set.map(|set| set.log.clone());
    let command = lab.command(Side::B, &session.program)?;
    let mut command = load.by_exos(command, true);
    command.args(["--warm-up", &format!("{}ms", warm_up.as_millis())]);
    let kernel_resent = segments_resent(lab, Side::A)?;
    let before = memory()?;
    let mut client = session.start("exos load", command, session.cores[1])?;
    // It has read the log when it has its link.
    let has_link = || lab.link(Side::B).is_ok_and(|link| link.xdp.is_some());
    session.await_true(&mut client, has_link)?;
    session.pause(warm_up)?;
    let read_before = read()?;
    let watched_secs = LOOK_AT * session.seconds;
    session.pause(Duration::from_secs_f64(watched_secs))?;
    let (after, read_after) = (memory()?, read()?);
    let used = serving.bound.as_ref().map(Bound::used).transpose()?;
    let report = LoadReport::read(&session.output_of(client, load.seconds)?)?;
    let told = session.stop(serving)?;
    let resent = match server {
        Server::Exos => told["counters"]["tcp_segments_retransmitted"].as_u64(),
        _ => segments_resent(lab, Side::A)?.checked_sub(kernel_resent),
    };
    let resent = resent.ok_or_else(|| Error::new(format!("{server} told of no segments")))?;
    let grown = |at: usize| (after[at] as f64 - before[at] as f64) / f64::from(load.connections);
    let bytes_per_sec = report.response_bytes as f64 / report.measured_secs;
    let from_disk = read_after
        .zip(read_before)
        .map(|(now, then)| now.saturating_sub(then) as f64 / watched_secs / bytes_per_sec.max(1.0));
    Ok(BoundedRun {
        per_sec: report.per_sec(),
        megabytes_per_sec: bytes_per_sec / 1e6,
        p50_ms: report.time_us("total", "p50") / 1000.0,
        from_disk: set.and(from_disk),
        memory_bytes: used.map(|bytes| bytes as f64),
        process_bytes_per_connection: set.is_none().then(|| grown(0)),
        kernel_bytes_per_connection: grown(1),
        resent_per_answer: resent as f64 / report.responses.max(1) as f64,
        errors: report.errors(),
    })
}
