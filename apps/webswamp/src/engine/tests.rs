//! The engine over connections that do as they are told, in time that a test makes pass.

mod counted;
mod many;
mod parts;
mod pipeline;
mod secure;
mod shared;

use std::time::Duration;

use exos_buf::Slice;
use exos_inet::tcp::{ConnectionId, OpenError};

use exos_inet::tcp::{EventSet, Reason};
use exos_inet::{Instant, Part};
use exos_testing::heap;

use super::slot::Slot;
use super::*;
use crate::driver::{Driver, One, Task};
use crate::expect::Expect;
use crate::limits::OPENING_MAX;
use crate::request::{Content, Request};
use crate::schedule::{Arrivals, Phase, Schedule};
use crate::statistics::ErrorKind;
use crate::transport::{NOBODY, Transport};

#[global_allocator]
static HEAP: heap::Counting = heap::Counting;

/// What the engine did with a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Did {
    Open,
    Send { is_last: bool },
    Acknowledge,
    Finish,
    Leave,
    Abort,
}

use Did::{Abort, Acknowledge, Finish, Leave, Open, Send};

/// Connections that are there only in name.
#[derive(Default)]
struct Wire {
    tokens: Vec<u64>,
    received: Vec<Vec<u8>>,
    sent: Vec<Vec<u8>>,
    /// Bytes of each that are to come and are only counted.
    skipping: Vec<u32>,
    did: Vec<(usize, Did)>,
    refusals: u32,
    /// Connections are to be secured first.
    is_secured: bool,
}

impl Transport for Wire {
    fn open(&mut self, token: u64) -> Result<ConnectionId, OpenError> {
        if self.refusals > 0 {
            self.refusals -= 1;
            return Err(OpenError::NoPort);
        }
        self.tokens.push(token);
        self.received.push(Vec::new());
        self.sent.push(Vec::new());
        self.skipping.push(0);
        self.did.push((self.tokens.len() - 1, Open));
        Ok(ConnectionId::from_bits(self.tokens.len() as u64 - 1))
    }

    fn send(&mut self, id: ConnectionId, bytes: &Slice) {
        // What the test notes is not the engine's.
        heap::uncounted(|| {
            self.sent[at(id)].extend(bytes.as_bytes());
            let text = String::from_utf8_lossy(bytes.as_bytes());
            let is_last = text.contains("Connection: close");
            self.did.push((at(id), Send { is_last }));
        });
    }

    fn readable(&self, id: ConnectionId) -> &[u8] {
        &self.received[at(id)]
    }

    fn consume(&mut self, id: ConnectionId, count: usize) {
        self.received[at(id)].drain(..count);
    }

    fn is_secured(&self) -> bool {
        self.is_secured
    }

    fn skip(&mut self, id: ConnectionId, count: u32) -> u32 {
        assert!(self.received[at(id)].is_empty());
        self.skipping[at(id)] += count;
        count
    }

    fn skipping(&self, id: ConnectionId) -> Option<u32> {
        Some(self.skipping[at(id)])
    }

    fn acknowledge(&mut self, id: ConnectionId) {
        self.did.push((at(id), Acknowledge));
    }

    fn finish(&mut self, id: ConnectionId) {
        self.did.push((at(id), Finish));
    }

    fn leave(&mut self, id: ConnectionId) {
        self.did.push((at(id), Leave));
        self.tokens[at(id)] = NOBODY;
    }

    fn abort(&mut self, id: ConnectionId) {
        self.did.push((at(id), Abort));
    }
}

/// Its place.
fn at(id: ConnectionId) -> usize {
    id.slot() as usize
}

struct World {
    engine: Engine,
    wire: Wire,
    now: Instant,
}

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
const END: EventSet = EventSet::FINISHED;
const DATA: EventSet = EventSet::READABLE;

fn behaviour(slots: u32, requests_per_connection: u32) -> Behaviour {
    Behaviour {
        slots,
        opening: OPENING_MAX,
        requests_per_connection,
        pipeline: 1,
        streams: None,
        is_http3: false,
        requests: u64::MAX,
        timeout: Duration::from_secs(10),
        merging: true,
        early_finish: false,
        count_only: true,
        expect: Expect::default(),
    }
}

