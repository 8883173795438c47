//! Mirrored filters match mirrored packets.

use crate::common;

use common::{Random, hex};
use exos_filter::layers::Layers;
use exos_filter::{Base, Filter, NoMirror, Test, Width};

/// The packet with source and destination exchanged; `None` for one that is not IP, or without whole headers.
fn mirror(packet: &[u8]) -> Option<Vec<u8>> {
    let layers = Layers::locate(packet);
    let (network, protocol) = (layers.network?, layers.protocol?);
    let mut pairs = vec![(0, 6, 6)];
    pairs.push(match layers.ethertype? {
        0x0800 => (network + 12, network + 16, 4),
        _ => (network + 8, network + 24, 16),
    });
    if let (6 | 17 | 132, Some(transport)) = (protocol, layers.transport) {
        packet.get(transport..transport + 4)?;
        pairs.push((transport, transport + 2, 2));
    }
    let mut turned = packet.to_vec();
    for (one, other, len) in pairs {
        turned[one..one + len].copy_from_slice(&packet[other..other + len]);
        turned[other..other + len].copy_from_slice(&packet[one..one + len]);
    }
    Some(turned)
}

/// A word that is reached through another layer's base: a port, an address, or a part of one.
fn of_another_layer(random: &mut Random) -> String {
    let (base, offset) = random.pick(&[
        ("ether", 36),
        ("ether", 34),
        ("ether", 26),
        ("ether", 56),
        ("ip", 22),
        ("ip", 20),
        ("ip6", 42),
        ("ip6", 40),
    ]);
    let port = random.pick(&common::PORTS);
    format!("{base}[{offset}:2] = {port}")
}

#[test]
fn mirrored_filters_match_mirrored_packets() {
    let mut random = Random(11);
    let (mut compared, mut matched, mut refused) = (0, 0, 0);
    for _ in 0..3000 {
        let mut text = common::text(&mut random, 2);
        if random.one_in(8) {
            let joint = random.pick(&["and", "or", "and not"]);
            text = format!("({text}) {joint} {}", of_another_layer(&mut random));
        }
        let Ok(filter) = Filter::parse(&text) else {
            continue;
        };
        let mirrored = match filter.mirrored() {
            Ok(mirrored) => mirrored,
            Err(_) => {
                refused += 1;
                continue;
            }
        };
        for _ in 0..40 {
            let packet = common::whole_packet(&mut random);
            let Some(turned) = mirror(&packet) else {
                continue;
            };
            let expected = filter.matches(&packet);
            assert_eq!(
                mirrored.matches(&turned),
                expected,
                "{text}: {}",
                hex(&packet)
            );
            compared += 1;
            matched += usize::from(expected);
        }
    }
    assert!(compared > 20_000 && matched > 2_000 && matched < compared);
    assert!(refused < 1000, "{refused} have no mirror");
}

#[test]
fn everyday_filters_mirror_to_what_people_expect() {
    let cases = [
        ("udp dst port 4000", "udp src port 4000"),
        ("tcp and dst host 10.0.0.2", "tcp and src host 10.0.0.2"),
        ("src net 2001:db8::/32", "dst net 2001:db8::/32"),
        ("udp dst portrange 4000-4100", "udp src portrange 4000-4100"),
        ("icmp[0] == 0", "icmp[0] == 0"),
        ("ether src 02:00:00:00:00:01", "ether dst 02:00:00:00:00:01"),
        ("host 10.0.0.2", "host 10.0.0.2"),
        (
            "tcp and not src host 10.0.0.2",
            "tcp and not dst host 10.0.0.2",
        ),
        ("tcp[0:4] == 0x00500051", "tcp[0:4] == 0x00510050"),
        ("ip[9] == 47", "ip[9] == 47"),
    ];
    for (text, wanted) in cases {
        let ip = Filter::parse("ip or ip6").unwrap();
        let mirrored = Filter::parse(text).unwrap().mirrored().unwrap();
        let mirrored = mirrored.and(&ip).unwrap();
        let wanted = Filter::parse(wanted).unwrap().and(&ip).unwrap();
        let same = mirrored.is_subset_of(&wanted) && wanted.is_subset_of(&mirrored);
        assert!(same, "{text}: {mirrored} for {wanted}");
    }
}

#[test]
fn a_word_across_a_border_is_named() {
    let across = Test::equal(Base::Network, 14, Width::Word, 7);
    let filter = Filter::test(across);
    assert_eq!(filter.mirrored(), Err(NoMirror::Across(across)));
    let error = Filter::parse("ip[14:4] = 7").unwrap().mirrored();
    let error = error.unwrap_err().to_string();
    assert!(
        error.contains("4 bytes at 14") && error.contains("border"),
        "{error}"
    );
    let some = Filter::parse("tcp[0:4] > 7").unwrap().mirrored();
    assert!(some.is_err());
}

/// A port or an address named through another layer's base stays where it is, so that the mirror would be a filter for
/// other conversations: two disjoint claims would let each holder send from the other's port.
#[test]
fn a_word_behind_its_header_is_named() {
    for text in [
        "udp and ether[36:2] = 9999",
        "ether[36:2] = 53",
        "ether[30:4] = 0x0a000001",
        "udp and ip[22:2] = 9999",
        "ip[18:4] = 7",
        "ip6 and udp and ip6[42:2] = 9999",
        "not ether[36:2] = 9999",
    ] {
        let error = Filter::parse(text).unwrap().mirrored().unwrap_err();
        assert!(matches!(error, NoMirror::Behind(_)), "{text}: {error}");
        assert!(error.to_string().contains("behind that header"), "{error}");
    }
    for text in [
        "ether[12:2] = 0x0800",
        "ip[16:4] = 7",
        "ip6[24:4] = 7",
        "greater 100",
    ] {
        assert!(Filter::parse(text).unwrap().mirrored().is_ok(), "{text}");
    }
}
