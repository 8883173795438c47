//! Addresses as they stand in the memory: in the kernel's form.

use std::net::SocketAddr;

use exos_preload::memory::Address;
use rustix::net::AddressFamily;

use crate::target::{decode, encode};

/// An address as programs have it.
pub(super) fn address_of(address: SocketAddr, family: AddressFamily) -> Address {
    let encoded = encode(address, family);
    let mut address = Address::default();
    address.bytes[..encoded.len()].copy_from_slice(&encoded);
    address.len = encoded.len() as u32;
    address
}

/// An address that a program has written; none where it is none.
pub(super) fn address(address: &Address) -> Option<SocketAddr> {
    decode(address.bytes.get(..address.len as usize)?)
}
