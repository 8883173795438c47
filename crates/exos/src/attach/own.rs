//! Links of the program's own, where it alone has addresses: an interface pair, or a TAP device in a user namespace.

use exos_filter::Filter;
use exos_filter::program::{Action, Rule};
use exos_host::Error;
use exos_host::netlink::Netlink;
use exos_link::{XdpConfig, XdpLink};

use super::addresses::{Addresses, Prefixed};
use super::pair::{INNER_NAME, Pair, addresses};
use super::tap::Tap;
use super::{pools, user_netns};
use crate::cores::{Core, share_out};
use crate::node::Exos;
use crate::share::{Kept, StackSettings};

/// The TAP device in the user namespace.
const TAP_NAME: &str = "exos0";

/// An interface pair of the program's own, which brings its addresses. Takes root.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct OwnPair {
    cores: u32,
    pools: Vec<Prefixed>,
}

/// A TAP device in a user namespace of the program's own, which brings its addresses. Takes no privilege.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct OwnTap {
    pools: Vec<Prefixed>,
}

impl Default for OwnPair {
    fn default() -> Self {
        Self::new()
    }
}

impl OwnPair {
    /// On one core.
    pub fn new() -> Self {
        Self {
            cores: 1,
            pools: Vec::new(),
        }
    }

    /// With a queue and a stack for each of this many cores ([`Exos::take_cores`]).
    #[must_use]
    pub fn with_cores(self, cores: u32) -> Self {
        let cores = cores.max(1);
        Self { cores, ..self }
    }

    /// With these prefixes, from which connections are opened ([`Addresses::with_pools`]).
    ///
    /// # Errors
    ///
    /// They overlap with what has a meaning of its own.
    pub fn with_pools(self, pools: impl Into<Vec<Prefixed>>) -> Result<Self, Error> {
        let pools = checked(pools.into())?;
        Ok(Self { pools, ..self })
    }

    pub(super) fn attach(&self, wanted: &StackSettings) -> Result<Exos, Error> {
        let pair = Pair::make(self.cores)?;
        let rules = vec![Rule {
            filter: Filter::everything(),
            action: Action::RedirectToSocket,
        }];
        let settings = XdpConfig {
            otherwise: Action::Drop,
            ..XdpConfig::new(INNER_NAME, rules)
        };
        let open = || XdpLink::open_for_cores(&settings, self.cores);
        let links = pair.namespace.run(open)??;
        let addresses = own(pair.addresses, pair.host_addresses, self.pools.clone())?;
        let netlink = Netlink::new()?;
        pools::refuse_host_addresses(&netlink, &addresses)?;
        let host_end = netlink.link_by_name(&pair.host_name)?.index;
        pools::add_routes(&netlink, &addresses, host_end)?;
        let config = addresses.config(&links[0].mac(), links[0].mtu());
        let cores = share_out(links, config, None, wanted, Kept::default())?;
        let mut exos = Core::lead(cores)?;
        exos.pair = Some(pair);
        Ok(exos)
    }
}

impl OwnTap {
    /// A device without pools.
    pub fn new() -> Self {
        Self::default()
    }

    /// With these prefixes, from which connections are opened ([`Addresses::with_pools`]).
    ///
    /// # Errors
    ///
    /// They overlap with what has a meaning of its own.
    pub fn with_pools(self, pools: impl Into<Vec<Prefixed>>) -> Result<Self, Error> {
        let pools = checked(pools.into())?;
        Ok(Self { pools })
    }

    pub(super) fn attach(&self, wanted: &StackSettings) -> Result<Exos, Error> {
        user_netns::enter()?;
        // Nothing else is in there to collide with.
        let host = addresses(0, 1);
        let tap = Tap {
            name: TAP_NAME.to_owned(),
            addresses: own(addresses(0, 2), host, self.pools.clone())?,
        };
        let exos = tap.attach(wanted)?;
        let netlink = Netlink::new()?;
        let index = netlink.link_by_name(TAP_NAME)?.index;
        for address in host {
            netlink.add_address(index, address.ip, address.prefix)?;
        }
        netlink.set_up(index, true)?;
        pools::add_routes(&netlink, &tap.addresses, index)?;
        let loopback = netlink.link_by_name("lo")?.index;
        netlink.set_up(loopback, true)?;
        Ok(exos)
    }
}

/// Ours, with the host at the other end as the gateway.
fn own(ours: [Prefixed; 2], host: [Prefixed; 2], pools: Vec<Prefixed>) -> Result<Addresses, Error> {
    let gateways = host.map(|address| address.ip);
    Addresses::new(ours)?
        .with_gateways(gateways)?
        .with_pools(pools)
}

/// Refuses pools that would not fit the addresses of a link of our own.
fn checked(pools: Vec<Prefixed>) -> Result<Vec<Prefixed>, Error> {
    own(addresses(0, 2), addresses(0, 1), pools.clone())?;
    Ok(pools)
}
