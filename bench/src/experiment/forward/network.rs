//! Three hosts on a switch, each a namespace of its own.
//!
//! ```text
//!  exos-N-client     exos-N-forwarder     exos-N-server
//!       wire               wire               wire
//!         └──────────────── switch ─────────────┘       exos-N-switch
//! ```
//!
//! A forwarder has one interface, by which both sides reach it, and the kernel's bridge in the middle delivers to it what is
//! for its link address: the same for all who forward.

use crate::stage::link;
use exos_host::Result;
use exos_host::bpf;
use exos_host::netlink::{Netlink, VethEnd};
use exos_host::netns::NetNs;
use exos_lab::{INTERFACE, WireKind};
use exos_wire::Mac;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::AsFd as _;
use std::process::Command;

/// A host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Host {
    Client,
    Forwarder,
    Server,
}

const HOSTS: [Host; 3] = [Host::Client, Host::Forwarder, Host::Server];

/// The bridge, and its namespace's name.
const SWITCH: &str = "switch";

/// Addresses that kernels have.
pub(super) const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 10, 0, 1);
pub(super) const FORWARDER: Ipv4Addr = Ipv4Addr::new(10, 10, 0, 3);
/// One that `exos forward` has on the forwarder, and its kernel has not.
pub(super) const OURS: Ipv4Addr = Ipv4Addr::new(10, 10, 0, 20);
/// Where the server is: the kernel's on the offload wire, where the server is on sockets.
pub(super) const SERVER: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 10, 0, 11), 80);
const PREFIX: u8 = 24;

impl Host {
    const fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Forwarder => "forwarder",
            Self::Server => "server",
        }
    }

    /// What the kernel there has.
    fn address(self, wire: WireKind) -> Option<Ipv4Addr> {
        match (self, wire) {
            (Self::Client, _) => Some(CLIENT),
            (Self::Forwarder, _) => Some(FORWARDER),
            (Self::Server, WireKind::Offload) => Some(*SERVER.ip()),
            (Self::Server, WireKind::Plain) => None,
        }
    }
}

/// The hosts, which go when it is dropped.
pub(super) struct Network {
    pub wire: WireKind,
    names: Vec<String>,
    hosts: Vec<NetNs>,
    switch: NetNs,
}

/// The switch takes in what leaves the forwarder in its driver; no longer, when it is dropped.
pub(super) struct Receiving<'n> {
    network: &'n Network,
    _program: Option<bpf::Link>,
}

/// What a veth receives with where no program of XDP does.
const GRO: &str = "rx-gro";

impl Network {
    /// Makes it, with this many queues of each interface; what was left of one of this name goes first.
    pub fn make(name: &str, wire: WireKind, queues: u32) -> Result<Self> {
        let hosts = HOSTS.map(Host::name).into_iter();
        let names = hosts.chain([SWITCH]);
        let names: Vec<String> = names.map(|host| format!("exos-{name}-{host}")).collect();
        for name in &names {
            NetNs::delete(name)?;
        }
        let mut network = Self {
            wire,
            switch: NetNs::create(&names[HOSTS.len()])?,
            names,
            hosts: Vec::new(),
        };
        let netlink = network.switch.netlink()?;
        netlink.create_bridge(SWITCH)?;
        keep_plain(&network.switch)?;
        netlink.set_up(netlink.link_by_name(SWITCH)?.index, true)?;
        for (host, name) in HOSTS.into_iter().zip(&network.names) {
            let netns = NetNs::create(name)?;
            join(host, &netns, &network.switch, (wire, queues))?;
            prepare(&netns)?;
            network.hosts.push(netns);
        }
        Ok(network)
    }

    pub fn netns(&self, host: Host) -> &NetNs {
        &self.hosts[host as usize]
    }

    /// The name of its namespace.
    pub fn name(&self, host: Host) -> &str {
        &self.names[host as usize]
    }

    /// True when the kernel there listens at a port of TCP.
    pub fn listens(&self, host: Host, port: u16) -> bool {
        let read = || std::fs::read_to_string("/proc/thread-self/net/tcp");
        let text = self.netns(host).run(read);
        matches!(text, Ok(Ok(text)) if has_listener(&text, port))
    }

