//! How a program gets its packets: which link, which addresses, and the filters that follow.
//!
//! | `--link` | what is made | who else is on it |
//! |---|---|---|
//! | none, as root | an interface pair of our own ([`crate::pair`]) | nobody |
//! | none, else | a TAP device in a user namespace ([`crate::user_netns`]) | nobody |
//! | `xdp:IFACE` | an AF_XDP socket on each queue in use | the host, and everybody it serves |
//! | `xdp:IFACE:QUEUE` | an AF_XDP socket on that queue: what is steered to others is not seen | the same |
//! | `tap:NAME` | a TAP device | the host |
//!
//! With `--via xokd` a daemon lends a part of its interface ([`crate::via`]): the addresses and ports
//! that are claimed from it, beside everybody else's.
//!
//! On an interface that the host uses too, only what is for our addresses is taken; with
//! `share_address` only what is for our port, and the rest of the address stays the host's ([`shared`]).

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

use exos_filter::Filter;
use exos_filter::program::{Action, Rule};
use exos_host::Error;
use exos_host::bpf;
use exos_host::caps;
use exos_host::ethtool::STOP_MERGING;
use exos_host::netlink::Netlink;
use exos_host::passing::Passing;
use exos_inet::Config;
use exos_link::{Link, Merging, Mode, TapConfig, TapLink, XdpConfig, XdpLink};

use crate::cores::join;
use crate::node::Exos;
use crate::pair::{INNER_NAME, Pair};
use crate::pools;
use crate::shared;
use crate::taken;
use crate::user_netns;
use crate::via;

/// Where packets come from, as a person names it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum LinkName {
    /// An interface, by AF_XDP.
    Xdp {
        /// The interface.
        interface: String,
        /// One of its queues; all that are in use when left out.
        queue: Option<u32>,
    },
    /// A TAP device.
    Tap(String),
    /// An interface pair of our own.
    OwnPair,
    /// A TAP device in a user namespace of our own.
    OwnTap,
    /// A part of an interface that a daemon lends.
    Daemon {
        /// The interface; the only one that the daemon serves when left out.
        interface: Option<String>,
        /// Where the daemon listens.
        socket: PathBuf,
        /// Which kind of part.
        mode: via::Mode,
    },
}

impl LinkName {
    /// What to use when nothing was said: what this process is allowed to.
    pub fn default_here() -> Self {
        let needed = caps::CapabilitySet::NET_ADMIN | caps::CapabilitySet::SYS_ADMIN;
        // A process that is root in a user namespace only has them there, and BPF asks for them outside.
        if caps::has(needed) && !user_netns::is_inside() {
            Self::OwnPair
        } else {
            Self::OwnTap
        }
    }
}

impl FromStr for LinkName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let help = "write xdp:INTERFACE, xdp:INTERFACE:QUEUE or tap:NAME";
        let (kind, rest) = text
            .split_once(':')
            .ok_or(format!("{text:?} names no kind of link; {help}"))?;
        match (kind, rest) {
            (_, "") => Err(format!("{text:?} names no interface; {help}")),
            ("tap", name) => Ok(Self::Tap(name.to_owned())),
            ("xdp", rest) => {
                let Some((interface, queue)) = rest.rsplit_once(':') else {
                    return Ok(Self::Xdp {
                        interface: rest.to_owned(),
                        queue: None,
                    });
                };
                let queue = queue
                    .parse()
                    .map(Some)
                    .map_err(|_| format!("{queue:?} is no queue number; {help}"))?;
                Ok(Self::Xdp {
                    interface: interface.to_owned(),
                    queue,
                })
            }
            _ => Err(format!("{kind:?} is no kind of link; {help}")),
        }
    }
}

/// An address with its prefix length.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub struct Prefixed {
    /// The address.
    pub ip: IpAddr,
    /// How many leading bits are the network's.
    pub prefix: u8,
}

impl FromStr for Prefixed {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let help = "write for example 192.0.2.7/24 or 2001:db8::7/64";
        let (ip, prefix) = text
            .split_once('/')
            .ok_or(format!("{text:?} has no prefix length; {help}"))?;
        let ip: IpAddr = ip
            .parse()
            .map_err(|_| format!("{ip:?} is no address; {help}"))?;
        let most = if ip.is_ipv4() { 32 } else { 128 };
        let prefix = prefix.parse().ok().filter(|p| *p <= most);
        let prefix = prefix.ok_or(format!(
            "the prefix length of {text:?} is not from 0 to {most}; {help}"
        ))?;
        Ok(Self { ip, prefix })
    }
}

impl fmt::Display for Prefixed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.ip, self.prefix)
    }
}

