//! `exos load`: sets up, runs the loop until the load is over, and reports.
//!
//! | file | what is in it |
//! |---|---|
//! | `setup` | what is to be done, before anything is opened |
//! | `course` | the load under way, whatever carries it |
//! | `on_packets` | the loop on a stack of our own |
//! | `on_sockets` | the loop on the kernel's sockets |

mod course;
mod on_packets;
mod on_sockets;
mod setup;

use std::process::ExitCode;

use exos::Error;
use exos::signals::Signals;

use crate::options::LoadArgs;
use crate::report::{Effort, Report};
use crate::statistics::Statistics;

use setup::Setup;

/// What became of a load.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What was seen.
    pub statistics: Statistics,
    /// What it cost.
    pub effort: Effort,
    /// The counters of link and stack; none of the kernel's sockets.
    pub counters: Vec<(String, u64)>,
}

/// Runs the load, and prints what became of it.
///
/// # Errors
///
/// It could not be begun, or its link was taken away.
pub fn run(args: &LoadArgs) -> Result<ExitCode, Error> {
    let outcome = load(args, &Signals::catch()?)?;
    let report = Report::new(&outcome.statistics, outcome.effort, &outcome.counters);
    print!(
        "{}",
        if args.json {
            report.json()
        } else {
            report.text()
        }
    );
    Ok(ExitCode::SUCCESS)
}

/// Runs the load until it is over, or a signal asks to stop.
///
/// # Errors
///
/// It could not be begun, or its link was taken away.
pub fn load(args: &LoadArgs, signals: &Signals) -> Result<Outcome, Error> {
    let setup = Setup::make(args)?;
    args.link.pin()?;
    if args.sockets {
        on_sockets::load(args, setup, signals)
    } else {
        on_packets::load(args, setup, signals)
    }
}
