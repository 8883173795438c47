//! An interface that is served: what it is, whose addresses, and the gate on it.

pub mod neighbours;
pub mod reservations;
pub mod responder;

use std::collections::HashSet;
use std::net::IpAddr;

use exos_filter::gate::{AddressFlags, Slot, SlotKind};
use exos_host::Error;
use exos_host::error::Result;
use exos_host::ethtool::{Ethtool, Feature};
use exos_host::multicast::Memberships;
use exos_host::netlink::{LinkInfo, Netlink};
use exos_host::netns::NetNs;
use exos_host::random::random_number;
use exos_wire::ndp::solicited_node;
use exos_wire::{Mac, Prefix};
use exos_xok::message::{InterfaceInfo, LocalAddress};
use exos_xok::tables::{Address, Interface as Row, Neighbour, NeighbourState, Route};

use crate::clock::Now;
use crate::gate::{Device, Gate, LiveFrames};
use crate::policy;
use crate::slot::{self, SlotPair, SlotPairConfig};
use crate::state;
use neighbours::Neighbours;
use responder::Responder;

/// An interface that is served.
#[derive(Debug)]
pub struct Interface {
    /// What policy says of it.
    pub policy: policy::Interface,
    /// What the kernel says of it.
    pub link: LinkInfo,
    /// Its Ethernet address.
    pub mac: Mac,
    /// What may be claimed on it.
    pub addresses: Vec<LocalAddress>,
    /// What its gate and its state are called.
    pub name: String,
    /// The gate.
    pub gate: Gate,
    /// Who the neighbours are, and slot 0.
    pub neighbours: Neighbours,
    /// An earlier daemon's gate was taken over.
    pub adopted: bool,
    /// The groups in which others ask for IPv6 addresses of ours alone.
    _memberships: Memberships,
    /// Nobody else serves it.
    _lock: state::Lock,
}

impl Interface {
    /// Puts the gate on an interface.
    pub fn open(
        netlink: &Netlink,
        inode: u64,
        mut policy: policy::Interface,
        live: LiveFrames,
    ) -> Result<Self> {
        let link = netlink.link_by_name(&policy.name)?;
        let Some(mac) = link.mac.map(Mac) else {
            return Err(
                Error::new(format!("{} has no Ethernet addresses", policy.name))
                    .mend("serve an Ethernet interface"),
            );
        };
        if !link.up {
            return Err(Error::new(format!("{} is down", policy.name))
                .mend(format!("bring it up: ip link set {} up", policy.name)));
        }
        let addresses = addresses(netlink, &link, &policy)?;
        if policy.rate.is_none() {
            policy.rate = link_rate(&policy.name);
        }
        let name = gate_name(inode, link.index);
        let lock = state::Lock::take(&name, &policy.name)?;
        forget_named(&name)?;
        let memberships = join_groups(link.index, &addresses)?;
        let device = Device {
            name: &policy.name,
            index: link.index,
            mac,
            mtu: link.mtu,
        };
        if !Gate::can_be_taken_over(&name)? {
            // First: as long as a pair is there, what comes out of it is to be checked.
            slot::keep_only(netlink, link.index, &[])?;
        }
        let (gate, adopted) = Gate::open(&name, &device, live)?;
        let mut interface = Self {
            neighbours: Neighbours::new(link.index, None),
            name,
            policy,
            link,
            mac,
            addresses,
            gate,
            adopted,
            _memberships: memberships,
            _lock: lock,
        };
        interface.tell_addresses(netlink)?;
        if interface.addresses.iter().any(|a| a.ours_alone) {
            let responder = interface.respond(netlink)?;
            interface.neighbours = Neighbours::new(interface.link.index, Some(responder));
        }
        Ok(interface)
    }

