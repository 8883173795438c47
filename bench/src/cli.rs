//! The command line of `exos bench`.

use crate::cost::{self, CostArgs, ReplayArgs};
use crate::http::{self, HttpArgs};
use exos_host::Result;
use std::process::ExitCode;

/// Measure our programs beside their peers.
#[derive(clap::Args, Debug)]
pub struct BenchArgs {
    #[command(subcommand)]
    command: BenchCommand,
}

/// The experiments.
#[derive(clap::Subcommand, Debug)]
pub enum BenchCommand {
    /// Static documents over HTTP: exos serve and nginx, new and persistent connections, several sizes
    ///
    /// Makes a lab of its own and removes it. Needs root, nginx and wrk, two cores or more, and a machine that does
    /// nothing else meanwhile.
    Http(HttpArgs),
    /// Instructions, memory and time of our stack, beside smoltcp's: segments, connections, timers
    ///
    /// All in memory: no wire, no privilege. Instructions need valgrind; the machine may do other things meanwhile,
    /// only nanoseconds suffer.
    Cost(CostArgs),
    /// A part of `exos bench cost` that needs a process of its own
    #[command(hide = true)]
    CostReplay(ReplayArgs),
}

/// Does what the command line says.
pub fn run(args: BenchArgs) -> Result<ExitCode> {
    match args.command {
        BenchCommand::Http(args) => http::run(&args),
        BenchCommand::Cost(args) => cost::run(&args),
        BenchCommand::CostReplay(args) => cost::replay(&args),
    }
}
