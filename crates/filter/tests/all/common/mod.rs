//! Seeded generators of packets and filters, shared by the tests of this crate.
//!
//! Packets are made to hit: addresses, ports, protocols come from small pools that the filters draw from as well.
//! They are made to hurt: cut anywhere, tagged, with every IPv4 header length, as fragments, with chains of
//! extension headers longer than the walk, with random bytes changed.
use exos_filter::{Base, Filter, Literal, Test, Width};
pub use exos_testing::Random;

pub const MACS: [[u8; 6]; 4] = [
    [2, 0, 0, 0, 0, 1],
    [2, 0, 0, 0, 0, 2],
    [0xff; 6],
    [0x33, 0x33, 0, 0, 0, 1],
];
pub const V4: [[u8; 4]; 5] = [
    [10, 0, 0, 1],
    [10, 0, 0, 2],
    [10, 1, 2, 3],
    [192, 168, 7, 9],
    [224, 0, 0, 251],
];
pub const PORTS: [u16; 7] = [22, 80, 443, 5000, 5555, 6000, 65535];
const PROTOCOLS: [u8; 9] = [1, 6, 6, 17, 17, 58, 132, 50, 99];

pub fn v6(random: &mut Random) -> [u8; 16] {
    let mut address = [0; 16];
    match random.below(3) {
        0 => address[..2].copy_from_slice(&[0xfd, 0x10]),
        1 => address[..2].copy_from_slice(&[0xfd, 0x11]),
        _ => address[..2].copy_from_slice(&[0xff, 0x02]),
    }
    address[15] = 1 + random.below(2) as u8;
    address
}

/// A frame of at least 14 bytes.
pub fn packet(random: &mut Random) -> Vec<u8> {
    let mut frame = whole_packet(random);
    if random.one_in(3) {
        // Cut at any byte, most often inside the headers.
        let most = frame.len().min(120);
        frame.truncate(14 + random.below(most.saturating_sub(13).max(1)));
    }
    if random.one_in(8) {
        for _ in 0..=random.below(3) {
            let at = random.below(frame.len().min(80));
            frame[at] = random.byte();
        }
    }
    frame
}

/// A frame that nobody has damaged.
pub fn whole_packet(random: &mut Random) -> Vec<u8> {
    let mut frame = Vec::new();
    frame.extend(MACS[random.below(4)]);
    frame.extend(MACS[random.below(4)]);
    for _ in 0..[0, 0, 0, 1, 1, 2][random.below(6)] {
        let tag: u16 = if random.one_in(8) { 0x88a8 } else { 0x8100 };
        frame.extend(tag.to_be_bytes());
        frame.extend([[0x00, 0x05], [0x20, 0x05], [0x00, 0x07]][random.below(3)]);
    }
    match random.below(10) {
        0 => arp(random, &mut frame),
        1 => {
            frame.extend([0x88, 0xcc]);
            frame.extend((0..random.below(60)).map(|i| i as u8));
        }
        2..6 => ipv4(random, &mut frame),
        _ => ipv6(random, &mut frame),
    }
    frame
}

fn arp(random: &mut Random, frame: &mut Vec<u8>) {
    frame.extend([0x08, 0x06, 0, 1, 8, 0, 6, 4, 0, 1]);
    for _ in 0..2 {
        frame.extend(MACS[random.below(4)]);
        frame.extend(V4[random.below(5)]);
    }
}

fn ipv4(random: &mut Random, frame: &mut Vec<u8>) {
    frame.extend([0x08, 0x00]);
    let words = if random.one_in(2) {
        5
    } else {
        5 + random.below(11)
    };
    // One in 16 has a bad version or header length.
    let first = if random.one_in(16) {
        random.byte()
    } else {
        0x40 | words as u8
    };
    frame.extend([first, 0, 0, 60, 0, 1]);
    let fragment: u16 = [0, 0, 0x4000, 0x2000, 0x2001, 0x0001, 0x1fff, 0x8000][random.below(8)];
    frame.extend(fragment.to_be_bytes());
    let protocol = PROTOCOLS[random.below(9)];
    frame.extend([64, protocol, 0, 0]);
    frame.extend(V4[random.below(5)]);
    frame.extend(V4[random.below(5)]);
    frame.extend((20..words * 4).map(|i| i as u8));
    transport(random, frame);
}

