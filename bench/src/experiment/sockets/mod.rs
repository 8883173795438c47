//! `exos bench sockets`: unmodified programs by `exos run`, compared with themselves on the kernel's sockets.
//!
//! | program | its job | asked by |
//! |---|---|---|
//! | redis, memcached | a value of 100 bytes, set or got, by 50 connections | a client of ours, on our stack |
//! | PostgreSQL | queries of one row, by 20 connections | pgbench, on the kernel's sockets |
//! | iperf3 | one stream, to it and from it | iperf3, on the kernel's sockets |
//!
//! Set-up: the lab's plain wire; the program, with `exos run` where that has its sockets, on one core of side a, the client on
//! the other core and side. In each run of a cell the kernel's sockets and ours take turns, on a program that is started again;
//! ratios are of one run, medians over the runs. Who was the limit shows in how busy the cores were in the middle.
//!
//! `program` is what is measured, `requests` the client of key-value stores, and `session` has both run; here are options and cells.

mod program;
mod requests;
mod session;

pub use program::Program;
pub(crate) use requests::Requests;

use crate::experiment::cells::{in_rounds, some_cells};
use crate::experiment::figure::{Figure, goals_met, sections};
use crate::report::{self, Document, Environment, Results};
use crate::stage::LabStage;
use crate::stage::args::{CommonArgs, all};
use crate::stage::process::available;
use exos_host::{Error, Result};
use schemars::JsonSchema;
use serde::Serialize;
use session::Session;
use std::fmt;
use std::process::ExitCode;

/// Options of `exos bench sockets`.
#[derive(clap::Args, Clone, Debug)]
pub struct SocketsArgs {
    /// How cells are chosen and told of.
    #[command(flatten)]
    pub common: CommonArgs,
    /// Programs to measure, separated by commas; skips those not installed
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = all::<Program>())]
    pub programs: Vec<Program>,
}

/// A program at one of its jobs.
#[derive(Clone, Copy, Debug)]
struct Cell {
    program: Program,
    job: &'static str,
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.program, self.job)
    }
}

fn cells(args: &SocketsArgs) -> Vec<Cell> {
    let of = |&program: &Program| {
        let jobs = program.jobs().iter();
        jobs.map(move |job| Cell { program, job })
    };
    args.common.wanted(true, args.programs.iter().flat_map(of))
}

/// Measures as asked, prints the table, and writes JSON and the page.
pub fn run(args: &SocketsArgs) -> Result<ExitCode> {
    let names = || cells(args).iter().map(Cell::to_string).collect();
    report::tell(&args.common, names, || measure(args))
}

/// Everything that a session measured.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Report {
    /// Where and how it measured.
    #[serde(flatten)]
    pub environment: Environment,
    /// Programs that were asked for and are not there, a sentence each.
    pub left_out: Vec<String>,
    /// Everything that was measured.
    pub figures: Vec<Figure>,
}

impl Results for Report {
    fn document(&self) -> Document {
        let left_out = self.left_out.iter().map(|who| format!("left out: {who}"));
        Document {
            command: "exos bench sockets",
            title: "Programs by exos run",
            lines: vec![self.environment.line(), goals_met(&self.figures)],
            sections: sections(&self.figures),
            remarks: left_out.chain(self.environment.remarks()).collect(),
        }
    }
}

/// Measures as asked: everything once before the first is repeated.
pub fn measure(args: &SocketsArgs) -> Result<Report> {
    let mut cells = some_cells(cells(args))?;
    let (there, left_out) = available(&args.programs, Program::version)?;
    cells.retain(|cell| there.iter().any(|(program, _)| *program == cell.program));
    if cells.is_empty() {
        return Err(Error::new(left_out.join("; ")));
    }
    let seconds = if args.common.quick { 1.0 } else { 2.0 };
    let mut stage = LabStage::up(&args.common, seconds)?;
    // iperf3 and pgbench know whole seconds.
    stage.seconds = stage.seconds.ceil();
    let session = Session(stage);
    let figures = in_rounds(&session, &cells, Cell::to_string, |cell, figures| {
        session.compare(*cell, figures)
    })?;
    Ok(Report {
        environment: Environment::of(&session, session.seconds)?,
        left_out,
        figures,
    })
}
