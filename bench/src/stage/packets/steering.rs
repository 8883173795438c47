//! Which queue of the wire a connection uses: as network cards choose it, by a Toeplitz hash of its addresses and ports
//! ("receive side scaling"). The server hears a connection on the queue of that number, and answers by the same.
//!
//! So several queues have unequal numbers of connections, as they do behind a card.

use std::net::SocketAddrV4;

/// The key of Microsoft's specification, which most drivers have too.
const KEY: [u8; 40] = [
    0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0,
    0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c,
    0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
];

/// The hash of a segment's addresses and ports.
fn toeplitz(from: SocketAddrV4, to: SocketAddrV4) -> u32 {
    let ports = [from.port(), to.port()].map(u16::to_be_bytes).concat();
    let input = [&from.ip().octets(), &to.ip().octets(), &ports[..]].concat();
    // The first 32 bits of the key; each bit of the input moves it on by one.
    let (mut window, mut hash) = (u32::from_be_bytes([KEY[0], KEY[1], KEY[2], KEY[3]]), 0);
    for (byte, next) in input.iter().zip(&KEY[4..]) {
        for bit in (0..8).rev() {
            if byte >> bit & 1 == 1 {
                hash ^= window;
            }
            window = window << 1 | u32::from(next >> bit & 1);
        }
    }
    hash
}

/// The queue, of this many, for what goes from one address and port to another.
pub(super) fn queue(from: SocketAddrV4, to: SocketAddrV4, queues: usize) -> usize {
    if queues == 1 {
        return 0;
    }
    toeplitz(from, to) as usize % queues
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stage::packets::tuples::Tuple;

    /// Microsoft, "Verifying the RSS Hash Calculation".
    #[test]
    fn the_hash_of_the_specification() {
        for (from, to, hash) in [
            ("66.9.149.187:2794", "161.142.100.80:1766", 0x51cc_c178),
            ("199.92.111.2:14230", "65.69.140.83:4739", 0xc626_b0ea),
            ("24.19.198.95:12898", "12.22.207.184:38024", 0x5c2b_394a),
        ] {
            let [from, to]: [SocketAddrV4; 2] = [from, to].map(|text| text.parse().unwrap());
            assert_eq!(toeplitz(from, to), hash, "{from} {to}");
        }
    }

    #[test]
    fn connections_are_spread_nearly_evenly() {
        let to = "10.10.0.10:80".parse().unwrap();
        let mut counts = [0; 2];
        for number in 0..100_000 {
            let (address, port) = Tuple(number).local();
            counts[queue(SocketAddrV4::new(address, port), to, 2)] += 1;
        }
        assert!(
            counts.iter().all(|count| (48_000..52_000).contains(count)),
            "{counts:?}"
        );
    }
}
