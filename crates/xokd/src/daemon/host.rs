//! What the host says of itself, where programs share its addresses: neighbours, addresses and routes, from netlink into the
//! tables.

use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};

use exos_host::error::Result;
use exos_host::netlink::{Address, Netlink, RouteEntry, Watch};
use exos_xok::limits::GATEWAYS_MAX;
use exos_xok::tables::Route;

use crate::clock::Now;
use crate::interface::Interface;
use crate::interface::neighbours::{host_news, of_host};
use crate::tables::Tables;

/// What was heard of the host, and what programs were told.
pub(super) struct Host {
    watch: Watch,
    /// Addresses and routes as they were last told of.
    seen: Option<(Vec<Address>, Vec<RouteEntry>)>,
    /// There may be others by now.
    due: bool,
    /// The routes that are in the tables.
    routes: Vec<Route>,
}

impl AsFd for Host {
    /// Readable when there is news.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.watch.as_fd()
    }
}

impl Host {
    pub(super) fn new() -> Result<Self> {
        Ok(Self {
            watch: Watch::everything()?,
            seen: None,
            due: false,
            routes: Vec::new(),
        })
    }

    /// The default routers of an interface.
    pub(super) fn gateways(&self, interface: u32) -> Vec<IpAddr> {
        let routes = self.routes.iter().filter(|r| r.interface == interface);
        let gateways = routes.filter(|r| r.prefix == 0).filter_map(|r| r.gateway);
        gateways.take(GATEWAYS_MAX).collect()
    }

    /// Tells what has changed since the last call.
    pub(super) fn serve(
        &mut self,
        now: Now,
        netlink: &Netlink,
        interfaces: &[Interface],
        tables: &mut Tables,
    ) -> Result<()> {
        let served = |index| interfaces.iter().any(|i| i.link.index == index);
        let news = host_news(&mut self.watch, now, served)?;
        let shared = || interfaces.iter().filter(|i| i.policy.share_address);
        for neighbour in news.neighbours {
            if shared().any(|i| i.link.index == neighbour.interface) {
                tables.set_neighbour(&neighbour);
            }
        }
        for (interface, ip) in news.gone {
            tables.remove_neighbour(interface, ip);
        }
        if news.missed {
            shared().try_for_each(|i| write_neighbours(i.link.index, now, netlink, tables))?;
        }
        // What an error kept from being told is told next time.
        self.due |= news.rest;
        if self.due {
            self.tell(netlink, interfaces, tables)?;
            self.due = false;
        }
        Ok(())
    }

    /// Addresses and routes, when they are others than were told last. What cannot be read is taken for others.
    fn tell(
        &mut self,
        netlink: &Netlink,
        interfaces: &[Interface],
        tables: &mut Tables,
    ) -> Result<()> {
        let addresses = netlink.all_addresses().ok();
        let seen = addresses.zip(netlink.routes().ok());
        if seen.is_none() || seen != self.seen {
            for interface in interfaces {
                interface.tell_addresses(netlink)?;
            }
            self.write(netlink, interfaces, tables)?;
            self.seen = seen;
        }
        Ok(())
    }

    /// Writes all of the tables that follows from the interfaces.
    pub(super) fn write(
        &mut self,
        netlink: &Netlink,
        interfaces: &[Interface],
        tables: &mut Tables,
    ) -> Result<()> {
        let rows: Vec<_> = interfaces.iter().map(Interface::row).collect();
        let addresses: Vec<_> = interfaces
            .iter()
            .flat_map(Interface::address_rows)
            .collect();
        let mut routes = Vec::new();
        for interface in interfaces {
            routes.extend(interface.routes(netlink)?);
        }
        tables.write(|w| {
            w.replace(&rows);
            w.replace(&addresses);
            w.replace(&routes);
        });
        self.routes = routes;
        Ok(())
    }
}

/// All neighbours that the host knows on an interface, and no others.
fn write_neighbours(index: u32, now: Now, netlink: &Netlink, tables: &mut Tables) -> Result<()> {
    let known = netlink.neighbours(index)?;
    let known: Vec<_> = known.iter().filter_map(|n| of_host(n, now)).collect();
    tables.write(|w| {
        let told = w.tables().neighbours();
        let gone = told.filter(|n| n.interface == index);
        let gone = gone.filter(|n| known.iter().all(|k| k.ip != n.ip));
        for neighbour in gone.collect::<Vec<_>>() {
            w.remove_neighbour(index, neighbour.ip);
        }
        for neighbour in &known {
            w.set_neighbour(neighbour);
        }
    });
    Ok(())
}
