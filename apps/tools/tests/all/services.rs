//! Echo, discard and chargen over a wire in memory: what they send, what they hold, when they end.

use crate::common;

use std::net::SocketAddr;
use std::time::Duration;

use common::{World, server};
use exos_buf::Buffer;
use exos_inet::Stack;
use exos_inet::tcp::{ConnectionId, EventSet, Options, Reason};
use exos_tools::limits::{ECHO_QUEUE_MAX, ECHO_SLICES_MAX, IDLE_TIME};
use exos_tools::service::{Kind, Limits, Service, pattern};

const SECOND: Duration = Duration::from_secs(1);

/// A client that sends `data` and finishes, and keeps what it reads.
struct Client {
    id: ConnectionId,
    read: Vec<u8>,
    ended: Option<Reason>,
}

impl Client {
    fn open(world: &mut World, port: u16, data: &[u8], finish: bool) -> Self {
        let id = world.connect(port);
        world
            .client
            .tcp
            .send(id, Buffer::from(data.to_vec()).whole());
        if finish {
            world.client.tcp.finish(id);
        }
        Self {
            id,
            read: Vec::new(),
            ended: None,
        }
    }

    /// Take what came, up to this many bytes in all.
    fn turn(&mut self, stack: &mut Stack, most: usize) {
        self.hear(stack);
        let ready = stack.tcp.readable(self.id);
        let count = ready.len().min(most - self.read.len());
        self.read.extend_from_slice(&ready[..count]);
        stack.tcp.consume(self.id, count);
    }

    fn hear(&mut self, stack: &mut Stack) {
        while let Some(event) = stack.poll_event() {
            if event.set.contains(EventSet::CLOSED) {
                self.read.extend_from_slice(stack.tcp.readable(self.id));
                self.ended = Some(event.reason);
            }
        }
    }
}

fn service(world: &mut World, kind: Kind, limits: Limits) -> Service {
    world.listen_with(7, kind.options(Options::default()));
    Service::new(kind, limits, world.now)
}

fn noise(len: usize) -> Vec<u8> {
    let mut word = 1u32;
    let next = |_| {
        word = word.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (word >> 24) as u8
    };
    (0..len).map(next).collect()
}

#[test]
fn echo_returns_every_byte_and_then_finishes() {
    let mut world = World::new();
    let mut echo = service(&mut world, Kind::Echo, Limits::default());
    let data = noise(3_000_000);
    let mut client = Client::open(&mut world, 7, &data, true);
    world.run(5 * SECOND, |w| {
        client.turn(&mut w.client, usize::MAX);
        echo.handle(w.now, &mut w.server);
    });
    assert!(client.read == data, "{} bytes came back", client.read.len());
    assert!(echo.is_done());
    let totals = echo.totals();
    assert_eq!((totals.completed, totals.failed), (1, 0));
    assert_eq!(
        (totals.bytes_received, totals.bytes_sent),
        (3_000_000, 3_000_000)
    );
}

/// The window closes on a peer that does not take its answers; when it does, all of them come.
#[test]
fn echo_holds_no_more_than_its_queue_for_one_who_does_not_read() {
    let mut world = World::new();
    let mut echo = service(&mut world, Kind::Echo, Limits::default());
    let data = noise(8_000_000);
    let mut client = Client::open(&mut world, 7, &data, true);
    let mut held = 0;
    world.run(10 * SECOND, |w| {
        client.hear(&mut w.client);
        echo.handle(w.now, &mut w.server);
        let (id, _) = echo.summaries(w.now).next().unzip();
        let queued = id.and_then(|id| w.server.tcp.connection(id));
        held = held.max(queued.map_or(0, |c| c.unacknowledged()));
    });
    assert!(held <= ECHO_QUEUE_MAX, "{held} bytes queued");
    let waiting = world
        .client
        .tcp
        .connection(client.id)
        .unwrap()
        .unacknowledged();
    assert!(
        waiting > 4_000_000,
        "{waiting} bytes still wait at the client"
    );
    world.run(20 * SECOND, |w| {
        client.turn(&mut w.client, usize::MAX);
        echo.handle(w.now, &mut w.server);
    });
    assert!(client.read == data, "{} bytes came back", client.read.len());
    assert_eq!(echo.totals().completed, 1);
}