impl World {
    fn new(behaviour: Behaviour, shape: Shape, think: Duration) -> Self {
        let request = Request::new(&Content::get(&"http://h/".parse().unwrap()));
        let driver = Box::new(One::new(request, think));
        let now = Instant::from_millis(1000);
        let engine = Engine::new(behaviour, shape, driver, now, now);
        let wire = Wire::default();
        Self { engine, wire, now }
    }

    fn closed(behaviour: Behaviour) -> Self {
        Self::new(behaviour, Shape::Closed, Duration::ZERO)
    }

    /// At a rate, for ten seconds.
    fn open(behaviour: Behaviour, rate: f64) -> Self {
        let phase = Phase {
            time: Duration::from_secs(10),
            from: rate,
            to: rate,
        };
        let start = Instant::from_millis(1000);
        let schedule = Schedule::new(vec![phase], Arrivals::Even, 1, start);
        Self::new(behaviour, Shape::Open(schedule), Duration::ZERO)
    }

    fn turn(&mut self) -> &mut Self {
        self.engine.handle_due(self.now, &mut self.wire);
        self
    }

    fn pass(&mut self, millis: u64) -> &mut Self {
        self.now += Duration::from_millis(millis);
        self.turn()
    }

    fn event(&mut self, id: usize, set: EventSet) -> &mut Self {
        self.event_for(id, set, Reason::Done)
    }

    fn event_for(&mut self, id: usize, set: EventSet, reason: Reason) -> &mut Self {
        let token = self.wire.tokens[id];
        self.engine
            .handle_event(self.now, token, set, reason, &mut self.wire);
        self.turn()
    }

    fn connect(&mut self, id: usize) -> &mut Self {
        self.event(id, EventSet::CONNECTED)
    }

    fn data(&mut self, id: usize, text: &str) -> &mut Self {
        self.data_and(id, text, DATA)
    }

    fn data_and(&mut self, id: usize, text: &str, set: EventSet) -> &mut Self {
        let skipped = text.len().min(self.wire.skipping[id] as usize);
        self.wire.skipping[id] -= skipped as u32;
        self.wire.received[id].extend(text[skipped..].bytes());
        self.event(id, set)
    }

    /// What was done since the last question.
    fn did(&mut self) -> Vec<(usize, Did)> {
        std::mem::take(&mut self.wire.did)
    }

    fn responses(&self) -> u64 {
        self.engine.statistics.responses
    }

    fn errors(&self) -> Vec<(ErrorKind, u64)> {
        self.engine.statistics.errors.list().collect()
    }
}

const BETWEEN: Did = Send { is_last: false };
const LAST: Did = Send { is_last: true };

/// A connection for each request: it is closed when the server closes it, and the next is opened then.
#[test]
fn one_request_a_connection() {
    let mut world = World::closed(behaviour(1, 1));
    world.turn();
    assert_eq!(world.did(), [(0, Open)]);
    world.connect(0);
    assert_eq!(world.did(), [(0, LAST)]);
    world.data(0, OK);
    assert_eq!((world.responses(), world.did()), (1, vec![]));
    world.event(0, END);
    assert_eq!(world.did(), [(0, Leave), (1, Open)]);
    // All at once does the same.
    world.connect(1).data_and(1, OK, DATA.with(END));
    assert_eq!(world.did(), [(1, LAST), (1, Leave), (2, Open)]);
    assert_eq!((world.responses(), world.errors()), (2, vec![]));
    // The old connections' last events concern nobody.
    world.event(0, EventSet::CLOSED).event(1, EventSet::CLOSED);
    assert_eq!((world.did(), world.errors()), (vec![], vec![]));
}

/// A server that said it would close and does not is left after a while.
#[test]
fn who_does_not_close_is_left() {
    let mut world = World::closed(behaviour(1, 1));
    world.turn().connect(0).data(0, OK);
    world.did();
    world.pass(999);
    assert_eq!(world.did(), []);
    world.pass(1);
    assert_eq!(world.did(), [(0, Leave), (1, Open)]);
    assert_eq!(world.errors(), []);
}