/// What a program wants.
#[derive(Clone, Debug)]
pub struct Attachment {
    /// The link.
    pub link: LinkName,
    /// Our addresses; none where the link brings its own.
    pub addresses: Vec<Prefixed>,
    /// Prefixes that are ours with all their addresses, from which connections are opened: a part of the network of an
    /// address, or a network that others route to an address. To an interface of our own the host is given routes.
    pub pools: Vec<Prefixed>,
    /// Default routers.
    pub gateways: Vec<IpAddr>,
    /// The TCP port that we serve; 0 for a program that only connects.
    pub port: u16,
    /// Serve the UDP port of this number too. Said to a daemon; elsewhere an address has all its ports.
    pub datagrams: bool,
    /// Use the interface's own addresses, beside the host.
    pub share_address: bool,
    /// To whom a program connects that shares the host's addresses and serves nothing: what comes from there to its ports is
    /// taken from the host.
    pub peers: Vec<SocketAddr>,
    /// The number of cores to run on, with a share of the interface's queues and a stack each ([`Exos::take_cores`]).
    pub cores: u32,
    /// Hand over large segments to be cut by the link, where it can. Off to measure what it brings.
    pub segmentation: bool,
    /// Verify the TCP and UDP checksums of what comes, where the link has not.
    pub verify_checksums: bool,
    /// What sequence numbers, timestamps and local ports follow from, where nobody gains by foretelling them: with the
    /// same seed a peer that still has connections of an earlier run in TIME-WAIT sees ours as later ones (RFC 6191).
    /// `None` draws a secret (RFC 6528).
    pub seed: Option<u64>,
}

impl Attachment {
    /// All else by default.
    pub fn new(link: LinkName, port: u16) -> Self {
        Self {
            link,
            addresses: Vec::new(),
            pools: Vec::new(),
            gateways: Vec::new(),
            port,
            datagrams: false,
            share_address: false,
            peers: Vec::new(),
            cores: 1,
            segmentation: true,
            verify_checksums: true,
            seed: None,
        }
    }

    /// Refuses what contradicts itself, before anything is made.
    ///
    /// # Errors
    ///
    /// What to say instead.
    pub fn check(&self) -> Result<(), Error> {
        if let LinkName::Daemon { .. } = self.link {
            return self.check_daemon();
        }
        let own = matches!(self.link, LinkName::OwnPair | LinkName::OwnTap);
        if own && (self.share_address || !self.addresses.is_empty() || !self.gateways.is_empty()) {
            return Err(Error::new("an interface of its own brings its addresses with it")
                .mend("name the interface with --link xdp:INTERFACE, or leave --address, --gateway and --share-address out"));
        }
        if self.share_address && (!self.addresses.is_empty() || !self.gateways.is_empty()) {
            return Err(Error::new(
                "with --share-address the addresses and routes are the interface's own",
            )
            .mend("leave --address and --gateway out, or leave --share-address out"));
        }
        if self.share_address && !matches!(self.link, LinkName::Xdp { .. }) {
            return Err(
                Error::new("--share-address needs an interface").mend("give --link xdp:INTERFACE")
            );
        }
        if !own && !self.share_address && self.addresses.is_empty() {
            return Err(Error::new("no address to answer for")
                .mend("give --address ADDRESS/PREFIX (one that nobody has), or --share-address for the interface's own"));
        }
        self.check_cores()?;
        pools::check(self)?;
        if self.share_address && self.port == 0 && self.peers.is_empty() {
            return Err(
                Error::new("with --share-address it must be known who is connected to")
                    .mend("give an --address of our own instead"),
            );
        }
        for gateway in &self.gateways {
            if !self
                .addresses
                .iter()
                .any(|a| a.ip.is_ipv4() == gateway.is_ipv4())
            {
                return Err(Error::new(format!(
                    "the gateway {gateway} is of a family without an address"
                ))
                .mend("give an --address of that family too"));
            }
        }
        Ok(())
    }
}

impl Attachment {
    /// Several cores share the queues of an interface.
    fn check_cores(&self) -> Result<(), Error> {
        match &self.link {
            _ if self.cores == 1 => Ok(()),
            LinkName::Xdp { queue: None, .. } | LinkName::OwnPair => Ok(()),
            LinkName::Xdp { interface, .. } => Err(Error::new("one queue is one core's").mend(
                format!("write --link xdp:{interface}, without the queue, or leave --cores out"),
            )),
            LinkName::Daemon { .. } => Err(Error::new("the daemon lends one queue to a program")
                .mend("start a program for each core, or leave --cores out; or do without the daemon (--via none)")),
            LinkName::OwnTap | LinkName::Tap(_) => {
                Err(Error::new("a TAP device has one queue here")
                    .mend("give --link xdp:INTERFACE (as root), or leave --cores out"))
            }
        }
    }

