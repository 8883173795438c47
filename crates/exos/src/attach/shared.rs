//! Beside the host on its own addresses.
//!
//! A program that serves has its TCP port, and the UDP port of the number where it asks for that, which reservations keep the host's own
//! programs from. One that only connects
//! ([`Role::Connect`]) has what comes from those it connects to, for local ports that the host gives to none of its own
//! connections: those outside of `net.ipv4.ip_local_port_range`. So the host goes on talking to the same peers by ports of
//! its own. All else is the host's; next hops come from its tables.

use std::net::{IpAddr, SocketAddr};
use std::ops::Range;

use exos_filter::program::Rule;
use exos_host::error::{Error, ErrorKind};
use exos_host::netlink::{LinkInfo, Netlink};
use exos_host::ports::{self, Reservation, Transport};
use exos_inet::Neighbors;
use exos_link::{XdpConfig, XdpLink};

use super::addresses::{Addresses, Prefixed};
use super::interface::Queues;
use super::role::{Role, rule};
use crate::cores::{Core, share_out};
use crate::host_tables::HostTables;
use crate::share::{Kept, StackSettings};

/// Where the host says which ports it gives to connections, of IPv6 too.
const HOST_PORTS: &str = "/proc/sys/net/ipv4/ip_local_port_range";

/// Ports below are those of services.
const PORT_FIRST: u16 = 1024;

/// With fewer ports than this a program that connects is told to make room.
const PORTS_MIN: usize = 1000;

/// An interface, whose addresses stay the host's. Next hops come from the host's tables.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SharedInterface {
    /// Its name.
    pub name: String,
    /// Which of its queues.
    pub queues: Queues,
    /// What is taken from the host.
    pub role: Role,
    /// The UDP ports of the numbers that are served too; of the peers that are connected to, their datagrams.
    pub datagrams: bool,
}

impl SharedInterface {
    /// All queues of the interface, on one core.
    pub fn new(name: impl Into<String>, role: Role) -> Self {
        Self {
            name: name.into(),
            queues: Queues::default(),
            role,
            datagrams: false,
        }
    }

    /// The link of each core.
    pub(super) fn open(&self, wanted: &StackSettings) -> Result<Vec<Core>, Error> {
        let netlink = Netlink::new()?;
        let info = netlink.link_by_name(&self.name)?;
        let addresses = addresses_of(&netlink, &info)?;
        let ours = addresses.ours();
        let mut reservations: Vec<Reservation> = Vec::new();
        let mut local_ports = None;
        let rules = match &self.role {
            Role::Connect(peers) => {
                let range = ports_left(&host_ports()?)?;
                let mut rules = rules_for_peers(ours, peers, &range, "tcp")?;
                if self.datagrams {
                    rules.extend(rules_for_peers(ours, peers, &range, "udp")?);
                }
                local_ports = Some(range);
                rules
            }
            Role::Serve(ports) => {
                let mut rules = Vec::new();
                for &port in ports {
                    for address in ours {
                        reservations.push(ports::reserve(SocketAddr::new(address.ip, port))?);
                    }
                    rules.extend(rules_for_port(ours, port, "tcp")?);
                    if self.datagrams {
                        for address in ours {
                            let at = SocketAddr::new(address.ip, port);
                            reservations.push(ports::reserve_quickly(Transport::Udp, at)?);
                        }
                        rules.extend(rules_for_port(ours, port, "udp")?);
                    }
                }
                rules
            }
        };
        let settings = XdpConfig {
            queue: self.queues.one(),
            ..XdpConfig::new(&self.name, rules)
        };
        let links = XdpLink::open_for_cores(&settings, self.queues.cores())?;
        let link = &links[0];
        let tables = HostTables::new(info.index)?;
        let mut config = addresses.config(&link.mac(), link.mtu());
        config.neighbors = Neighbors::External;
        config.local_ports = local_ports.unwrap_or(config.local_ports);
        let on_link = |network, prefix| {
            let is_its = |a: &Prefixed| a.prefix == prefix && a.network().contains(network);
            ours.iter().any(is_its)
        };
        config.routes = tables.routes()?;
        config
            .routes
            .retain(|r| r.gateway.is_some() || !on_link(r.network, r.prefix));
        let kept = Kept {
            _reservations: reservations,
            ..Kept::default()
        };
        share_out(links, config, Some(info.index), wanted, kept)
    }
}

fn rules_for_port(addresses: &[Prefixed], port: u16, of: &str) -> Result<Vec<Rule>, Error> {
    let text = |a: &Prefixed| format!("{of} dst port {port} and dst host {}", a.ip);
    addresses.iter().map(|a| rule(&text(a))).collect()
}

