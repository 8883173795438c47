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
//! `session` is what experiments share, `program` the programs and `frames` what they send; `protection`, `demultiplexing`,
//! `fairness` and `daemon` measure, and note what they measure as a `figure`.

mod daemon;
mod demultiplexing;
mod fairness;
mod figure;
mod frames;
mod program;
mod protection;
mod session;

pub use figure::{Figure, Goal};
pub(crate) use program::{Claim, Hold, Idle, Ping, Receive, Send};

use crate::experiment::some_cells;
use crate::report::{self, Document, Results, Section, Table, notes};
use crate::stage::args::{CommonArgs, check_seconds};
use exos_host::{Error, Result, kernel};
use figure::Figures;
use indicatif::ProgressDrawTarget;
use schemars::JsonSchema;
use serde::Serialize;
use session::{Experiment, Session};
use std::process::ExitCode;

/// Groups of figures.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Group {
    /// A web server through the daemon compared with one on the interface itself, and where the time of a packet goes
    Protection,
    /// Packets among 1 to 10,000 grants, and how soon a new grant takes effect
    Demultiplexing,
    /// How the link is divided, and latency next to a hostile sender
    Fairness,
    /// Processor time and memory of the daemon
    Daemon,
}

const ALL: [(Group, &[Experiment]); 4] = [
    (Group::Protection, &protection::EXPERIMENTS),
    (Group::Demultiplexing, &demultiplexing::EXPERIMENTS),
    (Group::Fairness, &fairness::EXPERIMENTS),
    (Group::Daemon, &daemon::EXPERIMENTS),
];

/// Options of `exos bench sharing`.
#[derive(clap::Args, Clone, Debug)]
pub struct SharingArgs {
    /// How figures are chosen and told of.
    #[command(flatten)]
    pub common: CommonArgs,
    /// Groups to measure, separated by commas
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Group::Protection, Group::Demultiplexing, Group::Fairness, Group::Daemon])]
    pub groups: Vec<Group>,
    /// Seconds per measurement [default: 3, with --quick 1]
    #[arg(long)]
    pub seconds: Option<f64>,
    /// Bandwidth of the shared link in Mbit/s; it must be less than one core can send through the daemon, or the core
    /// is shared instead of the link
    #[arg(long, default_value_t = 500)]
    pub rate: u64,
    /// User ID, not root's, that the programs run as
    #[arg(long, default_value_t = 65534)]
    pub uid: u32,
}

impl SharingArgs {
    /// How long one measurement lasts.
    fn seconds(&self) -> f64 {
        let default = if self.common.quick { 1.0 } else { 3.0 };
        self.seconds.unwrap_or(default)
    }

    /// What was asked for.
    fn experiments(&self) -> Vec<Experiment> {
        let groups = ALL.iter().filter(|(group, _)| self.groups.contains(group));
        let all = groups.flat_map(|(_, experiments)| experiments.iter().copied());
        all.filter(|e| self.common.wants(e.name)).collect()
    }

    fn names(&self) -> Vec<String> {
        let names = self.experiments().into_iter().map(|e| e.name.to_owned());
        names.collect()
    }

    /// Says what cannot be measured, before anything is made.
    fn check(&self) -> Result<()> {
        let wrong = |what: &str| Err(Error::new(what));
        if self.groups.is_empty() {
            return wrong("there is nothing to measure: give a group");
        }
        if !(1..=100_000).contains(&self.rate) {
            return wrong("--rate must be from 1 to 100000 Mbit/s");
        }
        if self.uid == 0 {
            return wrong(
                "--uid must not be root's: what is measured is programs without privilege",
            );
        }
        self.common.check()?;
        check_seconds(self.seconds())
    }
}

/// Measures as asked, prints the table, and writes JSON and the page.
pub fn run(args: &SharingArgs) -> Result<ExitCode> {
    report::tell(&args.common, || args.names(), || measure(args))
}

/// Everything that a session measured.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Report {
    /// The kernel's release.
    pub kernel: String,
    /// What our program calls itself.
    pub exos: String,
    /// How often everything was measured.
    pub runs: u32,
    /// How long one measurement was meant to last.
    pub seconds: f64,
    /// The link that was divided in figures of `fairness`.
    pub rate_mbit_per_sec: u64,
    /// What distorts the numbers, a sentence each; empty when all is well.
    pub notes: Vec<String>,
    /// Everything that was measured.
    pub figures: Vec<Figure>,
}

impl Results for Report {
    fn document(&self) -> Document {
        let (kernel, exos, runs) = (&self.kernel, &self.exos, self.runs);
        let (seconds, rate) = (self.seconds, self.rate_mbit_per_sec);
        let asked: Vec<bool> = self
            .figures
            .iter()
            .filter_map(|figure| figure.met)
            .collect();
        let met = asked.iter().filter(|met| **met).count();
        let group = |figure: &Figure| figure.name.split('/').next().unwrap_or("").to_owned();
        let groups = self.figures.chunk_by(|a, b| group(a) == group(b));
        let section = |figures: &[Figure]| Section {
            title: group(&figures[0]),
            tables: vec![Table::of(figures)],
            ..Section::default()
        };
        Document {
            command: "exos bench sharing",
            title: "Sharing an interface",
            lines: vec![
                format!(
                    "kernel {kernel}, {exos}; medians of {runs} runs of {seconds} s, a link of {rate} Mbit/s"
                ),
                format!("{met} of {} goals met", asked.len()),
            ],
            sections: groups.map(section).collect(),
            remarks: notes(&self.notes).collect(),
        }
    }
}

/// Measures as asked: everything once before the first is repeated.
pub fn measure(args: &SharingArgs) -> Result<Report> {
    args.check()?;
    let experiments = some_cells(args.experiments())?;
    let session = Session::new(args)?;
    session.note_other_load()?;
    let progress = &session.progress;
    progress.set_length((experiments.len() * session.runs as usize) as u64);
    progress.set_draw_target(ProgressDrawTarget::stderr());
    let mut figures = Figures::default();
    for _ in 0..session.runs {
        for experiment in &experiments {
            progress.set_message(experiment.name);
            (experiment.run)(&session, &mut figures)?;
            progress.inc(1);
        }
    }
    progress.finish_and_clear();
    Ok(Report {
        kernel: kernel::release(),
        exos: session.version()?,
        runs: session.runs,
        seconds: args.seconds(),
        rate_mbit_per_sec: args.rate,
        notes: session.notes(),
        figures: figures.into_vec(),
    })
}
