//! Streams of HTTP/2 beside each other, in virtual time: none waits for another without end, and all together hold little.

use exos_cheetah::connections::Bounds;
use exos_cheetah::limits::CHUNK_LEN;
use exos_cheetah::site::Limits;
use exos_cheetah::stream::disk::Disk;
use exos_http2::frame::{flag, kind};

use super::http2_life::{begin, counter, data_len, frames, listed, secs};
use crate::common::frames::{framed, request, window};
use crate::common::visit::{Visit, big};
use crate::common::{arrival, folder::Folder, long};

/// A site with two documents: a long one, and three bytes.
fn visit() -> Visit {
    let mut site = big(1_000_000);
    site.apply(arrival("/now.txt", "now"));
    Visit::new(site, |_| {})
}

/// The kinds and flags of the frames of a stream.
fn of_stream(visit: &Visit, stream: u32) -> Vec<(u8, bool)> {
    let all = frames(visit).into_iter();
    let of_it = all.filter(|(head, _)| head.stream == stream);
    of_it
        .map(|(head, _)| (head.kind, head.has(flag::END_STREAM)))
        .collect()
}

const WHOLE: [(u8, bool); 2] = [(kind::HEADERS, false), (kind::DATA, true)];

/// An answer that waits for a body has its time, whatever else is asked meanwhile.
#[test]
fn a_held_answer_has_an_end_on_a_busy_connection() {
    let mut visit = visit();
    let held = [begin(1 << 20), request(1, "GET", "/now.txt", &[], false)];
    visit.ask("10.0.0.1", &held.concat());
    for n in 1..=5 {
        visit.run(secs(10), 1000);
        visit.say(0, &request(2 * n + 1, "GET", "/now.txt", &[], true));
    }
    visit.run(secs(5), 1000);
    assert_eq!(of_stream(&visit, 11), WHOLE);
    assert_eq!(of_stream(&visit, 1), []);
    visit.run(secs(6), 1000);
    assert_eq!(of_stream(&visit, 1), WHOLE);
    assert_eq!(counter(&visit, "http_body_timeouts"), 1);
}

/// Nor does a response hold it up that its client does not take.
#[test]
fn a_held_answer_has_an_end_beside_one_that_is_not_taken() {
    let mut visit = visit();
    let asked = [
        begin(1000),
        request(1, "GET", "/now.txt", &[], false),
        request(3, "GET", "/big", &[], true),
    ];
    visit.ask("10.0.0.1", &asked.concat());
    for _ in 0..3 {
        visit.run(secs(21), 10_000);
        visit.say(0, &window(3, 2000));
    }
    assert_eq!(of_stream(&visit, 1), WHOLE);
}

/// The requests of a peer that wait are bounded over all of its connections, and no longer counted when they are over; those that need not
/// wait are answered.
#[test]
fn waiting_requests_of_a_peer_are_bounded() {
    let mut site = listed(big(10), &["/later.txt"]);
    site.apply(arrival("/now.txt", "now"));
    let mut visit = Visit::new(site, |_| {});
    visit.cheetah.set_bounds(Bounds {
        peer_streams: Some(3),
        ..Bounds::default()
    });
    let two = [
        begin(1 << 20),
        request(1, "GET", "/later.txt", &[], true),
        request(3, "GET", "/later.txt", &[], true),
        request(5, "GET", "/now.txt", &[], true),
    ];
    for from in ["10.0.0.1", "10.0.0.1", "10.0.0.3"] {
        visit.ask(from, &two.concat());
    }
    visit.run(secs(1), 10_000);
    assert_eq!(visit.cheetah.waiting(), 5);
    assert_eq!(counter(&visit, "http2_peer_refusals"), 1);
    let (first, second) = (of_stream(&visit, 3), {
        visit.connections.swap(0, 1);
        of_stream(&visit, 3)
    });
    assert_eq!((first, second), (vec![], vec![(kind::RST_STREAM, false)]));
    assert_eq!(of_stream(&visit, 5), WHOLE);
    // One that is given up, and a connection that is, make room.
    visit.give_up(0);
    visit.say(1, &framed(kind::RST_STREAM, 0, 1, &[0, 0, 0, 8]));
    visit.run(secs(1), 10_000);
    for (n, stream) in [7, 9, 11].into_iter().enumerate() {
        visit.say(1, &request(stream, "GET", "/later.txt", &[], true));
        visit.run(secs(1), 10_000);
        let refusals = counter(&visit, "http2_peer_refusals");
        assert_eq!(refusals, if n < 2 { 1 } else { 2 });
    }
    visit.change(arrival("/later.txt", "later"));
    visit.run(secs(1), 10_000);
    visit.connections.swap(0, 1);
    for stream in [3, 7, 9] {
        assert_eq!(of_stream(&visit, stream), WHOLE);
    }
}

/// A client that is refused hears of it before it has sent all that it wants to.
#[test]
fn a_refusal_is_not_held() {
    let mut visit = visit();
    let asked = [begin(1 << 20), request(1, "POST", "/now.txt", &[], false)];
    visit.ask("10.0.0.1", &asked.concat());
    visit.run(secs(1), 10_000);
    assert_eq!(of_stream(&visit, 1), WHOLE);
}

/// A stop does not wait for bodies that nobody needs.
#[test]
fn a_stop_does_not_wait_for_bodies() {
    let mut visit = visit();
    let held = [begin(1 << 20), request(1, "GET", "/now.txt", &[], false)];
    visit.ask("10.0.0.1", &held.concat());
    visit.run(secs(1), 10_000);
    visit.stop();
    visit.run(secs(2), 10_000);
    assert_eq!(
        of_stream(&visit, 1),
        [&WHOLE[..], &[(kind::RST_STREAM, false)]].concat()
    );
    assert!(!visit.cheetah.is_busy());
}

