//! Generators of frames, one for each kind of packet.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use exos_wire::arp::ArpPacket;
use exos_wire::ethernet::{self, EthernetHeader};
use exos_wire::ipv6::{FragmentHeader, Ipv6Header};
use exos_wire::tcp::{TcpFlags, TcpHeader, TcpOptions, Timestamps};
use exos_wire::udp::UdpHeader;
use exos_wire::{Mac, SeqNumber, Sum, protocol};

use super::Random;

/// Ports that no dissector of tcpdump claims, and those that ours does not either.
const PLAIN_PORTS: [u16; 4] = [40000, 40001, 1234, 33333];

fn mac(random: &mut Random) -> Mac {
    Mac([2, 0, 0, 0, 0, random.below(3) as u8])
}

pub fn v4(random: &mut Random) -> Ipv4Addr {
    random.pick(&[
        Ipv4Addr::new(10, 0, 0, 1),
        Ipv4Addr::new(10, 0, 0, 2),
        Ipv4Addr::new(192, 168, 255, 200),
        Ipv4Addr::new(8, 8, 8, 8),
    ])
}

pub fn v6(random: &mut Random) -> Ipv6Addr {
    let texts = [
        "fe80::1",
        "2001:db8::2:0:0:3",
        "fd10:1:2:3:4:5:6:7",
        "ff02::1:ff00:1",
        "2001:db8:0:1:1:1:1:1",
    ];
    random.pick(&texts).parse().unwrap()
}

/// A frame of this type, sometimes with a tag.
pub fn frame(random: &mut Random, ethertype: u16, payload: &[u8]) -> Vec<u8> {
    let header = EthernetHeader {
        dst: mac(random),
        src: mac(random),
        vlan: random.one_in(10).then(|| random.next() as u16),
        ethertype,
    };
    let mut out = vec![0; header.header_len()];
    header.emit(&mut out);
    out.extend(payload);
    out
}

/// An IPv4 header of any values, its checksum right but for one in ten.
pub fn ipv4_header(
    random: &mut Random,
    protocol: u8,
    options: &[u8],
    fragment: u16,
    len: usize,
) -> (Vec<u8>, Ipv4Addr, Ipv4Addr) {
    let (src, dst) = (v4(random), v4(random));
    let header_len = 20 + options.len();
    let mut header = vec![
        0x40 | (header_len / 4) as u8,
        if random.one_in(3) {
            random.next() as u8
        } else {
            0
        },
    ];
    header.extend(((header_len + len) as u16).to_be_bytes());
    header.extend((random.next() as u16).to_be_bytes());
    header.extend(fragment.to_be_bytes());
    header.extend([random.pick(&[64, 1, 255, 0]), protocol, 0, 0]);
    header.extend(src.octets());
    header.extend(dst.octets());
    header.extend(options);
    let sum = Sum::of(&header).finish();
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    if random.one_in(10) {
        header[10] ^= 0x55;
    }
    (header, src, dst)
}

/// `make` gets the addresses' pseudo sum as a function of the length.
type Make<'a> = &'a dyn Fn(&mut Random, &dyn Fn(usize) -> Sum) -> Vec<u8>;

/// A transport packet over IPv4 or IPv6.
pub fn over_ip(random: &mut Random, protocol: u8, make: Make<'_>) -> Vec<u8> {
    if random.one_in(2) {
        over_v4(random, protocol, make)
    } else {
        over_v6(random, protocol, make)
    }
}

pub fn over_v4(random: &mut Random, protocol: u8, make: Make<'_>) -> Vec<u8> {
    let mut again = Random(random.next());
    // The length depends on the payload and the sum on the addresses, so that it is made twice.
    let seed = random.next();
    let draft = make(&mut Random(seed), &|_| Sum::ZERO);
    let fragment = random.pick(&[0, 0x4000, 0, 0x4000, 0x8000, 0x2000]);
    let (header, src, dst) = ipv4_header(&mut again, protocol, &[], fragment, draft.len());
    let pseudo = |len: usize| Sum::pseudo(IpAddr::V4(src), IpAddr::V4(dst), protocol, len as u32);
    let payload = make(&mut Random(seed), &pseudo);
    frame(
        random,
        ethernet::ETHERTYPE_IPV4,
        &[header, payload].concat(),
    )
}