    fn check_daemon(&self) -> Result<(), Error> {
        if self.share_address || !self.gateways.is_empty() {
            return Err(
                Error::new("the daemon knows routes and addresses by itself")
                    .mend("leave --gateway and --share-address out, or do without it (--via none)"),
            );
        }
        pools::check(self)?;
        self.check_cores()
    }
}

impl Exos {
    /// Make the link and a stack on it. Everything made is unmade when the result is dropped, or
    /// the process ends in whatever way.
    pub fn attach(wanted: &Attachment) -> Result<Self, Error> {
        wanted.check()?;
        match &wanted.link {
            LinkName::OwnPair => own_pair(wanted),
            LinkName::OwnTap => own_tap(wanted),
            LinkName::Daemon {
                interface,
                socket,
                mode,
            } => via::attach(wanted, interface.as_deref(), socket, *mode),
            LinkName::Tap(name) => tap(name, &wanted.addresses, &wanted.gateways, wanted),
            LinkName::Xdp { interface, queue } if wanted.share_address => {
                shared::attach(interface, *queue, wanted)
            }
            LinkName::Xdp { interface, queue } => part_of(interface, *queue, wanted, false),
        }
    }

    /// Whether packets can be sent on one by one, as they come.
    ///
    /// # Errors
    ///
    /// The interface's device merges packets, and cannot be told to stop: those are longer than the interface sends.
    pub fn check_relaying(&self) -> Result<(), Error> {
        match &self.link {
            Link::Xdp(link) if link.merging() != Merging::No => Err(Error::new(format!(
                "the device of {} merges packets, and cannot be told to stop: they cannot be sent on as they come",
                link.name()
            ))
            .mend(format!("{STOP_MERGING}; or forward on the kernel's sockets (--splice)"))),
            _ => Ok(()),
        }
    }

    /// Makes the link as [`attach`](Self::attach) does, for a program that may follow another at the same interface. `hand_over` has the one before
    /// give up what it has, and says whether there was one: then nobody is asked whether the addresses are free. What comes
    /// for them until the link is there is kept where the interface is ours to open, and is what [`relay`](Self::relay) takes in
    /// first.
    ///
    /// # Errors
    ///
    /// As `attach`, or those of `hand_over`.
    pub fn attach_after(
        wanted: &Attachment,
        hand_over: impl FnOnce() -> Result<bool, Error>,
    ) -> Result<Self, Error> {
        wanted.check()?;
        let LinkName::Xdp { interface, queue } = &wanted.link else {
            hand_over()?;
            return Self::attach(wanted);
        };
        let netlink = Netlink::new()?;
        let index = netlink.link_by_name(interface)?.index;
        // What is refused is to be refused while the one before is there.
        refuse_host_addresses(interface, &wanted.addresses)?;
        pools::refuse_host_addresses(&netlink, &wanted.pools)?;
        bpf::permitted()?;
        let single = |ip: IpAddr| (ip, if ip.is_ipv4() { 32 } else { 128 });
        let addresses = wanted.addresses.iter().map(|address| single(address.ip));
        let pools = wanted.pools.iter().map(|pool| (pool.ip, pool.prefix));
        let ours: Vec<_> = addresses.chain(pools).collect();
        let passing = Passing::listen(index, &ours)?;
        let are_ours = hand_over()?;
        let mut exos = part_of(interface, *queue, wanted, are_ours)?;
        exos.take_passed(passing)?;
        Ok(exos)
    }

    /// What a person should know about the link, in a line.
    pub fn describe_link(&self) -> String {
        match &self.link {
            Link::Xdp(link) => {
                let mode = match link.mode() {
                    Mode::Native => "native XDP",
                    Mode::Generic => generic(link.merging()),
                };
                let copy = if link.is_zero_copy() {
                    "zero copy"
                } else {
                    "copy mode"
                };
                let part = match &self.via {
                    Some(via) if via.is_direct() => format!(
                        "slot {} of the daemon, a queue of the interface itself (what is sent is not checked), ",
                        via.slot()
                    ),
                    Some(via) => format!("slot {} of the daemon, ", via.slot()),
                    None => String::new(),
                };
                format!(
                    "{part}interface {}, {}, {mode}, {copy}, MTU {}",
                    link.name(),
                    describe_queues(link.queues()),
                    link.mtu()
                )
            }
            Link::Tap(link) => format!(
                "TAP device {}, MTU {} (slower than AF_XDP)",
                link.name(),
                link.mtu()
            ),
            Link::Memory(_) => "a wire in memory".to_owned(),
        }
    }
}

