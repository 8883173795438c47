//! `exos bench sharing`: many programs without privilege on one interface, through the daemon.
//!
//! | group | what is measured |
//! |---|---|
//! | `protection` | a web server through the daemon beside the same on the device; where a packet's time goes |
//! | `demultiplexing` | a packet's time among 1 to 10,000 grants; how soon a grant takes effect, and who waits for it |
//! | `fairness` | who gets how much of the link, and latency beside a hostile sender |
//! | `daemon` | processor time and memory of the daemon |
//!
//! Set-up: the lab's plain wire. On side a the daemon has the interface and the address 10.10.0.10; programs are
//! processes of an ordinary user, victims on one core, hostile ones on the other. Side b is a Linux host that drops what
//! senders send before its stack sees it. All figures are measured once, then all again, so that drift of the machine
//! meets all alike; ratios are of one run, medians over the runs.
//!
//! `session` is what experiments share, `program` the programs, `frames` what they send, `ping` a client on Linux's
//! sockets, `web` the server with its client; `protection`, `demultiplexing`, `fairness`, `daemon` measure, `report`
//! shows.

mod daemon;
mod demultiplexing;
mod fairness;
mod figure;
mod frames;
mod options;
mod ping;
mod program;
mod protection;
mod report;
mod session;
mod web;

pub use figure::{Figure, Goal};
pub use options::{Grants, Group, ProgramArgs, ProgramRole, SharingArgs, Way};
pub use program::program;
pub use report::Report;

use crate::report as output;
use exos_host::{Result, kernel};
use session::{Experiment, Session};
use std::process::ExitCode;

const ALL: [(Group, &[Experiment]); 4] = [
    (Group::Protection, &protection::EXPERIMENTS),
    (Group::Demultiplexing, &demultiplexing::EXPERIMENTS),
    (Group::Fairness, &fairness::EXPERIMENTS),
    (Group::Daemon, &daemon::EXPERIMENTS),
];

/// Measures as asked, prints the table, and writes the JSON.
pub fn run(args: &SharingArgs) -> Result<ExitCode> {
    output::tell((args.json.as_deref(), None), || measure(args))?;
    Ok(ExitCode::SUCCESS)
}

/// Measures as asked.
pub fn measure(args: &SharingArgs) -> Result<Report> {
    args.check()?;
    let session = Session::new(args)?;
    session.note_other_load()?;
    let figures = session.measure(&ALL)?;
    Ok(Report {
        kernel: kernel::release(),
        exos: session.version()?,
        runs: args.runs(),
        seconds: args.seconds(),
        rate_mbit_per_sec: args.rate,
        notes: session.notes(),
        figures: figures.into_vec(),
    })
}
