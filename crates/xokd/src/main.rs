//! xokd alone, for anyone who wants nothing else to be privileged: `exos daemon` without the rest of `exos`.

use std::process::ExitCode;

use clap::Parser;

/// Share interfaces between programs that need no privilege.
#[derive(Parser, Debug)]
#[command(name = "xokd", version)]
struct Cli {
    #[command(flatten)]
    args: exos_xokd::DaemonArgs,
}

fn main() -> ExitCode {
    exos_xokd::run(&Cli::parse().args).unwrap_or_else(|error| {
        exos_host::error!("xokd: {error}");
        ExitCode::FAILURE
    })
}