#[test]
fn connections_are_used_again_as_often_as_they_may_be() {
    let mut world = World::closed(behaviour(1, 3));
    world.turn().connect(0).data(0, OK).data(0, OK);
    assert_eq!(
        world.did(),
        [(0, Open), (0, BETWEEN), (0, BETWEEN), (0, LAST)]
    );
    world.data_and(0, OK, DATA.with(END)).connect(1);
    assert_eq!(world.did(), [(0, Leave), (1, Open), (1, BETWEEN)]);
    assert_eq!(world.responses(), 3);
}

/// The server may close when it wants to: in its response, behind it, or while the client thinks.
#[test]
fn servers_close_when_they_want_to() {
    let closing = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    let mut world = World::closed(behaviour(1, 100));
    world.turn().connect(0).data_and(0, closing, DATA.with(END));
    assert_eq!(world.did().last(), Some(&(1, Open)));
    world.connect(1).data_and(1, OK, DATA.with(END));
    assert_eq!(world.did(), [(1, BETWEEN), (1, Leave), (2, Open)]);
    // Without a length the end of the connection is that of the body.
    let endless = "HTTP/1.1 200 OK\r\n\r\nhel";
    world.connect(2).data(2, endless);
    assert_eq!(world.responses(), 2);
    world.data_and(2, "lo", DATA.with(END));
    assert_eq!(world.did(), [(2, BETWEEN), (2, Leave), (3, Open)]);
    assert_eq!((world.responses(), world.errors()), (3, vec![]));
    assert_eq!(world.engine.statistics.content, 10);

    let mut world = World::new(behaviour(1, 100), Shape::Closed, Duration::from_secs(1));
    world.turn().connect(0).data(0, OK);
    world.event(0, END).event(0, EventSet::CLOSED);
    assert_eq!(world.did(), [(0, Open), (0, BETWEEN), (0, Leave)]);
    world.pass(999);
    assert_eq!(world.did(), []);
    world.pass(1);
    assert_eq!((world.did(), world.errors()), (vec![(1, Open)], vec![]));
}

/// Whatever bytes a response comes in pieces of, it is the same.
#[test]
fn responses_in_pieces() {
    let whole = "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 404 No\r\nTransfer-Encoding: \
                 chunked\r\n\r\n3\r\nabc\r\n10\r\n0123456789abcdef\r\n0\r\n\r\n";
    for step in 1..=whole.len() {
        let mut world = World::closed(behaviour(1, 100));
        world.turn().connect(0);
        for piece in whole.as_bytes().chunks(step) {
            assert_eq!(world.responses(), 0);
            world.data(0, str::from_utf8(piece).unwrap());
        }
        let statuses: Vec<_> = world.engine.statistics.statuses().collect();
        assert_eq!(statuses, [(404, 1)], "{step}");
        assert_eq!(world.engine.statistics.content, 19);
        assert_eq!(world.errors(), []);
    }
}

/// Each way in which a request can fail is counted as what it is, and the client goes on.
#[test]
fn failures() {
    const CLOSED: EventSet = EventSet::CLOSED;
    type Scene = fn(&mut World) -> &mut World;
    let table: [(ErrorKind, Scene); 10] = [
        (ErrorKind::Refused, |w| {
            w.event_for(0, CLOSED, Reason::Refused)
        }),
        (ErrorKind::Unreachable, |w| {
            w.event_for(0, CLOSED, Reason::Unreachable)
        }),
        (ErrorKind::ConnectTimeout, |w| {
            w.event_for(0, CLOSED, Reason::TimedOut)
        }),
        (ErrorKind::ConnectTimeout, |w| w.pass(10_000)),
        (ErrorKind::Timeout, |w| w.connect(0).pass(10_000)),
        (ErrorKind::Timeout, |w| {
            w.connect(0).event_for(0, CLOSED, Reason::TimedOut)
        }),
        (ErrorKind::Reset, |w| {
            w.connect(0).event_for(0, CLOSED, Reason::Reset)
        }),
        (ErrorKind::Closed, |w| {
            w.connect(0).data_and(0, &OK[..40], DATA.with(END))
        }),
        (ErrorKind::Closed, |w| w.connect(0).event(0, END)),
        (ErrorKind::Malformed, |w| {
            w.connect(0).data(0, "SSH-2.0\r\n")
        }),
    ];
    for (kind, scene) in table {
        let mut world = World::closed(behaviour(1, 100));
        world.turn();
        scene(&mut world);
        assert_eq!(world.errors(), [(kind, 1)]);
        world.pass(10);
        world.connect(1).data(1, OK);
        assert_eq!(
            (world.responses(), world.errors()),
            (1, vec![(kind, 1)]),
            "{kind:?}"
        );
    }
}

