//! Fast readers beside many slow ones: what is left to the fast, and what a slow one costs.
//!
//! A slow reader asks for a long document and takes a segment a second of it. So the server has the rest to keep for as
//! long as it likes: in its cache, once for all, or in a buffer of each connection.

use super::{Group, HttpArgs, Server, Session, Size};
use crate::report::median_of;
use crate::stage::memory;
use exos_host::Result;
use exos_lab::{Guard, Side, WireKind};
use serde::Serialize;

/// What the fast ask for.
pub(super) const FAST: Size = Size::of_bytes(1024);
/// What the slow ask for.
pub(super) const SLOW: Size = Size::of_bytes(1024 * 1024);
/// How many fast ones there are.
const FAST_READERS: u32 = 32;

/// This many slow readers.
#[derive(Clone, Debug, Serialize)]
pub struct ReadersCase {
    /// Its name.
    pub name: String,
    /// Slow readers of a document of 1 MB each.
    pub readers: u32,
    /// Fast readers of a document of 1 KB beside them.
    pub fast_readers: u32,
    /// What each server did.
    pub results: Vec<ReadersOutcome>,
}

/// One server with slow readers: medians over the runs, errors summed.
#[derive(Clone, Debug, Serialize)]
pub struct ReadersOutcome {
    /// The server.
    pub server: String,
    /// Requests a second of the fast, alone.
    pub alone_per_sec: f64,
    /// The same beside the slow.
    pub beside_per_sec: f64,
    /// What is left of it: median of each run's part.
    pub kept: f64,
    /// Resident memory of the server's process for each slow reader.
    pub process_bytes_per_reader: f64,
    /// The kernel's memory for the sockets of the server's side for each slow reader.
    pub kernel_bytes_per_reader: f64,
    /// Errors of the fast, of all runs.
    pub errors: u64,
    /// Every run.
    pub runs: Vec<ReadersRun>,
}

/// One measurement with slow readers.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ReadersRun {
    /// Requests a second of the fast, alone.
    pub alone_per_sec: f64,
    /// The same beside the slow.
    pub beside_per_sec: f64,
    /// Resident memory of the server's process for each slow reader.
    pub process_bytes_per_reader: f64,
    /// The kernel's memory for the sockets of the server's side for each slow reader.
    pub kernel_bytes_per_reader: f64,
    /// Slow readers whose connection stood at the end.
    pub readers_left: u32,
    /// Errors of the fast.
    pub errors: u64,
}

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
}

fn name(readers: u32) -> String {
    format!("readers/{readers}")
}

/// The names of the cells.
pub(super) fn names(args: &HttpArgs) -> Vec<String> {
    let names = args.readers().iter().map(|&readers| name(readers));
    names
        .filter(|name| args.wants(Group::Readers, name))
        .collect()
}

/// Measures them.
pub(super) fn measure(session: &Session<'_>) -> Result<Vec<ReadersCase>> {
    let wanted = |n: &&u32| session.args.wants(Group::Readers, &name(**n));
    let numbers: Vec<u32> = session
        .args
        .readers()
        .iter()
        .filter(wanted)
        .copied()
        .collect();
    if numbers.is_empty() {
        return Ok(Vec::new());
    }
    let lab = session.lab(WireKind::Plain)?;
    numbers
        .into_iter()
        .map(|n| measure_one(session, &lab, n))
        .collect()
}

fn measure_one(session: &Session<'_>, lab: &Guard, readers: u32) -> Result<ReadersCase> {
    let runs = session.args.runs();
    let progress = session.progress(session.servers.len() * runs as usize);
    let mut all = vec![Vec::new(); session.servers.len()];
    for _ in 0..runs {
        for ((server, _), runs) in session.servers.iter().zip(&mut all) {
            progress.set_message(format!("{}, {server}", name(readers)));
            runs.push(run(session, lab, *server, readers)?);
            progress.inc(1);
        }
    }
    progress.finish_and_clear();
    let servers = session.servers.iter().map(|(server, _)| *server);
    let results = servers
        .zip(all)
        .map(|(server, runs)| ReadersOutcome::of(server, runs));
    let case = ReadersCase {
        name: name(readers),
        readers,
        fast_readers: FAST_READERS,
        results: results.collect(),
    };
    eprint!("{}", case.rows());
    Ok(case)
}

/// The fast alone, then beside the slow ones, of one and the same process.
fn run(session: &Session<'_>, lab: &Guard, server: Server, readers: u32) -> Result<ReadersRun> {
    let serving = session.serve(lab, server, FAST)?;
    let memory = || {
        Ok([
            memory::resident(serving.pid())?,
            memory::of_sockets(lab, Side::A)?,
        ])
    };
    let fast = [
        ["--size".to_owned(), FAST.bytes().to_string()],
        ["--connections".to_owned(), FAST_READERS.to_string()],
    ]
    .concat();
    let slow = [
        ["--slow".to_owned(), readers.to_string()],
        ["--slow-size".to_owned(), SLOW.bytes().to_string()],
    ]
    .concat();
    let who = (server, &serving);
    let (alone, _, before) = session.visit(lab, who, &fast, memory)?;
    let (beside, _, after) = session.visit(lab, who, &[fast, slow].concat(), memory)?;
    session.end(WireKind::Plain, server, serving)?;
    let grown = |at: usize| (after[at] as f64 - before[at] as f64) / f64::from(readers);
    Ok(ReadersRun {
        alone_per_sec: alone.requests as f64 / alone.seconds,
        beside_per_sec: beside.requests as f64 / beside.seconds,
        process_bytes_per_reader: grown(0),
        kernel_bytes_per_reader: grown(1),
        readers_left: beside.readers,
        errors: alone.errors.total() + beside.errors.total(),
    })
}
