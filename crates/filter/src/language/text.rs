//! What single words stand for: numbers, addresses and networks.

use std::net::Ipv4Addr;

use exos_wire::Prefix;

/// Decimal, or hexadecimal with `0x`.
pub(super) fn integer(text: &str) -> Option<u32> {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) if !digits.starts_with('+') => u32::from_str_radix(digits, 16).ok(),
        None if text.starts_with(|c: char| c.is_ascii_digit()) => text.parse().ok(),
        _ => None,
    }
}

/// A word that may be a host's name, and is no part of the language behind qualifiers.
pub(super) fn is_host_name(text: &str) -> bool {
    let is_inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.chars().all(is_inner)
        && text.contains(|c: char| c.is_ascii_alphabetic())
}

/// An address, or a prefix with its length.
pub(super) fn address(text: &str) -> Option<Prefix> {
    let (address, len) = with_length(text)?;
    let address = address.parse().ok()?;
    Prefix::new(address, len.unwrap_or(Prefix::host(address).len)).ok()
}

/// `10`, `10.1` or `10.1.2`, with or without a length: networks of 8, 16 or 24 bits, as in tcpdump.
pub(super) fn partial_network(text: &str) -> Option<Prefix> {
    let (address, len) = with_length(text)?;
    let parts: Vec<u8> = address
        .split('.')
        .map(|p| p.parse().ok())
        .collect::<Option<_>>()?;
    if parts.len() > 3 {
        return None;
    }
    let mut octets = [0; 4];
    octets[..parts.len()].copy_from_slice(&parts);
    let len = len.unwrap_or(8 * parts.len() as u8);
    Prefix::new(Ipv4Addr::from(octets).into(), len).ok()
}

/// A text and the prefix length behind it, if there is one.
fn with_length(text: &str) -> Option<(&str, Option<u8>)> {
    match text.split_once('/') {
        Some((address, len)) => Some((address, Some(u8::try_from(integer(len)?).ok()?))),
        None => Some((text, None)),
    }
}
