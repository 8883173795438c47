//! The command line of `exos top`.

use std::path::PathBuf;
use std::time::Duration;

use exos_program::control::FORWARD_SOCKET;
use exos_program::units::parse_seconds;

use crate::limits::{INTERVAL_MAX, INTERVAL_MIN};

/// Watch the daemon (interfaces, programs, grants, rates, drops by name, rings), or a forwarder (its servers).
///
/// With neither named, the daemon; where there is none and a forwarder listens at its usual socket, that.
#[derive(clap::Args, Debug)]
pub struct TopArgs {
    /// Time between two reports, for example 500ms; a number alone is seconds
    #[arg(short = 'd', long, value_name = "TIME", default_value = "1", value_parser = parse_seconds)]
    interval: Duration,
    /// Print one report with its rates as JSON, and end
    #[arg(long)]
    pub(crate) json: bool,
    /// The daemon's socket; else $EXOS_XOKD, else /run/exos/xokd.sock
    #[arg(long, value_name = "PATH", conflicts_with = "forward")]
    pub(crate) xokd: Option<PathBuf>,
    /// Watch the forwarder that was given this socket by --control
    #[arg(long, value_name = "PATH", num_args = 0..=1, default_missing_value = FORWARD_SOCKET)]
    pub(crate) forward: Option<PathBuf>,
}

impl TopArgs {
    /// The time between two reports, within its bounds.
    pub(crate) fn interval(&self) -> Duration {
        self.interval.clamp(INTERVAL_MIN, INTERVAL_MAX)
    }
}
