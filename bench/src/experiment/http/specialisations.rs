//! What each specialisation is worth (*Fast and Flexible*, section 5.3, Table 2).
//!
//! Each is taken away alone, then all are, and the same server on the kernel's sockets is the papers' Baseline. In each
//! run of a cell all of these take turns. The paper estimated its parts from profiles and multiplied them; here each is a
//! ratio of measured rates, and so is their total. They need not multiply to it: what one saves may be what another
//! would have saved, or what nobody was waiting for.

use super::args::Client;
use super::args::{Group, HttpArgs};
use super::load::{Load, Loaded, Outcome};
use super::session::Session;
use crate::experiment::cells::{compare, measure_cells};
use crate::report::{Contender as _, Ratio, Section, Shown as _, Table, case};
use crate::stage::request::Size;
use crate::stage::web::{Server, Setup};
use exos_host::Result;
use exos_lab::WireKind;
use schemars::JsonSchema;
use serde::Serialize;
use std::fmt;

/// What can be taken away, as `exos serve --without` calls it.
const ALL: &[&str] = &[
    "packet-merging",
    "merged-cache",
    "precomputed-checksums",
    "precomputed-headers",
    SUPER_PACKETS,
];
/// Leaves nothing to be saved where a document fits in a segment.
const SUPER_PACKETS: &str = "super-packets";
/// Longer documents take several segments. Smaller than one is: of a segment some belongs to the head.
const SEGMENT: Size = Size::of_bytes(1024);

/// The sizes of the paper's table and of its figure.
const SIZES: [u64; 5] = [0, 100, 1024, 10 * 1024, 100 * 1024];
/// Those of the table.
const SIZES_QUICK: [u64; 2] = [100, 100 * 1024];

/// How the server is set up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Variant {
    Everything,
    Without(&'static str),
    WithoutAll,
    Sockets,
}

impl Variant {
    /// Those that are measured with a document of this size.
    fn of(size: Size, servers: &[Server]) -> Vec<Self> {
        let matters =
            |name: &&&'static str| **name != SUPER_PACKETS || size.bytes() > SEGMENT.bytes();
        let ones = ALL.iter().filter(matters).map(|name| Self::Without(name));
        let mut all = vec![Self::Everything];
        all.extend(ones);
        all.push(Self::WithoutAll);
        all.extend(servers.contains(&Server::Sockets).then_some(Self::Sockets));
        all
    }

    fn setup(self) -> Setup {
        let (server, without) = match self {
            Self::Everything => (Server::Exos, &[][..]),
            Self::Without(name) => {
                let at = ALL.iter().position(|one| *one == name);
                (Server::Exos, at.map_or(&[][..], |at| &ALL[at..=at]))
            }
            Self::WithoutAll => (Server::Exos, ALL),
            Self::Sockets => (Server::Sockets, &[][..]),
        };
        Setup {
            without,
            ..server.into()
        }
    }
}

/// Its name in results.
impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let exos = Server::Exos;
        match self {
            Self::Everything => exos.fmt(f),
            Self::Without(name) => write!(f, "{exos} without {name}"),
            Self::WithoutAll => write!(f, "{exos} without all"),
            Self::Sockets => Server::Sockets.fmt(f),
        }
    }
}

case! {
    /// One client, wire, kind of connection and size, with and without each specialisation.
    pub struct Specialised in "specialisations/client/wire/connections/size" named load.name from (load: Load) {
        /// `specialisations/CLIENT/WIRE/CONNECTION/SIZE`, and what that says.
        #[serde(flatten)]
        load: Loaded = load.named(Cell(load).to_string());
    } of {
        /// What the server did, set up in each way.
        results: Outcome;
        /// What that says of each specialisation: the rows of the paper's Table 2.
        worth: Vec<Worth> = worth(&results);
    } columns {
        "times" (|case, r| case.times(r));
    }
}

/// A row of the table: requests a second with something by those without it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Worth {
    /// A specialisation, as `exos serve --without` calls it: everything, by everything but this (super-packets only with
    /// documents of several segments); `direct`: without all of them, by the same server on the kernel's sockets, so what the
    /// event loop on packets is worth by itself; `all`: everything, by without all of them; `total`: everything, by the kernel's
    /// sockets.
    pub what: &'static str,
    /// Requests a second with it by those without it.
    #[serde(flatten)]
    pub ratio: Ratio,
}

impl Specialised {
    /// How many times faster it is with everything than set up in this way, for who watches.
    fn times(&self, other: &Outcome) -> String {
        let everything = Variant::Everything.to_string();
        let mut worth = self.worth.iter().map(|worth| &worth.ratio);
        let ratio = worth.find(|w| w.ours == everything && w.theirs == other.server);
        ratio.map_or("-".to_owned(), Ratio::to_string)
    }

    /// How the server did when it was set up in one way, as the table shows it.
    fn shown(&self, variant: Variant, show: fn(&Outcome) -> String) -> String {
        result(&self.results, variant).map_or("-".to_owned(), show)
    }

    /// How many times faster the server is with something.
    fn worth(&self, what: &str) -> String {
        let found = self.worth.iter().find(|worth| worth.what == what);
        found.map_or("-".to_owned(), |worth| worth.ratio.to_string())
    }
}

fn result(results: &[Outcome], variant: Variant) -> Option<&Outcome> {
    Outcome::find(results, &variant.to_string())
}

