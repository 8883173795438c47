//! What the fuzz targets of `exos-filter` check of any bytes.
//!
//! Each function takes the fuzzer's bytes and panics when something does not hold. The file is included by the fuzz
//! targets and by `crates/filter/tests/all/corpus.rs`, which replays the corpora with a stable compiler.

use etherparse::{LinkExtSlice, NetSlice, SlicedPacket, TransportSlice};
use exos_filter::{Action, Filter, ProgramMaps, Rule, compile};
use exos_testing::ebpf::disassemble;

/// A text: it is read or refused with an error that points into it; what is read is printed to a text that is read
/// to an equal filter, and compiles.
pub fn parse(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let filter = match Filter::parse(text) {
        Ok(filter) => filter,
        Err(error) => {
            assert!(text.is_char_boundary(error.column()), "{error}");
            assert!(error.to_string().contains(error.message()));
            return;
        }
    };
    let printed = filter.to_string();
    if printed.len() <= exos_filter::limits::TEXT_MAX {
        match Filter::parse(&printed) {
            Ok(again) => assert_eq!(again, filter, "{printed}"),
            Err(error) => panic!("{error}"),
        }
    }
    let maps = ProgramMaps {
        xskmap_fd: 0,
        counters_fd: None,
        early_drop: None,
    };
    let rule = Rule {
        filter,
        action: Action::RedirectToSocket,
    };
    if let Ok(program) = compile(&[rule], Action::Pass, &maps) {
        assert!(
            !disassemble(&program.words()).contains("??"),
            "{}",
            disassemble(&program.words())
        );
    }
}

/// Two lines of text, then a frame: the operations and comparisons of the two filters agree with what each of them
/// says of the frame, and filters whose meaning is plain agree with a direct look at the frame.
pub fn matches(data: &[u8]) {
    let mut lines = data.splitn(3, |&byte| byte == b'\n');
    let (first, second) = (
        lines.next().unwrap_or_default(),
        lines.next().unwrap_or_default(),
    );
    let frame = lines.next().unwrap_or_default();
    plain_meanings(frame);
    well_formed(frame);
    let parsed = |bytes| {
        std::str::from_utf8(bytes)
            .ok()
            .and_then(|text| Filter::parse(text).ok())
    };
    if let (Some(a), Some(b)) = (parsed(first), parsed(second)) {
        algebra(&a, &b, frame);
    }
}

fn algebra(a: &Filter, b: &Filter, frame: &[u8]) {
    let (in_a, in_b) = (a.matches(frame), b.matches(frame));
    if let Ok(both) = a.and(b) {
        assert_eq!(both.matches(frame), in_a && in_b, "{a} AND {b}");
    }
    if let Ok(either) = a.or(b) {
        assert_eq!(either.matches(frame), in_a || in_b, "{a} OR {b}");
    }
    if let Ok(outside) = a.not() {
        assert_eq!(outside.matches(frame), !in_a, "NOT {a}");
    }
    assert!(!(in_a && in_b && a.is_disjoint_from(b)), "{a} DISJOINT {b}");
    assert!(!(in_a && !in_b && a.is_subset_of(b)), "{a} SUBSET {b}");
}

/// Filters that are easily said in bytes.
fn plain_meanings(frame: &[u8]) {
    let at =
        |i: usize, bytes: &[u8]| frame.len() >= i + bytes.len() && frame[i..].starts_with(bytes);
    let tagged = at(12, &[0x81, 0]);
    let shift = if tagged { 4 } else { 0 };
    let ip = at(12 + shift, &[8, 0]);
    let arp = at(12 + shift, &[8, 6]);
    let address = [10, 0, 0, 2];
    let src = ip && at(26 + shift, &address) || arp && at(28 + shift, &address);
    let dst = ip && at(30 + shift, &address) || arp && at(38 + shift, &address);
    let carried = carried(frame, shift);
    let ported = |p: u16| {
        let Some((6 | 17 | 132, Some(start))) = carried else {
            return false;
        };
        at(start, &p.to_be_bytes()) || at(start + 2, &p.to_be_bytes())
    };
    for (text, expected) in [
        ("ip", ip),
        ("not ip", !ip),
        ("arp", arp),
        ("vlan", tagged),
        (
            "vlan 5",
            tagged && frame.len() >= 16 && frame[14] & 15 == 0 && frame[15] == 5,
        ),
        ("src host 10.0.0.2", src),
        ("dst host 10.0.0.2", dst),
        ("host 10.0.0.2", src || dst),
        ("less 60", frame.len() <= 60),
        ("greater 60", frame.len() >= 60),
        ("ether src 02:00:00:00:00:01", at(6, &[2, 0, 0, 0, 0, 1])),
        ("tcp", carried.is_some_and(|(protocol, _)| protocol == 6)),
        (
            "icmp6",
            !ip && carried.is_some_and(|(protocol, _)| protocol == 58),
        ),
        ("port 80", ported(80)),
        ("not port 80", !ported(80)),
    ] {
        let filter = Filter::parse(text).expect(text);
        assert_eq!(filter.matches(frame), expected, "{text}");
    }
}