pub fn over_v6(random: &mut Random, protocol: u8, make: Make<'_>) -> Vec<u8> {
    let (src, dst) = (v6(random), v6(random));
    let pseudo = |len: usize| Sum::pseudo(IpAddr::V6(src), IpAddr::V6(dst), protocol, len as u32);
    let payload = make(random, &pseudo);
    let header = Ipv6Header {
        src,
        dst,
        next_header: protocol,
        hop_limit: random.pick(&[64, 255, 1]),
        traffic_class: random.pick(&[0, 2, 0xb8]),
        flow_label: random.pick(&[0, 0xabcde, 5]),
    };
    let mut packet = vec![0; 40];
    header.emit(payload.len(), &mut packet);
    packet.extend(payload);
    frame(random, ethernet::ETHERTYPE_IPV6, &packet)
}

fn damaged(random: &mut Random, mut bytes: Vec<u8>, at: usize) -> Vec<u8> {
    if random.one_in(8) {
        bytes[at] ^= 0x21;
    }
    bytes
}

pub fn udp(random: &mut Random, ports: (u16, u16), payload: &[u8]) -> Vec<u8> {
    let make = |random: &mut Random, pseudo: &dyn Fn(usize) -> Sum| {
        let mut out = vec![0; 8];
        let sum = pseudo(8 + payload.len()).plus(Sum::of(payload));
        UdpHeader {
            src_port: ports.0,
            dst_port: ports.1,
        }
        .emit(payload.len(), sum, &mut out);
        if random.one_in(10) {
            out[6..8].fill(0);
        }
        out.extend(payload);
        damaged(random, out, 7)
    };
    over_ip(random, protocol::UDP, &make)
}

pub fn plain_udp(random: &mut Random) -> Vec<u8> {
    let ports = (random.pick(&PLAIN_PORTS), random.pick(&PLAIN_PORTS));
    let len = random.below(30);
    let payload = random.bytes(len);
    udp(random, ports, &payload)
}

fn tcp_options(random: &mut Random) -> TcpOptions {
    let mut options = TcpOptions::NONE;
    match random.below(4) {
        0 => {
            options.mss = Some(1460);
            options.window_scale = Some(7);
            options.sack_permitted = true;
        }
        1 => {
            options.timestamps = Some(Timestamps {
                value: random.next() as u32,
                echo: 7,
            })
        }
        2 => {
            for _ in 0..1 + random.below(3) {
                let left = SeqNumber(random.next() as u32);
                options
                    .sack
                    .push(left, SeqNumber(left.0.wrapping_add(1000)));
            }
        }
        _ => {}
    }
    options
}

pub fn tcp(
    random: &mut Random,
    ports: (u16, u16),
    options: Option<Vec<u8>>,
    payload: &[u8],
) -> Vec<u8> {
    let make = |random: &mut Random, pseudo: &dyn Fn(usize) -> Sum| {
        let flags = random.pick(&[
            0x02, 0x12, 0x10, 0x18, 0x11, 0x14, 0x04, 0x00, 0xc2, 0x38, 0x50,
        ]);
        let header = TcpHeader {
            src_port: ports.0,
            dst_port: ports.1,
            seq: SeqNumber(random.next() as u32),
            ack: SeqNumber(random.next() as u32),
            flags: TcpFlags(flags),
            window: random.next() as u16,
            urgent: random.below(9) as u16,
        };
        let mut out = vec![0; 60];
        let mut len = header.emit(&tcp_options(random), &mut out);
        if let Some(options) = &options {
            len = header.emit(&TcpOptions::NONE, &mut out) + options.len();
            out[20..len].copy_from_slice(options);
            out[12] = (len as u8 / 4) << 4;
        }
        out.truncate(len);
        out.extend(payload);
        let sum = pseudo(out.len()).plus(Sum::of(&out)).finish();
        out[16..18].copy_from_slice(&sum.to_be_bytes());
        damaged(random, out, 16)
    };
    over_ip(random, protocol::TCP, &make)
}

