//! Servers whose memory is bounded: a log of requests for more documents than fit (*IO-Lite*, Table 1), and many connections over long round trips, of
//! whose answers each is on its way, or waits to be acknowledged, for most of the time (Figure 7).
//!
//! A server keeps what it has sent until it is acknowledged: in its cache, once for all connections, or in a send buffer of each, for which others have
//! to go from the cache. With enough connections a longer round trip leaves the rate as it is, and makes more wait.

use super::args::{Group, HttpArgs, PEER};
use super::bounded_run::run;
use super::log::{EQUAL, PARTS, Part, Set};
use super::session::Session;
use crate::experiment::cells::{compare, measure_cells};
use crate::report::figure::{Figure, group as bars};
use crate::report::{Ratio, Section, case, known_median, median, outcomes, sum};
use crate::stage::bound::Bound;
use crate::stage::request::Size;
use crate::stage::web::Server;
use exos_host::Result;
use exos_lab::{Conditions, Lab, WireKind};
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// What is asked for where no log is: about what a request of the paper's trace is for.
pub(super) const DOCUMENT: Size = Size::of_bytes(16 * 1024);

/// Round trips until all connections stand, and windows have grown.
const WARM_UP_TRIPS: u32 = 8;
/// And time for connecting them.
const WARM_UP: Duration = Duration::from_millis(500);
/// Until memory has those documents that it keeps, of all, each of which the server has read by then: this many times what is measured.
const FILLING: f64 = 2.0;
/// More than the fastest answers in a second: a log is not to come to its end.
const LINES_PER_SEC: f64 = 200_000.0;

/// What each server may use of the memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Memory {
    pub bytes: u64,
    /// The version of control groups that counts.
    pub version: u32,
}

/// The documents of a log.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct OfLog {
    pub bytes: u64,
    /// Of a request.
    pub mean_len: f64,
}

case! {
    /// Requests of a log over a plain wire, or many connections over a round trip.
    pub struct Bounded in "documents" from (cell: Cell, kept_busy: u32, may_use: Option<Memory>, of_log: Option<OfLog>) {
        /// `log/TIMES`, of as many times the bytes of the memory; `wide/MS`, `wide/MS/log`.
        name: String = cell.to_string();
        /// The round trip over an emulated wire in milliseconds; `null` of the plain wire.
        round_trip_ms: Option<u32> = cell.round_trip_ms();
        /// Connections, each of which asks as soon as it has been answered.
        connections: u32 = kept_busy;
        /// Bytes of memory that each server may use, pages of files that the kernel keeps for it included; `null` where it is not bounded.
        memory_bytes: Option<u64> = may_use.map(|memory| memory.bytes);
        /// The version of control groups that counts it; 1 does not count what sockets have to send, but for pages of files. `null` where it is not bounded.
        control_groups: Option<u32> = may_use.map(|memory| memory.version);
        /// Bytes of all documents of the log; `null` where one document of 16 KB is asked for.
        documents_bytes: Option<u64> = of_log.map(|of| of.bytes);
        /// Bytes of content that a request of the log is for, on average; `null` where one document is asked for.
        request_bytes: Option<f64> = of_log.map(|of| of.mean_len);
    } of {
        /// What each server did.
        results: BoundedOutcome;
        /// Answers a second, of each of ours by each other server.
        ratios: Vec<Ratio> = Ratio::among(&results, |run| run.per_sec);
        /// By server, the bytes that it answered in a second by those in the first case of this kind in the session.
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
        /// Segments that the server's side sent again, for an answer: what the client's end or the emulator had no time for is lost, too. Of ours of
        /// all its answers, of others of those when memory was looked at.
        resent_per_answer: f64 as median, "resent" 2;
        /// Answers that were wrong or did not come, and connections that could not be made.
        errors: u64 as sum, "errors";
    }
}

const LOG_NOTE: &str = "Requests of a log (Zipf's law, some 18 KB each) for documents of this many times the bytes of memory that each server may use (--memory), \
     pages of files that the kernel keeps for it included. From disk: bytes that it read, for a byte that it answered; kept: MB/s by those of the first row.";

const WIDE_NOTE: &str = "Answers a second to many connections over an emulated wire with this round trip in milliseconds, of a document of 16 KB, and (log) of \
     documents of as many bytes as each server may use of the memory; and the bytes that each connection adds to the server's processes and to the \
     kernel's sockets on its side meanwhile. Kept: MB/s by those over the first round trip.";

const UNCOUNTED: &str = "version 1 of control groups counts memory here, without what servers copy into send buffers: h2o has these for nothing; \
     nginx sends pages of files, and exos serve its own memory, which count";

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

    pub fn connections(self, session: &Session<'_>) -> u32 {
        match self {
            Self::Log(_) => session.web.connections,
            Self::Wide { .. } => session.args.wide_connections,
        }
    }

    /// What is left out of the results: connecting, and until memory has what it keeps.
    pub fn warm_up(self, seconds: f64) -> Duration {
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
pub(super) fn memory(args: &HttpArgs, note: impl FnOnce(String)) -> Option<Memory> {
    let is_asked = |group: &Group| !cells(args, *group).is_empty();
    let bound = [Group::Log, Group::Wide].iter().any(is_asked);
    match bound.then(|| Bound::new(args.memory))? {
        Ok(bound) => {
            let version = bound.version();
            if version == 1 {
                note(UNCOUNTED.to_owned());
            }
            let bytes = args.memory;
            Some(Memory { bytes, version })
        }
        Err(error) => {
            note(format!(
                "memory is not bounded in wide, and log is left out: {error}"
            ));
            None
        }
    }
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
        let make = |(part, memory): (Part, Memory)| {
            Set::make(session, part, memory.bytes, asked, DOCUMENT)
        };
        let set = set.map(make);
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
        let of_log = set.map(|set| OfLog {
            bytes: set.bytes,
            mean_len: set.mean_len,
        });
        let connections = cell.connections(session);
        let mut case = Bounded::new(cell, connections, session.memory, of_log, results);
        for result in &case.results {
            let kind = (result.server.clone(), of_log.is_some());
            let rate = result.megabytes_per_sec;
            let first = first.entry(kind).or_insert(rate);
            case.kept.insert(result.server.clone(), rate / *first);
        }
        Ok(vec![case])
    })
}
