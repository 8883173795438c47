//! Addresses of interfaces.

use super::exchange::Netlink;
use crate::error::Result;
use netlink_packet_core::{NLM_F_CREATE, NLM_F_REPLACE};
use netlink_packet_route::address::{AddressAttribute, AddressFlags, AddressMessage, AddressScope};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use std::net::{IpAddr, Ipv4Addr};

/// An address of an interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Address {
    /// The interface's index.
    pub index: u32,
    /// The address.
    pub ip: IpAddr,
    /// How many leading bits it shares with its neighbours on the link.
    pub prefix: u8,
}

impl Netlink {
    /// The addresses of one interface with their prefix lengths, IPv4 first.
    pub fn addresses(&self, index: u32) -> Result<Vec<(IpAddr, u8)>> {
        let of_index = self
            .all_addresses()?
            .into_iter()
            .filter(|a| a.index == index);
        let mut addresses: Vec<_> = of_index.map(|a| (a.ip, a.prefix)).collect();
        addresses.sort_by_key(|(ip, _)| ip.is_ipv6());
        Ok(addresses)
    }

    /// The addresses of all interfaces of the namespace.
    pub fn all_addresses(&self) -> Result<Vec<Address>> {
        let request = RouteNetlinkMessage::GetAddress(AddressMessage::default());
        let answers = self.dump(request, || "cannot list the addresses".to_owned())?;
        Ok(answers.iter().filter_map(address).collect())
    }

    /// Gives an interface an address, or changes nothing when it has it. An IPv6 address can be used at once:
    /// duplicate address detection is left out, for addresses whose uniqueness is known.
    pub fn add_address(&self, index: u32, ip: IpAddr, prefix: u8) -> Result<()> {
        let mut message = message(index, ip, prefix);
        match ip {
            IpAddr::V4(ip) if prefix < 31 => message
                .attributes
                .push(AddressAttribute::Broadcast(broadcast(ip, prefix))),
            IpAddr::V4(_) => {}
            IpAddr::V6(_) => message
                .attributes
                .push(AddressAttribute::Flags(AddressFlags::Nodad)),
        }
        let what =
            || format!("cannot add the address {ip}/{prefix} to the interface with index {index}");
        self.change(
            RouteNetlinkMessage::NewAddress(message),
            NLM_F_CREATE | NLM_F_REPLACE,
            what,
        )
    }

    /// Takes an address away from an interface.
    pub fn delete_address(&self, index: u32, ip: IpAddr, prefix: u8) -> Result<()> {
        let what = || {
            format!("cannot remove the address {ip}/{prefix} from the interface with index {index}")
        };
        self.change(
            RouteNetlinkMessage::DelAddress(message(index, ip, prefix)),
            0,
            what,
        )
    }
}

fn message(index: u32, ip: IpAddr, prefix: u8) -> AddressMessage {
    let mut message = AddressMessage::default();
    message.header.family = family(ip);
    message.header.prefix_len = prefix;
    message.header.scope = AddressScope::Universe;
    message.header.index = index;
    message.attributes.push(AddressAttribute::Address(ip));
    message.attributes.push(AddressAttribute::Local(ip));
    message
}

/// The address family of an address.
pub(super) fn family(ip: IpAddr) -> AddressFamily {
    match ip {
        IpAddr::V4(_) => AddressFamily::Inet,
        IpAddr::V6(_) => AddressFamily::Inet6,
    }
}

/// The last address of a network, which reaches all its hosts.
fn broadcast(ip: Ipv4Addr, prefix: u8) -> Ipv4Addr {
    let hosts = u32::MAX.checked_shr(u32::from(prefix)).unwrap_or(0);
    Ipv4Addr::from(u32::from(ip) | hosts)
}

/// `IFA_LOCAL` is the interface's own address; on point-to-point links `IFA_ADDRESS` is the other side's. IPv6
/// has only the latter unless a peer is set.
fn address(message: &RouteNetlinkMessage) -> Option<Address> {
    let RouteNetlinkMessage::NewAddress(message) = message else {
        return None;
    };
    let (mut local, mut address) = (None, None);
    for attribute in &message.attributes {
        match attribute {
            AddressAttribute::Local(ip) => local = Some(*ip),
            AddressAttribute::Address(ip) => address = Some(*ip),
            _ => {}
        }
    }
    Some(Address {
        index: message.header.index,
        ip: local.or(address)?,
        prefix: message.header.prefix_len,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broadcast_is_the_last_address_of_the_network() {
        for (ip, prefix, last) in [
            ([10, 10, 0, 1], 24, [10, 10, 0, 255]),
            ([192, 168, 7, 9], 30, [192, 168, 7, 11]),
            ([1, 2, 3, 4], 0, [255, 255, 255, 255]),
            ([1, 2, 3, 4], 32, [1, 2, 3, 4]),
        ] {
            assert_eq!(broadcast(ip.into(), prefix), Ipv4Addr::from(last));
        }
    }
}
