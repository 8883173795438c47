//! What people write: which packets it matches, how it is printed, how mistakes are explained.

use crate::common;

use common::{Random, hex, packet};
use exos_filter::Filter;
use std::fmt::Write;

/// Ethernet to `dst` behind an optional tag, then type and payload.
fn frame(tag: Option<u16>, ethertype: u16, payload: &[u8]) -> Vec<u8> {
    let mut out = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
    if let Some(tci) = tag {
        out.extend([0x81, 0]);
        out.extend(tci.to_be_bytes());
    }
    out.extend(ethertype.to_be_bytes());
    out.extend(payload);
    out
}

/// From 10.0.0.1 to 10.0.0.2, ports 4000 to 80.
fn ipv4(protocol: u8, fragment: u16) -> Vec<u8> {
    let mut out = vec![0x45, 0, 0, 40, 0, 1];
    out.extend(fragment.to_be_bytes());
    out.extend([64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    out.extend([4000u16.to_be_bytes(), 80u16.to_be_bytes()].concat());
    out.extend([0, 0, 0, 0, 0, 0, 0, 0, 0x50, 0x12, 0, 0, 0, 0, 0, 0]);
    out
}

/// From fd10::1 to fd10::2, ports 4000 to 80, behind the given extension headers.
fn ipv6(next: u8, extensions: &[u8]) -> Vec<u8> {
    let mut out = vec![0x60, 0, 0, 0, 0, 20, next, 64, 0xfd, 0x10];
    out.extend([&[0; 13][..], &[1, 0xfd, 0x10], &[0; 13], &[2]].concat());
    out.extend(extensions);
    out.extend([4000u16.to_be_bytes(), 80u16.to_be_bytes()].concat());
    out.extend([0, 0, 0, 0, 0, 0, 0, 0, 0x50, 0x12, 0, 0, 0, 0, 0, 0]);
    out
}

/// The packets of the table below, by name.
fn packets() -> Vec<(&'static str, Vec<u8>)> {
    let arp = [
        &[0, 1, 8, 0, 6, 4, 0, 1][..],
        &[2, 0, 0, 0, 0, 1, 10, 0, 0, 1],
        &[0; 6],
        &[10, 0, 0, 2],
    ]
    .concat();
    vec![
        ("tcp", frame(None, 0x800, &ipv4(6, 0))),
        ("tcp vlan 5", frame(Some(0x6005), 0x800, &ipv4(6, 0))),
        ("udp", frame(None, 0x800, &ipv4(17, 0x4000))),
        ("first fragment", frame(None, 0x800, &ipv4(6, 0x2000))),
        ("later fragment", frame(None, 0x800, &ipv4(6, 0x2001))),
        ("tcp6", frame(None, 0x86dd, &ipv6(6, &[]))),
        (
            "tcp6 hop-by-hop",
            frame(None, 0x86dd, &ipv6(0, &[6, 0, 0, 0, 0, 0, 0, 0])),
        ),
        (
            "tcp6 later fragment",
            frame(None, 0x86dd, &ipv6(44, &[6, 0, 0, 8, 0, 0, 0, 1])),
        ),
        ("icmp", frame(None, 0x800, &ipv4(1, 0))),
        ("icmp6", frame(None, 0x86dd, &ipv6(58, &[]))),
        ("arp", frame(None, 0x806, &arp)),
        ("lldp", frame(None, 0x88cc, &[1, 2, 3])),
        ("cut tcp", frame(None, 0x800, &ipv4(6, 0))[..35].to_vec()),
    ]
}

#[test]
fn each_filter_matches_what_it_says() {
    let texts = [
        "",
        "none",
        "tcp",
        "ip",
        "ip6",
        "arp",
        "icmp or icmp6",
        "port 80",
        "tcp port 80",
        "src port 80",
        "src port 4000 and dst port 80",
        "src and dst port 80",
        "port http or https",
        "not port 80",
        "udp portrange 79-81",
        "host 10.0.0.2",
        "src host 10.0.0.2",
        "ip host 10.0.0.2",
        "arp host 10.0.0.2",
        "10.0.0.1",
        "dst host fd10::2",
        "net fd10::/64",
        "net 10",
        "net 10.0.0.0/8 and not 10.0.0.1",
        "tcp dst port 80 and dst host 10.0.0.2",
        "ether src 02:00:00:00:00:01",
        "ether host 02:00:00:00:00:09",
        "ether proto 0x88cc",
        "vlan",
        "vlan 5 and tcp",
        "vlan 6",
        "ip proto 17",
        "proto \\tcp",
        "less 40",
        "greater 58",
        "tcp[tcpflags] & (tcp-syn|tcp-ack) = tcp-syn|tcp-ack",
        "tcp[13] & tcp-fin != 0",
        "ip[8] < 65",
        "tcp or udp and icmp",
        "tcp or (udp and icmp)",
    ];
    let mut table = String::new();
    for text in texts {
        let filter = Filter::parse(text).unwrap_or_else(|e| panic!("{e}"));
        let matched: Vec<&str> = packets()
            .iter()
            .filter(|(_, p)| filter.matches(p))
            .map(|(name, _)| *name)
            .collect();
        writeln!(table, "{text}: {}", matched.join(", ")).unwrap();
    }
    insta::assert_snapshot!("matches", table);
}

#[test]
fn mistakes_are_explained_at_their_place() {
    let texts = [
        "tcp dst prt 80",
        "port",
        "port 70000",
        "port eighty",
        "tcp port 80 and",
        "tcp port 80 udp",
        "(tcp or udp",
        "tcp)",
        "host",
        "host example.org",
        "host 10.0.0.0/8",
        "net 10.0.0.1/8",
        "net fd10::1/64",
        "net 10.0.0.0/33",
        "arp host fd10::1",
        "icmp port 80",
        "portrange 80",
        "portrange 90-80",
        "ether 80",
        "ether host 10.0.0.1",
        "ether proto 0x12345",
        "80",
        "not",
        "gateway 10.0.0.1",
        "vlan 4096",
        "tcp[13",
        "tcp[13:3] = 1",
        "tcp[13] & 2",
        "tcp[99999] = 1",
        "port 80 or größer",
        "src proto 6",
        "tcp && || udp",
    ];
    let mut table = String::new();
    for text in texts {
        let error = Filter::parse(text).expect_err(text);
        writeln!(table, "{error}\n").unwrap();
    }
    insta::assert_snapshot!("mistakes", table);
}

#[test]
fn filters_are_printed_readably() {
    let texts = [
        "",
        "none",
        "tcp dst port 80 and dst host 10.0.0.2",
        "host 10.0.0.2",
        "not port 80",
        "net fd10::/64 and udp",
        "vlan 5",
        "less 60 or greater 1500",
        "ether src 02:00:00:00:00:01",
        "tcp[tcpflags] & tcp-syn != 0",
    ];
    let printed: Vec<String> = texts
        .iter()
        .map(|t| format!("{t}\n    {}", Filter::parse(t).unwrap()))
        .collect();
    insta::assert_snapshot!("printed", printed.join("\n"));
}

/// Whatever is printed is read back to an equal filter, for arbitrary tests too.
#[test]
fn printing_and_reading_are_inverse() {
    for seed in 0..3000 {
        let random = &mut Random(seed);
        let filter = common::raw(random);
        let text = filter.to_string();
        let again = Filter::parse(&text).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        assert_eq!(again, filter, "seed {seed}: {text}");
        let packet = packet(random);
        assert_eq!(
            again.matches(&packet),
            filter.matches(&packet),
            "{text} {}",
            hex(&packet)
        );
    }
}

/// Hostile texts end in an error, in bounded time and depth.
/// Texts that are short and would take seconds to work out are refused, and a long list is not.
#[test]
fn what_takes_too_long_is_refused() {
    let ports: Vec<String> = (0..=129).map(|port| port.to_string()).collect();
    let list = format!("(dst port {})", ports.join(" or "));
    for text in [
        format!("{list} and {list} and {list}"),
        format!("tcp or ({list} and {list} and {list})"),
    ] {
        let error = Filter::parse(&text).expect_err("it takes too long");
        assert!(error.message().contains("too long"), "{}", error.message());
    }
    let hosts: Vec<String> = (1..=100).map(|n| format!("10.0.0.{n}")).collect();
    Filter::parse(&format!("host {}", hosts.join(" or "))).expect("a list of a hundred hosts");
}

#[test]
fn hostile_texts_are_refused() {
    let deep = format!("{}tcp{}", "(".repeat(1000), ")".repeat(1000));
    let nots = "not ".repeat(1000) + "tcp";
    let long = format!("tcp{}", " or tcp".repeat(1000));
    let hosts: Vec<String> = (0..200).map(|i| format!("host 10.0.0.{i}")).collect();
    for text in [deep, nots, long, hosts.join(" or ")] {
        let error = Filter::parse(&text).unwrap_err();
        assert!(error.to_string().contains('^'));
    }
    // A product of sums that would explode is refused; a long sum within the limits is not.
    let product: Vec<String> = (0..12)
        .map(|i| format!("(port {i} or host 10.0.0.{i} or ip[{i}] = 3)"))
        .collect();
    assert!(
        Filter::parse(&product.join(" and "))
            .unwrap_err()
            .message()
            .contains("too large")
    );
    let ports: Vec<String> = (0..80).map(|i| i.to_string()).collect();
    assert!(Filter::parse(&format!("port ({})", ports.join(" or "))).is_ok());
}

#[test]
fn hosts_by_their_names() {
    let hosts = |name: &str| match name {
        "web.example" => Ok(vec![[10, 0, 0, 1].into(), "fd00::1".parse().unwrap()]),
        "six" => Ok(vec!["fd00::6".parse().unwrap()]),
        name => Err(format!("there is no host {name}")),
    };
    let parse = |text: &str| Filter::parse_with_hosts(text, &hosts);
    for (named, meant) in [
        ("host web.example", "host 10.0.0.1 or host fd00::1"),
        ("src web.example", "src 10.0.0.1 or src fd00::1"),
        ("ip host web.example", "ip host 10.0.0.1"),
        (
            "tcp port 80 and not dst host (web.example or six)",
            "tcp port 80 and not (dst host 10.0.0.1 or dst host fd00::1 or dst host fd00::6)",
        ),
        ("port 80 and host 10.0.0.2", "port 80 and host 10.0.0.2"),
    ] {
        let filter = parse(named).unwrap();
        assert_eq!(filter, Filter::parse(meant).unwrap(), "{named}");
        assert_eq!(Filter::parse(&filter.to_string()).unwrap(), filter);
    }
    for (text, said) in [
        ("host none", "there is no host none"),
        ("arp host six", "no address of this protocol"),
        ("net web.example", "a network such as"),
        ("web.example", "a primitive such as"),
        ("host", "an address such as"),
    ] {
        let error = parse(text).unwrap_err().to_string();
        assert!(error.contains(said), "{text}: {error}");
    }
}