/// Bytes that come one by one do not become slices without bound.
#[test]
fn echo_bounds_slices_too() {
    let mut world = World::new();
    let mut echo = service(&mut world, Kind::Echo, Limits::default());
    let client = Client::open(&mut world, 7, b"", false);
    let mut most = 0;
    world.run(3 * SECOND, |w| {
        while w.client.poll_event().is_some() {}
        w.client
            .tcp
            .send(client.id, Buffer::from(vec![b'x']).whole());
        echo.handle(w.now, &mut w.server);
        let (id, _) = echo.summaries(w.now).next().unzip();
        let queue = id.and_then(|id| w.server.tcp.connection(id));
        most = most.max(queue.map_or(0, |c| c.queue().slice_count()));
    });
    assert!(most <= ECHO_SLICES_MAX, "{most} slices");
    assert!(echo.totals().bytes_received > 10_000);
}

#[test]
fn chargen_sends_the_pattern_until_its_limit_from_one_buffer() {
    let mut world = World::new();
    let limits = Limits {
        bytes: Some(2_000_001),
        time: None,
    };
    let mut chargen = service(&mut world, Kind::Chargen, limits);
    let mut client = Client::open(&mut world, 7, b"ignored", false);
    let mut finished = false;
    let mut buffers: Vec<Buffer> = Vec::new();
    world.run(5 * SECOND, |w| {
        client.turn(&mut w.client, usize::MAX);
        chargen.handle(w.now, &mut w.server);
        for (id, _) in chargen.summaries(w.now) {
            let queue = w.server.tcp.connection(id).unwrap().queue();
            let pieces = queue.pieces(0..queue.len());
            buffers.extend(pieces.map(|p| p.to_slice().buffer().clone()).take(1));
        }
        if client.read.len() == 2_000_001 && !finished {
            finished = true;
            w.client.tcp.finish(client.id);
        }
    });
    assert_eq!(client.read.len(), 2_000_001);
    let whole = pattern();
    let expected = whole.as_slice().iter().cycle();
    assert!(client.read.iter().zip(expected).all(|(a, b)| a == b));
    assert!(buffers.windows(2).all(|pair| pair[0].same(&pair[1])));
    assert_eq!(chargen.totals().bytes_sent, 2_000_001);
    assert_eq!((chargen.totals().completed, chargen.connections()), (1, 0));
}

/// Sending goes on after the peer's half has ended, and stops when the time is over.
#[test]
fn chargen_ends_after_its_time() {
    let mut world = World::new();
    let limits = Limits {
        bytes: None,
        time: Some(SECOND),
    };
    let mut chargen = service(&mut world, Kind::Chargen, limits);
    let mut client = Client::open(&mut world, 7, b"", true);
    world.run(3 * SECOND, |w| {
        client.turn(&mut w.client, usize::MAX);
        chargen.handle(w.now, &mut w.server);
    });
    assert!(chargen.is_done());
    let ended = &chargen.totals().ended[0];
    assert_eq!(ended.reason, Reason::Done);
    let time = ended.summary.time;
    assert!(time >= SECOND && time < 2 * SECOND, "{time:?}");
    assert_eq!(client.read.len() as u64, ended.summary.bytes_sent);
    assert!(client.read.len() > 5_000_000, "{}", client.read.len());
}

#[test]
fn discard_takes_all_and_a_limit_ends_it_by_a_reset() {
    for (bytes, reason, taken) in [
        (None, Reason::Done, 1_000_000..1_000_001),
        (Some(300_000), Reason::Reset, 300_000..600_000),
    ] {
        let mut world = World::new();
        let limits = Limits { bytes, time: None };
        let mut discard = service(&mut world, Kind::Discard, limits);
        let mut client = Client::open(&mut world, 7, &noise(1_000_000), true);
        world.run(3 * SECOND, |w| {
            client.turn(&mut w.client, usize::MAX);
            discard.handle(w.now, &mut w.server);
        });
        assert_eq!(client.ended.unwrap_or(Reason::Done), reason);
        let totals = discard.totals();
        assert!(taken.contains(&totals.bytes_received), "{totals:?}");
        assert_eq!((totals.completed, totals.failed), (1, 0), "{bytes:?}");
        assert_eq!(client.read, b"");
    }
}

