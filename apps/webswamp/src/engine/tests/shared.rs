//! Connections that slots share.

use exos_http2::frame::setting;
use exos_http2::frame::{self, FrameHead, PREFACE, flag, kind};

use super::*;
use crate::request::Version;
use crate::statistics::Handshake;

/// `:status: 200`.
const HEAD: &[u8] = &[0x88];

pub(super) fn http2(slots: u32, streams: u32, requests_per_connection: u32) -> Behaviour {
    Behaviour {
        streams: Some(streams),
        ..behaviour(slots, requests_per_connection)
    }
}

impl World {
    pub(super) fn shared(behaviour: Behaviour, shape: Shape) -> Self {
        let content = Content {
            version: Version::Http2,
            ..Content::get(&"http://h/".parse().unwrap())
        };
        let driver = Box::new(One::new(Request::new(&content), Duration::ZERO));
        let now = Instant::from_millis(1000);
        let engine = Engine::new(behaviour, shape, driver, now, now);
        let wire = Wire::default();
        Self { engine, wire, now }
    }

    /// At a thousand requests a second, this many in all, on one connection.
    fn shared_at_a_rate(streams: u32, requests: u64) -> Self {
        let phase = Phase {
            time: Duration::from_secs(10),
            from: 1000.0,
            to: 1000.0,
        };
        let start = Instant::from_millis(1000);
        let schedule = Schedule::new(vec![phase], Arrivals::Even, 1, start);
        let behaviour = Behaviour {
            requests,
            ..http2(1, streams, u32::MAX)
        };
        Self::shared(behaviour, Shape::Open(schedule))
    }

    /// Streams that requests were sent on, and other frames, since the last question.
    fn frames(&mut self, id: usize) -> Vec<(u8, u32)> {
        let bytes = std::mem::take(&mut self.wire.sent[id]);
        let mut rest = bytes.strip_prefix(&PREFACE[..]).unwrap_or(&bytes);
        let mut frames = Vec::new();
        while let Some(head) = FrameHead::parse(rest) {
            frames.push((head.kind, head.stream));
            rest = &rest[9 + head.len..];
        }
        frames
    }

    fn asked(&mut self, id: usize) -> Vec<u32> {
        let frames = self.frames(id).into_iter();
        let heads = frames.filter(|(kind, _)| *kind == kind::HEADERS);
        heads.map(|(_, stream)| stream).collect()
    }

    fn come(&mut self, id: usize, bytes: &[u8]) -> &mut Self {
        self.come_and(id, bytes, DATA)
    }

    fn come_and(&mut self, id: usize, bytes: &[u8], set: EventSet) -> &mut Self {
        self.wire.received[id].extend(bytes);
        self.event(id, set)
    }
}

fn settings(values: &[(u16, u32)]) -> Vec<u8> {
    let mut out = Vec::new();
    frame::push_settings(&mut out, values);
    out
}

fn answer(stream: u32) -> Vec<u8> {
    let mut out = Vec::new();
    frame::push_headers(&mut out, stream, &[HEAD], false, 16_384);
    frame::push(&mut out, kind::DATA, flag::END_STREAM, stream, b"hello");
    out
}

fn goaway(last: u32, code: u32) -> Vec<u8> {
    let mut out = Vec::new();
    frame::push_go_away(&mut out, last, exos_http2::ErrorCode(code), b"");
    out
}

/// One request until the server's settings are known, then as many as are to be and it allows.
#[test]
fn streams_are_as_many_as_both_allow() {
    for (limit, count) in [(None, 4), (Some(3), 3), (Some(100), 4)] {
        let mut world = World::shared(http2(1, 4, u32::MAX), Shape::Closed);
        world.turn();
        assert_eq!(world.did(), [(0, Open)]);
        world.connect(0);
        assert_eq!(world.asked(0), [1]);
        let limit = limit.map(|limit| (setting::MAX_CONCURRENT_STREAMS, limit));
        world.come(0, &settings(limit.as_slice()));
        let rest: Vec<u32> = (1..count).map(|nth| 2 * nth + 1).collect();
        assert_eq!(world.asked(0), rest);
        assert_eq!(world.engine.requests_under_way(), 4, "one may wait");
        // Answers come in any order, and each makes room for another.
        let both = [answer(2 * count - 1), answer(1)].concat();
        world.come(0, &both);
        assert_eq!(world.asked(0), [2 * count + 1, 2 * count + 3]);
        assert_eq!((world.responses(), world.errors()), (2, vec![]));
        let statistics = &world.engine.statistics;
        assert_eq!((statistics.content, statistics.connections), (10, 1));
        assert_eq!(statistics.bytes, 2 * (9 + 1 + 9 + 5));
        let told = statistics.http2.as_ref().unwrap().streams_allowed;
        assert_eq!(told, (count < 4).then_some(count));
    }
}

