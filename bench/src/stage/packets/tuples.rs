//! Which local address and port a connection has: a number for each, handed out in turn, so that one is used again
//! only after a million others, when every server has long forgotten it.

use std::net::Ipv4Addr;

/// The first of our addresses; the wire's own, and those of servers, are below.
const FIRST_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 10, 0, 128);
/// As many as the host part's last bits count.
const ADDRESSES: u32 = 16;
/// Below are ports of services.
const FIRST_PORT: u32 = 1024;
const PORTS: u32 = 65536 - FIRST_PORT;

/// All of them.
pub(super) const TUPLES: u32 = ADDRESSES * PORTS;

/// What our addresses have in common, as a filter says it.
pub(super) const NETWORK: &str = "10.10.0.128/28";

/// A local address and port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Tuple(pub u32);

impl Tuple {
    /// Its address and port. Neighbours differ in the address first, so that each address has its turn.
    pub fn local(self) -> (Ipv4Addr, u16) {
        let address = u32::from(FIRST_ADDRESS) + self.0 % ADDRESSES;
        (address.into(), (FIRST_PORT + self.0 / ADDRESSES) as u16)
    }

    /// The one that has them, when it is one of ours.
    pub fn of(address: Ipv4Addr, port: u16) -> Option<Self> {
        let host = u32::from(address).wrapping_sub(FIRST_ADDRESS.into());
        let port = u32::from(port).checked_sub(FIRST_PORT)?;
        (host < ADDRESSES).then(|| Self(port * ADDRESSES + host))
    }

    /// True for an address of ours.
    pub fn has(address: Ipv4Addr) -> bool {
        u32::from(address).wrapping_sub(FIRST_ADDRESS.into()) < ADDRESSES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_has_an_address_and_port_of_its_own() {
        for number in (0..TUPLES).step_by(61) {
            let (address, port) = Tuple(number).local();
            assert!(port >= 1024 && Tuple::has(address));
            assert_eq!(Tuple::of(address, port), Some(Tuple(number)));
        }
        assert_eq!(Tuple::of(Ipv4Addr::new(10, 10, 0, 127), 2000), None);
        assert_eq!(Tuple::of(Ipv4Addr::new(10, 10, 0, 144), 2000), None);
        assert_eq!(Tuple::of(Ipv4Addr::new(10, 10, 0, 130), 1023), None);
        assert_eq!(Tuple(TUPLES - 1).local(), ([10, 10, 0, 143].into(), 65535));
    }
}
