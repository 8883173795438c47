//! Documents of several sizes, as fast as they go.
//!
//! In each run of a cell the servers take turns: each is started, checked to answer with the right document, measured
//! and stopped before the next, so none disturbs another and drift of the machine meets all alike.

use super::args::Client;
use super::args::{Group, HttpArgs, PEER};
use super::load::{Alone, Load, Loaded, Outcome, Run};
use super::session::Session;
use crate::experiment::cells::{in_turn, measure_cells};
use crate::report::figure::{Figure, group};
use crate::report::{Contender as _, Ratio, Section, case, figures, median_of};
use crate::stage::link::{Best, LinkWay};
use crate::stage::request::{Connection, Size};
use crate::stage::web::{Server, bare_calls, packet_limit};
use exos_host::Result;
use exos_lab::{Guard, WireKind};
use std::fmt;

case! {
    /// One client, wire, kind of connection and size.
    pub struct Documents in "documents/client/wire/connections/size" named load.name from (load: Load) {
        /// `documents/CLIENT/WIRE/CONNECTION/SIZE`, and what that says.
        #[serde(flatten)]
        load: Loaded = load.named(name(load));
    } of {
        /// What each server did.
        results: Outcome;
        /// Requests a second, of each of ours by each other server.
        ratios: Vec<Ratio> = Ratio::among(&results, |run| run.requests_per_sec);
        /// Their capacities, of each of ours by each other server.
        capacity_ratios: Vec<Ratio> = capacity_ratios(&results);
    } columns {
        "x nginx" (ratios by PEER);
        "capacity x nginx" (capacity_ratios by PEER);
    }
}

figures! {
    /// How many times a second two programs exchange the frames of a visit over the link, neither looking at them. A visit with a
    /// connection of its own is SYN and SYN-ACK, request and answer, FIN and acknowledgement; answers of several frames are
    /// acknowledged at every second one. Both send in the same way: the best of those that the link has, in each run.
    pub struct Limit {
        /// The frames of this kind of visit.
        connection: Connection;
        /// The size of the document in bytes.
        size_bytes: u64, "connections/size" |r| format!("{}/{}", r.connection, Size::of_bytes(r.size_bytes).name());
        /// Visits a second: median over the runs.
        per_sec: f64, "visits/s" 0;
        /// The way of sending that was the best in most runs.
        way: Option<LinkWay>, "sent by";
        /// Each run.
        runs: Vec<f64>;
    }
}

pub(super) const LIMITS_NOTE: &str = "Visits a second with frames that nobody looks at, by the best way of sending: nothing that serves with these frames over this link can do more.";

const NOTE: &str = "CPU: time of the server's processes for a request; core: all that its core did, soft interrupts included. \
    user+sys+soft: what each core did for a request in microseconds, in programs, in system calls, and in soft interrupts, in which frames are \
    delivered, on the sender's core unless --receive-on says otherwise. \
    Busy: the server's core and the client; ours looks for packets while it waits, so its core is always busy under load, and it \
    is the client's time that tells who waits for whom. Server side: processor time of a request wherever it is spent, with the client's \
    part taken off; capacity: requests for each second of that. x nginx: ratio of the rates, or of the capacities, median of the runs.";

const FIGURE_RATE: (&str, &str) = (
    "Requests a second, ours by nginx's",
    "The paper's Figure 4. The line at 1 is nginx on the same wire; the dashed line across a group is what the link itself could \
     do with the frames of such a visit (on the plain wire; super-packets, which large documents leave as, may exceed it).",
);

const FIGURE_CPU: (&str, &str) = (
    "Processor time for a request, by nginx's",
    "Of the server's processes; the numbers are microseconds. The kernel delivers packets in the time of the one that sends \
     them, so part of receiving is the client's time, and of what the client sends part is in here. What a busy server spends \
     on waiting is in here too.",
);

pub(super) fn section(cases: &[Documents], limits: &[Limit], series: &[&str]) -> Section {
    let kind = |case: &&Documents| {
        format!(
            "{}, {} wire, {}",
            case.load.client,
            case.load.wire,
            case.load.connection.title()
        )
    };
    let size = |case: &Documents| Size::of_bytes(case.load.size_bytes).to_string();
    let rates = Figure::bars(
        FIGURE_RATE,
        ("times nginx", Some(1.0)),
        series,
        cases,
        kind,
        |case| {
            let value =
                |name: &str| Ratio::find(&case.ratios, name, PEER).map(|r| (r.median, r.median));
            group(size(case), series, value, limit_by_peer(limits, case))
        },
    );
    let time = |case: &&Documents, name: &str| Some(case.result(name)?.server_cpu_us_per_request);
    let (by, names) = (("by nginx's", PEER), (kind, |case: &&Documents| size(case)));
    let times = Figure::by_peer(FIGURE_CPU, by, series, cases, names, time, |_| None);
    Section::of("Documents as fast as they go", NOTE, cases)
        .with_figures([rates, times].into_iter().flatten())
}

/// The link's packet limit by what nginx did.
fn limit_by_peer(limits: &[Limit], case: &Documents) -> Option<f64> {
    let of =
        |l: &&Limit| (l.connection, l.size_bytes) == (case.load.connection, case.load.size_bytes);
    let limit = limits.iter().find(of);
    let limit = limit.filter(|_| case.load.wire == WireKind::Plain.to_string())?;
    Some(limit.per_sec / case.result(PEER)?.requests_per_sec)
}

