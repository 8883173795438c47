//! What each specialisation is worth (*Fast and Flexible*, section 5.3, Table 2).
//!
//! Each is taken away alone, then all are, and the same server on the kernel's sockets is the papers' Baseline. In each
//! run of a cell all of these take turns. The paper estimated its parts from profiles and multiplied them; here each is a
//! ratio of measured rates, and so is their total. They need not multiply to it: what one saves may be what another
//! would have saved, or what nobody was waiting for.

mod matrix;
mod outcome;

pub(super) use matrix::matrices;
pub use outcome::{Specialised, Worth};

use super::load::Load;
use super::server::Setup;
use super::{Client, Group, HttpArgs, Server, Session, Size};
use exos_host::Result;
use exos_lab::{Guard, WireKind};
use indicatif::ProgressBar;

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

    /// Its name in results.
    fn name(self) -> String {
        match self {
            Self::Everything => Server::Exos.to_string(),
            Self::Without(name) => format!("{} without {name}", Server::Exos),
            Self::WithoutAll => format!("{} without all", Server::Exos),
            Self::Sockets => Server::Sockets.to_string(),
        }
    }
}

/// The sizes to measure.
pub(super) fn sizes(args: &HttpArgs) -> Vec<Size> {
    let default: &[u64] = if args.quick { &SIZES_QUICK } else { &SIZES };
    if args.sizes.is_empty() {
        default.iter().map(|&bytes| Size::of_bytes(bytes)).collect()
    } else {
        args.sizes.clone()
    }
}

/// What is measured: small documents on the plain wire, with our client if that was asked for; those of several segments on
/// the other wire too, where super-packets are not cut.
fn cells(args: &HttpArgs) -> Vec<Load> {
    let mut cells = Vec::new();
    if !args.servers.contains(&Server::Exos) {
        return cells;
    }
    let sizes = sizes(args);
    for &wire in &args.wire {
        let can = |client: &&Client| client.can_on(wire);
        // Ours rather than wrk, which is the limit itself where documents are small.
        let client = args
            .clients
            .iter()
            .filter(can)
            .max_by_key(|c| **c == Client::Packets);
        let Some(&client) = client else { continue };
        for &connection in &args.connection {
            let fits = |size: &&Size| wire == WireKind::Plain || size.bytes() > SEGMENT.bytes();
            cells.extend(sizes.iter().filter(fits).map(|&size| Load {
                client,
                wire,
                connection,
                size,
            }));
        }
    }
    cells.retain(|cell| args.wants(Group::Specialisations, &name(cell)));
    cells
}

fn name(cell: &Load) -> String {
    format!("specialisations/{cell}")
}

/// The names of the cells.
pub(super) fn names(args: &HttpArgs) -> Vec<String> {
    cells(args).iter().map(name).collect()
}

/// Measures them.
pub(super) fn measure(session: &Session<'_>) -> Result<Vec<Specialised>> {
    let cells = cells(session.args);
    let there: Vec<Server> = session.servers.iter().map(|(server, _)| *server).collect();
    if cells.is_empty() || !there.contains(&Server::Exos) {
        return Ok(Vec::new());
    }
    let steps: usize = cells
        .iter()
        .map(|cell| Variant::of(cell.size, &there).len())
        .sum();
    let progress = session.progress(steps * session.args.runs() as usize);
    let mut measured = Vec::new();
    for of_wire in cells.chunk_by(|a, b| a.wire == b.wire) {
        let lab = session.lab(of_wire[0].wire)?;
        for cell in of_wire {
            let case = measure_cell(session, &lab, *cell, &there, &progress)?;
            progress.suspend(|| eprint!("{}", case.rows()));
            measured.push(case);
        }
    }
    progress.finish_and_clear();
    Ok(measured)
}

fn measure_cell(
    session: &Session<'_>,
    lab: &Guard,
    cell: Load,
    there: &[Server],
    progress: &ProgressBar,
) -> Result<Specialised> {
    let variants = Variant::of(cell.size, there);
    let mut runs = vec![Vec::new(); variants.len()];
    for _ in 0..session.args.runs() {
        for (variant, runs) in variants.iter().zip(&mut runs) {
            progress.set_message(format!("{}, {}", name(&cell), variant.name()));
            runs.push(cell.run(session, lab, variant.setup(), None)?);
            progress.inc(1);
        }
    }
    Ok(Specialised::new(
        name(&cell),
        cell,
        variants.into_iter().zip(runs).collect(),
    ))
}

#[cfg(test)]
pub(super) mod tests;