fn ipv6(random: &mut Random, frame: &mut Vec<u8>) {
    frame.extend([0x86, 0xdd]);
    let first = if random.one_in(16) {
        random.byte()
    } else {
        0x60
    };
    frame.extend([first, 0, 0, 0, 0, 80]);
    let extensions = [0, 0, 0, 1, 2, 3, 7, 8, 9, 10][random.below(10)];
    let kinds: Vec<u8> = (0..extensions)
        .map(|i| extension_kind(random, i == 0))
        .collect();
    let protocol = PROTOCOLS[random.below(9)];
    frame.extend([kinds.first().copied().unwrap_or(protocol), 64]);
    frame.extend(v6(random));
    frame.extend(v6(random));
    for (i, kind) in kinds.iter().enumerate() {
        let next = kinds.get(i + 1).copied().unwrap_or(protocol);
        extension(random, frame, *kind, next);
    }
    transport(random, frame);
}

/// Hop-by-hop options mostly where they belong, in front.
fn extension_kind(random: &mut Random, first: bool) -> u8 {
    let hop_by_hop = if first {
        random.one_in(3)
    } else {
        random.one_in(30)
    };
    if hop_by_hop {
        0
    } else {
        [43, 60, 44, 51, 60, 43][random.below(6)]
    }
}

fn extension(random: &mut Random, frame: &mut Vec<u8>, kind: u8, next: u8) {
    let units = if random.one_in(12) {
        random.below(40)
    } else {
        random.below(3)
    };
    match kind {
        44 => {
            let offset: u16 = [0, 0, 1, 6, 8, 0xfff9][random.below(6)];
            frame.extend([next, random.byte()]);
            frame.extend(offset.to_be_bytes());
            frame.extend([0, 0, 0, 1]);
        }
        51 => {
            frame.extend([next, units as u8]);
            frame.extend((2..(units + 2) * 4).map(|i| i as u8));
        }
        _ => {
            frame.extend([next, units as u8]);
            frame.extend((2..(units + 1) * 8).map(|i| i as u8));
        }
    }
}

fn transport(random: &mut Random, frame: &mut Vec<u8>) {
    for _ in 0..2 {
        frame.extend(PORTS[random.below(7)].to_be_bytes());
    }
    let length = random.below(60);
    frame.extend((0..length).map(|i| i as u8));
}

/// A filter in the language, mostly of what people write.
pub fn text(random: &mut Random, depth: usize) -> String {
    if depth > 0 && random.one_in(2) {
        let (left, right) = (text(random, depth - 1), text(random, depth - 1));
        return match random.below(5) {
            0 | 1 => format!("({left}) and ({right})"),
            2 | 3 => format!("({left}) or ({right})"),
            _ => format!("not ({left})"),
        };
    }
    primitive(random)
}

