//! `exos bench sockets`: unmodified programs by `exos run`, compared with themselves on the kernel's sockets.
//!
//! The programs, and what each does, stand in `bench/programs/jobs.toml`: its usual job, as a server or as a client. Key-value stores are
//! asked by clients of ours, on our stack; other clients, and the servers of clients, have the kernel's sockets.
//!
//! Set-up: the lab's plain wire; the program, with `exos run` where that has its sockets, on one core of side a, the other end on
//! the other core and side. In each run of a cell the kernel's sockets and ours take turns, on programs that are started again;
//! ratios are of one run, medians over the runs. Who was the limit shows in how busy the cores were.
//!
//! `job` reads the table, `folder` makes what jobs need, `requests` is the client of key-value stores, and `session` has all
//! run; here are options and cells.

mod folder;
mod job;
mod requests;
mod session;

pub(crate) use requests::{Requests, Store};

use crate::experiment::cells::{in_rounds, some_cells};
use crate::experiment::figure::{Figure, goals_met, sections};
use crate::report::{self, Document, Environment, Results};
use crate::stage::LabStage;
use crate::stage::args::CommonArgs;
use exos_host::{Error, Result};
use folder::Folder;
use job::{Job, Table};
use schemars::JsonSchema;
use serde::Serialize;
use session::Session;
use std::process::ExitCode;

/// Options of `exos bench sockets`.
#[derive(clap::Args, Clone, Debug)]
pub struct SocketsArgs {
    /// How cells are chosen and told of.
    #[command(flatten)]
    pub common: CommonArgs,
}

/// Measures as asked, prints the table, and writes JSON and the page.
pub fn run(args: &SocketsArgs) -> Result<ExitCode> {
    let cells = || args.common.wanted(true, Table::read().job);
    let names = || cells().iter().map(Job::to_string).collect();
    report::tell(&args.common, names, || measure(args))
}

/// Everything that a session measured.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Report {
    /// Where and how it measured.
    #[serde(flatten)]
    pub environment: Environment,
    /// Jobs that were asked for and cannot be done here, a sentence each.
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
    let table = Table::read();
    let mut jobs = some_cells(args.common.wanted(true, table.job.clone()))?;
    let seconds = if args.common.quick { 1.0 } else { 2.0 };
    let mut stage = LabStage::up(&args.common, seconds)?;
    // Many programs know whole seconds.
    stage.seconds = stage.seconds.ceil();
    let folder = Folder::new(&stage.scratch, table, stage.seconds)?;
    let mut left_out = Vec::new();
    jobs.retain(|job| match folder.prepare(job) {
        Ok(()) => true,
        Err(error) => {
            left_out.push(error.to_string());
            false
        }
    });
    if jobs.is_empty() {
        return Err(Error::new(left_out.join("; ")));
    }
    let session = Session { stage, folder };
    let figures = in_rounds(&session, &jobs, Job::to_string, |job, figures| {
        session.compare(job, figures)
    })?;
    Ok(Report {
        environment: Environment::of(&session, session.seconds)?,
        left_out,
        figures,
    })
}
