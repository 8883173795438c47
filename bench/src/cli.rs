//! The command line of `exos bench`.

use crate::http::{self, HttpArgs};
use exos_host::Result;
use std::process::ExitCode;

/// Measure ours beside its peers.
#[derive(clap::Args, Debug)]
pub struct BenchArgs {
    #[command(subcommand)]
    command: BenchCommand,
}

/// The experiments.
#[derive(clap::Subcommand, Debug)]
pub enum BenchCommand {
    /// Static documents over HTTP: exos serve and nginx, new and persistent connections, several sizes
    Http(HttpArgs),
}

/// Does what the command line says.
pub fn run(args: BenchArgs) -> Result<ExitCode> {
    match args.command {
        BenchCommand::Http(args) => http::run(&args),
    }
}