/// With by without, run by run, for what was measured.
fn worth(results: &[Outcome]) -> Vec<Worth> {
    let rates = |variant| Some(result(results, variant)?.each_run(|run| run.requests_per_sec));
    let row = |(what, with, without): (&'static str, Variant, Variant)| {
        let ratio = Ratio::of(&rates(with)?, &rates(without)?);
        Some(Worth { what, ratio })
    };
    let ones = ALL.iter();
    let ones = ones.map(|&name| (name, Variant::Everything, Variant::Without(name)));
    [("direct", Variant::WithoutAll, Variant::Sockets)]
        .into_iter()
        .chain(ones)
        .chain([
            ("all", Variant::Everything, Variant::WithoutAll),
            ("total", Variant::Everything, Variant::Sockets),
        ])
        .filter_map(row)
        .collect()
}

const NOTE: &str = "How many times more requests a second the server answers with each specialisation than without it, all others \
    left on: of each run, then the median, with the least and the most. Direct access is the event loop on packets without any of \
    them, by the same server on the kernel's sockets (the paper's Baseline); the total is the whole by that server. Where the client \
    is what limits, the server could have done more.";

/// Table 2: what each is worth down, sizes across.
pub(super) fn section(cases: &[Specialised]) -> Section {
    let kind = |case: &Specialised| {
        (
            case.load.client,
            case.load.connection,
            case.load.wire.clone(),
        )
    };
    let of_a_kind = cases.chunk_by(|a, b| kind(a) == kind(b));
    Section {
        title: "What each specialisation is worth".to_owned(),
        note: NOTE,
        figures: Vec::new(),
        tables: of_a_kind.map(matrix).collect(),
    }
}

/// Of one client, wire and kind of connection.
pub(super) fn matrix(cases: &[Specialised]) -> Table {
    let mut rows: Vec<Vec<String>> = Vec::new();
    let mut row = |label: &str, cell: &dyn Fn(&Specialised) -> String| {
        let cells: Vec<String> = cases.iter().map(cell).collect();
        // Nobody measured it: no row of nothing.
        if cells.iter().any(|cell| cell != "-") {
            rows.push([vec![label.to_owned()], cells].concat());
        }
    };
    for variant in [Variant::Everything, Variant::WithoutAll, Variant::Sockets] {
        let rate = |case: &Specialised| case.shown(variant, |r| r.requests_per_sec.shown(0));
        row(&format!("requests/s, {variant}"), &rate);
    }
    row("direct access, by sockets", &|case| case.worth("direct"));
    for name in ALL {
        row(name, &|case| case.worth(name));
    }
    row("all of these together", &|case| case.worth("all"));
    row("total, by sockets", &|case| case.worth("total"));
    row("limited by, exos", &|case| {
        case.shown(Variant::Everything, |r| r.limited_by.to_owned())
    });
    row("errors of all", &|case| {
        case.results
            .iter()
            .map(|r| r.errors)
            .sum::<u64>()
            .to_string()
    });
    let first = &cases[0].load;
    let sizes = cases
        .iter()
        .map(|case| Size::of_bytes(case.load.size_bytes).name());
    let kind = format!("{}/{}/{}", first.client, first.wire, first.connection);
    Table {
        title: String::new(),
        heads: [kind].into_iter().chain(sizes).collect(),
        is_text: [true]
            .into_iter()
            .chain(cases.iter().map(|_| false))
            .collect(),
        rows,
    }
}

/// The sizes to measure.
pub(super) fn sizes(args: &HttpArgs) -> Vec<Size> {
    args.web.sizes(&args.sizes, &SIZES, &SIZES_QUICK)
}

/// What is asked of the server.
#[derive(Clone, Copy)]
pub(super) struct Cell(Load);

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "specialisations/{}", self.0)
    }
}

/// What is measured: small documents on the plain wire, with our client if that was asked for; those of several segments on
/// the other wire too, where super-packets are not cut.
pub(super) fn cells(args: &HttpArgs) -> Vec<Cell> {
    let mut cells = Vec::new();
    if !args.servers.contains(&Server::Exos) {
        return cells;
    }
    let sizes = sizes(args);
    for &wire in &args.wire {
        // Ours rather than wrk, which is the limit itself where documents are small.
        let clients = args.clients.iter().filter(|client| client.can_on(wire));
        let Some(&client) = clients.max_by_key(|c| **c == Client::Packets) else {
            continue;
        };
        for &connection in &args.connection {
            let fits = |size: &&Size| wire == WireKind::Plain || size.bytes() > SEGMENT.bytes();
            cells.extend(sizes.iter().filter(fits).map(|&size| {
                Cell(Load {
                    client,
                    wire,
                    connection,
                    size,
                })
            }));
        }
    }
    args.wanted(Group::Specialisations, cells)
}

/// Measures them.
pub(super) fn measure(session: &Session<'_>) -> Result<Vec<Specialised>> {
    let cells = cells(session.args);
    let mut measured = Vec::new();
    for of_wire in cells.chunk_by(|a, b| a.0.wire == b.0.wire) {
        let lab = session.lab(of_wire[0].0.wire)?;
        let variants = |cell: &Cell| Variant::of(cell.0.size, &session.servers);
        let most = of_wire.iter().map(|cell| variants(cell).len()).max();
        measured.extend(measure_cells(
            session,
            of_wire,
            most.unwrap_or(0),
            |&cell| {
                let Cell(load) = cell;
                let variants = variants(&cell);
                let run = |variant: &Variant| load.run(session, &lab, variant.setup(), None);
                let results = compare(session, cell, &variants, Variant::to_string, run)?;
                Ok(vec![Specialised::new(load, results)])
            },
        )?);
    }
    Ok(measured)
}

#[cfg(test)]
#[path = "specialisations_tests.rs"]
pub(super) mod tests;
