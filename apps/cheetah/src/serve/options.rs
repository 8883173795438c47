//! The command line of `exos serve`.

use std::path::PathBuf;

use exos_program::{LinkArgs, TcpArgs};

use crate::site::Limits;

/// Serve a directory over HTTP on a TCP/IP stack of its own.
///
/// Without --link it makes an interface pair of its own and prints addresses that a browser on this machine opens at
/// once; without root as well, it runs over a TAP device in a user namespace instead. SIGINT and SIGTERM end it.
/// Statistics are printed on SIGUSR1 and at the end.
#[derive(clap::Args, Debug)]
pub struct ServeArgs {
    /// The directory to serve; an example site when left out
    #[arg(value_name = "DIR")]
    pub directory: Option<PathBuf>,
    #[command(flatten)]
    pub(super) link: LinkArgs,
    #[command(flatten)]
    pub(super) tcp: TcpArgs,
    /// TCP port to serve
    #[arg(long, default_value_t = 80, value_parser = clap::value_parser!(u16).range(1..))]
    pub port: u16,
    /// Longest document to load, in MiB; longer ones are left out [default and most: 512]
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(1..=crate::limits::DOCUMENT_LEN_MAX >> 20))]
    pub document_max: Option<u64>,
    /// All documents together, in MiB; what exceeds it is left out [default: 2048]
    #[arg(long, value_name = "MIB")]
    pub site_max: Option<u64>,
    /// Print the statistics as JSON, a line on standard output
    #[arg(long)]
    pub json: bool,
}

impl ServeArgs {
    /// The limits of the documents.
    pub(super) fn limits(&self) -> Limits {
        let mut limits = Limits::default();
        if let Some(mib) = self.document_max {
            limits.document_len = mib << 20;
        }
        if let Some(mib) = self.site_max {
            limits.site_len = mib.saturating_mul(1 << 20);
        }
        limits
    }
}