/// Both ends are programs of ours; three connections at once.
#[test]
fn chargen_connects_to_discard() {
    let mut world = World::new();
    let mut discard = service(&mut world, Kind::Discard, Limits::default());
    let limits = Limits {
        bytes: Some(500_000),
        time: None,
    };
    let mut chargen = Service::new(Kind::Chargen, limits, world.now);
    for _ in 0..3 {
        chargen
            .connect(
                world.now,
                None,
                server(7),
                &Options::default(),
                &mut world.client,
            )
            .unwrap();
    }
    assert!(!chargen.is_done());
    world.run(3 * SECOND, |w| {
        chargen.handle(w.now, &mut w.client);
        discard.handle(w.now, &mut w.server);
    });
    assert!(chargen.is_done() && discard.is_done());
    assert_eq!(chargen.totals().completed, 3);
    assert_eq!(chargen.totals().bytes_sent, 1_500_000);
    assert_eq!(discard.totals().bytes_received, 1_500_000);
}

#[test]
fn a_refused_connection_is_counted_and_named() {
    let mut world = World::new();
    let mut discard = Service::new(Kind::Discard, Limits::default(), world.now);
    let ours = world.client.source_for(server(7).ip()).unwrap();
    discard
        .connect(
            world.now,
            Some(SocketAddr::new(ours, 4000)),
            server(7),
            &Options::default(),
            &mut world.client,
        )
        .unwrap();
    world.run(SECOND / 10, |w| discard.handle(w.now, &mut w.client));
    assert!(discard.is_done());
    assert_eq!(discard.totals().failed, 1);
    assert_eq!(discard.totals().failure, Some(Reason::Refused));
}

#[test]
fn a_connection_on_which_nothing_moves_is_reset() {
    let mut world = World::new();
    let mut echo = service(&mut world, Kind::Echo, Limits::default());
    let mut client = Client::open(&mut world, 7, b"x", false);
    let mut turn = |w: &mut World| {
        client.turn(&mut w.client, usize::MAX);
        echo.handle(w.now, &mut w.server);
    };
    world.run(SECOND, &mut turn);
    world.now += IDLE_TIME - 2 * SECOND;
    world.run(SECOND / 2, &mut turn);
    assert_eq!(world.server.tcp.connections(), 1);
    world.now += 2 * SECOND;
    world.run(SECOND / 2, &mut turn);
    assert_eq!(world.server.tcp.connections(), 0);
    assert_eq!(client.ended, Some(Reason::Reset));
    assert_eq!(echo.totals().idle_timeouts, 1);
    assert_eq!(echo.totals().failed, 1);
}

#[test]
fn datagrams_are_answered_unless_they_come_from_a_service() {
    for (kind, from, answered) in [
        (Kind::Echo, 5000, true),
        (Kind::Echo, 19, false),
        (Kind::Echo, 1023, false),
        (Kind::Echo, 1024, true),
        (Kind::Discard, 5000, false),
    ] {
        let mut world = World::new();
        let mut service = service(&mut world, kind, Limits::default());
        service.bind_datagrams(7, &mut world.server).unwrap();
        let socket = world.client.udp.bind(None, from).unwrap();
        let payload = Buffer::from(noise(1000)).whole();
        world
            .client
            .udp_send(world.now, socket, None, server(7), payload.clone())
            .unwrap();
        let mut answers = Vec::new();
        world.run(SECOND / 10, |w| {
            service.handle(w.now, &mut w.server);
            answers.extend(w.client.udp.receive(socket).unwrap());
        });
        assert_eq!(answers.len(), usize::from(answered), "{kind:?} {from}");
        for answer in answers {
            assert_eq!(
                (answer.from, answer.payload.as_slice()),
                (server(7), payload.as_bytes())
            );
        }
        assert_eq!(service.totals().datagrams_received, 1);
        let unanswered = kind == Kind::Echo && !answered;
        assert_eq!(service.totals().datagrams_unanswered, u64::from(unanswered));
    }
}
