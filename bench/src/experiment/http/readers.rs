//! Fast readers beside many slow ones: what is left to the fast, and what a slow one costs.
//!
//! A slow reader asks for a long document and takes a segment a second of it. So the server has the rest to keep for as
//! long as it likes: in its cache, once for all, or in a buffer of each connection.

use super::args::{Group, HttpArgs};
use super::session::Session;
use crate::experiment::cells::{in_turn, measure_cells};
use crate::report::{Column, Tabular, fixed, median_of};
use crate::stage::memory;
use crate::stage::request::{Connection, Size};
use crate::stage::web::Server;
use exos_host::Result;
use exos_lab::{Guard, Side, WireKind};
use schemars::JsonSchema;
use serde::Serialize;
use std::fmt;

/// What the fast ask for.
pub(super) const FAST: Size = Size::of_bytes(1024);
/// What the slow ask for.
pub(super) const SLOW: Size = Size::of_bytes(1024 * 1024);
/// How many fast ones there are.
const FAST_READERS: u32 = 32;

/// A number of slow readers.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Readers {
    /// `readers/NUMBER`.
    pub name: String,
    /// Slow readers, which take a segment a second of a document of 1 MB each.
    pub readers: u32,
    /// Fast readers of a document of 1 KB beside them.
    pub fast_readers: u32,
    /// What each server did.
    pub results: Vec<ReadersOutcome>,
}

/// One server with slow readers: medians over the runs, errors summed.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ReadersOutcome {
    /// The server.
    pub server: String,
    /// Requests a second of the fast, alone.
    pub alone_per_sec: f64,
    /// Requests a second of the fast, beside the slow.
    pub beside_per_sec: f64,
    /// What is left of it: median of each run's part.
    pub kept: f64,
    /// Resident memory that each slow reader adds to the server's process.
    pub process_bytes_per_reader: f64,
    /// Memory that each adds to the kernel, for sockets of the server's side: what is charged to them (pages of files being sent
    /// included), and their objects.
    pub kernel_bytes_per_reader: f64,
    /// Errors of the fast, of all runs.
    pub errors: u64,
    /// Every run.
    pub runs: Vec<ReadersRun>,
}

/// One measurement with slow readers.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct ReadersRun {
    /// Requests a second of the fast, alone.
    pub alone_per_sec: f64,
    /// Requests a second of the fast, beside the slow.
    pub beside_per_sec: f64,
    /// Resident memory that each slow reader adds to the server's process.
    pub process_bytes_per_reader: f64,
    /// Memory that each adds to the kernel, for sockets of the server's side.
    pub kernel_bytes_per_reader: f64,
    /// Slow readers whose connection stood at the end.
    pub readers_left: u32,
    /// Errors of the fast.
    pub errors: u64,
}

impl Tabular for Readers {
    type Row = ReadersOutcome;
    const NAMES: &'static str = "slow readers";
    const COLUMNS: &'static [Column<Self, Self::Row>] = &[
        Column::text("server", |_, r| r.server.clone()),
        Column::number("alone/s", |_, r| fixed(r.alone_per_sec, 0)),
        Column::number("beside/s", |_, r| fixed(r.beside_per_sec, 0)),
        Column::number("kept", |_, r| fixed(r.kept, 2)),
        Column::number("process B", |_, r| fixed(r.process_bytes_per_reader, 0)),
        Column::number("kernel B", |_, r| fixed(r.kernel_bytes_per_reader, 0)),
        Column::number("readers", |_, r| r.readers_left().to_string()),
        Column::number("errors", |_, r| r.errors.to_string()),
    ];

    fn name(&self) -> String {
        self.name.clone()
    }

    fn rows(&self) -> &[ReadersOutcome] {
        &self.results
    }
}

pub(super) const NOTE: &str = "Requests a second of fast readers of 1 KB, alone and beside slow readers of 1 MB, which take a segment a second. Bytes are \
     those that each slow one adds to the server's process, and to the kernel's sockets on its side.";

impl ReadersOutcome {
    pub(super) fn of(server: Server, runs: Vec<ReadersRun>) -> Self {
        let of = |value: fn(&ReadersRun) -> f64| median_of(&runs, value);
        Self {
            server: server.to_string(),
            alone_per_sec: of(|r| r.alone_per_sec),
            beside_per_sec: of(|r| r.beside_per_sec),
            kept: of(|r| r.beside_per_sec / r.alone_per_sec),
            process_bytes_per_reader: of(|r| r.process_bytes_per_reader),
            kernel_bytes_per_reader: of(|r| r.kernel_bytes_per_reader),
            errors: runs.iter().map(|run| run.errors).sum(),
            runs,
        }
    }

    fn readers_left(&self) -> u32 {
        let left = self.runs.iter().map(|run| run.readers_left).min();
        left.unwrap_or(0)
    }
}

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
    let cells = cells(session.args);
    if cells.is_empty() {
        return Ok(Vec::new());
    }
    let lab = session.lab(WireKind::Plain)?;
    let servers = &session.servers;
    measure_cells(session, &cells, servers.len(), |&cell| {
        let run = |(): &(), server: &Server| run(session, &lab, *server, cell.0);
        let (_, runs) = in_turn(session, cell, servers, |_| Ok(()), run)?;
        let results = servers.iter().zip(runs);
        let results = results.map(|(server, runs)| ReadersOutcome::of(*server, runs));
        Ok(vec![Readers {
            name: cell.to_string(),
            readers: cell.0,
            fast_readers: FAST_READERS,
            results: results.collect(),
        }])
    })
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
    let mut visit = session.new_visit(lab, server, Connection::Persistent, FAST)?;
    visit.connections = FAST_READERS;
    let (alone, _, before) = session.visit(lab, &serving, &visit, memory)?;
    (visit.slow, visit.slow_size) = (readers, SLOW.bytes());
    let (beside, _, after) = session.visit(lab, &serving, &visit, memory)?;
    session.end(WireKind::Plain, serving)?;
    let grown = |at: usize| (after[at] as f64 - before[at] as f64) / f64::from(readers);
    Ok(ReadersRun {
        alone_per_sec: alone.per_sec(),
        beside_per_sec: beside.per_sec(),
        process_bytes_per_reader: grown(0),
        kernel_bytes_per_reader: grown(1),
        readers_left: beside.readers,
        errors: alone.errors.total() + beside.errors.total(),
    })
}
