//! The command line of `exos metrics`.

use std::net::SocketAddr;
use std::path::PathBuf;

use exos_program::UserArgs;

/// Serve the daemon's counters to Prometheus: GET /metrics, on a loopback address.
///
/// Needs no privilege, and gives up what it has. Runs in the foreground until it is told to stop (SIGINT, SIGTERM);
/// while there is no daemon the text says so (`exos_up 0`).
#[derive(clap::Args, Debug)]
pub struct MetricsArgs {
    /// Where to listen; port 0 is one of the kernel's choice
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9101")]
    pub(crate) listen: SocketAddr,
    /// The daemon's socket; else $EXOS_XOKD, else /run/exos/xokd.sock
    #[arg(long, value_name = "PATH")]
    pub(crate) xokd: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) user: UserArgs,
}
