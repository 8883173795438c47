//! An interface pair of the program's own, so that it can be tried on any machine at once.
//!
//! One end is the host's: it gets an address and, by it, a route to ours. The other is the link's,
//! in a network namespace without a name, where no other stack has an address. The namespace
//! belongs to this process alone; when that ends, however it ends, the kernel removes the namespace
//! and with it both interfaces.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::fd::AsFd as _;

use exos_host::error::{Error, ErrorKind};
use exos_host::netlink::{Netlink, VethEnd};
use exos_host::netns::NetNs;

use super::addresses::Prefixed;

/// The link's end, in its namespace.
pub const INNER_NAME: &str = "exos";

/// Pairs on one host: one for each program that made one, and one byte of its addresses.
const PAIRS_MAX: u8 = 250;

/// The pair.
pub struct Pair {
    /// The host's end.
    pub host_name: String,
    /// The host's addresses on it.
    pub host_addresses: [Prefixed; 2],
    /// Our addresses.
    pub addresses: [Prefixed; 2],
    /// The namespace of our end.
    pub(crate) namespace: NetNs,
    pub(super) netlink: Netlink,
    host_index: u32,
}

impl Pair {
    /// Makes a pair, with the first numbers that nothing on this host uses and this many queues.
    pub fn make(queues: u32) -> Result<Self, Error> {
        let netlink = Netlink::new()?;
        let namespace = NetNs::anonymous()?;
        let (number, host_name) = free_number(&netlink)?;
        let host_end = VethEnd {
            queues,
            ..VethEnd::named(&host_name)
        };
        let our_end = VethEnd {
            netns: Some(namespace.as_fd()),
            queues,
            ..VethEnd::named(INNER_NAME)
        };
        netlink.create_veth_pair(&host_end, &our_end)?;
        let host_index = netlink.link_by_name(&host_name)?.index;
        let pair = Self {
            host_addresses: addresses(number, 1),
            addresses: addresses(number, 2),
            host_name,
            namespace,
            netlink,
            host_index,
        };
        pair.bring_up()?;
        Ok(pair)
    }

    fn bring_up(&self) -> Result<(), Error> {
        // Nothing but us shall speak on our end.
        // A host without IPv6 has no such setting, and needs none.
        let _ = self
            .namespace
            .set_sysctl("net/ipv6/conf/all/disable_ipv6", "1");
        let inner = self.namespace.netlink()?;
        inner.set_up(inner.link_by_name(INNER_NAME)?.index, true)?;
        for Prefixed { ip, prefix } in self.host_addresses {
            let added = self.netlink.add_address(self.host_index, ip, prefix);
            if ip.is_ipv4() {
                added?;
            }
        }
        self.netlink.set_up(self.host_index, true)
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        // At once, where the end of the process would do it a moment later.
        let _ = self.netlink.delete_link(self.host_index);
    }
}

/// Addresses of the pair of this number: 10.207.N.0/24 and fd10:207:N::/64, of the ranges for
/// private use (RFC 1918, RFC 4193).
pub(crate) fn addresses(number: u8, host: u8) -> [Prefixed; 2] {
    let v4 = Ipv4Addr::new(10, 207, number, host);
    let v6 = Ipv6Addr::new(
        0xfd10,
        0x207,
        u16::from(number),
        0,
        0,
        0,
        0,
        u16::from(host),
    );
    [(v4.into(), 24), (v6.into(), 64)].map(|(ip, prefix)| Prefixed { ip, prefix })
}

/// A number whose name and networks are free on this host.
fn free_number(netlink: &Netlink) -> Result<(u8, String), Error> {
    let links = netlink.links()?;
    let routes = netlink.routes()?;
    for number in 0..PAIRS_MAX {
        let name = format!("exos{number}");
        let named = links.iter().any(|l| l.name == name);
        let routed = addresses(number, 0)
            .iter()
            .any(|network| routes.iter().any(|r| r.destination == network.ip));
        if !named && !routed {
            return Ok((number, name));
        }
    }
    Err(Error::new(format!(
        "there are {PAIRS_MAX} interface pairs on this host already"
    ))
    .mend("stop some of the programs that made them, or attach to an interface")
    .of_kind(ErrorKind::InUse))
}