pub fn plain_tcp(random: &mut Random) -> Vec<u8> {
    let ports = (random.pick(&PLAIN_PORTS), random.pick(&PLAIN_PORTS));
    let len = random.pick(&[0, 0, 5, 100]);
    let payload = random.bytes(len);
    tcp(random, ports, None, &payload)
}

/// Options of every kind, the rare ones and wrong ones among them.
pub fn odd_tcp_options(random: &mut Random) -> Vec<u8> {
    let lists: [&[u8]; 10] = [
        &[2, 4, 5, 0xb4],
        &[3, 3, 7, 0],
        &[34, 2, 1, 1],
        &[34, 10, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0],
        &[34, 5, 1, 2, 3, 0, 0, 0],
        &[99, 6, 1, 2, 3, 4, 1, 1],
        &[200, 2, 1, 1],
        &[5, 9, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1],
        &[8, 40, 1, 1],
        &[8, 1, 1, 1],
    ];
    let options = random.pick(&lists).to_vec();
    tcp(random, (40000, 40001), Some(options), b"")
}

pub fn http(random: &mut Random) -> Vec<u8> {
    let heads: [&[u8]; 8] = [
        b"GET / HTTP/1.1\r\nHost: example.com\r\nAccept: */*\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n",
        b"POST /x HTTP/1.0\nA: b\n\n",
        b"GET /half",
        b"nothing of HTTP\r\n",
        b"\r\n",
        b"HTTP/1.1 404 Not Found\r\n\r\n",
        b"HEAD /only HTTP/1.1\r\n",
    ];
    let payload = random.pick(&heads);
    let ports = random.pick(&[(40000, 80), (80, 40000), (8080, 40001)]);
    tcp(random, ports, None, payload)
}

pub fn arp(random: &mut Random) -> Vec<u8> {
    let packet = ArpPacket {
        operation: random.pick(&[1, 1, 2, 2, 77]),
        sender_mac: mac(random),
        sender_ip: v4(random),
        target_mac: random.pick(&[Mac::ZERO, Mac::BROADCAST, Mac([2, 0, 0, 0, 0, 9])]),
        target_ip: v4(random),
    };
    let mut out = vec![0; 28];
    packet.emit(&mut out);
    let padding = random.pick(&[0, 18]);
    out.extend(vec![0; padding]);
    frame(random, ethernet::ETHERTYPE_ARP, &out)
}

fn with_sum(mut message: Vec<u8>, sum: Sum) -> Vec<u8> {
    let sum = sum.plus(Sum::of(&message)).finish();
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    message
}

/// The beginning of a packet, as an error quotes it.
fn quoted_v4(random: &mut Random) -> Vec<u8> {
    let protocol = random.pick(&[6, 17, 1]);
    let (mut packet, ..) = ipv4_header(random, protocol, &[], 0, 40);
    packet.extend([0x9c, 0x40, 0x9c, 0x41, 0, 40, 0, 0]);
    packet
}

pub fn icmpv4(random: &mut Random) -> Vec<u8> {
    let kind = random.pick(&[0, 8, 3, 3, 3, 5, 11, 12, 4, 13, 14, 42]);
    let code = match kind {
        3 => random.below(17) as u8,
        5 => random.below(5) as u8,
        11 => random.below(3) as u8,
        12 => random.below(2) as u8,
        _ => 0,
    };
    let mut message = vec![kind, code, 0, 0];
    let rest = random.pick(&[[0, 0, 0, 0], [0, 9, 5, 220], [20, 0, 1, 2], [10, 0, 0, 9]]);
    message.extend(rest);
    match kind {
        3 | 4 | 5 | 11 | 12 => message.extend(quoted_v4(random)),
        13 | 14 => message.extend([0, 1, 2, 3, 4, 5, 6, 7, 0, 0, 0, 9]),
        _ => message.extend(vec![7; 20]),
    }
    let make = |random: &mut Random, _: &dyn Fn(usize) -> Sum| {
        let message = with_sum(message.clone(), Sum::ZERO);
        damaged(random, message, 3)
    };
    over_v4(random, protocol::ICMP, &make)
}