/// After as many requests as a connection is for, it ends when they are answered, and others go on on a new one.
#[test]
fn connections_are_used_as_often_as_they_may_be() {
    let mut world = World::shared(http2(1, 2, 3), Shape::Closed);
    world.turn().connect(0).come(0, &settings(&[]));
    assert_eq!(world.asked(0), [1, 3]);
    world.come(0, &answer(3));
    // The third is asked, and the fourth will not be here.
    assert_eq!(world.asked(0), [5]);
    world.did();
    world.come(0, &answer(1));
    assert_eq!(world.did(), [(1, Open)]);
    world.connect(1);
    assert_eq!(world.asked(1), [1]);
    world.did();
    world.come(0, &answer(5));
    assert_eq!(world.frames(0), [(kind::GOAWAY, 0)]);
    assert_eq!(world.did().last(), Some(&(0, Leave)));
    // Its last events concern nobody.
    world.event(0, EventSet::CLOSED);
    world.come(1, &settings(&[])).come(1, &answer(1));
    assert_eq!((world.responses(), world.errors()), (4, vec![]));
    assert_eq!(world.engine.connections(), 1);
}

#[test]
fn requests_end_when_there_are_enough() {
    let behaviour = Behaviour {
        requests: 5,
        ..http2(2, 2, u32::MAX)
    };
    let mut world = World::shared(behaviour, Shape::Closed);
    world.turn().connect(0).connect(1);
    world.come(0, &settings(&[])).come(1, &settings(&[]));
    world.come(0, &[answer(1), answer(3)].concat());
    world.come(1, &[answer(1), answer(3)].concat());
    assert!(!world.engine.is_over());
    world.come(0, &answer(5));
    assert!(world.engine.is_over());
    assert_eq!((world.responses(), world.engine.connections()), (5, 2));
    assert!(world.engine.abort(world.now, 10, &mut world.wire));
    assert_eq!(world.errors(), []);
}

/// A server that goes away answers what it has begun; what it has not is asked on another connection. From one that does nothing at
/// all that is taken once.
#[test]
fn a_server_goes_away() {
    let mut world = World::shared(http2(1, 3, u32::MAX), Shape::Closed);
    world.turn().connect(0).come(0, &settings(&[]));
    world.did();
    world.come(0, &[goaway(1, 0), answer(1)].concat());
    assert_eq!(world.did()[0], (1, Open));
    assert_eq!((world.responses(), world.errors()), (1, vec![]));
    let told = |world: &World| world.engine.statistics.http2.clone().unwrap();
    for id in 1..3 {
        world.connect(id).come(id, &settings(&[]));
        assert_eq!(world.asked(id).len(), 3);
        assert_eq!(told(&world).asked_again, [2, 4][id - 1]);
        if id == 1 {
            world.come(1, &[goaway(1, 0), answer(1)].concat());
        }
    }
    world.come(2, &goaway(0, 11));
    assert_eq!(world.errors(), []);
    assert_eq!(
        told(&world).goaways,
        [("no_error", 2), ("enhance_your_calm", 1)]
            .map(|(w, n)| (w.to_owned(), n))
            .into()
    );
    world.connect(3).come(3, &settings(&[]));
    assert_eq!(world.asked(3).len(), 3);
    world.come(3, &goaway(0, 11));
    assert_eq!(world.errors(), [(ErrorKind::GoAway, 3)]);
    assert_eq!(told(&world).asked_again, 7);
    world.pass(0).connect(4).come(4, &settings(&[]));
    assert_eq!((world.asked(4).len(), world.engine.connections()), (3, 1));
}