#[test]
fn bytes_that_nobody_asked_for() {
    let mut world = World::new(behaviour(1, 100), Shape::Closed, Duration::from_secs(1));
    world.pass(1000).connect(0).data(0, &format!("{OK}more"));
    assert_eq!(world.errors(), [(ErrorKind::Malformed, 1)]);
    assert_eq!(world.did(), [(0, Open), (0, BETWEEN), (0, Abort)]);
    world.pass(1000);
    assert_eq!((world.did(), world.responses()), (vec![(1, Open)], 1));
    // And behind the last response of a connection.
    let mut world = World::closed(behaviour(1, 1));
    world.turn().connect(0).data(0, &format!("{OK}more"));
    assert_eq!(world.errors(), [(ErrorKind::Malformed, 1)]);
    assert_eq!(world.did(), [(0, Open), (0, LAST), (0, Abort), (1, Open)]);
}

/// Who finds no port tries again after a rest, and does not spin.
#[test]
fn no_room_for_connections() {
    let mut world = World::closed(behaviour(1, 1));
    world.wire.refusals = 2;
    world.turn().turn();
    assert_eq!(world.errors(), [(ErrorKind::NoConnection, 1)]);
    world.pass(10).pass(10);
    assert_eq!(world.errors(), [(ErrorKind::NoConnection, 2)]);
    assert_eq!(world.did(), [(0, Open)]);
}

/// Requests begin when they are meant to, and a stall of the server is in the times of all that should have begun.
#[test]
fn an_open_loop_does_not_wait_for_the_server() {
    let mut world = World::open(behaviour(1, 1000), 1000.0);
    world.turn().connect(0);
    // For 100 ms nothing comes, then everything at once.
    for _ in 0..100 {
        world.pass(1);
    }
    assert_eq!(world.did(), [(0, Open), (0, BETWEEN)]);
    for _ in 0..101 {
        world.data(0, OK);
    }
    assert_eq!(
        (world.responses(), world.engine.requests_under_way()),
        (101, 0)
    );
    let statistics = &world.engine.statistics;
    // One was slow to be served; half were late by 50 ms and more.
    assert!(statistics.service.value_at_quantile(0.98) <= 1);
    assert!(statistics.total.value_at_quantile(0.5).abs_diff(50_000) < 1100);
    assert!(statistics.total.max().abs_diff(100_000) < 200);
}

#[test]
fn an_open_loop_takes_as_many_connections_as_it_needs() {
    let mut world = World::open(behaviour(3, 100), 1000.0);
    world.turn().pass(1).pass(1).pass(1);
    assert_eq!(world.did(), [(0, Open), (1, Open), (2, Open)]);
    world.connect(1).data(1, OK);
    // The fourth, which waited, goes there at once.
    assert_eq!(world.did(), [(1, BETWEEN), (1, BETWEEN)]);
    assert_eq!(world.engine.requests_under_way(), 3);
}

/// What was under way when the load ended is waited for, and what does not end is an error.
#[test]
fn the_end() {
    let mut world = World::closed(behaviour(2, 100));
    world.turn().connect(0).connect(1);
    world.did();
    world.now += Duration::from_secs(1);
    world.engine.end(world.now);
    assert!(!world.engine.is_over());
    world.data(0, OK);
    assert_eq!((world.responses(), world.did()), (1, vec![]));
    assert!(!world.engine.is_over());
    world.pass(5000);
    assert!(world.engine.abort(world.now, usize::MAX, &mut world.wire));
    assert!(world.engine.is_over());
    assert_eq!(world.errors(), [(ErrorKind::Unfinished, 1)]);
    let mut did = world.did();
    did.sort_by_key(|(id, _)| *id);
    assert_eq!(did, [(0, Abort), (1, Abort)]);
}