/// Protocol and transport header of an IP packet, by recursion on what is left.
fn carried(frame: &[u8], shift: usize) -> Option<(u8, Option<usize>)> {
    let packet = frame.get(14 + shift..)?;
    match (frame.get(12 + shift..14 + shift)?, packet.first()? >> 4) {
        ([8, 0], 4) => {
            let length = usize::from(packet[0] & 15) * 4;
            if length < 20 || packet.len() < length {
                return None;
            }
            let first = packet[6] & 0x1f == 0 && packet[7] == 0;
            Some((packet[9], first.then_some(14 + shift + length)))
        }
        ([0x86, 0xdd], 6) => walk(packet.get(40..)?, *packet.get(6)?, 0, 54 + shift),
        _ => None,
    }
}

fn walk(rest: &[u8], kind: u8, walked: usize, at: usize) -> Option<(u8, Option<usize>)> {
    let extension = [43, 44, 51, 60].contains(&kind) || (kind == 0 && walked == 0);
    if !extension {
        return Some((kind, Some(at)));
    }
    if walked == 8 || rest.len() < 8 {
        return None;
    }
    let length = match kind {
        44 => 8,
        51 => 8 + 4 * usize::from(rest[1]),
        _ => 8 + 8 * usize::from(rest[1]),
    };
    if kind == 44 && (rest[2] != 0 || rest[3] > 7) {
        return Some((rest[0], None));
    }
    walk(rest.get(length..)?, rest[0], walked + 1, at + length)
}

/// A frame that etherparse takes: its addresses and ports, written as filters, match it.
fn well_formed(frame: &[u8]) {
    let Ok(sliced) = SlicedPacket::from_ethernet(frame) else {
        return;
    };
    // We skip one tag, of IEEE 802.1Q.
    let skipped = match sliced.link_exts.as_slice() {
        [] => true,
        [LinkExtSlice::Vlan(_)] => frame[12..14] == [0x81, 0],
        _ => false,
    };
    if !skipped {
        return;
    }
    let (src, dst): (std::net::IpAddr, std::net::IpAddr) = match &sliced.net {
        Some(NetSlice::Ipv4(packet)) => (
            packet.header().source_addr().into(),
            packet.header().destination_addr().into(),
        ),
        Some(NetSlice::Ipv6(packet)) => (
            packet.header().source_addr().into(),
            packet.header().destination_addr().into(),
        ),
        _ => return,
    };
    holds(frame, &format!("src host {src} and dst host {dst}"));
    let authenticated =
        matches!(&sliced.net, Some(NetSlice::Ipv4(packet)) if packet.extensions().auth.is_some());
    let ports = match &sliced.transport {
        Some(TransportSlice::Tcp(segment)) => {
            ("tcp", segment.source_port(), segment.destination_port())
        }
        Some(TransportSlice::Udp(datagram)) => {
            ("udp", datagram.source_port(), datagram.destination_port())
        }
        _ => return,
    };
    // We do not look behind the authentication header of IPv4, and not behind more than eight of IPv6.
    let too_many = exos_filter::layers::Layers::locate(frame)
        .protocol
        .is_none();
    if !authenticated && !too_many {
        let (protocol, src, dst) = ports;
        holds(
            frame,
            &format!("{protocol} src port {src} and {protocol} dst port {dst}"),
        );
    }
}

fn holds(frame: &[u8], text: &str) {
    assert!(Filter::parse(text).expect(text).matches(frame), "{text}");
}
