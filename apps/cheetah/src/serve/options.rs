//! The command line of `exos serve`.

use std::net::IpAddr;
use std::path::PathBuf;

use exos::{Attachment, LinkName, Prefixed};

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
    /// Where packets come from: xdp:INTERFACE[:QUEUE] or tap:NAME; an interface pair of its own when left out
    #[arg(long, value_name = "LINK")]
    pub link: Option<LinkName>,
    /// An address to answer for, one that nobody has (repeatable, IPv4 and IPv6)
    #[arg(long, value_name = "ADDRESS/PREFIX")]
    pub address: Vec<Prefixed>,
    /// Default router (repeatable, one for each family)
    #[arg(long, value_name = "ADDRESS")]
    pub gateway: Vec<IpAddr>,
    /// TCP port to serve
    #[arg(long, default_value_t = 80, value_parser = clap::value_parser!(u16).range(1..))]
    pub port: u16,
    /// Serve on the interface's own addresses: only this TCP port is taken from the host
    #[arg(long)]
    pub share_address: bool,
    /// Send every TCP segment by itself, instead of several at once for the kernel to cut
    #[arg(long)]
    pub no_segmentation: bool,
    /// Run on this core, counted from 0
    #[arg(long, value_name = "CORE")]
    pub core: Option<usize>,
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
    /// What is asked of the library.
    pub(super) fn attachment(&self) -> Attachment {
        Attachment {
            link: self.link.clone().unwrap_or_else(|| {
                let named =
                    self.share_address || !self.address.is_empty() || !self.gateway.is_empty();
                // With these a link must be named; the check of the pair says so.
                if named {
                    LinkName::OwnPair
                } else {
                    LinkName::default_here()
                }
            }),
            addresses: self.address.clone(),
            gateways: self.gateway.clone(),
            port: self.port,
            share_address: self.share_address,
            segmentation: !self.no_segmentation,
        }
    }

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