/// A request that is too late, or whose stream is reset, is none of the others'.
#[test]
fn streams_fail_alone() {
    let mut world = World::shared(http2(1, 2, u32::MAX), Shape::Closed);
    world.turn().connect(0).come(0, &settings(&[]));
    assert_eq!(world.asked(0), [1, 3]);
    let mut reset = Vec::new();
    frame::push_reset(&mut reset, 3, exos_http2::ErrorCode::REFUSED_STREAM);
    world.come(0, &reset);
    assert_eq!(world.errors(), [(ErrorKind::StreamReset, 1)]);
    let seen = world.engine.statistics.http2.clone().unwrap();
    assert_eq!(seen.resets["refused_stream"], 1);
    assert_eq!(world.asked(0), [5]);
    world.pass(9_000).come(0, &answer(5));
    world.pass(1_000);
    assert_eq!(
        world.errors(),
        [(ErrorKind::StreamReset, 1), (ErrorKind::Timeout, 1)]
    );
    assert_eq!(
        world.frames(0),
        [
            (kind::HEADERS, 7),
            (kind::RST_STREAM, 1),
            (kind::HEADERS, 9)
        ]
    );
    world.come(0, &[answer(1), answer(7), answer(9)].concat());
    assert_eq!((world.responses(), world.engine.connections()), (3, 1));
}

/// Each way in which a connection can fail is counted for every request on it, and the clients go on on another.
#[test]
fn connections_fail() {
    const CLOSED: EventSet = EventSet::CLOSED;
    type Scene = fn(&mut World) -> &mut World;
    let table: [(ErrorKind, u64, Scene); 8] = [
        (ErrorKind::Refused, 2, |w| {
            w.event_for(0, CLOSED, Reason::Refused)
        }),
        (ErrorKind::Unreachable, 2, |w| {
            w.event_for(0, CLOSED, Reason::Unreachable)
        }),
        (ErrorKind::ConnectTimeout, 2, |w| {
            w.event_for(0, CLOSED, Reason::TimedOut)
        }),
        (ErrorKind::Reset, 2, |w| {
            w.connect(0)
                .come(0, &settings(&[]))
                .event_for(0, CLOSED, Reason::Reset)
        }),
        (ErrorKind::Closed, 2, |w| {
            w.connect(0).come(0, &settings(&[])).event(0, END)
        }),
        (ErrorKind::Closed, 1, |w| w.connect(0).event(0, END)),
        (ErrorKind::Malformed, 1, |w| {
            w.connect(0).come(0, b"HTTP/1.1 400 \r\n\r\n")
        }),
        (ErrorKind::GoAway, 2, |w| {
            w.connect(0)
                .come(0, &settings(&[]))
                .come_and(0, &goaway(3, 1), DATA.with(END))
        }),
    ];
    for (kind, count, scene) in table {
        let mut world = World::shared(http2(1, 2, u32::MAX), Shape::Closed);
        world.turn();
        scene(&mut world);
        assert_eq!(world.errors(), [(kind, count)]);
        world.pass(10).connect(1).come(1, &settings(&[]));
        world.come(1, &answer(1));
        assert_eq!(
            (world.responses(), world.errors()),
            (1, vec![(kind, count)]),
            "{kind:?}"
        );
        assert_eq!(world.engine.connections(), 1, "{kind:?}");
    }
}

/// A connection that does not come to stand, and one on which nothing comes, are given up.
#[test]
fn silence() {
    let mut world = World::shared(http2(1, 2, u32::MAX), Shape::Closed);
    world.turn().pass(10_000);
    let both = [(ErrorKind::ConnectTimeout, 2)];
    assert_eq!(world.errors(), both);
    assert_eq!(world.did(), [(0, Open), (0, Abort)]);
    world.pass(10);
    assert_eq!(world.did(), [(1, Open)]);
    let mut world = World::shared(http2(1, 2, u32::MAX), Shape::Closed);
    world.turn().connect(0).come(0, &settings(&[]));
    world.pass(10_000);
    assert_eq!(world.errors(), [(ErrorKind::Timeout, 2)]);
    assert!(world.did().contains(&(0, Abort)));
    assert_eq!(world.engine.connections(), 1);
}

/// Requests for which time runs out one after the other, while no connection stands, open one in the time of a request.
#[test]
fn a_server_that_is_down_is_left_in_peace() {
    let mut world = World::shared_at_a_rate(50, 50);
    while world.engine.requests_under_way() < 50 {
        world.pass(1);
    }
    world.pass(9_900);
    while world.engine.requests_under_way() > 0 {
        world.pass(1);
    }
    assert_eq!(world.errors(), [(ErrorKind::ConnectTimeout, 50)]);
    let all = [(0, Open), (0, Abort), (1, Open), (1, Abort)];
    assert_eq!(world.did(), all);
}

