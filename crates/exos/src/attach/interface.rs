//! An interface, beside the host, with addresses that the host does not have.

use std::net::IpAddr;

use exos_filter::Rule;
use exos_host::bpf;
use exos_host::error::{Error, ErrorKind};
use exos_host::netlink::Netlink;
use exos_host::passing::Passing;
use exos_link::{PacketConfig, PacketLink, XdpConfig, XdpLink};

use super::addresses::{Addresses, Prefixed};
use super::role::rule;
use super::{pools, taken};
use crate::cores::{Core, join, share_out};
use crate::node::Exos;
use crate::share::{Kept, StackSettings};

/// How packets of an interface are had.
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq)]
pub enum By {
    /// By AF_XDP: the least that a packet can cost. A kernel of this machine on the other end of a veth cuts what it sends into
    /// frames first.
    #[default]
    Xdp,
    /// By packet sockets: what comes several in one piece stays so, and leaves so. On one core, and from Linux 6.6 on.
    PacketSockets,
}

/// An interface, and addresses on it that nobody else has.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// How its packets are had.
    pub by: By,
    /// Which of its queues, by AF_XDP.
    pub queues: Queues,
    /// What the program answers for.
    pub addresses: Addresses,
}

impl Interface {
    /// All queues of the interface by AF_XDP, on one core.
    pub fn new(name: impl Into<String>, addresses: Addresses) -> Self {
        Self {
            name: name.into(),
            by: By::Xdp,
            queues: Queues::default(),
            addresses,
        }
    }

    /// The link and a stack, with what other cores begin with. That others have none of the addresses is known where they
    /// `are_ours`.
    pub(super) fn attach(&self, wanted: &StackSettings, are_ours: bool) -> Result<Exos, Error> {
        match self.by {
            By::Xdp => Core::lead(self.open(wanted, are_ours)?),
            By::PacketSockets => {
                let rules = rules_for_addresses(&self.addresses)?;
                let link = PacketLink::open(&PacketConfig::new(&self.name, rules.clone()))?;
                let end = link.end();
                let kept = self.settle(end.interface(), rules, are_ours)?;
                let config = self.addresses.config(&end.mac(), end.mtu());
                let mut exos = join(link.into(), config, wanted)?;
                exos.kept = kept;
                Ok(exos)
            }
        }
    }

    /// The link of each core, by AF_XDP.
    pub(super) fn open(&self, wanted: &StackSettings, are_ours: bool) -> Result<Vec<Core>, Error> {
        let rules = rules_for_addresses(&self.addresses)?;
        let settings = XdpConfig {
            queue: self.queues.one(),
            ..XdpConfig::new(&self.name, rules.clone())
        };
        let links = XdpLink::open_for_cores(&settings, self.queues.cores())?;
        let link = &links[0];
        let kept = self.settle(link.interface(), rules, are_ours)?;
        let config = self.addresses.config(&link.mac(), link.mtu());
        share_out(links, config, None, wanted, kept)
    }

    /// Nobody else answers for the addresses, and others find them by this interface.
    fn settle(&self, interface: u32, rules: Vec<Rule>, are_ours: bool) -> Result<Kept, Error> {
        let addresses = &self.addresses;
        self.refuse_host_addresses(&Netlink::new()?)?;
        if !are_ours {
            taken::refuse(interface, &pools::to_be_asked_for(addresses))?;
        }
        let memberships = pools::join_groups(interface, addresses)?;
        Ok(Kept {
            rules,
            _memberships: Some(memberships),
            ..Kept::default()
        })
    }

    /// Refuses what `attach` would refuse while the program before is there, and keeps what comes for the addresses from now
    /// on.
    pub(super) fn prepare_to_follow(&self) -> Result<Passing, Error> {
        let netlink = Netlink::new()?;
        let index = netlink.link_by_name(&self.name)?.index;
        self.refuse_host_addresses(&netlink)?;
        bpf::permitted()?;
        let addresses = self.addresses.ours().iter();
        let addresses = addresses.map(|address| Prefixed::single(address.ip));
        let all = addresses.chain(self.addresses.pools().iter().copied());
        let all: Vec<_> = all.map(|a| (a.ip, a.prefix)).collect();
        Passing::listen(index, &all)
    }

    /// An address that the host has too would be answered twice.
    fn refuse_host_addresses(&self, netlink: &Netlink) -> Result<(), Error> {
        let host = netlink.all_addresses()?;
        for address in self.addresses.ours() {
            if host.iter().any(|theirs| theirs.ip == address.ip) {
                return Err(
                    Error::new(format!("{} is an address of this host", address.ip))
                        .mend(format!(
                            "choose one that nobody has, or share the host's on {}",
                            self.name
                        ))
                        .of_kind(ErrorKind::AddressOfHost),
                );
            }
        }
        pools::refuse_host_addresses(netlink, &self.addresses)
    }
}

/// Which queues of an interface a program has.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub enum Queues {
    /// All that are in use, shared out among this many cores with a stack each ([`Exos::take_cores`]).
    All {
        /// How many.
        cores: u32,
    },
    /// This one alone: what is steered to others is not seen.
    One(u32),
}

impl Default for Queues {
    /// All of them, on one core.
    fn default() -> Self {
        Self::All { cores: 1 }
    }
}

impl Queues {
    pub(super) fn one(self) -> Option<u32> {
        match self {
            Self::All { .. } => None,
            Self::One(queue) => Some(queue),
        }
    }

    pub(super) fn cores(self) -> u32 {
        match self {
            Self::All { cores } => cores.max(1),
            Self::One(_) => 1,
        }
    }
}

/// What is for our addresses alone, with what it takes to be found on the link.
fn rules_for_addresses(addresses: &Addresses) -> Result<Vec<Rule>, Error> {
    let mut rules = pools::rules(addresses.pools())?;
    for address in addresses.ours() {
        rules.push(rule(&format!("dst host {} and not arp", address.ip))?);
        match address.ip {
            // Replies to our own questions come to us by MAC, so every ARP packet about us counts.
            IpAddr::V4(ip) => rules.push(rule(&format!("arp dst host {ip}"))?),
            IpAddr::V6(ip) => {
                let group = exos_wire::ndp::solicited_node(&ip);
                rules.push(rule(&format!("icmp6 and dst host {group}"))?);
            }
        }
    }
    Ok(rules)
}