fn quoted_v6(random: &mut Random) -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0, 0, 30, random.pick(&[6, 17]), 64];
    packet.extend(v6(random).octets());
    packet.extend(v6(random).octets());
    packet.extend([0x9c, 0x40, 0x9c, 0x41, 0, 40, 0, 0]);
    packet
}

pub fn icmpv6(random: &mut Random) -> Vec<u8> {
    let kind: u8 = random.pick(&[1, 2, 3, 4, 128, 129, 131, 132, 133, 134, 135, 136, 137]);
    let code = match kind {
        1 => random.below(5) as u8,
        3 => random.below(3) as u8,
        4 => random.below(4) as u8,
        _ => 0,
    };
    let mut message = vec![kind, code, 0, 0];
    let link_address = [1, 1, 2, 0, 0, 0, 0, 5];
    match kind {
        1..=4 => {
            message.extend([0, 0, 5, 0]);
            message.extend(quoted_v6(random));
        }
        128 | 129 => message.extend([1, 2, 3, 4, 5, 6]),
        131 | 132 => {
            message.extend([0, 9, 0, 0]);
            message.extend(v6(random).octets());
        }
        133 => message.extend([&[0; 4][..], &link_address].concat()),
        134 => {
            let flags = random.next() as u8 & 0xf8;
            message.extend([64, flags, 0, 30, 0, 0, 0x75, 0x30, 0, 0, 3, 0xe8]);
            message.extend(link_address);
            message.extend([5, 1, 0, 0, 0, 0, 5, 0xdc]);
            message.extend([
                3,
                4,
                64,
                random.next() as u8 & 0xe0,
                255,
                255,
                255,
                255,
                0,
                0,
                14,
                16,
                0,
                0,
                0,
                0,
            ]);
            message.extend(v6(random).octets());
        }
        135 => {
            message.extend([0; 4]);
            message.extend(v6(random).octets());
            message.extend(link_address);
        }
        136 => {
            message.extend([random.next() as u8 & 0xe0, 0, 0, 0]);
            message.extend(v6(random).octets());
            message.extend([2, 1, 2, 0, 0, 0, 0, 7]);
        }
        _ => {
            message.extend([0; 4]);
            message.extend([v6(random).octets(), v6(random).octets()].concat());
        }
    }
    let make = |random: &mut Random, pseudo: &dyn Fn(usize) -> Sum| {
        let message = with_sum(message.clone(), pseudo(message.len()));
        damaged(random, message, 3)
    };
    over_v6(random, protocol::ICMPV6, &make)
}

/// IPv4 options, later fragments, other protocols, wrong lengths, tunnels.
pub fn odd_ipv4(random: &mut Random) -> Vec<u8> {
    let options: [&[u8]; 8] = [
        &[],
        &[],
        &[148, 4, 0, 0],
        &[1, 1, 1, 0],
        &[7, 7, 4, 10, 0, 0, 9, 0],
        &[7, 11, 8, 10, 0, 0, 9, 10, 0, 0, 8, 0],
        &[94, 4, 1, 2],
        &[7, 40, 4, 1],
    ];
    let options = random.pick(&options);
    let fragment = random.pick(&[0, 0x00b9, 0x20b9]);
    let protocol = random.pick(&[1, 6, 17, 99, 150, 4]);
    let (mut header, ..) = match protocol {
        4 => {
            let inner = plain_udp_packet(random);
            let (header, src, dst) = ipv4_header(random, protocol, options, fragment, inner.len());
            return frame(random, ethernet::ETHERTYPE_IPV4, &[header, inner].concat())
                .tap(src, dst);
        }
        _ => ipv4_header(random, protocol, options, fragment, 28),
    };
    match random.below(12) {
        0 => header[0] = 0x44,
        1 => header[3] = 10,
        2 => header[3] = 250,
        3 => header[0] = 0x65,
        4 => header[0] = 0x25,
        _ => {}
    }
    let payload = [&[0x9c, 0x40, 0x9c, 0x41, 0, 28, 0, 0][..], &[0x50; 20]].concat();
    frame(
        random,
        ethernet::ETHERTYPE_IPV4,
        &[header, payload].concat(),
    )
}

