//! The options that every program on a stack of its own has: the link, the addresses, the core.

use std::net::IpAddr;

use exos::{Attachment, Error, LinkName, Prefixed};

/// Where packets come from, and which addresses are ours.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct LinkArgs {
    /// Where packets come from: xdp:INTERFACE[:QUEUE] or tap:NAME; an interface pair of its own when left out
    #[arg(long, value_name = "LINK")]
    pub link: Option<LinkName>,
    /// An address to answer for, one that nobody has (repeatable, IPv4 and IPv6)
    #[arg(long, value_name = "ADDRESS/PREFIX")]
    pub address: Vec<Prefixed>,
    /// Default router (repeatable, one for each family)
    #[arg(long, value_name = "ADDRESS")]
    pub gateway: Vec<IpAddr>,
    /// Use the interface's own addresses: only the program's TCP port is taken from the host
    #[arg(long)]
    pub share_address: bool,
    /// Send every TCP segment by itself, instead of several at once for the kernel to cut
    #[arg(long)]
    pub no_segmentation: bool,
    /// Run on this core, counted from 0
    #[arg(long, value_name = "CORE")]
    pub core: Option<usize>,
}

impl LinkArgs {
    /// What is asked of the library, for a program with this TCP port.
    pub fn attachment(&self, port: u16) -> Attachment {
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
            port,
            share_address: self.share_address,
            segmentation: !self.no_segmentation,
        }
    }

    /// Go to the core that was asked for.
    pub fn pin(&self) -> Result<(), Error> {
        self.core.map_or(Ok(()), exos_host::affinity::pin)
    }
}