/// Why the program is not in the driver, and what that means.
fn generic(merging: Merging) -> &'static str {
    match merging {
        Merging::No => "generic XDP (the driver has no native one: slower)",
        Merging::Taken => {
            "generic XDP (slower: the device merges packets, and cannot be told to stop, so that the driver refuses native XDP)"
        }
        Merging::Lost => {
            "generic XDP (the device merges packets, and cannot be told to stop: merged ones are lost, uploads to us crawl; use \
             Linux 6.6 or newer, a device whose guest offloads can be changed or are off, or the kernel's sockets)"
        }
    }
}

/// An interface, for addresses that the host does not have. That others have none of them either is known where they `are_ours`.
fn part_of(
    interface: &str,
    queue: Option<u32>,
    wanted: &Attachment,
    are_ours: bool,
) -> Result<Exos, Error> {
    let rules = rules_for_addresses(wanted)?;
    let settings = XdpConfig {
        queue,
        ..XdpConfig::new(interface, rules)
    };
    let (link, others) = open(&settings, wanted.cores)?;
    refuse_host_addresses(interface, &wanted.addresses)?;
    let netlink = Netlink::new()?;
    pools::refuse_host_addresses(&netlink, &wanted.pools)?;
    if !are_ours {
        taken::refuse(link.interface(), &pools::to_be_asked_for(wanted))?;
    }
    let memberships = pools::join_groups(link.interface(), wanted)?;
    let config = config(
        &link.mac(),
        link.mtu(),
        &wanted.addresses,
        &wanted.gateways,
        &wanted.pools,
    );
    let mut exos = join(Link::Xdp(link), others, config, None, wanted)?;
    exos.rules = rules_for_addresses(wanted)?;
    exos._memberships = Some(memberships);
    Ok(exos)
}

fn describe_queues(queues: &[u32]) -> String {
    match queues {
        [one] => format!("queue {one}"),
        [first, .., last] if (last - first) as usize + 1 == queues.len() => {
            format!("queues {first} to {last}")
        }
        several => {
            let numbers: Vec<_> = several.iter().map(u32::to_string).collect();
            format!("queues {}", numbers.join(", "))
        }
    }
}

/// A link for each core, the first apart.
pub(crate) fn open(settings: &XdpConfig, cores: u32) -> Result<(XdpLink, Vec<XdpLink>), Error> {
    let mut links = XdpLink::open_for_cores(settings, cores)?;
    Ok((links.remove(0), links))
}

fn own_pair(wanted: &Attachment) -> Result<Exos, Error> {
    let pair = Pair::make(wanted.cores)?;
    let rules = vec![Rule {
        filter: Filter::everything(),
        action: Action::RedirectToSocket,
    }];
    let settings = XdpConfig {
        otherwise: Action::Drop,
        ..XdpConfig::new(INNER_NAME, rules)
    };
    let (link, others) = pair.namespace.run(|| open(&settings, wanted.cores))??;
    let addresses = pair.addresses.map(|(ip, prefix)| Prefixed { ip, prefix });
    let gateways: Vec<IpAddr> = pair.host_addresses.iter().map(|(ip, _)| *ip).collect();
    let netlink = Netlink::new()?;
    pools::refuse_host_addresses(&netlink, &wanted.pools)?;
    let host_end = netlink.link_by_name(&pair.host_name)?.index;
    pools::add_routes(&netlink, &wanted.pools, host_end, &addresses)?;
    let config = config(
        &link.mac(),
        link.mtu(),
        &addresses,
        &gateways,
        &wanted.pools,
    );
    let mut exos = join(Link::Xdp(link), others, config, None, wanted)?;
    exos.pair = Some(pair);
    Ok(exos)
}

/// Addresses of the TAP device in a user namespace; nothing else is there to collide with.
const TAP_ADDRESSES: [[&str; 2]; 2] =
    [["10.207.0.1", "fd10:207::1"], ["10.207.0.2", "fd10:207::2"]];

fn own_tap(wanted: &Attachment) -> Result<Exos, Error> {
    user_netns::enter()?;
    let parse = |text: &str| text.parse::<IpAddr>().expect("a constant address");
    let prefixed = |text: &str| Prefixed {
        ip: parse(text),
        prefix: if text.contains(':') { 64 } else { 24 },
    };
    let [host, ours] = TAP_ADDRESSES.map(|pair| pair.map(prefixed));
    let exos = tap("exos0", &ours, &host.map(|a| a.ip), wanted)?;
    let netlink = Netlink::new()?;
    let index = netlink.link_by_name("exos0")?.index;
    for address in host {
        netlink.add_address(index, address.ip, address.prefix)?;
    }
    netlink.set_up(index, true)?;
    pools::add_routes(&netlink, &wanted.pools, index, &ours)?;
    let loopback = netlink.link_by_name("lo")?.index;
    netlink.set_up(loopback, true)?;
    Ok(exos)
}

