//! `exos bench iolite`: bytes that one process makes and another has, by reference through our pipes, and by what the kernel offers for it
//! (Pai, Druschel, Zwaenepoel, *IO-Lite*, OSDI 1999; Kaashoek and others, *Application Performance and Flexibility on Exokernel Systems*,
//! SOSP 1997, Table 2).
//!
//! | cells | what is measured |
//! |---|---|
//! | `pipes/BYTES/sum` | messages of this length, each written afresh by one process; the other sums all bytes |
//! | `pipes/BYTES/take` | as above, and the other only takes them |
//! | `wakes/1000` | messages of this length, one each 10 µs, to a process that wants 64 KiB at once: how often it is woken |
//! | `pipes/1/polling`, `pipes/1/sleeping` | the round trip of one byte between two processes that poll, and that sleep |
//! | `tools/TOOLS/BYTES` | `exos io`'s tools on files of the file cache, beside GNU's |
//! | `policies/PART` | hits of each policy of the caches, with memory for this part of the documents |
//!
//! Two processes, each on a core of its own; no wire and no privilege. In each run of a cell the ways take turns.
//!
//! `policies` has no process and no time. `way` has the ways by which bytes go, `stream` sends messages as fast as it can, `round_trip` one at a time, `wakes` now and then,
//! `tools` runs tools, and `session` has all of them run.

mod charts;
mod policies;
mod round_trip;
mod session;
mod stream;
mod tools;
mod wakes;
mod way;

pub(crate) use round_trip::{Answering, Timing};
pub(crate) use stream::{Consuming, Producing};
pub(crate) use wakes::{Gathering, Trickling};

use crate::experiment::cells::{in_rounds, some_cells};
pub use crate::experiment::figure::Report;
use crate::report::{self, Environment};
use crate::stage::args::CommonArgs;
use exos_host::Result;
use serde::{Deserialize, Serialize};
use session::Session;
use std::fmt;
use std::process::ExitCode;

/// Options of `exos bench iolite`.
#[derive(clap::Args, Clone, Debug)]
pub struct IoliteArgs {
    /// How cells are chosen and told of.
    #[command(flatten)]
    pub common: CommonArgs,
}

/// What is done with messages where they come.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Job {
    /// Every byte is looked at: the Internet checksum.
    Sum,
    /// None is.
    Take,
}

/// What is measured at once.
#[derive(Clone, Copy, Debug)]
enum Cell {
    Stream(u32, Job),
    RoundTrip {
        is_polling: bool,
    },
    Wakes,
    Tools(tools::Work),
    /// With memory for this part of the documents: one byte of this many.
    Policies(u64),
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stream(bytes, Job::Sum) => write!(f, "pipes/{bytes}/sum"),
            Self::Stream(bytes, Job::Take) => write!(f, "pipes/{bytes}/take"),
            Self::RoundTrip { is_polling: true } => f.write_str("pipes/1/polling"),
            Self::RoundTrip { is_polling: false } => f.write_str("pipes/1/sleeping"),
            Self::Tools(work) => work.fmt(f),
            Self::Policies(part) => write!(f, "policies/{part}"),
            Self::Wakes => write!(f, "wakes/{}", wakes::MESSAGE),
        }
    }
}

/// Lengths of messages: of the SOSP paper's table, and of what a pipe of the kernel's holds.
const LENGTHS: [u32; 2] = [8192, 65536];

fn cells(args: &IoliteArgs) -> Vec<Cell> {
    let streams = LENGTHS.into_iter();
    let streams =
        streams.flat_map(|bytes| [Job::Sum, Job::Take].map(|job| Cell::Stream(bytes, job)));
    let trips = [true, false].map(|is_polling| Cell::RoundTrip { is_polling });
    let tools = tools::Work::ALL.into_iter();
    let tools = tools.filter(|work| !args.common.quick || work.is_short());
    let tools = tools.map(Cell::Tools);
    let policies = policies::PARTS.map(Cell::Policies);
    let all = streams.chain(trips).chain([Cell::Wakes]);
    let all = all.chain(tools).chain(policies);
    args.common.wanted(true, all)
}

/// Measures as asked, prints the table, and writes JSON and the page.
pub fn run(args: &IoliteArgs) -> Result<ExitCode> {
    let names = || cells(args).iter().map(Cell::to_string).collect();
    report::tell(&args.common, names, || measure(args))
}

/// Measures as asked: everything once before the first is repeated.
pub fn measure(args: &IoliteArgs) -> Result<Report> {
    let cells = some_cells(cells(args))?;
    let session = Session::new(&args.common)?;
    let figures = in_rounds(&session.stage, &cells, Cell::to_string, |cell, figures| {
        session.measure(*cell, figures)
    })?;
    Ok(Report {
        environment: Environment::of(&session.stage, session.seconds)?,
        figures,
        about: ("exos bench iolite", "Buffers that processes share"),
        charts: charts::of,
    })
}
