//! Routes: where the host would send a packet, and new ones.

use super::addresses::family;
use super::exchange::Netlink;
use crate::error::{Error, Result};
use netlink_packet_core::{NLM_F_CREATE, NLM_F_REPLACE};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteProtocol, RouteScope, RouteType,
    RouteVia,
};
use std::net::IpAddr;

/// Where the host would send a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Route {
    /// The router to hand it to; `None` when the destination is on the link itself.
    pub gateway: Option<IpAddr>,
    /// The index of the interface it leaves by.
    pub oif: u32,
    /// The source address that the host would use.
    pub src: Option<IpAddr>,
    /// True when the destination is an address of this host.
    pub local: bool,
}

/// A route of the main table that leads to a unicast destination.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RouteEntry {
    /// The destination network's address.
    pub destination: IpAddr,
    /// How many leading bits of it count; 0 is the default route.
    pub prefix: u8,
    /// The router; `None` when the destination is on the link itself.
    pub gateway: Option<IpAddr>,
    /// The index of the interface.
    pub oif: u32,
    /// Of several routes to one destination the one with the lowest number counts.
    pub priority: u32,
}

impl Netlink {
    /// Where the host would send a packet to this address.
    pub fn route_to(&self, ip: IpAddr) -> Result<Route> {
        self.route_from(ip, None, None)
    }

    /// Where the host would send a packet that leaves by interface `oif` or carries the source address `src`.
    pub fn route_from(&self, ip: IpAddr, oif: Option<u32>, src: Option<IpAddr>) -> Result<Route> {
        let mut message = RouteMessage::default();
        message.header.address_family = family(ip);
        message.header.destination_prefix_length = host_prefix(ip);
        message
            .attributes
            .push(RouteAttribute::Destination(ip.into()));
        message.attributes.extend(oif.map(RouteAttribute::Oif));
        if let Some(src) = src {
            message.header.source_prefix_length = host_prefix(src);
            message.attributes.push(RouteAttribute::Source(src.into()));
        }
        let what = || format!("there is no route to {ip}");
        match self.get(RouteNetlinkMessage::GetRoute(message), what)? {
            RouteNetlinkMessage::NewRoute(answer) => {
                route(&answer).ok_or_else(|| Error::new(what()))
            }
            _ => Err(Error::new(what())),
        }
    }

    /// The unicast routes of the main table, both families.
    pub fn routes(&self) -> Result<Vec<RouteEntry>> {
        let request = RouteNetlinkMessage::GetRoute(RouteMessage::default());
        let answers = self.dump(request, || "cannot list the routes".to_owned())?;
        Ok(answers.iter().filter_map(entry).collect())
    }

    /// Adds a route to a network by a router, or, without one, on the link of `oif`; replaces one to the same
    /// network with the same priority.
    pub fn add_route(
        &self,
        destination: IpAddr,
        prefix: u8,
        gateway: Option<IpAddr>,
        oif: u32,
    ) -> Result<()> {
        let message = unicast(destination, prefix, gateway, oif);
        let what = || format!("cannot add a route to {destination}/{prefix}");
        self.change(
            RouteNetlinkMessage::NewRoute(message),
            NLM_F_CREATE | NLM_F_REPLACE,
            what,
        )
    }
}

fn unicast(destination: IpAddr, prefix: u8, gateway: Option<IpAddr>, oif: u32) -> RouteMessage {
    let mut message = RouteMessage::default();
    message.header = RouteHeader {
        address_family: family(destination),
        destination_prefix_length: prefix,
        table: RouteHeader::RT_TABLE_MAIN,
        protocol: RouteProtocol::Static,
        scope: if gateway.is_none() && destination.is_ipv4() {
            RouteScope::Link
        } else {
            RouteScope::Universe
        },
        kind: RouteType::Unicast,
        ..RouteHeader::default()
    };
    message
        .attributes
        .push(RouteAttribute::Destination(destination.into()));
    message
        .attributes
        .extend(gateway.map(|ip| RouteAttribute::Gateway(ip.into())));
    message.attributes.push(RouteAttribute::Oif(oif));
    message
}

/// How many bits an address of this family has.
fn host_prefix(ip: IpAddr) -> u8 {
    if ip.is_ipv4() { 32 } else { 128 }
}

fn ip(address: &RouteAddress) -> Option<IpAddr> {
    match address {
        RouteAddress::Inet(ip) => Some((*ip).into()),
        RouteAddress::Inet6(ip) => Some((*ip).into()),
        _ => None,
    }
}

/// The router of a route: of the same family, or (RFC 5549) an IPv6 one of an IPv4 route.
fn gateway(message: &RouteMessage) -> Option<IpAddr> {
    message
        .attributes
        .iter()
        .find_map(|attribute| match attribute {
            RouteAttribute::Gateway(address) => ip(address),
            RouteAttribute::Via(RouteVia::Inet(ip)) => Some((*ip).into()),
            RouteAttribute::Via(RouteVia::Inet6(ip)) => Some((*ip).into()),
            _ => None,
        })
}

fn oif(message: &RouteMessage) -> Option<u32> {
    message
        .attributes
        .iter()
        .find_map(|attribute| match attribute {
            RouteAttribute::Oif(index) => Some(*index),
            _ => None,
        })
}

fn route(message: &RouteMessage) -> Option<Route> {
    let src = message
        .attributes
        .iter()
        .find_map(|attribute| match attribute {
            RouteAttribute::PrefSource(address) => ip(address),
            _ => None,
        });
    let local = message.header.kind == RouteType::Local;
    Some(Route {
        gateway: gateway(message),
        oif: oif(message)?,
        src,
        local,
    })
}

fn entry(message: &RouteNetlinkMessage) -> Option<RouteEntry> {
    let RouteNetlinkMessage::NewRoute(message) = message else {
        return None;
    };
    let header = &message.header;
    if header.table != RouteHeader::RT_TABLE_MAIN || header.kind != RouteType::Unicast {
        return None;
    }
    let any = match header.address_family {
        netlink_packet_route::AddressFamily::Inet => IpAddr::from([0; 4]),
        _ => IpAddr::from([0u8; 16]),
    };
    let (mut destination, mut priority) = (any, 0);
    for attribute in &message.attributes {
        match attribute {
            RouteAttribute::Destination(address) => destination = ip(address)?,
            RouteAttribute::Priority(p) => priority = *p,
            _ => {}
        }
    }
    let prefix = header.destination_prefix_length;
    Some(RouteEntry {
        destination,
        prefix,
        gateway: gateway(message),
        oif: oif(message)?,
        priority,
    })
}
