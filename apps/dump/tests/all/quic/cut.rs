//! Packets behind gaps, without identifiers, in datagrams that are not cut yet, and in captures that cut them.

use super::{Capture, IN, OUT, initial, number, short};
use crate::corpus::quic_bodies::{ENDS, FIRST_ID, IDS, Keys, hello, log, long_head, show_cut};
use exos_dump::text::{Printer, Style};

/// Packets that a kernel has dropped: what the other side has seen of them says where their numbers are.
#[test]
fn numbers_go_on_behind_a_gap() {
    let mut capture = Capture::begun();
    capture.expect_request(0, "/x");
    for at in 1..6 {
        let largest = 40_000 * at;
        let ack = [&[2][..], &number(largest as usize), &[0, 0, 0]].concat();
        assert!(capture.server(at, &ack).contains("{ACK"));
        let said = capture.client(largest + 10, &[1]);
        assert!(
            said.contains(&format!("#{} {{PING", largest + 10)),
            "{said}"
        );
    }
}

/// What a kernel has not cut yet, behind a long header.
#[test]
fn packets_that_are_not_cut_are_found() {
    let mut capture = Capture::begun();
    let head = long_head(0xe0, &IDS[1], &IDS[0], 21);
    let handshake = Keys::new(&[1; 32]).seal(&head, 0, &[1; 21]);
    let len = 1200 - (1 + 8 + 2 + 16) - 8;
    let first = short(3, &IDS[1], 0, &vec![1; len - handshake.len()]);
    let more = [1, 2].map(|number| short(3, &IDS[1], number, &vec![1; len]));
    let all = [&handshake[..], &first, &more[0], &more[1]].concat();
    let said = capture.show(OUT, &all);
    for packet in [
        "Handshake v1 #0 {",
        "1-RTT #0 {",
        "1-RTT #1 {",
        "1-RTT #2 {",
    ] {
        assert!(said.contains(packet), "{packet}: {said:.200}");
    }
}

/// A client without an identifier, to which another address is given.
#[test]
fn clients_without_identifiers_move() {
    let mut capture = Capture::new();
    let keys = [false, true].map(|is_server| Keys::initial(&FIRST_ID, is_server));
    capture.show(OUT, &initial(&keys[0], (&FIRST_ID, b""), 0, &hello(false)));
    capture.show(IN, &initial(&keys[1], (b"", &IDS[1]), 0, &hello(true)));
    let moved = ([10, 0, 0, 1], 4999);
    for (number, client) in [(0, ENDS[0]), (1, moved)] {
        let said = capture.show((client, ENDS[1]), &short(3, &IDS[1], number, &[1]));
        assert!(said.contains("{PING"), "{said}");
        let said = capture.show((ENDS[1], client), &short(4, b"", number, &[1]));
        assert!(said.contains("{PING"), "{said}");
    }
}

/// Without identifiers nothing says where the next packet begins: also where the keys come later than the packets.
#[test]
fn packets_without_identifiers_are_cut() {
    for is_late in [false, true] {
        let mut capture = match is_late {
            true => {
                let mut capture = Capture(Printer::new(Style::default()));
                capture.0.add_keys(b"");
                capture
            }
            false => Capture::new(),
        };
        let keys = [false, true].map(|is_server| Keys::initial(&FIRST_ID, is_server));
        capture.show(OUT, &initial(&keys[0], (&FIRST_ID, b""), 0, &hello(false)));
        capture.show(IN, &initial(&keys[1], (b"", &IDS[1]), 0, &hello(true)));
        // Two datagrams of 1,200 bytes, which are likely, and two of 700; each with a shorter one behind.
        let mut said = String::new();
        for (at, len) in [(0, 1200), (3, 1200), (6, 700)] {
            let packet = |nth: u32, len: usize| short(4, b"", at + nth, &vec![0; len - 27]);
            let all = [packet(0, len), packet(1, len), packet(2, 300)].concat();
            said += &capture.show(IN, &all);
        }
        if is_late {
            assert!(!said.contains('{'), "{said}");
            capture.0.add_keys(log().as_bytes());
            said = capture.client(0, &[1]);
        }
        for number in 0..9 {
            assert!(said.contains(&format!("1-RTT #{number} {{")), "{said}");
        }
        assert!(!said.contains("do not fit"), "{said}");
    }
}

/// Several datagrams with long headers in one, each behind a packet that goes on to its datagram's end, and zeros between them.
#[test]
fn handshakes_that_are_not_cut_are_found() {
    for id in [&IDS[0][..], b""] {
        let mut capture = Capture::new();
        let keys = [false, true].map(|is_server| Keys::initial(&FIRST_ID, is_server));
        capture.show(OUT, &initial(&keys[0], (&FIRST_ID, id), 0, &hello(false)));
        let long = |first: u8, number: u32, len: usize, keys: &Keys, frames: &[u8]| {
            let mut frames = frames.to_vec();
            frames.resize(len, 0);
            keys.seal(&long_head(first, id, &IDS[1], len), number, &frames)
        };
        let handshake = |number, len| long(0xe0, number, len, &Keys::new(&[2; 32]), &[1]);
        let filled = |mut packets: Vec<u8>, number: u32| {
            let len = 1200 - packets.len() - 19 - id.len();
            packets.extend(short(4, id, number, &vec![0; len - 8]));
            assert_eq!(packets.len(), 1200);
            packets
        };
        let mut padded = handshake(1, 400);
        padded.resize(1200, 0);
        let all = [
            filled(long(0xc0, 0, 500, &keys[1], &hello(true)), 0),
            padded,
            filled(handshake(2, 300), 1),
            filled(Vec::new(), 2),
            [handshake(3, 40), handshake(4, 40)].concat(),
        ];
        let said = capture.show(IN, &all.concat());
        let wanted = [
            "Initial v1 #0",
            "1-RTT #0",
            "Handshake v1 #1",
            "Handshake v1 #2",
        ];
        let more = ["1-RTT #1", "1-RTT #2", "Handshake v1 #3", "Handshake v1 #4"];
        let mut at = 0;
        for packet in wanted.iter().chain(&more) {
            let found = said[at..].find(&format!("{packet} {{"));
            at += found.unwrap_or_else(|| panic!("{packet}: {said}"));
        }
        assert!(!said.contains('['), "{said}");
    }
}

/// Of a connection that is known it is said once that the capture has cut its packets, long ones and short ones.
#[test]
fn packets_that_are_cut_are_told_once() {
    let why = " [not decrypted: the capture has cut packets]";
    let head = long_head(0xe0, &IDS[1], &IDS[0], 100);
    let long = Keys::new(&[1; 32]).seal(&head, 0, &[1; 100]);
    let short = short(3, &IDS[1], 0, &[1; 100]);
    for packets in [[&long, &short], [&short, &long]] {
        let mut capture = Capture::begun();
        for (nth, packet) in packets.into_iter().enumerate() {
            let said = show_cut(&mut capture.0, OUT, packet, 40);
            let kind = if packet == &long {
                "Handshake v1"
            } else {
                "1-RTT"
            };
            assert!(said.contains(&format!(": QUIC {kind}")), "{said}");
            assert_eq!(said.contains(why), nth == 0, "{said}");
        }
        capture.expect_request(0, "/x");
    }
    // One that nobody knows, between ends that have sent long ones.
    let mut capture = Capture::new();
    for (nth, packet) in [&long, &short].into_iter().enumerate() {
        let said = show_cut(&mut capture.0, OUT, packet, 40);
        assert!(said.contains(": QUIC"), "{said}");
        assert_eq!(said.contains(why), nth == 0, "{said}");
    }
}
