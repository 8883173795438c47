//! Whatever comes, memory is bounded, and what is forgotten is told.

use super::{Capture, OUT, crypto, initial, request, short, stream};
use crate::corpus::quic_bodies::{ENDS, FIRST_ID, IDS, Keys, SHORT, hello, long_head};
use exos_dump::limits::{HELD_BYTES_MAX, QUIC_EARLY_HELD_MAX};
use exos_testing::heap;

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
