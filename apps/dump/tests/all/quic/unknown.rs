//! Connections whose beginning nobody has captured, and what is no QUIC.

use super::{Capture, FIXED, IN, OTHER, OUT, request, short};
use crate::corpus::quic_bodies::{ENDS, FIRST_ID, IDS, Keys, SHORT, hello, long_head};
use exos_dump::text::{Printer, Style};

/// Packets of connections that nobody knows: why is said once, where secrets are given.
#[test]
fn connections_that_were_begun_before_are_told() {
    let head = long_head(0xe0, &IDS[1], &IDS[0], 21);
    let handshake = Keys::new(&[1; 32]).seal(&head, 0, &[1; 21]);
    let later = short(3, &IDS[1], 0, &[1]);
    let note = " [not decrypted: begun before the capture]";
    let mut capture = Capture::new();
    for (packet, kind) in [(&handshake, "Handshake v1"), (&later, "1-RTT")] {
        let said = capture.show(OUT, packet);
        let is_first = packet == &handshake;
        assert!(said.contains(&format!("QUIC {kind}")), "{said}");
        assert_eq!(said.contains(note), is_first, "{said}");
    }
    let mut without = Capture(Printer::new(Style::default()));
    let said = without.show(OUT, &later);
    assert!(said.contains("QUIC 1-RTT") && !said.contains('['), "{said}");
    // At another port a short header alone says nothing.
    let ends = [(OTHER.0, 5000), (ENDS[1].0, 5001)];
    let path = (ends[0], ends[1]);
    assert!(!capture.show(path, &later).contains("QUIC"));
    assert!(capture.show(path, &handshake).contains(note));
    let said = capture.show(path, &later);
    assert!(said.contains("QUIC 1-RTT"), "{said}");
    // A connection that begins there is decrypted.
    capture.begin(OUT, FIRST_ID, IDS);
    capture.expect_request(0, "/x");
}

/// What others send to HTTP's port: STUN and TURN, DTLS, RTP, WireGuard, OpenVPN, and what contradicts itself (RFC 8999, RFC 9443 §3).
#[test]
fn other_protocols_are_not_called_quic() {
    let filled = |begin: &[u8]| [begin, &[0x5a; 60]].concat();
    let others = [
        filled(b"\x00\x01\x00\x3c\x21\x12\xa4\x42"),
        filled(&[0x40, 0, 0, 60]),
        filled(&[0x4f, 0xff, 0, 57]), // 57 bytes, padded.
        filled(b"\x16\xfe\xfd\0\0\0\0\0\0"),
        filled(b"\x2e\0\x01\0\x28"),
        filled(b"\x80\x60\x12\x34"),
        filled(&[1, 0, 0, 0]),
        filled(&[4, 0, 0, 0]),
        filled(&[0x38; 9]),
        [&[0; 8][..], &[0x40; 60]].concat(),
        vec![SHORT; 20],
        // Long headers: of no version that is known, with an identifier and a packet that are too long; and lists of versions that are none.
        filled(b"\xc3\0\0\0\x09\x04abcd"),
        filled(b"\xc3\0\0\0\x01\x15"),
        filled(b"\xe3\0\0\0\x01\x04abcd\0\x7f\xff"),
        b"\x80\0\0\0\0\x04abcd\x04efgh".to_vec(),
        b"\x80\0\0\0\0\x04abcd\x04efgh\0\0\0\x01\0\0".to_vec(),
    ];
    let mut capture = Capture::new();
    for (port, other) in (2000..).zip(&others) {
        // Another port: one direction says nothing of the other.
        let [client, other_client] = [port, port + 500].map(|port| (ENDS[0].0, port));
        for path in [(client, ENDS[1]), (ENDS[1], other_client)] {
            let said = capture.show(path, other);
            assert!(!said.contains("QUIC"), "{other:?}: {said}");
        }
    }
    // OpenVPN's data has the bits of a short header: what has gone before says that it is none.
    let data = filled(&[0x48, 0, 0, 1]);
    let [stun, turn, dtls, rtp, openvpn] = [0, 1, 3, 5, 8].map(|nth| Some(&others[nth]));
    let begins = [
        (stun, true),
        (turn, true),
        (dtls, true),
        (openvpn, true),
        (rtp, false),
        (None, false),
    ];
    for (port, (begin, is_mark)) in (3000..).zip(begins) {
        let path = ((ENDS[0].0, port), ENDS[1]);
        if let Some(begin) = begin {
            capture.show((path.1, path.0), begin);
        }
        let said = capture.show(path, &data);
        assert_eq!(said.contains(": maybe QUIC 1-RTT"), !is_mark, "{said}");
        // Behind a packet that may be QUIC's, such bytes may be by chance.
        if let (false, Some(turn)) = (is_mark, turn) {
            assert!(capture.show(path, turn).contains("maybe QUIC"));
            assert!(capture.show(path, &data).contains("maybe QUIC"));
        }
    }
}

