//! `exos bench sharing`: many programs without privilege on one interface, through the daemon.
//!
//! | group | what is measured |
//! |---|---|
//! | `protection` | a web server through the daemon, which sends in several ways, beside the same on the device; where a packet's time goes |
//! | `demultiplexing` | a packet's time among 1 to 10,000 grants; how soon a grant takes effect, and who waits for it |
//! | `fairness` | who gets how much of the link, and latency beside a hostile sender |
//! | `daemon` | processor time and memory of the daemon |
//!
//! Set-up: the lab's plain wire. On side a the daemon has the interface and the address 10.10.0.10; programs are
//! processes of an ordinary user, victims on one core, hostile ones on the other. Side b is a Linux host that drops what
//! senders send before its stack sees it. All figures are measured once, then all again, so that drift of the machine
//! meets all alike; ratios are of one run, medians over the runs.
//!
//! `args` and `session` are what experiments share, `policy` is the daemon's, `program` the programs and `frames` what they send; `web`, `protection`, `demultiplexing`,
//! `fairness` and `daemon` measure, and note what they measure as a `figure`.

mod args;
mod daemon;
mod demultiplexing;
mod fairness;
mod frames;
mod policy;
mod program;
mod protection;
mod session;
mod web;

pub use crate::experiment::figure::{Figure, Goal};
pub use args::{Group, SharingArgs};
pub(crate) use program::{Claim, Hold, Ping, Receive, Send};

use crate::experiment::cells::{in_rounds, some_cells};
use crate::experiment::figure::{goals_met, sections};
use crate::report::{self, Document, Environment, Results};
use exos_host::Result;
use schemars::JsonSchema;
use serde::Serialize;
use session::{Experiment, Session};
use std::process::ExitCode;

/// What was asked for.
fn experiments(args: &SharingArgs) -> Vec<Experiment> {
    let all = [
        (Group::Protection, web::experiments(args.common.quick)),
        (Group::Protection, protection::experiments()),
        (Group::Demultiplexing, demultiplexing::experiments()),
        (Group::Fairness, fairness::experiments()),
        (Group::Daemon, daemon::experiments()),
    ];
    let groups = all
        .into_iter()
        .filter(|(group, _)| args.groups.contains(group));
    let all = groups.flat_map(|(_, experiments)| experiments);
    all.filter(|e| args.common.wants(&e.name)).collect()
}

fn names(args: &SharingArgs) -> Vec<String> {
    experiments(args).into_iter().map(|e| e.name).collect()
}

/// Measures as asked, prints the table, and writes JSON and the page.
pub fn run(args: &SharingArgs) -> Result<ExitCode> {
    report::tell(&args.common, || names(args), || measure(args))
}

/// Everything that a session measured.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Report {
    /// Where and how it measured.
    #[serde(flatten)]
    pub environment: Environment,
    /// The link that was divided in figures of `fairness`.
    pub rate_mbit_per_sec: u64,
    /// Everything that was measured.
    pub figures: Vec<Figure>,
}

impl Results for Report {
    fn document(&self) -> Document {
        let (line, rate) = (self.environment.line(), self.rate_mbit_per_sec);
        Document {
            command: "exos bench sharing",
            title: "Sharing an interface",
            lines: vec![
                format!("{line}, a link of {rate} Mbit/s"),
                goals_met(&self.figures),
            ],
            sections: sections(&self.figures),
            remarks: self.environment.remarks(),
        }
    }
}

/// Measures as asked: everything once before the first is repeated.
pub fn measure(args: &SharingArgs) -> Result<Report> {
    let experiments = some_cells(experiments(args))?;
    let session = Session::new(args)?;
    session.note_other_load()?;
    let name = |experiment: &Experiment| experiment.name.clone();
    let figures = in_rounds(&session, &experiments, name, |experiment, figures| {
        (experiment.run)(&session, figures)
    })?;
    Ok(Report {
        environment: Environment::of(&session, args.seconds())?,
        rate_mbit_per_sec: args.rate,
        figures,
    })
}
