//! Addresses that programs give (ip(7), ipv6(7)): of which family they are, and whose.

use crate::memory::Address;
use crate::system::{AF_INET, AF_INET6, EFAULT, EINVAL};

/// An address that a program gives.
///
/// # Safety
///
/// `len` bytes at `name` can be read.
pub unsafe fn address_at(name: *const u8, len: u32) -> Result<Address, i32> {
    const STORAGE: u32 = 128;
    if name.is_null() {
        return Err(EFAULT);
    }
    if !(2..=STORAGE).contains(&len) {
        return Err(EINVAL);
    }
    let mut address = Address {
        bytes: [0; 28],
        len: len.min(28),
    };
    // SAFETY: the caller's promise.
    unsafe { name.copy_to_nonoverlapping(address.bytes.as_mut_ptr(), address.len as usize) };
    Ok(address)
}

pub fn family_of(address: Address) -> i32 {
    u16::from_ne_bytes([address.bytes[0], address.bytes[1]]).into()
}

/// The IPv4 address in one, be it one of IPv6 that stands for it.
pub fn ipv4_of(address: Address) -> Option<[u8; 4]> {
    const MAPPED: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];
    let at = match family_of(address) {
        AF_INET => 4,
        AF_INET6 if address.bytes[8..20] == MAPPED => 20,
        _ => return None,
    };
    address.bytes[at..at + 4].try_into().ok()
}

pub fn is_ipv4(address: Address) -> bool {
    ipv4_of(address).is_some()
}

pub fn is_broadcast(address: Address) -> bool {
    ipv4_of(address) == Some([255; 4])
}

/// An address that is not this host's by its form: neither loopback, nor none.
pub fn is_other_host(address: Address) -> bool {
    match (ipv4_of(address), &address.bytes[8..24]) {
        (Some([127, ..] | [0, 0, 0, 0]), _) => false,
        (Some(_), _) => true,
        (None, [zeroes @ .., 0 | 1]) => zeroes.iter().any(|byte| *byte != 0),
        (None, _) => true,
    }
}

/// An address by which this host reaches itself.
pub fn is_loopback(address: Address) -> bool {
    match ipv4_of(address) {
        Some(ip) => ip[0] == 127,
        None => family_of(address) == AF_INET6 && address.bytes[8..24] == 1_u128.to_be_bytes(),
    }
}

/// Whether it is that of no family (`AF_UNSPEC`), by which a socket leaves its peer.
///
/// # Safety
///
/// `len` bytes at `name` can be read.
pub unsafe fn is_unspecified(name: *const u8, len: u32) -> bool {
    // SAFETY: the caller's promise.
    unsafe { address_at(name, len) }.is_ok_and(|address| family_of(address) == 0)
}

/// Whether a socket of the kernel's for datagrams that is sent to this address from is to be ours: one of another host alone.
///
/// # Safety
///
/// `len` bytes at `name` can be read.
pub unsafe fn goes_out(name: *const u8, len: u32) -> bool {
    // SAFETY: the caller's promise.
    let Ok(address) = (unsafe { address_at(name, len) }) else {
        return false;
    };
    let is_multicast = match (family_of(address), ipv4_of(address)) {
        (AF_INET | AF_INET6, Some([first, ..])) => (224..240).contains(&first),
        (AF_INET6, None) => address.bytes[8] == 0xff,
        _ => return false,
    };
    is_other_host(address) && !is_multicast && !is_broadcast(address)
}
