//! A load: sets up, and runs the loop until it is over.
//!
//! | file | what is in it |
//! |---|---|
//! | `probe` | a look whether the server is there |
//! | `setup` | what is to be done, before anything is opened |
//! | `course` | the load under way, whatever carries it |
//! | `on_packets` | the loop on a stack of our own |
//! | `way` | by which link, where none is named |
//! | `on_sockets` | the loop on the kernel's sockets |

mod course;
mod on_packets;
mod on_sockets;
mod probe;
mod setup;
mod way;

use exos::signals::Signals;
use exos::{Error, clock};

use crate::driver::Driver;
use crate::options::LoadArgs;
use crate::report::{Effort, Generator, Results};
use crate::request::Content;
use crate::statistics::Statistics;

use setup::Setup;

/// What became of a load.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Who saw it.
    pub generator: Generator,
    /// What was seen.
    pub statistics: Statistics,
    /// What it cost.
    pub effort: Effort,
    /// The counters of link and stack; none of the kernel's sockets.
    pub counters: Vec<(String, u64)>,
}

impl Outcome {
    /// What is said of it.
    pub fn results(self) -> Results {
        Results::new(self.generator, &self.statistics, self.counters)
    }
}

/// What a load is to do: read and looked up, and nothing opened yet.
///
/// # Errors
///
/// What was said of it is wrong, a file cannot be read, or the server's host has no address.
pub(crate) fn prepare(args: &LoadArgs) -> Result<Setup, Error> {
    Setup::make(args)
}

/// Runs the load until it is over, or a signal asks to stop.
///
/// # Errors
///
/// It could not be begun, or its link was taken away.
pub fn load(args: &LoadArgs, signals: &Signals) -> Result<Outcome, Error> {
    make(args, Setup::make(args)?, signals)
}

/// The same with a driver of one's own, until the load is over or SIGINT or SIGTERM asks to stop. The driver is made from a
/// request as the command line has it, with its host and its fields.
///
/// # Errors
///
/// The load could not be begun, its link was taken away, or the options ask for another driver.
pub fn load_with(
    args: &LoadArgs,
    driver: impl FnOnce(&Content) -> Box<dyn Driver>,
) -> Result<Outcome, Error> {
    if args.driver.is_some() {
        return Err(
            Error::new("the options ask for another driver than this program's")
                .mend("leave --urls, --replay and --surge out"),
        );
    }
    let driver = driver(&args.content_of_url()?);
    make(args, Setup::make(args)?.with(driver), &Signals::catch()?)
}

/// Makes what was prepared, until it is over, or a signal asks to stop.
///
/// # Errors
///
/// As above.
pub(crate) fn make(args: &LoadArgs, setup: Setup, signals: &Signals) -> Result<Outcome, Error> {
    args.link.pin()?;
    let outcome = if args.sockets {
        on_sockets::load(args, setup, signals)
    } else {
        on_packets::load(args, setup, signals)
    }?;
    let is_early = signals.stop_requested() && clock::now() < outcome.statistics.seconds.start();
    if is_early {
        return Err(Error::new(probe::STOPPED));
    }
    Ok(outcome)
}