    /// Makes slot 0, again each time: nobody but the daemon depends on it.
    fn respond(&self, netlink: &Netlink) -> Result<Responder> {
        let config = SlotPairConfig {
            id: 0,
            ifindex: self.link.index,
            mac: self.mac,
            mtu: self.link.mtu,
            chunks: responder::CHUNKS,
            super_packets: false,
            counters: self.gate.slot_counters(0),
        };
        let place = SlotPair::make(netlink, &config)?;
        let entry = Slot {
            kind: SlotKind::Daemon,
            ifindex: place.ifindex,
            mac: self.mac.0,
            ..Slot::default()
        };
        self.gate.forget(0)?;
        self.gate.add_slot(0, &entry)?;
        let ours = self.addresses.iter().filter(|a| a.ours_alone);
        let ours: Vec<_> = ours.map(|a| (a.ip, a.prefix)).collect();
        let seed = random_number();
        Responder::start(place, &config, &ours, &self.policy.gateways, seed)
    }

    /// Takes the interface's own slot and the gate down. The gate stays where a slot's pair does: what comes out of it is to be
    /// checked.
    pub fn close(mut self, netlink: &Netlink) -> Result<()> {
        if self.neighbours.responder_ref().is_some() {
            let _ = self.gate.forget(0);
        }
        if let Err(error) = slot::keep_only(netlink, self.link.index, &[]) {
            self.gate.keep();
            return Err(error);
        }
        state::remove(&self.name);
        self.gate.close()
    }

    /// Tells the gate whose addresses are whose.
    pub fn tell_addresses(&self, netlink: &Netlink) -> Result<()> {
        let hosts = netlink.all_addresses()?.into_iter();
        let mut all: Vec<_> = hosts.map(|a| (a.ip, AddressFlags::HOST)).collect();
        let ours = self.addresses.iter().filter(|a| a.ours_alone);
        all.extend(ours.map(|a| (a.ip, AddressFlags::OURS_ALONE)));
        self.gate.set_addresses(&all)
    }

    /// Whether its device merges packets that come, and cannot be told to stop.
    pub fn merges_for_good(&self) -> bool {
        let features = Ethtool::new().and_then(|e| e.features(&self.link.name));
        features.is_ok_and(|all| all.iter().any(Feature::merges_for_good))
    }

    /// Whether it is an address that may be claimed here.
    pub fn has(&self, ip: IpAddr) -> bool {
        self.addresses.iter().any(|a| a.ip == ip)
    }

    /// Asks for a neighbour; returns what is known already. At addresses of the interface's own there are programs of this
    /// daemon's, or the host: what is sent there does not leave the machine.
    pub fn resolve(
        &mut self,
        netlink: &Netlink,
        now: Now,
        ip: IpAddr,
    ) -> Result<Option<Neighbour>> {
        if !self.has(ip) {
            return self.neighbours.resolve(netlink, now, ip);
        }
        Ok(Some(Neighbour {
            interface: self.link.index,
            ip,
            mac: self.mac,
            state: NeighbourState::Reachable,
            confirmed_ns: now.as_nanos() as u64,
        }))
    }

    /// What a program is told.
    pub fn info(&self, gateways: Vec<IpAddr>) -> InterfaceInfo {
        InterfaceInfo {
            name: self.link.name.clone(),
            index: self.link.index,
            mac: self.mac,
            mtu: self.link.mtu,
            addresses: self.addresses.clone(),
            gateways,
        }
    }

    /// Its row of the tables.
    pub fn row(&self) -> Row {
        Row {
            index: self.link.index,
            name: self.link.name.clone(),
            mac: self.mac,
            mtu: self.link.mtu,
            running: self.link.running,
        }
    }

    /// The rows of its addresses.
    pub fn address_rows(&self) -> impl Iterator<Item = Address> {
        self.addresses.iter().map(|address| Address {
            interface: self.link.index,
            ip: address.ip,
            prefix: address.prefix,
            ours_alone: address.ours_alone,
        })
    }