/// A server that pings, and answers nothing, is silent all the same.
#[test]
fn pings_end_no_silence() {
    let mut world = World::shared(http2(1, 1, u32::MAX), Shape::Closed);
    world.turn().connect(0).come(0, &settings(&[]));
    let mut ping = Vec::new();
    frame::push_ping(&mut ping, false, *b"12345678");
    for _ in 0..3 {
        world.pass(1000).come(0, &ping);
    }
    world.pass(1000).come(0, &answer(1));
    let silence = world.engine.statistics.silence;
    assert_eq!((silence.secs, silence.requests), (4.0, 1));
}

/// A server that leaves in good order says so twice, and is one connection.
#[test]
fn a_goodbye_in_two_steps_is_one() {
    let mut world = World::shared(http2(1, 2, u32::MAX), Shape::Closed);
    world.turn().connect(0).come(0, &settings(&[]));
    let last = (1 << 31) - 1;
    world.come(0, &goaway(last, 0)).come(0, &goaway(1, 0));
    let seen = world.engine.statistics.http2.clone().unwrap();
    assert_eq!(seen.goaways, [("no_error".to_owned(), 1)].into());
    assert_eq!(seen.asked_again, 1);
}

/// Of requests on a connection on which nothing comes, each has its time.
#[test]
fn silence_takes_no_time_from_others() {
    let mut world = World::shared_at_a_rate(3, 4);
    while world.engine.requests_under_way() == 0 {
        world.pass(1);
    }
    world.connect(0).come(0, &settings(&[]));
    world.come(0, &answer(1));
    while world.engine.requests_under_way() < 3 {
        world.pass(1);
    }
    world.did();
    world.pass(9_997);
    for late in 1..=3 {
        assert_eq!(world.engine.connections(), 1, "{late}");
        assert!(!world.did().contains(&(0, Abort)), "{late}");
        world.pass(1);
        assert_eq!(world.errors(), [(ErrorKind::Timeout, late)]);
    }
    assert_eq!(world.did().last(), Some(&(0, Abort)));
    assert_eq!((world.responses(), world.engine.connections()), (1, 0));
}

/// Who finds no port tries again after a rest, and does not spin.
#[test]
fn no_room_for_connections() {
    let mut world = World::shared(http2(1, 2, u32::MAX), Shape::Closed);
    world.wire.refusals = 2;
    world.turn().turn();
    assert_eq!(world.errors(), [(ErrorKind::NoConnection, 2)]);
    world.pass(10);
    assert_eq!(world.did(), [(0, Open)]);
    assert_eq!(world.errors(), [(ErrorKind::NoConnection, 2)]);
}

/// Requests of a rate go to one connection after another; what waits for a stream waits with its time running.
#[test]
fn a_rate_is_spread_over_connections() {
    let phase = Phase {
        time: Duration::from_secs(10),
        from: 1000.0,
        to: 1000.0,
    };
    let schedule = Schedule::new(vec![phase], Arrivals::Even, 1, Instant::from_millis(1000));
    let mut world = World::shared(http2(2, 3, u32::MAX), Shape::Open(schedule));
    world.turn();
    (0..7).for_each(|_| {
        world.pass(1);
    });
    assert_eq!(world.did(), [(0, Open), (1, Open)]);
    assert_eq!(world.engine.requests_under_way(), 6, "two wait for a slot");
    world.connect(0).come(0, &settings(&[]));
    assert_eq!(world.asked(0), [1, 3, 5]);
    world.pass(10).come(0, &[answer(1), answer(3)].concat());
    assert_eq!(world.asked(0), [7, 9]);
    assert!(world.engine.statistics.total.max() > 15_000);
    world.connect(1).come(1, &settings(&[]));
    assert_eq!(world.asked(1), [1, 3, 5]);
    assert_eq!(world.errors(), []);
}

/// A request costs no allocation when some have gone before.
#[test]
fn requests_allocate_nothing() {
    for streams in [1, 4] {
        let mut world = World::shared(http2(1, streams, u32::MAX), Shape::Closed);
        world.turn().connect(0).come(0, &settings(&[]));
        for round in 0..100 {
            let answers: Vec<u8> = world.asked(0).into_iter().flat_map(answer).collect();
            let before = heap::allocations();
            heap::counted(|| {
                world.come(0, &answers);
            });
            if round > 20 {
                assert_eq!(heap::allocations(), before, "{streams} streams, {round}");
            }
        }
        assert_eq!(
            (world.responses(), world.errors()),
            (100 * u64::from(streams), vec![])
        );
    }
}