impl Documents {
    fn result(&self, server: &str) -> Option<&Outcome> {
        Outcome::find(&self.results, server)
    }
}

/// Of those whose capacity is known.
fn capacity_ratios(results: &[Outcome]) -> Vec<Ratio> {
    let known = |outcome: &&Outcome| outcome.capacity_per_sec.is_some();
    Ratio::among(results.iter().filter(known), |run| {
        run.capacity_per_sec.unwrap_or(f64::NAN)
    })
}

impl Limit {
    pub(super) fn new(connection: Connection, size: Size, runs: &[Best]) -> Self {
        Self {
            connection,
            size_bytes: size.bytes(),
            per_sec: median_of(runs, |run| run.per_sec),
            way: Best::usual_way(runs),
            runs: runs.iter().map(|run| run.per_sec).collect(),
        }
    }
}

fn name(load: Load) -> String {
    format!("documents/{load}")
}

/// The sizes to measure.
pub(super) fn sizes(args: &HttpArgs) -> Vec<Size> {
    const KIB: u64 = 1024;
    let all = [0, 100, KIB, 10 * KIB, 100 * KIB, KIB * KIB];
    args.web.sizes(&args.sizes, &all, &[100, 10 * KIB])
}

/// What is measured together: the same frames, by each client that was asked for.
fn cells(args: &HttpArgs) -> Vec<Vec<Load>> {
    let mut cells = Vec::new();
    for &wire in &args.wire {
        for &connection in &args.connection {
            for size in sizes(args) {
                let clients = args.clients.iter().filter(|client| client.can_on(wire));
                let mut loads: Vec<Load> = clients
                    .map(|&client| Load {
                        client,
                        wire,
                        connection,
                        size,
                    })
                    .collect();
                loads.retain(|&load| {
                    args.groups.contains(&Group::Documents) && args.wants(&name(load))
                });
                cells.push(loads);
            }
        }
    }
    cells.retain(|cell| !cell.is_empty());
    cells
}

/// The names of the cells.
pub(super) fn names(args: &HttpArgs) -> Vec<String> {
    cells(args).concat().into_iter().map(name).collect()
}

/// Who is loaded, and by whom.
#[derive(Clone, Copy)]
struct Contender {
    load: Load,
    server: Server,
}

impl fmt::Display for Contender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} by {}", self.server, self.load.client)
    }
}

/// Measures them.
pub(super) fn measure(session: &Session<'_>) -> Result<(Vec<Documents>, Vec<Limit>)> {
    let cells = cells(session.args);
    let (mut cases, mut limits) = (Vec::new(), Vec::new());
    for of_wire in cells.chunk_by(|a, b| a[0].wire == b[0].wire) {
        let lab = session.lab(of_wire[0][0].wire)?;
        let contenders = session.args.clients.len() * session.servers.len();
        cases.extend(measure_cells(session, of_wire, contenders, |loads| {
            measure_cell(session, &lab, loads, &mut limits)
        })?);
    }
    Ok((cases, limits))
}

/// All that can be loaded by each.
fn contenders(session: &Session<'_>, loads: &[Load]) -> Vec<Contender> {
    let of = |&load: &Load| {
        let servers = session.servers.iter().copied();
        let can = move |server: &Server| load.client == Client::Packets || server.is_for_sockets();
        servers
            .filter(can)
            .map(move |server| Contender { load, server })
    };
    loads.iter().flat_map(of).collect()
}

/// What the plain wire does by itself with the frames of such visits.
fn alone(session: &Session<'_>, lab: &Guard, load: Load) -> Result<Option<Alone>> {
    let (connection, size) = (load.connection, load.size);
    let measure = || {
        Ok(Alone {
            limit: packet_limit(session, lab, connection, size)?,
            bare: bare_calls(session, lab, connection, size)?,
        })
    };
    (load.wire == WireKind::Plain).then(measure).transpose()
}

fn measure_cell(
    session: &Session<'_>,
    lab: &Guard,
    loads: &[Load],
    limits: &mut Vec<Limit>,
) -> Result<Vec<Documents>> {
    let contenders = contenders(session, loads);
    let before = |_| alone(session, lab, loads[0]);
    let run = |alone: &Option<Alone>, contender: &Contender| {
        let Contender { load, server } = *contender;
        load.run(session, lab, server.into(), *alone)
    };
    let (found, runs) = in_turn(session, name(loads[0]), &contenders, before, run)?;
    let found: Vec<Best> = found.iter().flatten().map(|alone| alone.limit).collect();
    if !found.is_empty() {
        limits.push(Limit::new(loads[0].connection, loads[0].size, &found));
    }
    let measured: Vec<(Contender, Vec<Run>)> = contenders.into_iter().zip(runs).collect();
    let outcomes = |load: &Load| {
        let own = measured
            .iter()
            .filter(|(contender, _)| contender.load == *load);
        own.map(|(contender, runs)| Outcome::of(contender.server.to_string(), runs.clone()))
            .collect()
    };
    let documents = |load: &Load| Documents::new(*load, outcomes(load));
    Ok(loads.iter().map(documents).collect())
}