/// What begins in the turn in which the load ends is counted like all before.
#[test]
fn what_begins_at_the_end_counts() {
    let mut world = World::closed(behaviour(2, 100));
    world.turn();
    world.engine.end(world.now);
    world.connect(0).data(0, OK).connect(1).data(1, OK);
    assert!(world.engine.is_over());
    assert_eq!((world.responses(), world.errors()), (2, vec![]));
}

/// A loop that is held up over the end begins what was meant to begin before it. Who stops at once has errors instead.
#[test]
fn what_was_meant_to_begin_before_the_end_is_not_forgotten() {
    for is_begun in [true, false] {
        let mut world = World::open(behaviour(100, 100), 1000.0);
        world.turn();
        world.now += Duration::from_millis(5);
        assert!(world.engine.is_behind(world.now));
        if is_begun {
            world.turn();
            assert!(!world.engine.is_behind(world.now));
        }
        world.engine.end(world.now);
        assert!(!world.engine.is_behind(world.now));
        let (under_way, errors) = match is_begun {
            true => (6, vec![]),
            false => (1, vec![(ErrorKind::NotBegun, 5)]),
        };
        assert_eq!(
            (world.engine.requests_under_way(), world.errors()),
            (under_way, errors)
        );
        world.turn();
        assert_eq!(world.engine.requests_under_way(), under_way);
    }
}

#[test]
fn so_many_requests_and_no_more() {
    let mut world = World::closed(Behaviour {
        requests: 3,
        ..behaviour(2, 100)
    });
    world.turn().connect(0).connect(1).data(0, OK).data(1, OK);
    assert!(!world.engine.is_over());
    world.data(0, OK);
    assert!(world.engine.is_over());
    assert_eq!(world.responses(), 3);
    assert_eq!(world.did().len(), 2 + 3);
}

/// Without merging each acknowledgement leaves by itself, a turn before what it could have ridden on.
/// The last connection is not reset while the server is about to close it.
#[test]
fn it_is_over_when_servers_have_closed() {
    let mut world = World::closed(Behaviour {
        requests: 1,
        ..behaviour(1, 1)
    });
    world.turn().connect(0).data(0, OK);
    assert_eq!(world.responses(), 1);
    assert!(!world.engine.is_over());
    world.event(0, END);
    assert!(world.engine.is_over());
    assert_eq!(world.did().last(), Some(&(0, Leave)));
}

#[test]
fn without_merging() {
    let mut world = World::closed(Behaviour {
        merging: false,
        ..behaviour(1, 1)
    });
    // As in a loop, what is due is looked at after each event, before anything is sent.
    world.turn().connect(0);
    assert_eq!(world.did(), [(0, Open), (0, Acknowledge)]);
    assert_eq!(world.engine.poll_timeout(), Some(Instant::START));
    world.turn();
    assert_eq!(world.did(), [(0, LAST)]);
    world.data_and(0, OK, DATA.with(END));
    assert_eq!(world.did(), [(0, Acknowledge)]);
    assert_eq!(world.engine.poll_timeout(), Some(Instant::START));
    assert!(!world.engine.is_over());
    world.turn();
    assert_eq!(world.did(), [(0, Leave), (1, Open)]);
}

#[test]
fn the_fin_with_the_last_request() {
    let mut world = World::closed(Behaviour {
        early_finish: true,
        ..behaviour(1, 2)
    });
    world.turn().connect(0).data(0, OK);
    assert_eq!(
        world.did(),
        [(0, Open), (0, BETWEEN), (0, LAST), (0, Finish)]
    );
    world.data_and(0, OK, DATA.with(END));
    assert_eq!((world.responses(), world.errors()), (2, vec![]));
}

/// Three requests in all, no matter who makes them.
struct Three(Vec<Request>, u32);

impl Driver for Three {
    fn requests(&self) -> &[Request] {
        &self.0
    }