fn primitive(random: &mut Random) -> String {
    let direction = random.pick(&["", "src ", "dst ", "src or dst ", "src and dst "]);
    let transport = random.pick(&["", "tcp ", "udp ", "sctp "]);
    let v4 = std::net::Ipv4Addr::from(V4[random.below(5)]);
    let v6 = std::net::Ipv6Addr::from(v6(random));
    let mac = exos_wire::Mac(MACS[random.below(4)]);
    let port = PORTS[random.below(7)];
    match random.below(18) {
        0..3 => random
            .pick(&[
                "ip", "ip6", "arp", "tcp", "udp", "icmp", "icmp6", "sctp", "esp",
            ])
            .to_owned(),
        3..6 => format!("{transport}{direction}port {port}"),
        6 => format!(
            "{transport}{direction}portrange {}-{}",
            port.min(5000),
            port.max(5000)
        ),
        7 | 8 => format!("{direction}host {v4}"),
        9 => format!("{direction}host {v6}"),
        10 => format!(
            "{direction}net {}",
            random.pick(&[
                "10.0.0.0/8",
                "10.0.0.0/30",
                "fd10::/16",
                "fd10::/15",
                "0.0.0.0/0"
            ])
        ),
        11 => format!("ether {direction}host {mac}"),
        12 => format!(
            "ether proto {}",
            random.pick(&["ip", "arp", "0x88cc", "0x86dd"])
        ),
        13 => random
            .pick(&[
                "vlan",
                "vlan 5",
                "vlan 7",
                "ether multicast",
                "ip multicast",
                "ip6 multicast",
            ])
            .to_owned(),
        14 => format!(
            "{} {}",
            random.pick(&["less", "greater"]),
            14 + random.below(120)
        ),
        15 => format!(
            "{}proto {}",
            random.pick(&["", "ip ", "ip6 "]),
            PROTOCOLS[random.below(9)]
        ),
        16 => format!("tcp[{}] & {} != 0", random.below(20), 1 + random.below(255)),
        _ => format!(
            "ip[{}:{}] > {}",
            random.below(20),
            random.pick(&["1", "2", "4"]),
            random.below(200)
        ),
    }
}

/// A filter of arbitrary tests.
pub fn raw(random: &mut Random) -> Filter {
    let mut filter = Filter::nothing();
    for _ in 0..=random.below(4) {
        let literals: Vec<Literal> = (0..=random.below(4)).map(|_| literal(random)).collect();
        let conjunction = Filter::all_of(literals).expect("few literals");
        filter = filter.or(&conjunction).expect("few conjunctions");
    }
    filter
}

pub fn literal(random: &mut Random) -> Literal {
    let bases = [
        Base::Type,
        Base::Protocol,
        Base::Network,
        Base::Transport,
        Base::Link,
    ];
    let base = bases[random.below(5)];
    let width = [Width::Byte, Width::Half, Width::Word][random.below(3)];
    let test = match base {
        Base::Type => {
            let value = [0x800, 0x806, 0x86dd, 0x88cc][random.below(4)];
            Test::masked(
                base,
                0,
                Width::Half,
                [0xffff, 0xff00, 0x8000][random.below(3)],
                value,
            )
        }
        Base::Protocol => {
            let low = PROTOCOLS[random.below(9)].into();
            Test::range(
                base,
                0,
                Width::Byte,
                0xff,
                low,
                low + random.below(2) as u32 * 20,
            )
        }
        _ => {
            let offset = if random.one_in(10) {
                random.below(200)
            } else {
                random.below(24)
            };
            word(random, base, offset, width)
        }
    };
    Literal {
        test,
        negated: random.one_in(3),
    }
}

fn word(random: &mut Random, base: Base, offset: usize, width: Width) -> Test {
    let max = width.max();
    let mask = [
        max,
        0xff & max,
        0xf0 & max,
        1,
        0,
        random.next() as u32 & max,
    ][random.below(6)];
    let value = match random.below(3) {
        0 => 0,
        1 => random.next() as u32 & mask,
        _ => [10, 80, 0x45, 0x0a00_0001, 0xfd10][random.below(5)] & mask,
    };
    if random.one_in(3) {
        let (a, b) = (value, random.next() as u32 & max);
        return Test::range(base, offset, width, mask, a.min(b), a.max(b));
    }
    Test::masked(base, offset, width, mask, value)
}

/// Says that a test was skipped, past the test harness, which keeps to itself what passing tests print.
pub fn skipped(why: &str) {
    let _ = std::io::Write::write_all(
        &mut std::io::stderr(),
        format!("SKIPPED: {why}\n").as_bytes(),
    );
}

/// Bytes as hexadecimal, for messages.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}
