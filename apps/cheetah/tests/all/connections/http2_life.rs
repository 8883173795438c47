//! Connections of HTTP/2 in virtual time: what they wait for has an end, and clients that take nothing keep nothing.

use std::time::Duration;

use exos_http2::ErrorCode;
use exos_http2::frame::{self, FrameHead, flag, kind, payload};
use exos_http2::hpack::encoder::block;

use crate::common::frames::{framed, request, window};
use crate::common::visit::{Visit, big};
use crate::common::{arrival, path};
use exos_cheetah::Site;
use exos_cheetah::limits::REQUESTS_AT_ONCE;
use exos_cheetah::site::Change;
use exos_inet::Instant;

const LEN: usize = 3_000_000;

pub(super) fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// How a client begins whose streams may be sent this much.
pub(super) fn begin(stream_window: u32) -> Vec<u8> {
    let mut bytes = frame::PREFACE.to_vec();
    frame::push_settings(
        &mut bytes,
        &[(frame::setting::INITIAL_WINDOW_SIZE, stream_window)],
    );
    bytes.extend(window(0, 1 << 30));
    bytes
}

/// A client that has begun and asked for the long document.
fn asked(stream_window: u32) -> Visit {
    let mut visit = Visit::new(big(LEN), |_| {});
    let bytes = [begin(stream_window), request(1, "GET", "/big", &[], true)].concat();
    visit.ask("10.0.0.1", &bytes);
    visit
}

pub(super) fn counter(visit: &Visit, name: &str) -> u64 {
    let counters = visit.cheetah.counters();
    let found = counters.iter().find(|(counter, _)| *counter == name);
    found.expect("a counter of that name").1
}

/// The frames that have come to the first connection.
pub(super) fn frames(visit: &Visit) -> Vec<(FrameHead, Vec<u8>)> {
    let (mut rest, mut frames) = (&visit.connections[0].received[..], Vec::new());
    while let Some(head) = FrameHead::parse(rest)
        && let Some(bytes) = rest.get(9..9 + head.len)
    {
        frames.push((head, bytes.to_vec()));
        rest = &rest[9 + head.len..];
    }
    frames
}

pub(super) fn data_len(visit: &Visit) -> usize {
    let data = frames(visit)
        .into_iter()
        .filter(|(head, _)| head.kind == kind::DATA);
    data.map(|(_, bytes)| bytes.len()).sum()
}

/// The code of the last farewell.
fn gone(visit: &Visit) -> Option<ErrorCode> {
    let all = frames(visit).into_iter().rev();
    let mut farewells = all.filter(|(head, _)| head.kind == kind::GOAWAY);
    let (_, bytes) = farewells.next()?;
    Some(payload::go_away(&bytes).expect("whole").1)
}

#[test]
fn a_long_document_arrives() {
    let mut visit = asked(1 << 30);
    visit.run(secs(5), LEN);
    assert_eq!(data_len(&visit), LEN);
    assert_eq!(
        (
            counter(&visit, "http2_connections"),
            counter(&visit, "http2_streams")
        ),
        (1, 1)
    );
    // The connection stays, until nothing was asked for long.
    visit.run(secs(60), LEN);
    assert!(visit.connections[0].over.is_none());
    visit.run(secs(60), LEN);
    assert_eq!(
        (gone(&visit), visit.cheetah.connections()),
        (Some(ErrorCode::NO_ERROR), 0)
    );
    assert_eq!(counter(&visit, "http_idle_timeouts"), 1);
}

/// A window that stays closed is a client that takes nothing, however it pings meanwhile.
#[test]
fn a_closed_window_has_an_end() {
    let mut visit = asked(0);
    for _ in 0..7 {
        visit.run(secs(10), LEN);
        visit.say(0, &framed(kind::PING, 0, 0, &[0; 8]));
    }
    assert_eq!(data_len(&visit), 0);
    visit.run(secs(1), LEN);
    assert_eq!(
        (
            counter(&visit, "http_send_timeouts"),
            visit.cheetah.connections()
        ),
        (1, 0)
    );
}

/// A byte now and then is nothing.
#[test]
fn a_window_that_drips_has_an_end() {
    let mut visit = asked(0);
    for _ in 0..8 {
        visit.run(secs(10), LEN);
        visit.say(0, &window(1, 1));
    }
    assert!(data_len(&visit) < 10);
    assert_eq!(counter(&visit, "http_send_timeouts"), 1);
    assert_eq!(visit.cheetah.connections(), 0);
}

