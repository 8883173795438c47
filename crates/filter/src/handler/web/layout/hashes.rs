//! Where requests, connections and peers are looked for: hashes of them by a secret key, as the program makes them.

use std::net::IpAddr;

use super::{PEER_COUNT, PEERS, SLOT_COUNT, peer};

/// The hash of a request: of words of eight bytes, the last filled with zeros. Who does not know the key finds no two requests with one hash.
pub fn hash(key: u64, request: &[u8]) -> u64 {
    let mut hash = key;
    for part in request.chunks(8) {
        let mut word = [0; 8];
        word[..part.len()].copy_from_slice(part);
        hash = mixed(key, hash ^ u64::from_ne_bytes(word));
    }
    hash | 1
}

/// Two addresses in IPv6's form (RFC 4291 §2.5.5.2), the upper half of each before the lower.
pub fn ends(local: IpAddr, remote: IpAddr) -> [u64; 4] {
    let halves = |address: IpAddr| {
        let bits = match address {
            IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
            IpAddr::V6(address) => address.to_bits(),
        };
        [(bits >> 64) as u64, bits as u64]
    };
    let ([a, b], [c, d]) = (halves(local), halves(remote));
    [a, b, c, d]
}

/// The slot of a connection. The ports are the server's and the peer's, of 16 bits each, as in a slot. Of which network the server's
/// address is does not matter. A peer that does not know the key finds no two of its addresses and ports with one slot, but by chance.
pub fn slot_of(key: u64, ends: [u64; 4], ports: u32) -> u64 {
    let mut hash = key ^ u64::from(ports) << 32;
    for word in &ends[1..] {
        hash = mixed(key, hash ^ word);
    }
    hash >> (64 - SLOT_COUNT.ilog2())
}

/// A peer's word, and its tag there. A peer is an IPv4 address, or an IPv6 network of 64 bits (but for the network 0, from which none
/// come).
pub fn peer_of(key: u64, ends: [u64; 4]) -> (u64, u64) {
    let [.., network, rest] = ends;
    let peer = match network {
        0 => rest,
        _ => network,
    };
    let hash = mixed(key, key ^ peer);
    let bits = PEER_COUNT.ilog2();
    let (place, tag) = (hash >> (64 - bits), hash << bits >> peer::TAG_SHIFT);
    (PEERS + place * 8, tag)
}

/// A step of a hash. The word is multiplied twice: by one multiplication its upper bit changes the same bits for every key, which the next word
/// can change back, and no bit changes those below it.
fn mixed(key: u64, word: u64) -> u64 {
    (0..2).fold(word, |word, _| {
        let hash = word.wrapping_mul(key | 1);
        hash ^ hash >> 29
    })
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::net::{IpAddr, Ipv6Addr};

    use super::*;

    const OURS: [u16; 8] = [0x2001, 0xdb8, 0, 0, 0, 0, 0, 1];
    const NETWORK: u128 = 0x2001_0db8_0001_0002 << 64;

    fn keys() -> impl Iterator<Item = u64> {
        let next = |key: &u64| Some(key.wrapping_mul(6_364_136_223_846_793_005) + 1);
        std::iter::successors(Some(0x9e37_79b9_7f4a_7c15), next).skip(1)
    }

    fn slot_from(key: u64, host: u64, port: u16) -> u64 {
        let remote = Ipv6Addr::from_bits(NETWORK | u128::from(host));
        let ends = ends(IpAddr::from(OURS), remote.into());
        slot_of(key, ends, 80 << 16 | u32::from(port))
    }

    /// Which other slot a client gets by another bit of its address or its port, only the key tells: so no two of its connections have one
    /// slot for every key.
    #[test]
    fn what_a_client_chooses_leads_elsewhere_by_each_key() {
        const KEYS: usize = 1000;
        let changed = (0..64).map(|bit| (1 << bit, 0));
        for (host, port) in changed.chain((0..16).map(|bit| (0, 1 << bit))) {
            let differences = keys().take(KEYS).map(|key| {
                let change = slot_from(key, host, port) ^ slot_from(key, 0, 0);
                assert!(change < SLOT_COUNT);
                change
            });
            let different: HashSet<u64> = differences.collect();
            // As many as of numbers drawn at random, some 970.
            assert!(
                different.len() > 940,
                "{host:x} {port:x}: {}",
                different.len()
            );
        }
    }

    /// Addresses of one network that differ in their upper bits alone, and ports with those, are spread over all slots.
    #[test]
    fn upper_bits_of_an_address_spread() {
        const BITS: u32 = 10;
        for key in keys().take(20) {
            let hosts = (0..1 << BITS).map(|n: u64| n << (64 - BITS));
            let slots: HashSet<u64> = hosts.map(|host| slot_from(key, host, 4000)).collect();
            // At random some 990.
            assert!(slots.len() > 940, "{key:x}: {}", slots.len());
        }
    }
}
