//! QUIC that others forge, lose, and send in another order: what a connection shows stays what its ends have said, and memory is bounded.

use exos_dump::limits::{HELD_BYTES_MAX, QUIC_EARLY_HELD_MAX};
use exos_dump::text::{Printer, Style};
use exos_testing::heap;

use crate::corpus::quic_bodies::{
    ENDS, End, FIRST_ID, IDS, Keys, SHORT, hello, log, long_head, show, show_cut,
};

/// Somebody else, who sees the connection.
const OTHER: End = ([6, 6, 6, 6], 1);
/// EncryptedExtensions with HTTP/3, and without early data.
const EXTENSIONS: [u8; 15] = *b"\x08\0\0\x0b\0\x09\0\x10\0\x05\0\x03\x02h3";
const OUT: (End, End) = (ENDS[0], ENDS[1]);
const IN: (End, End) = (ENDS[1], ENDS[0]);

fn number(number: usize) -> [u8; 4] {
    (0x8000_0000 | number as u32).to_be_bytes()
}

/// A part of a stream.
fn stream(id: usize, at: usize, data: &[u8]) -> Vec<u8> {
    let head = [&[0xe][..], &number(id), &number(at), &number(data.len())].concat();
    [&head, data].concat()
}

/// A whole request: GET, https, and this path, by QPACK's fixed table.
fn request(id: usize, path: &str) -> Vec<u8> {
    let head = [
        1,
        6 + path.len() as u8,
        0,
        0,
        0xd1,
        0xd7,
        0x51,
        path.len() as u8,
    ];
    let mut frame = stream(id, 0, &[&head[..], path.as_bytes()].concat());
    frame[0] |= 1;
    frame
}

/// A part of the handshake.
fn crypto(at: usize, data: &[u8]) -> Vec<u8> {
    [&[6][..], &number(at), &number(data.len()), data].concat()
}

/// The bit by which QUIC is told from other protocols is cleared where ends have agreed so (RFC 9287).
const FIXED: u8 = 0x40;

/// A long packet, filled up to a datagram of 1,200 bytes.
fn initial(keys: &Keys, (to, from): (&[u8], &[u8]), number: u32, frames: &[u8]) -> Vec<u8> {
    let mut frames = frames.to_vec();
    frames.resize(1200, 0);
    keys.seal(&long_head(0xc0, to, from, frames.len()), number, &frames)
}

fn short(secret: u8, to: &[u8], number: u32, frames: &[u8]) -> Vec<u8> {
    let frames = [frames, &[0; 8]].concat();
    let head = [&[SHORT | 1], to].concat();
    Keys::new(&[secret; 32]).seal(&head, number, &frames)
}

/// A connection with both hellos, and its keys.
struct Capture(Printer);

impl Capture {
    fn new() -> Capture {
        let mut printer = Printer::new(Style::default());
        printer.add_keys(log().as_bytes());
        Capture(printer)
    }

    fn begun() -> Capture {
        let mut capture = Capture::new();
        capture.begin(OUT, FIRST_ID, IDS);
        capture
    }

    fn begin(&mut self, (client, server): (End, End), first: [u8; 8], ids: [[u8; 8]; 2]) {
        let (from_client, from_server) =
            (Keys::initial(&first, false), Keys::initial(&first, true));
        let packet = initial(&from_client, (&first, &ids[0]), 0, &hello(false));
        let said = self.show((client, server), &packet);
        assert!(said.contains("ClientHello"), "{said}");
        let packet = initial(&from_server, (&ids[0], &ids[1]), 0, &hello(true));
        let said = self.show((server, client), &packet);
        assert!(said.contains("ServerHello"), "{said}");
    }

    fn show(&mut self, path: (End, End), payload: &[u8]) -> String {
        show(&mut self.0, path, payload)
    }

    /// What the client sends with its keys.
    fn client(&mut self, number: u32, frames: &[u8]) -> String {
        self.client_to(&IDS[1], number, frames)
    }

    fn client_to(&mut self, id: &[u8], number: u32, frames: &[u8]) -> String {
        self.show(OUT, &short(3, id, number, frames))
    }

    /// What the server does.
    fn server(&mut self, number: u32, frames: &[u8]) -> String {
        self.show(IN, &short(4, &IDS[0], number, frames))
    }

    fn expect_request(&mut self, number: u32, path: &str) {
        let said = self.client(number, &request(4 * number as usize, path));
        assert!(
            said.contains(&format!("HTTP/3 HEADERS GET {path}")),
            "{said}"
        );
    }
}

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

