//! Fast readers beside many slow ones: what is left to the fast, and what a slow one costs.
//!
//! A slow reader asks for a long document and takes a segment a second of it. So the server has the rest to keep for as
//! long as it likes: in its cache, once for all, or in a buffer of each connection.

use super::args::{Group, HttpArgs};
use super::session::Session;
use crate::report::{case, median, outcomes, sum};
use crate::stage::memory;
use crate::stage::request::{Connection, Size};
use crate::stage::web::Server;
use exos_host::Result;
use exos_lab::{Guard, Side, WireKind};
use std::fmt;

/// What the fast ask for.
pub(super) const FAST: Size = Size::of_bytes(1024);
/// What the slow ask for.
pub(super) const SLOW: Size = Size::of_bytes(1024 * 1024);
/// How many fast ones there are.
const FAST_READERS: u32 = 32;

case! {
    /// A number of slow readers.
    pub struct Readers in "slow readers" from (cell: Cell) {
        /// `readers/NUMBER`.
        name: String = cell.to_string();
        /// Slow readers, which take a segment a second of a document of 1 MB each.
        readers: u32 = cell.0;
        /// Fast readers of a document of 1 KB beside them.
        fast_readers: u32 = FAST_READERS;
    } of {
        /// What each server did.
        results: ReadersOutcome;
    }
}

outcomes! {
    /// One server with slow readers: medians over the runs, errors summed.
    pub struct ReadersOutcome of
    /// The server.
    server: String, "server";
    /// One measurement with slow readers.
    pub struct ReadersRun {
        /// Requests a second of the fast, alone.
        alone_per_sec: f64 as median, "alone/s" 0;
        /// Requests a second of the fast, beside the slow.
        beside_per_sec: f64 as median, "beside/s" 0;
        /// What is left of it.
        kept: f64 as median, "kept" 2;
        /// Resident memory that each slow reader adds to the server's process.
        process_bytes_per_reader: f64 as median, "process B" 0;
        /// Memory that each adds to the kernel, for sockets of the server's side: what is charged to them (pages of files being sent
        /// included), and their objects.
        kernel_bytes_per_reader: f64 as median, "kernel B" 0;
        /// Slow readers whose connection stood at the end; of several runs, the least.
        readers_left: u32 as least, "readers";
        /// Errors of the fast.
        errors: u64 as sum, "errors";
    }
}

fn least(values: Vec<u32>) -> u32 {
    values.into_iter().min().unwrap_or(0)
}

pub(super) const NOTE: &str = "Requests a second of fast readers of 1 KB, alone and beside slow readers of 1 MB, which take a segment a second. Bytes are \
     those that each slow one adds to the server's process, and to the kernel's sockets on its side.";

/// This many slow readers.
#[derive(Clone, Copy)]
pub(super) struct Cell(u32);

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "readers/{}", self.0)
    }
}

pub(super) fn cells(args: &HttpArgs) -> Vec<Cell> {
    let few = if args.quick { 1 } else { args.readers.len() };
    args.wanted(
        Group::Readers,
        args.readers.iter().take(few).copied().map(Cell),
    )
}

/// Measures them.
pub(super) fn measure(session: &Session<'_>) -> Result<Vec<Readers>> {
    let servers = |_| session.servers.clone();
    let run = |lab: &Guard, cell: Cell, server: &Server| run(session, lab, *server, cell.0);
    session.measure(&cells(session.args), servers, run, Readers::new)
}

/// The fast alone, then beside the slow ones, of one and the same process.
fn run(session: &Session<'_>, lab: &Guard, server: Server, readers: u32) -> Result<ReadersRun> {
    let serving = session.serve(lab, server, FAST)?;
    let memory = || {
        let (process, kernel) = (
            memory::resident(serving.pid())?,
            memory::of_sockets(lab, Side::A)?,
        );
        Ok([process, kernel])
    };
    let mut visit = session.prepare_visit(lab, &serving, Connection::Persistent, FAST)?;
    visit.connections = FAST_READERS;
    let (alone, [_, before]) = session.visit(lab, &serving, &visit, memory)?;
    (visit.slow, visit.slow_size) = (readers, SLOW.bytes());
    let (beside, [_, after]) = session.visit(lab, &serving, &visit, memory)?;
    session.end(WireKind::Plain, serving)?;
    let grown = |at: usize| (after[at] as f64 - before[at] as f64) / f64::from(readers);
    Ok(ReadersRun {
        alone_per_sec: alone.per_sec(),
        beside_per_sec: beside.per_sec(),
        kept: beside.per_sec() / alone.per_sec(),
        process_bytes_per_reader: grown(0),
        kernel_bytes_per_reader: grown(1),
        readers_left: beside.readers,
        errors: alone.errors.total() + beside.errors.total(),
    })
}
