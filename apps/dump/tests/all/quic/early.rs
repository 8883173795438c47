//! Early data: before its first packet, and refused.

use super::{Capture, EXTENSIONS, IN, OTHER, OUT, crypto, initial, request, stream};
use crate::corpus::quic_bodies::{ENDS, FIRST_ID, IDS, Keys, hello, long_head};
use exos_dump::text::{Printer, Style};

/// 0-RTT packets that were captured before the Initial packet of their client.
#[test]
fn early_data_before_the_first_packet_waits() {
    let keys = Keys::initial(&FIRST_ID, false);
    let frames = request(0, "/early");
    let head = long_head(0xd0, &FIRST_ID, &IDS[0], frames.len());
    let early = Keys::new(&[0; 32]).seal(&head, 0, &frames);
    let hello = &hello(false)[4..];
    let part = |number, at: usize, end: usize| {
        let frames = crypto(at, &hello[at..end]);
        initial(&keys, (&FIRST_ID, &IDS[0]), number, &frames)
    };
    let [whole, first, second] = [
        part(0, 0, hello.len()),
        part(0, 0, 20),
        part(1, 20, hello.len()),
    ];
    let late = "late from the client 0-RTT v1 #0 {STREAM 0 0:";
    for datagrams in [
        vec![early.clone(), whole.clone()],
        vec![early.clone(), first, second],
        vec![[&early[..], &whole].concat()],
    ] {
        let mut capture = Capture::new();
        let mut said = String::new();
        for datagram in &datagrams {
            assert!(!said.contains(late), "{said}");
            said = capture.show(OUT, datagram);
            let waits = "QUIC 0-RTT v1 [its Initial packet has not come]";
            assert_eq!(said.contains(waits), datagram.starts_with(&early), "{said}");
        }
        assert!(said.contains("TLS ClientHello"), "{said}");
        assert!(said.contains(late), "{said}");
        assert!(said.contains("HTTP/3 HEADERS GET /early"), "{said}");
        capture.begin(OUT, *b"another1", [*b"client_2", *b"server_2"]);
    }
    // More of them than wait for a key: it is there. Where it is not, that is said; why they wait is said once.
    for has_key in [true, false] {
        let mut capture = match has_key {
            true => Capture::new(),
            false => Capture(Printer::new(Style::default())),
        };
        capture.0.add_keys(b"");
        let mut waits = 0;
        for number in 0..100 {
            let frames = [0; 1000];
            let head = long_head(0xd0, &FIRST_ID, &IDS[0], frames.len());
            let early = Keys::new(&[0; 32]).seal(&head, number, &frames);
            let said = capture.show(OUT, &early);
            waits += said.matches("has not come").count();
        }
        assert_eq!(waits, 1);
        let said = capture.show(OUT, &whole);
        let late = said.matches("late from the client 0-RTT v1 #").count();
        assert_eq!(late, if has_key { 100 } else { 0 }, "{said:.300}");
        let note = "late from the client 0-RTT v1 [no key for it yet] [not decrypted: the log has no key for it]";
        assert_eq!(said.contains(note), !has_key, "{said:.3000}");
    }
    // Of somebody else, to the same identifier.
    let mut capture = Capture::new();
    capture.show((OTHER, ENDS[1]), &early);
    let said = capture.show(OUT, &whole);
    assert!(
        said.contains("ClientHello") && !said.contains("late"),
        "{said}"
    );
}

/// What a client has sent before the server was heard, it sends again where the server has refused that (RFC 9001 §4.6.2).
#[test]
fn early_data_that_is_refused_comes_again() {
    for extensions in [&[0, 0][..], &[0, 4, 0, 42, 0, 0]] {
        let is_taken = extensions.len() > 2;
        let mut capture = Capture::begun();
        let frames = request(0, "/early");
        let head = long_head(0xd0, &IDS[1], &IDS[0], frames.len());
        let said = capture.show(OUT, &Keys::new(&[0; 32]).seal(&head, 0, &frames));
        assert!(said.contains("GET /early"), "{said}");
        let message = [&[8, 0, 0, extensions.len() as u8], extensions].concat();
        let frames = crypto(0, &message);
        let head = long_head(0xe0, &IDS[0], &IDS[1], frames.len());
        let said = capture.show(IN, &Keys::new(&[2; 32]).seal(&head, 0, &frames));
        assert!(said.contains("EncryptedExtensions"), "{said}");
        let said = capture.client(1, &request(0, "/again"));
        assert!(said.contains("STREAM 0"), "{said}");
        assert!(!is_taken || !said.contains("GET"), "{said}");
    }
}

/// Requests that were captured ahead of what the server has said first.
#[test]
fn streams_go_on_without_early_data() {
    let mut capture = Capture::begun();
    let request = request(0, "/x");
    // Its frame of HTTP/3 in two parts.
    let body = &request[13..];
    let said = capture.client(0, &stream(0, 0, &body[..5]));
    assert!(said.contains("STREAM 0"), "{said}");
    let message = crypto(0, &EXTENSIONS);
    let head = long_head(0xe0, &IDS[0], &IDS[1], message.len());
    let said = capture.show(IN, &Keys::new(&[2; 32]).seal(&head, 0, &message));
    assert!(said.contains("EncryptedExtensions"), "{said}");
    let said = capture.client(1, &stream(0, 5, &body[5..]));
    assert!(said.contains("GET /x"), "{said}");
}