/// A client that has closed sends no window and no body: what waits for these is over, and what does not still goes.
#[test]
fn a_client_that_has_closed_keeps_nothing() {
    let folder = long::folder();
    let mut visit = long_visit(&folder, 64);
    let asked = [
        begin(1000),
        request(1, "GET", "/short.bin", &[], true),
        request(3, "GET", "/long.bin", &[], true),
        request(5, "GET", "/index.html", &[], false),
        request(7, "GET", "/index.html", &[], true),
    ];
    visit.ask("10.0.0.1", &asked.concat());
    visit.client.tcp.finish(visit.connections[0].id);
    long::run(&mut visit, secs(2), usize::MAX);
    assert_eq!(of_stream(&visit, 7), WHOLE);
    for stream in [1, 3] {
        let last = of_stream(&visit, stream).last().copied();
        assert_eq!(last, Some((kind::RST_STREAM, false)));
    }
    assert_eq!(data_len(&visit), 2 * 1000 + 10);
    assert_eq!(visit.cheetah.connections(), 0);
    assert_eq!(visit.cheetah.streams().free(), 64);
}

/// A visit of a folder with a file that is read while it is sent, with memory for this many chunks.
fn long_visit(folder: &Folder, chunks: usize) -> Visit {
    let limits: Limits = long::limits();
    long::visit(folder.load_within(limits), Disk::here(), chunks)
}

/// The least rate is that of a client, which takes all of its streams together.
#[test]
fn a_client_that_is_fast_enough_may_have_many_streams() {
    let folder = long::folder();
    let mut visit = long_visit(&folder, 64);
    visit.cheetah.set_bounds(Bounds {
        read_rate: Some(10_000),
        ..Bounds::default()
    });
    let mut bytes = begin(1 << 30);
    for n in 0..4 {
        let fields = [("priority", "u=3, i")];
        bytes.extend(request(2 * n + 1, "GET", "/long.bin", &fields, true));
    }
    visit.ask("10.0.0.1", &bytes);
    long::run(&mut visit, secs(110), 15_000);
    assert_eq!(data_len(&visit), 4 * long::LEN);
    assert_eq!(counter(&visit, "http_slow_readers"), 0);
    let resets = frames(&visit).into_iter();
    assert_eq!(
        resets
            .filter(|(head, _)| head.kind == kind::RST_STREAM)
            .count(),
        0
    );
}

/// Header blocks have to come as fast as heads of HTTP/1.1.
#[test]
fn a_slow_header_block_has_an_end() {
    let mut visit = visit();
    visit.cheetah.set_bounds(Bounds {
        head_rate: Some(100),
        ..Bounds::default()
    });
    visit.ask("10.0.0.1", &begin(1000));
    visit.run(secs(1), 10_000);
    visit.say(0, &request(1, "GET", "/now.txt", &[], true)[..20]);
    visit.run(secs(5), 10_000);
    assert_eq!(counter(&visit, "http_slow_heads"), 0);
    visit.run(secs(1), 10_000);
    assert_eq!(counter(&visit, "http_slow_heads"), 1);
    assert_eq!(counter(&visit, "http_request_timeouts"), 0);
}

/// How many streams ask for a long file at once.
const STREAMS: u32 = 60;

/// What no window lets go is not read, and what one connection holds is bounded however many streams it has; all of them are answered.
#[test]
fn streams_share_what_a_connection_may_hold() {
    const CHUNKS: usize = 64;
    for stream_window in [0, 1] {
        let folder = long::folder();
        let len = (STREAMS as usize + 1) * CHUNK_LEN;
        folder.write("longer.bin", long::content(0, len));
        let mut visit = long_visit(&folder, CHUNKS);
        let mut bytes = begin(stream_window);
        for n in 0..STREAMS {
            // Two chunks, each elsewhere.
            let begin = n as usize * CHUNK_LEN;
            let range = format!("bytes={begin}-{}", begin + 2 * CHUNK_LEN - 1);
            let fields = [("range", &*range)];
            bytes.extend(request(2 * n + 1, "GET", "/longer.bin", &fields, true));
        }
        visit.ask("10.0.0.1", &bytes);
        long::run(&mut visit, secs(5), 1_000_000);
        let held = CHUNKS - visit.cheetah.streams().free();
        assert!(held <= 16 * stream_window as usize, "{held} chunks");
        let open: Vec<u8> = (0..STREAMS)
            .flat_map(|n| window(2 * n + 1, 1 << 20))
            .collect();
        visit.say(0, &open);
        long::run(&mut visit, secs(30), 2_000_000);
        assert_eq!(data_len(&visit), STREAMS as usize * 2 * CHUNK_LEN);
        assert_eq!(visit.cheetah.streams().free(), CHUNKS);
    }
}

/// A stream that comes last by its priority has its time when the others are whole.
#[test]
fn a_stream_that_waits_for_others_is_not_given_up() {
    let folder = long::folder();
    let mut visit = long_visit(&folder, 64);
    let urgent = request(1, "GET", "/long.bin", &[("priority", "u=1")], true);
    let other = request(3, "GET", "/long.bin", &[("priority", "u=5")], true);
    visit.ask("10.0.0.1", &[begin(1 << 30), urgent, other].concat());
    long::run(&mut visit, secs(100), 4000);
    let first: usize = frames(&visit)
        .into_iter()
        .filter(|(head, _)| head.stream == 3)
        .count();
    assert!(first > 1, "it is its turn");
    long::run(&mut visit, secs(100), 20_000);
    assert_eq!(data_len(&visit), 2 * long::LEN);
}