fn tap(
    name: &str,
    addresses: &[Prefixed],
    gateways: &[IpAddr],
    wanted: &Attachment,
) -> Result<Exos, Error> {
    let link = TapLink::open(&TapConfig::named(name))?;
    let config = config(&link.mac(), link.mtu(), addresses, gateways, &wanted.pools);
    join(Link::Tap(link), Vec::new(), config, None, wanted)
}

/// What is for our addresses alone, with what it takes to be found on the link.
fn rules_for_addresses(wanted: &Attachment) -> Result<Vec<Rule>, Error> {
    let mut rules = pools::rules(&wanted.pools)?;
    for address in &wanted.addresses {
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

/// What the text says, of frames of no VLAN: other VLANs of the interface are the host's.
pub(crate) fn rule(text: &str) -> Result<Rule, Error> {
    let filter = Filter::parse(&format!("({text}) and (not vlan or vlan 0)"))
        .map_err(|e| Error::new(format!("a filter of our own is wrong: {e}")))?;
    Ok(Rule {
        filter,
        action: Action::RedirectToSocket,
    })
}

/// An address that the host has too would be answered twice.
fn refuse_host_addresses(interface: &str, addresses: &[Prefixed]) -> Result<(), Error> {
    let taken = Netlink::new()?.all_addresses()?;
    for address in addresses {
        if taken.iter().any(|t| t.ip == address.ip) {
            return Err(Error::new(format!("{} is an address of this host", address.ip)).mend(format!(
                "choose one that nobody has, or share the host's with --link xdp:{interface} --share-address"
            )));
        }
    }
    Ok(())
}

pub(crate) fn config(
    mac: &exos_wire::Mac,
    mtu: usize,
    addresses: &[Prefixed],
    gateways: &[IpAddr],
    pools: &[Prefixed],
) -> Config {
    Config {
        addresses: addresses.iter().map(|a| (a.ip, a.prefix)).collect(),
        pools: pools.iter().map(|pool| (pool.ip, pool.prefix)).collect(),
        gateways: gateways.to_vec(),
        ..Config::new(*mac, mtu)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn link_names() {
        let xdp = |interface: &str, queue| LinkName::Xdp {
            interface: interface.into(),
            queue,
        };
        assert_eq!("xdp:eth0".parse(), Ok(xdp("eth0", None)));
        assert_eq!("xdp:eth0:0".parse(), Ok(xdp("eth0", Some(0))));
        assert_eq!("xdp:eth0:3".parse(), Ok(xdp("eth0", Some(3))));
        assert_eq!("tap:t0".parse(), Ok(LinkName::Tap("t0".into())));
        for bad in ["", "eth0", "xdp:", "tap:", "foo:eth0", "xdp:eth0:x"] {
            let error = bad.parse::<LinkName>().unwrap_err();
            assert!(error.contains("write xdp:INTERFACE"), "{bad}: {error}");
        }
    }

    #[test]
    fn addresses_with_prefix() {
        let parsed: Prefixed = "fd00::1/64".parse().unwrap();
        assert_eq!(parsed.to_string(), "fd00::1/64");
        for bad in ["10.0.0.1", "10.0.0.1/33", "x/24", "10.0.0.1/", "fd00::/129"] {
            assert!(bad.parse::<Prefixed>().is_err(), "{bad}");
        }
    }

    #[test]
    fn contradictions_are_refused_before_anything_is_made() {
        let xdp = LinkName::Xdp {
            interface: "eth0".into(),
            queue: None,
        };
        let address: Prefixed = "10.0.0.1/24".parse().unwrap();
        let base = Attachment::new(xdp, 80);
        assert!(base.check().unwrap_err().to_string().contains("no address"));
        let mut both = base.clone();
        both.share_address = true;
        both.addresses.push(address);
        assert!(
            both.check()
                .unwrap_err()
                .to_string()
                .contains("leave --address")
        );
        let mut family = base.clone();
        family.addresses.push(address);
        family.gateways.push("fd00::1".parse().unwrap());
        assert!(family.check().unwrap_err().to_string().contains("family"));
        let mut own = base;
        own.link = LinkName::OwnPair;
        assert!(own.check().is_ok());
        own.addresses.push(address);
        assert!(own.check().is_err());
    }
}
