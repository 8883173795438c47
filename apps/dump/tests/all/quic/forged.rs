//! Packets that others write, and what they cannot change.

use super::{Capture, EXTENSIONS, IN, OTHER, OUT, crypto, initial, request, short, stream};
use crate::corpus::quic_bodies::{ENDS, FIRST_ID, IDS, Keys, hello, log, long_head};
use exos_dump::text::{Printer, Style};

/// What anybody can write (RFC 9000 §12.4, RFC 9001 §4.9.1).
#[test]
fn initial_packets_of_others_change_nothing() {
    let keys = Keys::initial(&FIRST_ID, false);
    let forged = |number, frames: &[u8]| initial(&keys, (&IDS[1], b"evil1234"), number, frames);
    let before = hello(false).len() - 4;
    let mut other_hello = hello(false)[4..].to_vec();
    other_hello[6..38].fill(9);
    let mut moved = vec![0x18, 1, 0, 8];
    moved.extend(b"elsewher");
    moved.extend([0; 16]);
    for frames in [
        request(0, "/forged"),
        stream(0, 0, &[0; 40]),
        crypto(before, &other_hello),
        crypto(1 << 29, b"far ahead"),
        moved,
        vec![0x1d, 0, 0],
    ] {
        // Before the client has used a key, and after.
        for is_early in [true, false] {
            let mut capture = Capture::begun();
            if !is_early {
                capture.expect_request(1, "/before");
            }
            let said = capture.show((OTHER, ENDS[1]), &forged(7, &frames));
            assert!(
                said.contains("Initial") && !said.contains("HTTP/3"),
                "{said}"
            );
            assert_eq!(said.contains('{'), is_early && frames[0] == 6, "{said}");
            capture.expect_request(0, "/true");
        }
    }
}

/// An identifier is in clear in each packet that goes to it.
#[test]
fn names_of_others_are_not_taken() {
    let mut capture = Capture::begun();
    capture.expect_request(0, "/one");
    let keys = Keys::initial(b"evilevil", false);
    let theirs = initial(&keys, (b"evilevil", &IDS[1]), 0, &[1]);
    assert!(capture.show((OTHER, ENDS[1]), &theirs).contains("PING"));
    capture.expect_request(1, "/two");
}

/// To the identifier of a Retry packet that was not captured, or in another connection of a tool with a fixed identifier.
#[test]
fn a_client_that_begins_again_keeps_its_identifier() {
    for client in [ENDS[0], (ENDS[0].0, 1999)] {
        let mut capture = Capture::new();
        let keys = Keys::initial(b"retrying", false);
        let first = initial(&keys, (b"retrying", &IDS[0]), 0, &hello(false));
        capture.show((client, ENDS[1]), &first);
        capture.begin(OUT, FIRST_ID, IDS);
        capture.expect_request(0, "/x");
        let ids = [IDS[0], *b"server_2"];
        capture.begin((client, ENDS[1]), *b"another1", ids);
        let request = short(3, &ids[1], 0, &request(0, "/y"));
        let said = capture.show((client, ENDS[1]), &request);
        assert!(said.contains("GET /y"), "{said}");
    }
    // Others do not have it so.
    let mut capture = Capture::new();
    let keys = [false, true].map(|is_server| Keys::initial(&FIRST_ID, is_server));
    let hellos = [hello(false), hello(true)];
    capture.show(OUT, &initial(&keys[0], (&FIRST_ID, &IDS[0]), 0, &hellos[0]));
    let evil = Keys::initial(b"evilevil", false);
    let theirs = initial(&evil, (b"evilevil", &IDS[0]), 0, &hellos[0]);
    assert!(
        capture
            .show((OTHER, ENDS[1]), &theirs)
            .contains("ClientHello")
    );
    let said = capture.show(IN, &initial(&keys[1], (&IDS[0], &IDS[1]), 0, &hellos[1]));
    assert!(said.contains("ServerHello"), "{said}");
}

