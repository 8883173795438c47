//! Packets for the gate: well-formed ones of every kind it tells apart, and mutations of them.

use super::{ICMP, ICMPV6, MAC, PEER_MAC, TCP, UDP};
pub use exos_testing::Random;
use std::net::IpAddr;

pub fn ethernet(destination: [u8; 6], source: [u8; 6], kind: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = destination.to_vec();
    frame.extend(source);
    frame.extend(kind.to_be_bytes());
    frame.extend(payload);
    frame
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(a) => a.octets().to_vec(),
        IpAddr::V6(a) => a.octets().to_vec(),
    }
}

/// The address as IPv6 writes an IPv4 address (RFC 4291 §2.5.5.2).
pub fn mapped(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(a) => a.to_ipv6_mapped().into(),
        IpAddr::V6(_) => address,
    }
}

/// Identifier, offset in words of 8 bytes, more fragments.
pub type FragmentInfo = (u32, u16, bool);

/// An IP packet with its fragment information, IPv4 options or IPv6 extension headers in `extra`.
pub fn ip(
    source: IpAddr,
    destination: IpAddr,
    protocol: u8,
    fragment: Option<FragmentInfo>,
    extra: &[u8],
    payload: &[u8],
) -> Vec<u8> {
    let mut packet;
    if source.is_ipv4() {
        let length = 20 + extra.len() + payload.len();
        packet = vec![0x40 | (5 + extra.len() / 4) as u8, 0];
        packet.extend((length as u16).to_be_bytes());
        let (id, offset, more) = fragment.unwrap_or((7, 0, false));
        packet.extend((id as u16).to_be_bytes());
        packet.extend((offset | u16::from(more) << 13).to_be_bytes());
        packet.extend([64, protocol, 0, 0]);
        packet.extend(octets(source));
        packet.extend(octets(destination));
        sum_header(&mut packet);
        packet.extend(extra);
    } else {
        let mut headers = extra.to_vec();
        let mut first = protocol;
        if let Some((id, offset, more)) = fragment {
            headers = vec![protocol, 0];
            headers.extend((offset << 3 | u16::from(more)).to_be_bytes());
            headers.extend(id.to_be_bytes());
            first = 44;
        } else if !extra.is_empty() {
            // The caller's chain: its first byte says what its first header is.
            first = headers.remove(0);
        }
        packet = vec![0x60, 0, 0, 0];
        packet.extend(((headers.len() + payload.len()) as u16).to_be_bytes());
        packet.extend([first, 64]);
        packet.extend(octets(source));
        packet.extend(octets(destination));
        packet.extend(headers);
    }
    packet.extend(payload);
    packet
}

/// Write the sum into an IPv4 header without options.
pub fn sum_header(packet: &mut [u8]) {
    packet[10..12].fill(0);
    let words = packet[..20].as_chunks::<2>().0.iter();
    let sum: u32 = words.map(|word| u32::from(u16::from_be_bytes(*word))).sum();
    let sum = !((sum >> 16) + (sum & 0xffff)) as u16;
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
}

pub fn ports(protocol: u8, source: u16, destination: u16, data: usize) -> Vec<u8> {
    let mut header = source.to_be_bytes().to_vec();
    header.extend(destination.to_be_bytes());
    let len = if protocol == TCP { 20 } else { 8 };
    header.resize(len + data, 0x11);
    header
}

pub fn icmp(kind: u8, identifier: u16, rest: &[u8]) -> Vec<u8> {
    let mut message = vec![kind, 0, 0, 0];
    message.extend(identifier.to_be_bytes());
    message.extend([0, 1]);
    message.extend(rest);
    message
}

pub fn arp(operation: u8, sender: [u8; 4], target: [u8; 4]) -> Vec<u8> {
    let mut payload = vec![0, 1, 8, 0, 6, 4, 0, operation];
    payload.extend(PEER_MAC);
    payload.extend(sender);
    payload.extend([0; 6]);
    payload.extend(target);
    payload
}

/// Chains of extension headers: the kind of the first, then the headers. `next` follows them.
fn chain(random: &mut Random, next: u8) -> Vec<u8> {
    let count = random.below(10);
    if count == 0 {
        return Vec::new();
    }
    let kinds: Vec<u8> = (0..count)
        .map(|_| random.pick(&[0, 43, 44, 51, 60, 60, 60]))
        .collect();
    let mut bytes = vec![kinds[0]];
    for (i, kind) in kinds.iter().enumerate() {
        let following = kinds.get(i + 1).copied().unwrap_or(next);
        let words = random.below(3);
        match kind {
            44 => bytes.extend([following, 9, 0, random.pick(&[0, 0, 1, 8]), 0, 0, 0, 5]),
            51 => {
                bytes.extend([following, words as u8]);
                bytes.extend(vec![0; (words + 2) * 4 - 2]);
            }
            _ => {
                bytes.extend([following, words as u8]);
                bytes.extend(vec![0; (words + 1) * 8 - 2]);
            }
        }
    }
    bytes
}

/// What packets are made of.
pub struct Pool {
    pub v4: Vec<IpAddr>,
    pub v6: Vec<IpAddr>,
    pub ports: Vec<u16>,
    pub macs: Vec<[u8; 6]>,
}

impl Pool {
    fn addresses(&self, random: &mut Random) -> (IpAddr, IpAddr) {
        let pool = if random.one_in(2) { &self.v4 } else { &self.v6 };
        (random.pick(pool), random.pick(pool))
    }