/// Nor does the beginning of a frame behind another that brings nothing prolong the wait for a request.
#[test]
fn pings_and_parts_of_frames_prolong_nothing() {
    let mut visit = asked(1 << 30);
    visit.run(secs(2), LEN);
    let ping = framed(kind::PING, 0, 0, &[0; 8]);
    visit.say(0, &ping[..5]);
    for _ in 0..12 {
        visit.run(secs(10), LEN);
        visit.say(0, &[&ping[5..], &ping[..5]].concat());
    }
    assert!(gone(&visit).is_some());
}

/// One that opens its window a bit is a slow reader, whose document waits as slices.
#[test]
fn a_window_that_opens_slowly_goes_on() {
    let mut visit = asked(2000);
    for n in 1..6 {
        visit.run(secs(30), LEN);
        assert_eq!(data_len(&visit), 2000 * n);
        visit.say(0, &window(1, 2000));
    }
    assert_eq!(visit.cheetah.connections(), 1);
}

#[test]
fn a_frame_that_does_not_end_has_an_end() {
    let mut visit = asked(1 << 30);
    visit.run(secs(5), LEN);
    let whole = request(3, "GET", "/big", &[], true);
    visit.say(0, &whole[..whole.len() - 1]);
    visit.run(secs(25), LEN);
    assert_eq!(counter(&visit, "http_request_timeouts"), 1);
    assert_eq!(gone(&visit), Some(ErrorCode::NO_ERROR));
    visit.run(secs(35), LEN);
    assert_eq!(visit.cheetah.connections(), 0, "it does not finish");
}

/// Half a preface is half a request.
#[test]
fn half_a_preface_has_an_end() {
    let mut visit = Visit::new(big(10), |_| {});
    visit.ask("10.0.0.1", &frame::PREFACE[..10]);
    visit.run(secs(25), LEN);
    assert_eq!(counter(&visit, "http_request_timeouts"), 1);
    assert!(visit.connections[0].received.starts_with(b"HTTP/1.1 408"));
}

/// A site of which these have not been read.
pub(super) fn listed(mut site: Site, names: &[&str]) -> Site {
    for name in names {
        let about = exos_cheetah::site::path::About {
            len: 5,
            modified_secs: 0,
        };
        site.apply(Change::Listed(path(name), about));
    }
    site
}

/// A request that waits begins also where others behind it do not.
#[test]
fn a_request_before_a_long_document_begins() {
    let mut visit = Visit::new(listed(big(LEN), &["/later.txt"]), |_| {});
    let bytes = [
        begin(1 << 30),
        request(1, "GET", "/later.txt", &[], true),
        request(3, "GET", "/big", &[], true),
    ];
    visit.ask("10.0.0.1", &bytes.concat());
    visit.run(secs(5), LEN);
    assert_eq!((data_len(&visit), visit.cheetah.waiting()), (LEN, 1));
    visit.change(arrival("/later.txt", "later"));
    visit.run(secs(1), LEN);
    assert_eq!(data_len(&visit), LEN + 5);
}

/// Streams that wait for a document that is not in memory are answered when it comes, and others go on meanwhile.
#[test]
fn streams_wait_for_documents() {
    let mut site = listed(Site::new(), &["/later.txt", "/never.txt"]);
    site.apply(arrival("/now.txt", "now"));
    let mut visit = Visit::new(site, |_| {});
    let asked = ["/later.txt", "/never.txt", "/now.txt"];
    let mut bytes = begin(1 << 20);
    for (n, name) in asked.into_iter().enumerate() {
        bytes.extend(request(2 * n as u32 + 1, "GET", name, &[], true));
    }
    visit.ask("10.0.0.1", &bytes);
    visit.run(secs(1), LEN);
    assert_eq!(data_len(&visit), 3, "what is there is answered");
    assert_eq!(visit.cheetah.waiting(), 2);
    visit.change(arrival("/later.txt", "later"));
    visit.run(secs(1), LEN);
    assert_eq!(data_len(&visit), 8);
    visit.run(secs(40), LEN);
    assert_eq!(counter(&visit, "http_fetch_timeouts"), 1);
    let unavailable = frames(&visit)
        .into_iter()
        .filter(|(head, _)| head.stream == 3);
    assert!(unavailable.count() >= 2, "503 and its page");
    // Its client goes away while one waits: nothing is left of that.
    visit.say(0, &request(7, "GET", "/never.txt", &[], true));
    visit.run(secs(1), LEN);
    visit.give_up(0);
    visit.run(secs(1), LEN);
    visit.change(arrival("/never.txt", "never"));
    visit.run(secs(1), LEN);
    assert_eq!(visit.cheetah.connections(), 0);
}

