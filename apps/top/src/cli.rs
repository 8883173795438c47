//! The command line of `exos top`.

use std::path::PathBuf;
use std::time::Duration;

use exos_program::control::FORWARD_SOCKET;
use exos_program::units::parse_seconds;

use crate::limits::{INTERVAL_MAX, INTERVAL_MIN};

/// Watch the daemon's interfaces and programs, or a forwarder's servers, like top.
///
/// For the daemon it shows programs, what they were granted, rates, and drops by reason. Without --xokd and
/// --forward it watches the daemon, or, if none runs, the forwarder at the usual control socket.
#[derive(clap::Args, Debug)]
pub struct TopArgs {
    /// Time between updates, such as 500ms; a plain number is seconds
    #[arg(short = 'd', long, value_name = "TIME", default_value = "1", value_parser = parse_seconds)]
    interval: Duration,
    /// Print one report with rates as JSON, and exit
    #[arg(long)]
    pub(crate) json: bool,
    /// The daemon's socket [default: $EXOS_XOKD, else /run/exos/xokd.sock]
    #[arg(long, value_name = "PATH", conflicts_with = "forward")]
    pub(crate) xokd: Option<PathBuf>,
    /// Watch the forwarder with this control socket
    #[arg(long, value_name = "PATH", num_args = 0..=1, default_missing_value = FORWARD_SOCKET)]
    pub(crate) forward: Option<PathBuf>,
}

impl TopArgs {
    /// The time between two reports, within its bounds.
    pub(crate) fn interval(&self) -> Duration {
        self.interval.clamp(INTERVAL_MIN, INTERVAL_MAX)
    }
}