/// Only so that [`odd_ipv4`] can use what it made.
trait Tap {
    fn tap(self, src: Ipv4Addr, dst: Ipv4Addr) -> Self;
}

impl Tap for Vec<u8> {
    fn tap(self, _: Ipv4Addr, _: Ipv4Addr) -> Self {
        self
    }
}

fn plain_udp_packet(random: &mut Random) -> Vec<u8> {
    let (header, ..) = ipv4_header(random, 17, &[], 0, 12);
    [
        header,
        vec![0x9c, 0x40, 0x9c, 0x41, 0, 12, 0, 0, 1, 2, 3, 4],
    ]
    .concat()
}

/// Extension headers in any order, each whole.
pub fn odd_ipv6(random: &mut Random) -> Vec<u8> {
    let mut payload = vec![0x9c, 0x40, 0x9c, 0x41, 0, 12, 0, 0, 1, 2, 3, 4];
    let mut next = random.pick(&[17, 17, 6, 59, 99, 150]);
    if next == 6 {
        payload = vec![
            0x9c, 0x40, 0x9c, 0x41, 0, 0, 0, 1, 0, 0, 0, 2, 0x50, 0x10, 1, 0, 0, 0, 0, 0,
        ];
    }
    let count = random.below(4);
    for i in 0..count {
        let header: &[u8] = match random.below(5) {
            0 => &[0, 0, 5, 2, 0, 0, 1, 0],
            1 => &[0, 0, 1, 4, 0, 0, 0, 0],
            2 => &[0, 1, 0, 0x1e, 1, 7, 0x22, 4, 0, 1, 0, 0, 1, 2, 0, 0],
            3 => &[],
            _ => &[0, 0, 99, 4, 1, 2, 3, 4],
        };
        let mut header = header.to_vec();
        let kind = if header.is_empty() {
            let fragment = FragmentHeader {
                next_header: next,
                offset: random.pick(&[0, 1448]),
                more: random.one_in(2),
                ident: random.next() as u32,
            };
            header = vec![0; 8];
            fragment.emit(&mut header);
            protocol::FRAGMENT
        } else {
            header[0] = next;
            // RFC 8200 §4.1: hop-by-hop options only directly behind the fixed header.
            let first = if i + 1 == count {
                protocol::HOP_BY_HOP
            } else {
                protocol::DESTINATION_OPTIONS
            };
            random.pick(&[first, protocol::DESTINATION_OPTIONS])
        };
        payload = [header, payload].concat();
        next = kind;
    }
    let header = Ipv6Header {
        src: v6(random),
        dst: v6(random),
        next_header: next,
        hop_limit: 64,
        traffic_class: 0,
        flow_label: 0,
    };
    let mut packet = vec![0; 40];
    header.emit(payload.len(), &mut packet);
    packet.extend(payload);
    match random.below(12) {
        0 => packet[0] = 0x45,
        1 => packet[5] = 250,
        _ => {}
    }
    frame(random, ethernet::ETHERTYPE_IPV6, &packet)
}

pub fn other_ethertype(random: &mut Random) -> Vec<u8> {
    let ethertype = random.pick(&[0x1234, 0x88b5, 0x9999]);
    let len = random.below(40);
    let payload = random.bytes(len);
    frame(random, ethertype, &payload)
}