/// A stop is over in a second where a client does not say that it has heard of it, and nothing is under way.
#[test]
fn a_stop_does_not_wait_for_long() {
    let mut visit = asked(1 << 30);
    visit.run(secs(5), LEN);
    visit.stop();
    assert!(visit.cheetah.is_busy());
    visit.run(Duration::from_millis(1500), LEN);
    assert!(!visit.cheetah.is_busy());
    assert_eq!(gone(&visit), Some(ErrorCode::NO_ERROR));
}

/// Requests of a crowd.
const CROWD: usize = 700;

/// No turn of the server answers more than some hundreds of one connection's requests, however many have come; all are answered, in as many
/// turns as that takes, also where their client has closed and nothing more comes.
fn takes_turns(
    crowd: &[u8],
    answered: impl Fn(&Visit) -> usize,
    received: impl Fn(&Visit) -> usize,
) {
    for closes in [false, true] {
        let mut visit = Visit::new(big(10), |_| {});
        visit.ask("10.0.0.1", crowd);
        if closes {
            visit.client.tcp.finish(visit.connections[0].id);
        }
        let mut before = 0;
        while before < CROWD {
            visit.turn();
            visit.read(LEN);
            let now = answered(&visit);
            assert!(now - before <= REQUESTS_AT_ONCE, "{before} to {now}");
            assert!(visit.now < Instant::from_millis(10_000));
            before = now;
        }
        visit.run(secs(1), LEN);
        // What comes together with the end of both is gone with the client's connection.
        assert!(closes || received(&visit) == CROWD);
        assert_eq!(visit.cheetah.connections(), usize::from(!closes));
    }
}

#[test]
fn a_crowd_of_requests_takes_turns() {
    let mut crowd = begin(1 << 20);
    // The same block each time, which names fixed entries: as short as a request may be.
    let block = block(&[(":method", "GET"), (":scheme", "http"), (":path", "/")]);
    let flags = flag::END_HEADERS | flag::END_STREAM;
    for n in 0..CROWD as u32 {
        crowd.extend(framed(kind::HEADERS, flags, 2 * n + 1, &block));
    }
    let is_head = |(head, _): &(FrameHead, Vec<u8>)| head.kind == kind::HEADERS;
    takes_turns(
        &crowd,
        |visit| counter(visit, "http2_streams") as usize,
        |visit| frames(visit).into_iter().filter(is_head).count(),
    );
}

#[test]
fn a_crowd_of_pipelined_requests_takes_turns() {
    let crowd = b"GET /big HTTP/1.1\r\nHost: a\r\n\r\n".repeat(CROWD);
    takes_turns(
        &crowd,
        |visit| visit.cheetah.server().counters().response_count() as usize,
        |visit| {
            let received = String::from_utf8_lossy(&visit.connections[0].received).into_owned();
            received.matches("HTTP/1.1 200").count()
        },
    );
}

/// While more than a megabyte of responses is on its way to the client, what it says is read.
#[test]
fn frames_are_read_while_responses_are_under_way() {
    const LONGER: usize = 16_000_000;
    let mut visit = Visit::new(big(LONGER), |_| {});
    visit.latency = Duration::from_millis(8);
    let bytes = [begin(1 << 30), request(1, "GET", "/big", &[], true)].concat();
    visit.ask_within("10.0.0.1", &bytes, 8 << 20);
    let under_way = |visit: &Visit| {
        let id = visit.server.tcp.connections_where(|_| true).pop();
        let connection = id.and_then(|id| visit.server.tcp.connection(id));
        connection.map_or(0, |it| it.unacknowledged().saturating_sub(it.unsent()))
    };
    while under_way(&visit) < 3 << 19 {
        visit.turn();
        assert!(visit.now < Instant::from_millis(10_000));
    }
    visit.say(0, &framed(kind::RST_STREAM, 0, 1, &[0, 0, 0, 8]));
    let mut before = 0;
    while counter(&visit, "http2_streams_given_up") == 0 {
        before = under_way(&visit);
        assert!(before > 0, "it is heard of before all has arrived");
        visit.turn();
    }
    assert!(before > 1 << 20, "{before} bytes are under way");
}