    /// A transport header with data and its protocol.
    fn transport(&self, random: &mut Random, v4: bool, quote: bool) -> (u8, Vec<u8>) {
        let (one, other) = (random.pick(&self.ports), random.pick(&self.ports));
        let icmp_protocol = if v4 { ICMP } else { ICMPV6 };
        match random.below(if quote { 10 } else { 13 }) {
            0..4 => {
                let mut segment = ports(TCP, one, other, 6);
                // RFC 9293 §3.1: SYN, ACK, both, FIN with ACK, RST.
                segment[13] = random.pick(&[0x02, 0x02, 0x10, 0x10, 0x12, 0x11, 0x04]);
                (TCP, segment)
            }
            4..7 => (UDP, ports(UDP, one, other, 6)),
            7 => (
                icmp_protocol,
                icmp(random.pick(&[0, 8, 128, 129]), one, &[1; 8]),
            ),
            8 => (random.pick(&[2, 47, 132, 1, 58, 50]), vec![3; 24]),
            9 => {
                let kinds = [133, 134, 135, 136, 137, 130, 143, 5, 9, 10, 3];
                let target = if random.one_in(2) { &self.v6 } else { &self.v4 };
                let target = octets(random.pick(target));
                (icmp_protocol, icmp(random.pick(&kinds), 0, &target))
            }
            _ => {
                let kinds: &[u8] = if v4 { &[3, 11, 12, 4] } else { &[1, 2, 3, 4] };
                let kind = random.pick(kinds);
                (icmp_protocol, icmp(kind, 0, &self.quoted(random, v4)))
            }
        }
    }

    fn quoted(&self, random: &mut Random, v4: bool) -> Vec<u8> {
        let pool = if v4 { &self.v4 } else { &self.v6 };
        let (source, destination) = (random.pick(pool), random.pick(pool));
        let (protocol, transport) = self.transport(random, v4, true);
        let fragment = random
            .one_in(8)
            .then(|| (7, random.pick(&[0, 1, 9]), random.one_in(2)));
        let options: &[u8] = if v4 && random.one_in(8) { &[1; 4] } else { &[] };
        ip(source, destination, protocol, fragment, options, &transport)
    }

    /// A frame, well-formed but for what the draw wants to be odd.
    pub fn whole(&self, random: &mut Random) -> Vec<u8> {
        let (destination, source) = (random.pick(&self.macs), random.pick(&self.macs));
        if random.one_in(16) {
            return self.not_ip(random, destination, source);
        }
        let (mut from, mut to) = self.addresses(random);
        if random.one_in(24) {
            (from, to) = match random.below(3) {
                0 => (mapped(from), random.pick(&self.v6)),
                1 => (random.pick(&self.v6), mapped(to)),
                _ => (mapped(from), mapped(to)),
            };
        }
        let v4 = from.is_ipv4();
        let (protocol, mut transport) = self.transport(random, v4, false);
        let id = random.pick(&[1, 2, 3]);
        let fragment = random
            .one_in(5)
            .then(|| (id, random.pick(&[0, 0, 1, 8]), !random.one_in(3)));
        if fragment.is_some() && random.one_in(3) {
            transport.truncate(8 + random.below(14));
        }
        // Fragments of IPv6 that their receiver takes, mostly.
        if fragment.is_some() && !random.one_in(3) {
            transport.resize(transport.len().next_multiple_of(8), 0);
        }
        let extra = match (v4, random.one_in(6)) {
            (_, false) => Vec::new(),
            (true, true) => vec![1; 4 * random.below(10)],
            (false, true) => chain(random, protocol),
        };
        let packet = ip(from, to, protocol, fragment, &extra, &transport);
        let kind = if v4 { 0x0800 } else { 0x86dd };
        let mut frame = ethernet(destination, source, kind, &packet);
        if random.one_in(5) {
            frame.resize(frame.len() + random.below(20), 0); // padding
        }
        frame
    }

    fn not_ip(&self, random: &mut Random, destination: [u8; 6], source: [u8; 6]) -> Vec<u8> {
        let address = |random: &mut Random| match random.pick(&self.v4) {
            IpAddr::V4(a) => a.octets(),
            IpAddr::V6(_) => unreachable!("the pool of IPv4"),
        };
        let (sender, target) = (address(random), address(random));
        match random.below(4) {
            0 | 1 => {
                let operation = 1 + random.below(2) as u8;
                ethernet(destination, source, 0x0806, &arp(operation, sender, target))
            }
            2 => ethernet(
                destination,
                source,
                random.pick(&[0x88cc, 0x0842, 60]),
                &[0; 50],
            ),
            _ => {
                let mut frame = self.whole(random);
                let vlan = [0x81, 0, 0, random.below(6) as u8];
                frame.splice(12..12, vlan);
                frame
            }
        }
    }

    /// A frame, in a third of the cases with some bytes changed or missing.
    pub fn frame(&self, random: &mut Random) -> Vec<u8> {
        let mut frame = self.whole(random);
        match random.below(9) {
            0 | 1 => {
                for _ in 0..=random.below(3) {
                    let at = random.below(frame.len().min(90));
                    frame[at] = random.next() as u8;
                }
            }
            2 => frame.truncate(16 + random.below(frame.len() - 15)),
            _ => {}
        }
        frame
    }
}

/// TCP from a peer.
pub fn tcp(from: &str, to: &str) -> Vec<u8> {
    let (from, to) = (super::sa(from), super::sa(to));
    let header = ports(TCP, from.port(), to.port(), 6);
    let packet = ip(from.ip(), to.ip(), TCP, None, &[], &header);
    let kind = if from.is_ipv4() { 0x0800 } else { 0x86dd };
    ethernet(MAC, PEER_MAC, kind, &packet)
}