/// Tags in tags.
pub fn stacked_tags(random: &mut Random) -> Vec<u8> {
    let inner = plain_udp(random);
    let outer = random.pick(&[0x88a8u16, 0x8100, 0x9100]);
    let tag = [outer.to_be_bytes(), (random.next() as u16).to_be_bytes()].concat();
    [&inner[..12], &tag, &inner[12..]].concat()
}

fn name(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    for label in text.split('.').filter(|label| !label.is_empty()) {
        out.push(label.len() as u8);
        out.extend(label.as_bytes());
    }
    out.push(0);
    out
}

fn record(owner: &[u8], kind: u16, class: u16, ttl: u32, data: &[u8]) -> Vec<u8> {
    let mut out = owner.to_vec();
    out.extend(kind.to_be_bytes());
    out.extend(class.to_be_bytes());
    out.extend(ttl.to_be_bytes());
    out.extend((data.len() as u16).to_be_bytes());
    out.extend(data);
    out
}

fn any_record(random: &mut Random) -> Vec<u8> {
    let owner = random.pick(&[&[0xc0, 12][..], &[3, b'w', b'w', b'w', 0xc0, 12], &[0]]);
    let ttl = random.pick(&[0, 5, 60, 3600, 90061, 700_000]);
    let (kind, data) = match random.below(12) {
        0 => (1, vec![192, 0, 2, 7]),
        1 => (
            28,
            "2001:db8::7".parse::<Ipv6Addr>().unwrap().octets().to_vec(),
        ),
        2 => (5, vec![0xc0, 12]),
        3 => (2, name("ns.example.net")),
        4 => (15, [vec![0, 10], name("mail.example")].concat()),
        5 => (16, vec![5, b'h', b'e', b'l', b'l', b'o', 2, b'"', 1]),
        6 => (
            6,
            [
                name("a"),
                name("b"),
                vec![0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0, 5],
            ]
            .concat(),
        ),
        7 => (
            33,
            [vec![0, 1, 0, 2, 0x1f, 0x90], name("srv.example")].concat(),
        ),
        8 => (12, name("ptr.example")),
        9 => (13, vec![1, b'a', 1, b'b']),
        10 => (65280, vec![1, 2, 3]),
        _ => (39, name("other.example")),
    };
    record(owner, kind, random.pick(&[1, 1, 1, 3]), ttl, &data)
}

/// A query or an answer.
pub fn dns_message(random: &mut Random) -> Vec<u8> {
    let is_answer = random.one_in(2);
    let questions = random.pick(&[1, 1, 1, 1, 1, 0, 2]);
    let answers = if is_answer && questions > 0 {
        random.below(4)
    } else {
        0
    };
    let (authorities, opt) = (random.below(2).min(questions), random.below(2));
    let mut flags = random.next() as u16 & 0x07bf;
    if random.one_in(4) {
        flags |= (random.next() as u16) & 0x7800;
    }
    let flags = if is_answer { flags | 0x8000 } else { flags };
    let mut out = Vec::new();
    for word in [
        random.next() as u16,
        flags,
        questions as u16,
        answers as u16,
        authorities as u16,
        opt as u16,
    ] {
        out.extend(word.to_be_bytes());
    }
    for _ in 0..questions {
        // Answers point to it, and for a pointer to the root tcpdump shows nothing, where we show a dot.
        let root = if is_answer || authorities > 0 {
            "x"
        } else {
            "."
        };
        out.extend(name(random.pick(&[
            "example.com",
            root,
            "a.b.c.d.e",
            "we\u{1}ird.x",
        ])));
        out.extend(random.pick(&[1u16, 28, 255, 15, 1234]).to_be_bytes());
        out.extend(random.pick(&[1u16, 1, 1, 3, 255, 77]).to_be_bytes());
    }
    for _ in 0..answers + authorities {
        out.extend(any_record(random));
    }
    if opt == 1 {
        out.extend(record(&[0], 41, 4096, 0, &[]));
    }
    out
}

pub fn dns(random: &mut Random) -> Vec<u8> {
    let message = dns_message(random);
    let ports = random.pick(&[(40000, 53), (53, 40000)]);
    udp(random, ports, &message)
}