/// All packets without the bit by which QUIC is told from other protocols: a client does so that has a ticket of a server that allows it.
#[test]
fn connections_without_the_fixed_bit_are_followed() {
    let keys = [false, true].map(|is_server| Keys::initial(&FIRST_ID, is_server));
    let greased = |keys: &Keys, kind: u8, ids: (&[u8], &[u8]), frames: &[u8]| {
        let mut frames = frames.to_vec();
        frames.resize(1200, 0);
        keys.seal(
            &long_head(0x80 | kind, ids.0, ids.1, frames.len()),
            0,
            &frames,
        )
    };
    let to_server = (&FIRST_ID[..], &IDS[0][..]);
    let mut first = greased(&keys[0], 0, to_server, &hello(false));
    let early = greased(&Keys::new(&[0; 32]), 0x10, to_server, &request(0, "/early"));
    let answer = greased(&keys[1], 0, (&IDS[0], &IDS[1]), &hello(true));
    for is_behind in [true, false] {
        let mut capture = Capture::new();
        if !is_behind {
            let said = capture.show(OUT, &early);
            assert!(!said.contains("QUIC"), "{said}");
        }
        let said = capture.show(OUT, &first);
        assert!(said.contains("QUIC Initial v1 #0 {CRYPTO 0:"), "{said}");
        assert!(said.contains("TLS ClientHello"), "{said}");
        let said = if is_behind {
            capture.show(OUT, &early)
        } else {
            said
        };
        assert!(said.contains("HTTP/3 HEADERS GET /early"), "{said}");
        assert!(capture.show(IN, &answer).contains("TLS ServerHello"));
        let mut packet = short(3, &IDS[1], 0, &[1]);
        packet[0] &= !FIXED;
        // That bit is part of what is authenticated.
        assert!(capture.show(OUT, &packet).contains("do not fit"));
        capture.expect_request(1, "/x");
    }
    // Where the keys do not open it, it is none.
    first[600] ^= 1;
    let mut capture = Capture::new();
    assert!(!capture.show(OUT, &first).contains("QUIC"));
    // Begun before the capture: behind one packet with that bit none needs it, and without it none silences others.
    let [mut with, mut without] = [(); 2].map(|()| short(3, &IDS[1], 0, &[1; 40]));
    (with[0], without[0]) = (SHORT, 0x21);
    let mut capture = Capture::new();
    assert!(!capture.show(OUT, &without).contains("QUIC"));
    assert!(capture.show(OUT, &with).contains("maybe QUIC 1-RTT"));
    capture.show(
        OUT,
        &[&long_head(0xe0, &IDS[1], &IDS[0], 21)[..], &[1; 39]].concat(),
    );
    for packet in [&with, &without] {
        assert!(capture.show(OUT, packet).contains(": QUIC 1-RTT"));
    }
    let handshake = [&long_head(0xa0, &IDS[1], &IDS[0], 21)[..], &[1; 39]].concat();
    assert!(
        capture
            .show(OUT, &handshake)
            .contains(": QUIC Handshake v1")
    );
}

/// The capture has begun later than the connection: a short header alone is not enough.
#[test]
fn it_is_said_how_certain_it_is() {
    let later = short(3, &IDS[1], 0, &[1]);
    let head = long_head(0xe0, &IDS[1], &IDS[0], 21);
    let handshake = Keys::new(&[1; 32]).seal(&head, 0, &[1; 21]);
    let mut capture = Capture::new();
    let why = " [not decrypted: begun before the capture]";
    for (packet, said) in [
        (&later, format!(": maybe QUIC 1-RTT{why}")),
        (&later, ": maybe QUIC 1-RTT".to_owned()),
        (&handshake, ": QUIC Handshake v1".to_owned()),
        (&later, ": QUIC 1-RTT".to_owned()),
    ] {
        let shown = capture.show(OUT, packet);
        assert!(shown.ends_with(&said), "{shown}: {said}");
    }
    // Of one of which the first packet was captured, to an identifier that was not.
    let mut capture = Capture::begun();
    let said = capture.client_to(b"unknown!", 0, &[1]);
    let why = " [not decrypted: its connection ID is not known]";
    assert!(said.ends_with(&format!(": QUIC 1-RTT{why}")), "{said}");
    capture.expect_request(0, "/x");
}
