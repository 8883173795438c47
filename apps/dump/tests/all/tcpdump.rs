//! tcpdump reads the same packets from a file: the lines are equal.
//!
//! Skipped, with a line saying so, when tcpdump is not installed.

use crate::common;

use common::{Captured, Random, have, packets, pcap, tcpdump};
use exos_dump::text::{Printer, Rows, Style};
use exos_dump::{Origin, Packet};

/// Differences that are shown of each kind and style.
const SHOWN: usize = 2;

/// Our text of each packet.
fn ours(packets: &[Captured], style: Style) -> Vec<String> {
    let mut printer = Printer::new(style);
    let text = |packet: &Captured| {
        let mut out = String::new();
        let packet = Packet {
            time_ns: 0,
            bytes: &packet.bytes,
            len: packet.len,
            origin: Origin::default(),
        };
        printer.print(&packet, &mut out);
        out
    };
    packets.iter().map(text).collect()
}

const PLAIN: Style = Style {
    verbosity: 0,
    link_header: false,
    absolute_seq: false,
    rows: None,
};

/// Each style with tcpdump's options for it.
fn styles() -> Vec<(Style, Vec<&'static str>)> {
    let verbose = |verbosity| Style { verbosity, ..PLAIN };
    vec![
        (PLAIN, vec!["-t"]),
        (
            Style {
                link_header: true,
                ..PLAIN
            },
            vec!["-t", "-e"],
        ),
        (verbose(1), vec!["-t", "-v"]),
        (verbose(2), vec!["-t", "-vv"]),
        (
            Style {
                link_header: true,
                absolute_seq: true,
                ..verbose(1)
            },
            vec!["-t", "-v", "-e", "-S"],
        ),
    ]
}

/// How many texts differ.
fn compare(packets: &[Captured], style: Style, options: &[&str]) -> usize {
    let theirs = tcpdump(&pcap(packets), options);
    let ours = ours(packets, style);
    assert_eq!(
        theirs.len(),
        packets.len(),
        "{options:?}: as many texts as packets"
    );
    let mut different = 0;
    for ((packet, ours), theirs) in packets.iter().zip(&ours).zip(&theirs) {
        if !is_same(packet, ours, theirs) {
            different += 1;
            if different <= SHOWN {
                println!(
                    "{options:?} {} of {} bytes: {:02x?}",
                    packet.bytes.len(),
                    packet.len,
                    packet.bytes
                );
                println!("  ours   {ours}\n  theirs {theirs}");
            }
        }
    }
    different
}

/// Equal, but for what is meant to differ: in a packet that the capture cut, how much of the cut
/// protocol is shown before ` [|tcp]` depends on the order in which fields are looked at.
fn is_same(packet: &Captured, ours: &str, theirs: &str) -> bool {
    // A typing error of tcpdump's.
    let theirs = &theirs.replace("unreachable,  unreachable", "unreachable, unreachable");
    // Behind an option that it cannot read it says nothing more, not even the length.
    if theirs.ends_with("[bad opt]") {
        return ours.starts_with(theirs.as_str());
    }
    let is_cut = packet.bytes.len() < packet.len;
    let before_mark = |text: &str| {
        text.split(" [|")
            .next()
            .unwrap_or_default()
            .trim_end()
            .to_owned()
    };
    let (our_part, their_part) = (before_mark(ours), before_mark(theirs));
    ours == theirs
        || is_cut
            && (ours.contains(" [|") || theirs.contains(" [|") || ours.starts_with(theirs.as_str()))
            && (our_part.starts_with(&their_part) || their_part.starts_with(&our_part))
}

/// Packets of one kind in every style, whole and cut at every length.
fn agree(seed: u64, make: fn(&mut Random) -> Vec<u8>) {
    if !have("tcpdump") {
        return;
    }
    let mut random = Random(seed);
    let mut all: Vec<Captured> = (0..400).map(|_| make(&mut random).into()).collect();
    for i in 0..30 {
        let whole = all[i].clone();
        all.extend((15..whole.len.min(140)).map(|snaplen| whole.cut(snaplen)));
    }
    let different: usize = styles()
        .iter()
        .map(|(style, options)| compare(&all, *style, options))
        .sum();
    assert_eq!(different, 0, "texts differ");
}

#[test]
fn udp() {
    agree(1, packets::plain_udp);
}

#[test]
fn tcp() {
    agree(2, packets::plain_tcp);
}

#[test]
fn tcp_options() {
    agree(3, packets::odd_tcp_options);
}

#[test]
fn http() {
    agree(4, packets::http);
}

#[test]
fn arp() {
    agree(5, packets::arp);
}

#[test]
fn icmpv4() {
    agree(6, packets::icmpv4);
}

#[test]
fn icmpv6() {
    agree(7, packets::icmpv6);
}

#[test]
fn ipv4_options_fragments_tunnels_and_wrong_lengths() {
    agree(8, packets::odd_ipv4);
}

#[test]
fn ipv6_extension_headers_and_wrong_lengths() {
    agree(9, packets::odd_ipv6);
}

#[test]
fn other_ethertypes() {
    agree(10, packets::other_ethertype);
}

#[test]
fn tags_in_tags() {
    agree(11, packets::stacked_tags);
}

#[test]
fn dns() {
    agree(12, packets::dns);
}

#[test]
fn bytes_as_numbers_and_characters() {
    if !have("tcpdump") {
        return;
    }
    let mut random = Random(13);
    let all: Vec<Captured> = (0..100)
        .map(|_| packets::plain_udp(&mut random).into())
        .collect();
    for (option, link_header, characters) in [
        ("-x", false, false),
        ("-X", false, true),
        ("-xx", true, false),
        ("-XX", true, true),
    ] {
        let rows = Some(Rows {
            link_header,
            characters,
        });
        assert_eq!(compare(&all, Style { rows, ..PLAIN }, &["-t", option]), 0);
    }
}