/// Early packets of connections that never begin: others that do still find theirs.
#[test]
fn early_data_that_waits_is_bounded() {
    let packets = |capture: &mut Capture, nth: usize| {
        let first = (nth as u64).to_be_bytes();
        let head = long_head(0xd0, &first, b"", 1100);
        let packet = Keys::new(&[0; 32]).seal(&head, 0, &[1; 1100]);
        assert!(capture.show(OUT, &packet).contains("has not come"));
        if nth.is_multiple_of(1000) {
            let keys = Keys::initial(&first, false);
            let said = capture.show(OUT, &initial(&keys, (&first, b""), 0, &hello(false)));
            assert!(said.contains("late from the client 0-RTT"), "{said}");
        }
    };
    let held = held(packets, 5_000);
    assert!(held < 2 * QUIC_EARLY_HELD_MAX, "{held}");
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

/// The memory that a printer has after some packets, by what the allocator gives.
fn held(mut packets: impl FnMut(&mut Capture, usize), count: usize) -> usize {
    let before = heap::held();
    let mut capture = heap::counted(Capture::new);
    for nth in 0..count {
        heap::counted(|| packets(&mut capture, nth));
    }
    let held = heap::held() - before;
    heap::counted(|| drop(capture));
    usize::try_from(held).expect("it has something")
}

/// Connections of anybody, each with a packet.
#[test]
fn a_flood_of_first_packets_is_bounded() {
    let packets = |capture: &mut Capture, nth: usize| {
        let first = (nth as u64).to_be_bytes();
        let keys = Keys::initial(&first, false);
        let packet = initial(&keys, (&first, &[&first[..], b"c"].concat()), 0, &[1]);
        assert!(capture.show(OUT, &packet).contains("PING"));
    };
    let held = held(packets, 17_000);
    assert!(held < HELD_BYTES_MAX, "{held}");
}

/// A byte at each second place, in one connection after another.
#[test]
fn parts_of_handshakes_behind_gaps_are_bounded() {
    let packets = |capture: &mut Capture, nth: usize| {
        let first = (nth as u64 / 5).to_be_bytes();
        let keys = Keys::initial(&first, false);
        let mut frames = Vec::new();
        for at in 0..100 {
            frames.extend(crypto(1 + 2 * (100 * (nth % 5) + at), b"x"));
        }
        let packet = initial(
            &keys,
            (&first, &[&first[..], b"c"].concat()),
            nth as u32,
            &frames,
        );
        assert!(capture.show(OUT, &packet).contains("CRYPTO"));
    };
    let held = held(packets, 5 * 2_000);
    assert!(held < HELD_BYTES_MAX, "{held}");
}

/// Both ends of each connection fill QPACK's table with the most entries, and some empty it: that gives no places back.
#[test]
fn tables_of_field_compression_are_bounded() {
    let size = b"\x02\x3f\xe1\xff\x03"; // The stream's type, and 65,536 bytes.
    let filled = [&size[..], &b"\x41a\0".repeat(65_536 / 33)].concat();
    let emptied = [&filled[..], b"\x20"].concat();
    for encoder in [filled, emptied] {
        let mut forgotten = 0;
        let packets = |capture: &mut Capture, nth: usize| {
            let id = |letter| [&[letter; 6][..], &(nth as u16).to_be_bytes()].concat();
            let [first, client, server] = [b'f', b'c', b's'].map(id);
            let ids = [&client, &server].map(|id| id[..].try_into().expect("8 bytes"));
            let path = ((ENDS[0].0, 10_000 + nth as u16), ENDS[1]);
            capture.begin(path, first[..].try_into().expect("8 bytes"), ids);
            for (stream_id, secret, id, path) in
                [(2, 3, &server, path), (3, 4, &client, (path.1, path.0))]
            {
                let said =
                    capture.show(path, &short(secret, id, 0, &stream(stream_id, 0, &encoder)));
                assert!(said.contains("HTTP/3 QPACK encoder"), "{said}");
            }
            forgotten = capture.0.forgotten_connections();
        };
        let held = held(packets, 500);
        assert!(held < HELD_BYTES_MAX, "{held}");
        assert!(forgotten > 0, "it is said");
    }
}

/// Packets of one byte wait for no key, and an identifier of no bytes begins nothing (RFC 9000 §7.2).
#[test]
fn what_waits_is_bounded() {
    let mut is_waiting = 0;
    let packets = |capture: &mut Capture, nth: usize| {
        let client = ([10, 0, 1, (nth / 2000) as u8], 4000);
        if nth.is_multiple_of(2000) {
            let first: &[u8] = if nth == 0 { b"" } else { &FIRST_ID };
            let keys = Keys::initial(first, false);
            let mut other = hello(false);
            other[10..42].fill(9); // The log has nothing of it.
            capture.show((client, ENDS[1]), &initial(&keys, (first, b""), 0, &other));
            let keys = Keys::initial(first, true);
            capture.show(
                (ENDS[1], client),
                &initial(&keys, (b"", b"server"), 0, &hello(true)),
            );
        }
        let len = if nth.is_multiple_of(2) { 1 } else { 30 };
        let said = capture.show((ENDS[1], client), &vec![SHORT; len]);
        is_waiting += usize::from(said.contains("no key for it yet"));
    };
    let held = held(packets, 10 * 2000);
    assert!(is_waiting > 0);
    assert!(held < 10 * 256 * 1024, "{held}");
}

/// A megabyte behind a gap in each of many streams: it costs nobody else anything.
#[test]
fn streams_behind_gaps_are_bounded() {
    let mut capture = Capture::begun();
    capture.expect_request(0, "/before");
    let (client, ids) = (([10, 0, 0, 9], 9), [*b"otherclt", *b"otherser"]);
    capture.begin((client, ENDS[1]), *b"otherfst", ids);
    let before = heap::held();
    for nth in 0..70 * 17 {
        let frames = stream(4 * (nth / 17), 1 + 60_000 * (nth % 17), &[0; 60_000]);
        let packet = short(3, &ids[1], nth as u32, &frames);
        let said = heap::counted(|| capture.show((client, ENDS[1]), &packet));
        assert!(said.contains("STREAM"), "{said}");
    }
    let held = heap::held() - before;
    assert!(held < 8 << 20, "{held}");
    capture.expect_request(1, "/after");
}

/// As many connections as are in use at once are all followed to their ends, and none is forgotten.
#[test]
fn many_connections_are_followed() {
    const COUNT: u16 = 5_000;
    let name = |letter: u8, nth: u16| {
        let [high, low] = nth.to_be_bytes();
        [letter, 0, 0, 0, 0, 0, high, low]
    };
    let mut capture = heap::counted(Capture::new);
    let before = heap::held();
    for round in 0..3 {
        for nth in 0..COUNT {
            let path = ((ENDS[0].0, 10_000 + nth), ENDS[1]);
            let ids = [name(1, nth), name(2, nth)];
            if round == 0 {
                heap::counted(|| capture.begin(path, name(0, nth), ids));
            }
            // Eight identifiers, as ends allow each other.
            let mut frames = request(4 * round as usize, "/x");
            for more in 0..4 {
                let id = name(3 + more, nth);
                frames.extend([0x18, 4 * round as u8 + more, 0, 8]);
                frames.extend(id);
                frames.extend([0; 16]);
            }
            let packet = short(3, &ids[1], round, &frames);
            let said = heap::counted(|| capture.show(path, &packet));
            assert!(said.contains("HTTP/3 HEADERS GET /x"), "{said}");
            let answer = stream(4 * round as usize, 0, b"\x01\x03\0\0\xd9");
            let packet = short(4, &ids[0], round, &answer);
            let said = heap::counted(|| capture.show((path.1, path.0), &packet));
            assert!(said.contains("HTTP/3 HEADERS 200"), "{said}");
        }
    }
    let held = usize::try_from(heap::held() - before).expect("it has something");
    assert!(held < HELD_BYTES_MAX, "{held}");
    assert_eq!(capture.0.forgotten_connections(), 0);
    println!("{} bytes each", held / usize::from(COUNT));
    heap::counted(|| drop(capture));
}

/// Beyond that it is said how many were not followed to their ends; those that have ended do not count.
#[test]
fn connections_that_are_forgotten_are_counted() {
    let mut capture = Capture::new();
    let first = |nth: usize| (nth as u64).to_be_bytes();
    let begin = |capture: &mut Capture, nth: usize| {
        let keys = Keys::initial(&first(nth), false);
        let packet = initial(
            &keys,
            (&first(nth), &[&first(nth)[..], b"c"].concat()),
            0,
            &[1],
        );
        capture.show(OUT, &packet);
    };
    capture.begin(OUT, FIRST_ID, IDS);
    capture.client(0, &[0x1d, 0, 0]);
    for nth in 0..17_000 {
        begin(&mut capture, nth);
    }
    let forgotten = capture.0.forgotten_connections();
    assert!((1..17_000).contains(&forgotten), "{forgotten}");
    let said = capture.client(1, &[1]);
    let why = "[not decrypted: forgotten, or its connection ID is not known]";
    assert!(said.contains(why), "{said}");
    let other = (([10, 0, 0, 2], 1001), ENDS[1]);
    let said = capture.show(other, &short(3, b"unknown!", 0, &[1; 40]));
    let why = "[not decrypted: begun before the capture, or forgotten]";
    assert!(said.contains(why), "{said}");
}
