//! The host's neighbour table (ARP and NDP), and asking the kernel to resolve an address for us.

use super::addresses::family;
use super::exchange::Netlink;
use crate::error::Result;
use netlink_packet_core::{NLM_F_CREATE, NLM_F_REPLACE};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourFlags, NeighbourMessage,
    NeighbourState as KernelState,
};
use std::net::IpAddr;

/// What the host knows of a neighbour.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Neighbour {
    /// The index of the interface it is reached by.
    pub index: u32,
    /// Its address.
    pub ip: IpAddr,
    /// Its Ethernet address, once known.
    pub mac: Option<[u8; 6]>,
    /// How sure the host is.
    pub state: NeighbourState,
}

/// How sure the host is of a neighbour's Ethernet address (RFC 4861 §7.3.2, plus the kernel's own).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NeighbourState {
    /// Being resolved.
    Incomplete,
    /// Confirmed lately.
    Reachable,
    /// Known, not confirmed lately. May be used; use makes the host confirm it.
    Stale,
    /// Used while stale, confirmation awaited.
    Delay,
    /// Being confirmed.
    Probe,
    /// Nobody answered.
    Failed,
    /// Needs no resolution.
    NoArp,
    /// Set by hand.
    Permanent,
    /// Not a state of this list.
    None,
}

impl NeighbourState {
    /// True when the Ethernet address may be used for sending.
    pub fn is_usable(self) -> bool {
        match self {
            Self::Reachable
            | Self::Stale
            | Self::Delay
            | Self::Probe
            | Self::NoArp
            | Self::Permanent => true,
            Self::Incomplete | Self::Failed | Self::None => false,
        }
    }
}

impl Netlink {
    /// What the host knows of this neighbour; `None` when nothing.
    pub fn neighbour(&self, index: u32, ip: IpAddr) -> Result<Option<Neighbour>> {
        let what = || format!("cannot look up the neighbour {ip}");
        match self.get(RouteNetlinkMessage::GetNeighbour(message(index, ip)), what) {
            Ok(RouteNetlinkMessage::NewNeighbour(message)) => Ok(neighbour(&message)),
            Ok(_) => Ok(None),
            Err(e) if e.is(libc::ENOENT) => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// All neighbours of one interface that the host knows anything of.
    pub fn neighbours(&self, index: u32) -> Result<Vec<Neighbour>> {
        let request = RouteNetlinkMessage::GetNeighbour(NeighbourMessage::default());
        let answers = self.dump(request, || "cannot list the neighbours".to_owned())?;
        let all = answers.iter().filter_map(|answer| match answer {
            RouteNetlinkMessage::NewNeighbour(message) => neighbour(message),
            _ => None,
        });
        Ok(all.filter(|n| n.index == index).collect())
    }

    /// Makes the host resolve, or confirm, a neighbour, as if it had a packet for it. The outcome is told to
    /// every [`super::Watch`] of neighbours.
    pub fn probe_neighbour(&self, index: u32, ip: IpAddr) -> Result<()> {
        let mut message = message(index, ip);
        message.header.flags = NeighbourFlags::Use;
        let what = || format!("cannot have the host resolve the neighbour {ip}");
        self.change(
            RouteNetlinkMessage::NewNeighbour(message),
            NLM_F_CREATE | NLM_F_REPLACE,
            what,
        )
    }

    /// Sets a neighbour's Ethernet address by hand; it stays until deleted.
    pub fn set_neighbour(&self, index: u32, ip: IpAddr, mac: [u8; 6]) -> Result<()> {
        let mut message = message(index, ip);
        message.header.state = KernelState::Permanent;
        message
            .attributes
            .push(NeighbourAttribute::LinkLayerAddress(mac.to_vec()));
        let what = || format!("cannot set the neighbour {ip}");
        self.change(
            RouteNetlinkMessage::NewNeighbour(message),
            NLM_F_CREATE | NLM_F_REPLACE,
            what,
        )
    }

    /// Makes the host forget a neighbour.
    pub fn delete_neighbour(&self, index: u32, ip: IpAddr) -> Result<()> {
        let what = || format!("cannot make the host forget the neighbour {ip}");
        self.change(
            RouteNetlinkMessage::DelNeighbour(message(index, ip)),
            0,
            what,
        )
    }
}

fn message(index: u32, ip: IpAddr) -> NeighbourMessage {
    let mut message = NeighbourMessage::default();
    message.header.family = family(ip);
    message.header.ifindex = index;
    message
        .attributes
        .push(NeighbourAttribute::Destination(ip.into()));
    message
}

/// Reads a neighbour; `None` for entries of other families (bridge tables).
pub(super) fn neighbour(message: &NeighbourMessage) -> Option<Neighbour> {
    let (mut ip, mut mac) = (None, None);
    for attribute in &message.attributes {
        match attribute {
            NeighbourAttribute::Destination(NeighbourAddress::Inet(v4)) => ip = Some((*v4).into()),
            NeighbourAttribute::Destination(NeighbourAddress::Inet6(v6)) => ip = Some((*v6).into()),
            NeighbourAttribute::LinkLayerAddress(bytes) => mac = bytes.as_slice().try_into().ok(),
            _ => {}
        }
    }
    Some(Neighbour {
        index: message.header.ifindex,
        ip: ip?,
        mac,
        state: state(message.header.state),
    })
}

fn state(state: KernelState) -> NeighbourState {
    match state {
        KernelState::Incomplete => NeighbourState::Incomplete,
        KernelState::Reachable => NeighbourState::Reachable,
        KernelState::Stale => NeighbourState::Stale,
        KernelState::Delay => NeighbourState::Delay,
        KernelState::Probe => NeighbourState::Probe,
        KernelState::Failed => NeighbourState::Failed,
        KernelState::Noarp => NeighbourState::NoArp,
        KernelState::Permanent => NeighbourState::Permanent,
        _ => NeighbourState::None,
    }
}
