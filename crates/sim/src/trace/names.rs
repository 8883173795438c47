//! How a trace names what it shows, and what it shows at all.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

/// What a line shows besides the essential.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Style {
    /// TCP windows, as on the wire.
    pub windows: bool,
    /// TCP and UDP ports behind the hosts.
    pub ports: bool,
    /// MSS, window scale and timestamps of TCP.
    pub options: bool,
    /// Leave ARP and neighbour discovery out.
    pub hide_neighbors: bool,
}

/// Names of hosts, and the style of lines.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    pub by_address: HashMap<IpAddr, String>,
    pub style: Style,
}

impl Names {
    pub fn host(&self, ip: IpAddr) -> String {
        self.by_address
            .get(&ip)
            .cloned()
            .unwrap_or_else(|| ip.to_string())
    }

    pub fn end(&self, end: SocketAddr) -> String {
        let host = self.host(end.ip());
        if self.style.ports {
            format!("{host}.{}", end.port())
        } else {
            host
        }
    }
}