/// Numbers, acknowledgements and identifiers that are not the ends', before the server is heard.
#[test]
fn initial_packets_of_others_keep_no_answer_away() {
    let keys = [false, true].map(|is_server| Keys::initial(&FIRST_ID, is_server));
    let ack = [&[2][..], &(0xc0_u64 << 56 | 1 << 40).to_be_bytes(), &[0; 3]].concat();
    let forged = [
        vec![initial(&keys[0], (&FIRST_ID, b"evil1234"), 5, &ack)],
        // As far as two bytes lead.
        (1..6)
            .map(|nth| initial(&keys[1], (&IDS[0], b"evil1234"), 0x7000 * nth, &[1]))
            .collect(),
        (0..60_u64)
            .map(|nth| (nth as u32, (1000 + nth).to_be_bytes()))
            .map(|(nth, id)| initial(&keys[1], (&IDS[0], &id), nth, &[1]))
            .collect(),
    ];
    for packets in forged {
        let mut capture = Capture::new();
        capture.show(
            OUT,
            &initial(&keys[0], (&FIRST_ID, &IDS[0]), 0, &hello(false)),
        );
        for packet in packets {
            let said = capture.show((OTHER, ENDS[1]), &packet);
            assert!(said.contains('{'), "{said}");
        }
        let answer = initial(&keys[1], (&IDS[0], &IDS[1]), 0, &hello(true));
        let said = capture.show(IN, &answer);
        assert!(said.contains("ServerHello"), "{said}");
        capture.expect_request(0, "/x");
        let message = crypto(0, &EXTENSIONS);
        let head = long_head(0xe0, &IDS[0], &IDS[1], message.len());
        let said = capture.show(IN, &Keys::new(&[2; 32]).seal(&head, 0, &message));
        assert!(said.contains("EncryptedExtensions"), "{said}");
        capture.expect_request(1, "/y");
        assert!(capture.server(0, &[1]).contains("{PING"));
    }
}

/// A Retry packet without the tag of RFC 9001 §5.8, and a list with the version that is spoken (RFC 9000 §6.2).
#[test]
fn answers_that_a_client_drops_change_nothing() {
    let retry = [
        &[0xf0, 0, 0, 0, 1, 8][..],
        &IDS[0],
        &[8],
        b"evil1234token",
        &[0; 16],
    ]
    .concat();
    let versions = [
        &[0x80, 0, 0, 0, 0, 8][..],
        &IDS[0],
        &[8],
        &FIRST_ID,
        &[0, 0, 0, 1],
    ]
    .concat();
    for answer in [retry, versions] {
        let mut capture = Capture::new();
        let client = Keys::initial(&FIRST_ID, false);
        capture.show(
            OUT,
            &initial(&client, (&FIRST_ID, &IDS[0]), 0, &hello(false)),
        );
        capture.show(IN, &answer);
        let server = Keys::initial(&FIRST_ID, true);
        let said = capture.show(IN, &initial(&server, (&IDS[0], &IDS[1]), 0, &hello(true)));
        assert!(said.contains("ServerHello"), "{said}");
        capture.expect_request(0, "/x");
    }
}

/// Tools with fixed identifiers.
#[test]
fn a_first_identifier_that_comes_again_begins_again() {
    let mut capture = Capture::begun();
    capture.expect_request(0, "/x");
    let client = ([10, 0, 0, 1], 1000);
    capture.begin((client, ENDS[1]), FIRST_ID, [*b"client_2", *b"server_2"]);
    let said = capture.show(
        (client, ENDS[1]),
        &short(3, b"server_2", 0, &request(0, "/y")),
    );
    assert!(said.contains("GET /y"), "{said}");
    capture.expect_request(1, "/z");
}

/// Of keys that nobody has, too many packets come.
#[test]
fn packets_without_keys_end_nothing() {
    let mut capture = Capture::begun();
    capture.expect_request(0, "/x");
    let junk = [&long_head(0xd0, &IDS[0], &IDS[1], 1100)[..], &[5; 1118]].concat();
    for _ in 0..100 {
        let said = capture.show(IN, &junk);
        assert!(!said.contains('['), "{said}");
    }
    capture.expect_request(1, "/after");
    // Of a level of which the log has no secret: what others have goes on.
    let mut capture = Capture(Printer::new(Style::default()));
    let of_handshake = log().replace("CLIENT_EARLY_TRAFFIC_SECRET", "OTHER");
    capture.0.add_keys(of_handshake.as_bytes());
    capture.begin(OUT, FIRST_ID, IDS);
    let early = [&long_head(0xd0, &IDS[1], &IDS[0], 1100)[..], &[5; 1118]].concat();
    let said: String = (0..100).map(|_| capture.show(OUT, &early)).collect();
    assert_eq!(said.matches("the log has no key for it").count(), 1);
    capture.expect_request(0, "/after");
}

/// Each is tried at the lengths at which it may end: a datagram of many costs no more than one of a few.
#[test]
fn few_of_the_packets_that_others_forge_are_tried() {
    let mut capture = Capture::begun();
    capture.expect_request(0, "/x");
    let forged = |number| short(9, &IDS[1], number, &[1; 30]);
    let said = capture.show(OUT, &(0..100).flat_map(forged).collect::<Vec<u8>>());
    assert_eq!(said.matches("do not fit").count(), 4, "{said}");
    capture.expect_request(1, "/after");
}