/// What the peers send to these ports of ours.
fn rules_for_peers(
    addresses: &[Prefixed],
    peers: &[SocketAddr],
    ports: &Range<u16>,
    of: &str,
) -> Result<Vec<Rule>, Error> {
    let mut rules = Vec::new();
    for peer in peers {
        let of_family = |a: &&Prefixed| a.ip.is_ipv4() == peer.is_ipv4();
        for address in addresses.iter().filter(of_family) {
            rules.push(rule(&format!(
                "{of} src port {} and {of} dst portrange {}-{} and src host {} and dst host {}",
                peer.port(),
                ports.start,
                ports.end - 1,
                peer.ip(),
                address.ip
            ))?);
        }
    }
    Ok(rules)
}

/// The first and the last port that the host gives to its connections.
fn host_ports() -> Result<[u16; 2], Error> {
    let text = std::fs::read_to_string(HOST_PORTS)
        .map_err(|e| Error::io(format!("cannot read {HOST_PORTS}"), e))?;
    let ports: Vec<u16> = text
        .split_whitespace()
        .filter_map(|n| n.parse().ok())
        .collect();
    ports
        .try_into()
        .map_err(|_| Error::new(format!("{HOST_PORTS} says {text:?}, and no range of ports")))
}

/// The more of those below and those above.
fn ports_left([first, last]: &[u16; 2]) -> Result<Range<u16>, Error> {
    let (below, above) = (PORT_FIRST..*first, last.saturating_add(1)..u16::MAX);
    let more = if below.len() >= above.len() {
        below
    } else {
        above
    };
    if more.len() >= PORTS_MIN {
        return Ok(more);
    }
    Err(Error::new(format!(
        "the host uses the ports from {first} to {last} for its own connections, which leaves too few"
    ))
    .mend("let it use fewer (sysctl net.ipv4.ip_local_port_range=\"32768 60999\"), or attach with an address of our own")
    .of_kind(ErrorKind::TooFewPorts))
}

/// The interface's addresses that others can reach.
fn addresses_of(netlink: &Netlink, info: &LinkInfo) -> Result<Addresses, Error> {
    let all = netlink
        .addresses(info.index)?
        .into_iter()
        .map(|(ip, prefix)| Prefixed { ip, prefix });
    let link_local = |ip: &IpAddr| matches!(ip, IpAddr::V6(v6) if v6.is_unicast_link_local());
    let addresses: Vec<Prefixed> = all.filter(|a| !link_local(&a.ip)).collect();
    Addresses::new(addresses).map_err(|_| {
        Error::new(format!("{} has no address to share", info.name))
            .mend(format!(
                "give it one (ip address add ADDRESS/PREFIX dev {}), or attach with an address of our own",
                info.name
            ))
            .of_kind(ErrorKind::NoAddress)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_that_the_host_does_not_use() {
        assert_eq!(ports_left(&[32_768, 60_999]).unwrap(), 1024..32_768);
        assert_eq!(ports_left(&[1024, 40_000]).unwrap(), 40_001..65_535);
        assert_eq!(ports_left(&[1, 2]).unwrap(), 3..65_535);
        let error = ports_left(&[1500, 65_535]).unwrap_err().to_string();
        assert!(error.contains("ip_local_port_range"), "{error}");
    }

    #[test]
    fn what_a_client_takes_from_the_host() {
        let ours = [
            "10.0.0.2/24".parse().unwrap(),
            "fd00::2/64".parse().unwrap(),
        ];
        let peers = [
            "10.0.0.1:80".parse().unwrap(),
            "[fd00::1]:81".parse().unwrap(),
        ];
        let rules = rules_for_peers(&ours, &peers, &(1024..2048), "tcp").unwrap();
        let frame = |from: [u8; 4], ports: [u16; 2], protocol: u8| {
            let mut frame = vec![0; 60];
            frame[12..15].copy_from_slice(&[8, 0, 0x45]);
            frame[17] = 46;
            frame[23] = protocol;
            frame[26..30].copy_from_slice(&from);
            frame[30..34].copy_from_slice(&[10, 0, 0, 2]);
            frame[34..36].copy_from_slice(&ports[0].to_be_bytes());
            frame[36..38].copy_from_slice(&ports[1].to_be_bytes());
            frame
        };
        let taken = |frame: Vec<u8>| rules.iter().any(|rule| rule.filter.matches(&frame));
        for port in [1024, 2047] {
            assert!(taken(frame([10, 0, 0, 1], [80, port], 6)), "{port}");
        }
        for (from, ports, protocol) in [
            ([10, 0, 0, 1], [80, 1023], 6),
            ([10, 0, 0, 1], [80, 2048], 6),
            ([10, 0, 0, 1], [81, 1024], 6),
            ([10, 0, 0, 3], [80, 1024], 6),
            ([10, 0, 0, 1], [80, 1024], 17),
        ] {
            assert!(
                !taken(frame(from, ports, protocol)),
                "{from:?} {ports:?} {protocol}"
            );
        }
        assert_eq!(rules.len(), 2);
    }
}