/// Handshakes are a connection's, not a request's.
#[test]
fn connections_are_secured_first() {
    let handshake = Handshake {
        took: Duration::from_millis(3),
        is_resumed: false,
        early: None,
        agreed: "TLSv1.3".to_owned(),
    };
    let mut world = World::shared(http2(1, 2, u32::MAX), Shape::Closed);
    world.wire.is_secured = true;
    world.turn().connect(0);
    assert_eq!(world.did(), [(0, Open)]);
    let token = world.wire.tokens[0];
    assert!(world.engine.awaits_handshake(token));
    world
        .engine
        .handle_handshake(world.now, token, Ok(&handshake), &mut world.wire);
    world.come(0, &settings(&[]));
    assert_eq!(world.asked(0), [1, 3]);
    assert_eq!(world.engine.statistics.handshakes.kinds.handshakes_full, 1);
    let mut world = World::shared(http2(1, 2, u32::MAX), Shape::Closed);
    world.wire.is_secured = true;
    world.turn().connect(0);
    let token = world.wire.tokens[0];
    let failed = Err("no_application_protocol");
    world
        .engine
        .handle_handshake(world.now, token, failed, &mut world.wire);
    assert_eq!(world.errors(), [(ErrorKind::Handshake, 2)]);
    assert_eq!(
        world.engine.statistics.handshakes.kinds.handshakes_failed["no_application_protocol"],
        1
    );
    assert_eq!(world.did(), [(0, Open), (0, Abort)]);
}

/// Two requests that change nothing, and then one that does.
struct Changing {
    requests: [Request; 2],
    asked: usize,
}

impl Driver for Changing {
    fn requests(&self) -> &[Request] {
        &self.requests
    }

    fn next(&mut self, _client: u32) -> Option<Task> {
        self.asked += 1;
        Some(Task {
            request: u32::from(self.asked == 3),
            think: Duration::ZERO,
        })
    }
}

/// What comes to a connection that is early waits for its handshake, if it changes something (RFC 8470 §3).
#[test]
fn what_is_unsafe_does_not_go_early() {
    let get = Content {
        version: Version::Http2,
        ..Content::get(&"http://h/".parse().unwrap())
    };
    let post = Content {
        method: "POST".to_owned(),
        version: Version::Http2,
        ..Content::get(&"http://h/".parse().unwrap())
    };
    let driver = Box::new(Changing {
        requests: [Request::new(&get), Request::new(&post)],
        asked: 0,
    });
    let mut world = World::shared(http2(1, 2, u32::MAX), Shape::Closed);
    world.engine = Engine::new(
        http2(1, 2, u32::MAX),
        Shape::Closed,
        driver,
        world.now,
        world.now,
    );
    world.wire.is_secured = true;
    world.turn().connect(0);
    let token = world.wire.tokens[0];
    world.engine.handle_early(world.now, token, &mut world.wire);
    assert_eq!(world.asked(0), [1]);
    world.come(0, &settings(&[]));
    assert_eq!(world.asked(0), [3]);
    world.come(0, &answer(1));
    assert_eq!((world.responses(), world.asked(0)), (1, vec![]));
    let handshake = Handshake {
        took: Duration::from_millis(3),
        is_resumed: true,
        early: Some(true),
        agreed: "TLSv1.3".to_owned(),
    };
    world
        .engine
        .handle_handshake(world.now, token, Ok(&handshake), &mut world.wire);
    assert_eq!(world.asked(0), [5]);
}

/// A load that is given up resets what is under way.
#[test]
fn a_load_is_given_up() {
    let mut world = World::shared(http2(3, 2, u32::MAX), Shape::Closed);
    world.turn().connect(0).come(0, &settings(&[]));
    assert!(world.engine.is_opening());
    world.did();
    while !world.engine.abort(world.now, 1, &mut world.wire) {}
    let aborts = world.did().into_iter().filter(|(_, did)| *did == Abort);
    assert_eq!(aborts.count(), 3);
    assert_eq!(world.errors(), [(ErrorKind::Unfinished, 6)]);
}