    /// Its routes: networks on the link, networks behind routers; the host's own where its addresses are shared.
    pub fn routes(&self, netlink: &Netlink) -> Result<Vec<Route>> {
        let interface = self.link.index;
        let route = |destination, prefix, gateway| Route {
            interface,
            destination,
            prefix,
            gateway,
        };
        let own = self.addresses.iter();
        let mut routes: Vec<_> = own.map(|a| route(a.ip, a.prefix, None)).collect();
        for gateway in &self.policy.gateways {
            let any = match gateway {
                IpAddr::V4(_) => IpAddr::from([0; 4]),
                IpAddr::V6(_) => IpAddr::from([0_u16; 8]),
            };
            routes.push(route(any, 0, Some(*gateway)));
        }
        if self.policy.share_address {
            let mut hosts = netlink.routes()?;
            hosts.retain(|entry| entry.oif == interface);
            hosts.sort_by_key(|entry| entry.priority);
            let all = hosts.iter();
            routes.extend(all.map(|e| route(e.destination, e.prefix, e.gateway)));
        }
        // Of several to one network the first counts.
        let mut seen = HashSet::new();
        routes.retain(|r| seen.insert((r.destination, r.prefix)));
        Ok(routes)
    }
}

/// Takes the names away that earlier versions gave to the namespaces of an interface's slots: anybody could hold these by
/// them. They live on with the programs that have sockets there.
fn forget_named(name: &str) -> Result<()> {
    let ours = |named: &String| gate_of_named(named) == Some(name);
    let named = NetNs::list_with_leavings()?;
    let mut ours = named.iter().filter(|named| ours(named));
    ours.try_for_each(|named| NetNs::delete(named).map(drop))
}

/// The gate whose slot a namespace was made for that has such a name.
pub fn gate_of_named(namespace: &str) -> Option<&str> {
    let rest = namespace.strip_prefix("exos-xok-")?;
    Some(rest.rsplit_once('-')?.0)
}

/// The folder of an interface's gate, unique on this machine.
pub fn gate_name(inode: u64, ifindex: u32) -> String {
    format!("{inode}-{ifindex}")
}

/// What the device says that the wire carries, in bytes per second. One that cannot say is divided by nothing.
fn link_rate(name: &str) -> Option<u64> {
    let speed = Ethtool::new().and_then(|ethtool| ethtool.speed(name));
    speed.ok().flatten().map(|bits| bits / 8)
}

/// Joins the groups in which others on the link ask for IPv6 addresses of ours alone.
fn join_groups(interface: u32, addresses: &[LocalAddress]) -> Result<Memberships> {
    let memberships = Memberships::new(interface)?;
    for address in addresses.iter().filter(|address| address.ours_alone) {
        if let IpAddr::V6(ip) = address.ip {
            memberships.join(solicited_node(&ip))?;
        }
    }
    Ok(memberships)
}

/// What may be claimed: addresses of ours alone, and the host's where they are shared.
fn addresses(
    netlink: &Netlink,
    link: &LinkInfo,
    policy: &policy::Interface,
) -> Result<Vec<LocalAddress>> {
    let hosts = netlink.addresses(link.index)?;
    let everywhere = netlink.all_addresses()?;
    let mut all = Vec::new();
    for Prefix {
        addr: ip,
        len: prefix,
    } in &policy.addresses
    {
        if everywhere.iter().any(|a| a.ip == *ip) {
            return Err(Error::new(format!("{ip} is an address of this host"))
                .mend("choose one that nobody has, or write share_address = true (--share-address) for the host's own"));
        }
        all.push(LocalAddress {
            ip: *ip,
            prefix: *prefix,
            ours_alone: true,
        });
    }
    if policy.share_address {
        let link_local = |ip: &IpAddr| matches!(ip, IpAddr::V6(v6) if v6.is_unicast_link_local());
        let shared = hosts.into_iter().filter(|(ip, _)| !link_local(ip));
        all.extend(shared.map(|(ip, prefix)| LocalAddress {
            ip,
            prefix,
            ours_alone: false,
        }));
    }
    if all.is_empty() {
        return Err(Error::new(format!("{} has no address to share", link.name))
            .mend("give it one, or give --address ADDRESS/PREFIX"));
    }
    all.truncate(exos_xok::limits::ADDRESSES_MAX);
    Ok(all)
}