    /// Has the switch take in what leaves the forwarder's end of the wire in its driver: by a program of XDP on the plain wire,
    /// where nothing is to be merged, by GRO on the other.
    pub fn receive_from_forwarder(&self) -> Result<Receiving<'_>> {
        let port = Host::Forwarder.name();
        let program = match self.wire {
            WireKind::Plain => Some(self.switch.run(|| link::pass_all(port))??),
            WireKind::Offload => None,
        };
        let receiving = Receiving {
            network: self,
            _program: program,
        };
        let gro = self.wire == WireKind::Offload;
        self.switch.ethtool()?.set_feature(port, GRO, gro)?;
        Ok(receiving)
    }

    /// A command that will start on a host.
    pub fn command(&self, host: Host, program: impl AsRef<std::ffi::OsStr>) -> Result<Command> {
        let mut command = Command::new(program);
        self.netns(host).place(&mut command)?;
        Ok(command)
    }

    /// A host's link address.
    pub fn mac(&self, host: Host) -> Result<Mac> {
        let link = self.netns(host).netlink()?.link_by_name(INTERFACE)?;
        let mac = link.mac.map(Mac);
        mac.ok_or_else(|| exos_host::Error::new("the wire has no link address"))
    }

    pub fn mtu(&self) -> Result<u32> {
        let netlink = self.netns(Host::Forwarder).netlink()?;
        Ok(netlink.link_by_name(INTERFACE)?.mtu)
    }
}

impl Drop for Receiving<'_> {
    fn drop(&mut self) {
        let ethtool = self.network.switch.ethtool();
        let off = ethtool.and_then(|e| e.set_feature(Host::Forwarder.name(), GRO, false));
        if let Err(error) = off {
            exos_program::error!("{error}");
        }
    }
}

/// /proc/net/tcp: `N: LOCAL_ADDRESS:PORT 00000000:0000 0A ...` of who listens.
fn has_listener(text: &str, port: u16) -> bool {
    text.contains(&format!(":{port:04X} 00000000:0000 0A "))
}

impl Drop for Network {
    fn drop(&mut self) {
        for name in &self.names {
            if let Err(error) = NetNs::delete(name) {
                exos_program::error!("{error}");
            }
        }
    }
}

/// Joins a host to the switch by a wire of a kind, with this many queues.
fn join(host: Host, netns: &NetNs, switch: &NetNs, (wire, queues): (WireKind, u32)) -> Result<()> {
    let inner = VethEnd {
        netns: Some(netns.as_fd()),
        queues,
        ..VethEnd::named(INTERFACE)
    };
    let port = VethEnd {
        netns: Some(switch.as_fd()),
        queues,
        ..VethEnd::named(host.name())
    };
    Netlink::new()?.create_veth_pair(&inner, &port)?;
    if wire == WireKind::Plain {
        exos_lab::make_plain(&netns.ethtool()?, INTERFACE)?;
        exos_lab::make_plain(&switch.ethtool()?, host.name())?;
    }
    let netlink = switch.netlink()?;
    let port = netlink.link_by_name(host.name())?.index;
    netlink.set_controller(port, netlink.link_by_name(SWITCH)?.index)?;
    netlink.set_up(port, true)?;
    let netlink = netns.netlink()?;
    for name in ["lo", INTERFACE] {
        netlink.set_up(netlink.link_by_name(name)?.index, true)?;
    }
    let wire_index = netlink.link_by_name(INTERFACE)?.index;
    match host.address(wire) {
        Some(address) => netlink.add_address(wire_index, address.into(), PREFIX),
        None => Ok(()),
    }
}

/// A switch does not filter: where the kernel has its bridges ask the rules of its firewall, it is told not to.
fn keep_plain(switch: &NetNs) -> Result<()> {
    for family in ["ip", "ip6", "arp"] {
        let setting = format!("net/bridge/bridge-nf-call-{family}tables");
        if switch.sysctl(&setting).is_ok() {
            switch.set_sysctl(&setting, "0")?;
        }
    }
    Ok(())
}

/// Tens of thousands of connections a second: all ports, old ones again, long queues, and the kernel forwards.
fn prepare(netns: &NetNs) -> Result<()> {
    for (setting, value) in [
        ("ip_local_port_range", "1024 65535"),
        ("tcp_tw_reuse", "1"),
        ("tcp_max_syn_backlog", "4096"),
        ("ip_forward", "1"),
        ("conf/all/send_redirects", "0"),
        ("conf/wire/send_redirects", "0"),
    ] {
        netns.set_sysctl(&format!("net/ipv4/{setting}"), value)?;
    }
    netns.set_sysctl("net/core/somaxconn", "4096")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_listens() {
        let text = "  sl  local_address rem_address   st tx_queue\n   \
                    0: 0300000A:0050 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0\n   \
                    1: 0300000A:01BB 0100000A:1234 01 00000000:00000000 00:00000000 00000000     0\n";
        let listening = [80, 443, 0x1234].map(|port| has_listener(text, port));
        assert_eq!(listening, [true, false, false]);
    }
}
