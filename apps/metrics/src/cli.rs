//! The command line of `exos metrics`.

use std::net::SocketAddr;
use std::path::PathBuf;

use exos_program::UserArgs;

/// Serve the daemon's counters to Prometheus (GET /metrics) at a loopback address.
///
/// Needs no privilege, and gives up what it has. Runs in the foreground until SIGINT or SIGTERM. While no daemon runs,
/// it serves `exos_up 0`.
#[derive(clap::Args, Debug)]
pub struct MetricsArgs {
    /// Address and port to listen at; the kernel chooses a port for 0
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9101")]
    pub(crate) listen: SocketAddr,
    /// The daemon's socket [default: $EXOS_XOKD, else /run/exos/xokd.sock]
    #[arg(long, value_name = "PATH")]
    pub(crate) xokd: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) user: UserArgs,
}