    fn next(&mut self, _client: u32) -> Option<Task> {
        self.1 += 1;
        (self.1 <= 3).then_some(Task {
            request: 0,
            think: Duration::ZERO,
        })
    }
}

fn three(shape: Shape, clients: u32, requests_per_connection: u32) -> World {
    let mut world = World::closed(behaviour(clients, requests_per_connection));
    let request = Request::new(&Content::get(&"http://h/".parse().unwrap()));
    let driver = Box::new(Three(vec![request], 0));
    let behaviour = behaviour(clients, requests_per_connection);
    world.engine = Engine::new(behaviour, shape, driver, world.now, world.now);
    world
}

/// A driver ends, and with it the load: in a closed loop of more clients than that, and in an open one.
#[test]
fn the_end_of_what_there_is_to_ask() {
    let mut world = three(Shape::Closed, 5, 100);
    world.turn().connect(0).data(0, OK);
    assert!(!world.engine.is_over());
    world.connect(1).data(1, OK).connect(2).data(2, OK);
    assert!(world.engine.is_over());
    assert_eq!((world.responses(), world.errors()), (3, vec![]));

    let phase = Phase {
        time: Duration::from_secs(10),
        from: 1000.0,
        to: 1000.0,
    };
    let schedule = Schedule::new(vec![phase], Arrivals::Even, 1, Instant::from_millis(1000));
    let mut world = three(Shape::Open(schedule), 1, 100);
    // The first is under way, the others wait for its connection.
    world.turn().connect(0).pass(1).pass(1).pass(1).pass(1);
    assert!(!world.engine.is_over());
    world.data(0, OK).data(0, OK);
    assert!(!world.engine.is_over());
    world.data(0, OK);
    assert!(world.engine.is_over());
    assert_eq!((world.responses(), world.errors()), (3, vec![]));
}

/// A client that waits for the server's FIN has not had enough.
#[test]
fn a_server_that_takes_its_time_to_close_ends_no_load() {
    let mut world = World::closed(behaviour(1, 1));
    world.turn().connect(0).data(0, OK);
    assert!(!world.engine.is_over());
    world.event(0, END);
    assert_eq!(world.did()[3..], [(1, Open)]);
}

/// A whole response that is other than expected is an error, and its connection is used again.
#[test]
fn what_is_not_expected() {
    let hello = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";
    let mut world = World::closed(Behaviour {
        expect: Expect {
            status: Some(200),
            length: Some(5),
            sha256: Some(hello.parse().unwrap()),
        },
        ..behaviour(1, 100)
    });
    let other = OK.replace("200", "206");
    let longer = OK.replace("5", "6").replace("hello", "hello!");
    let wrong = OK.replace("hello", "hellO");
    world.turn().connect(0);
    for (text, responses, mismatches) in [
        (OK, 1, 0),
        (&other, 1, 1),
        (&longer, 1, 2),
        (&wrong, 1, 3),
        (OK, 2, 3),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n",
            3,
            3,
        ),
    ] {
        world.data(0, text);
        assert_eq!(world.responses(), responses, "{text}");
        let errors = &world.engine.statistics.errors;
        assert_eq!(errors.of(ErrorKind::Mismatch), mismatches, "{text}");
    }
    assert_eq!(
        world.did().iter().filter(|(_, did)| *did == Open).count(),
        1
    );
}

/// A million connections are a million slots.
#[test]
fn slots_are_small() {
    let bytes = size_of::<Slot>();
    assert!(bytes < 160, "{bytes}");
}

/// A slot has one connection from when it is asked for until either side gives it up.
#[test]
fn connections_are_counted() {
    let mut world = World::closed(behaviour(2, 2));
    world.turn();
    assert_eq!(world.engine.connections(), 2);
    world.connect(0).data(0, OK).connect(1);
    assert_eq!(world.engine.connections(), 2);
    // One ends as it should, and the other with a reset; both ask again.
    world.data_and(0, OK, DATA.with(END));
    assert!(world.engine.abort(world.now, usize::MAX, &mut world.wire));
    assert_eq!(world.engine.connections(), 0);
}
