//! What connections ask of the allocator: a short one nothing, because what it needs was left by those before it; one
//! that waits for a slow reader little; one that is idle nothing but its control block and its part of tables.
//!
//! The allocator here counts, and only while the stack that is looked at and its program work.

use exos_buf::Buffer;
use exos_inet::tcp::{ConnectionId, EventSet, ListenOptions, Options};
use exos_inet::{Config, Duration, Instant, RxChecksum, Stack};
use exos_testing::heap::{Counting, allocations, counted, held, uncounted};
use exos_wire::Mac;
use std::net::IpAddr;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn address(side: u8, ipv6: bool) -> IpAddr {
    match ipv6 {
        false => [10, 0, 0, side].into(),
        true => [0xfd10, 0, 0, 0, 0, 0, 0, u16::from(side)].into(),
    }
}

fn stack(side: u8) -> Stack {
    let mut config = Config::new(Mac([2, 0, 0, 0, 0, side]), 1500);
    config.addresses = vec![(address(side, false), 24), (address(side, true), 64)];
    Stack::new(config, u64::from(side), Instant::from_millis(1000)).expect("two good addresses")
}

struct World {
    server: Stack,
    client: Stack,
    response: Buffer,
    /// The server finishes after its response.
    finishes: bool,
    now: Instant,
    closed: u64,
}

/// Whose memory is counted.
#[derive(Copy, Clone, Debug, PartialEq)]
enum Side {
    Server,
    Client,
}

/// Put what a stack sends onto the wire.
fn transmit(stack: &mut Stack, now: Instant, wire: &mut Vec<Vec<u8>>) {
    while let Some(sent) = stack.poll_transmit(now) {
        uncounted(|| {
            let mut frame = sent.head.to_vec();
            let parts = sent.body.parts();
            parts.iter().for_each(|part| frame.extend_from_slice(part));
            wire.push(frame);
        });
    }
}

impl World {
    fn new() -> Self {
        Self::with(ListenOptions::default())
    }

    fn with(options: ListenOptions) -> Self {
        let mut server = stack(1);
        let listens = server.tcp.listen(None, 80, options);
        listens.expect("a free port");
        Self {
            server,
            client: stack(2),
            response: Buffer::from(vec![b'r'; 100]),
            finishes: true,
            now: Instant::from_millis(1000),
            closed: 0,
        }
    }

    /// The server's turn.
    fn serve(&mut self, frames: &[Vec<u8>], wire: &mut Vec<Vec<u8>>) {
        let (server, now) = (&mut self.server, self.now);
        for frame in frames {
            server.handle_frame(now, frame, RxChecksum::Unknown);
        }
        server.handle_timeout(now);
        while let Some(event) = server.poll_event() {
            let id = event.connection;
            if event.set.contains(EventSet::READABLE) {
                let count = server.tcp.readable(id).len();
                server.tcp.consume(id, count);
                assert!(server.tcp.send(id, self.response.whole()));
                if self.finishes {
                    server.tcp.finish(id);
                }
            }
            self.closed += u64::from(event.set.contains(EventSet::CLOSED));
        }
        transmit(server, now, wire);
    }

    /// The client's turn: a request when it is connected, its FIN after the server's.
    fn ask(&mut self, frames: &[Vec<u8>], wire: &mut Vec<Vec<u8>>) {
        let (client, now) = (&mut self.client, self.now);
        for frame in frames {
            client.handle_frame(now, frame, RxChecksum::Unknown);
        }
        client.handle_timeout(now);
        while let Some(event) = client.poll_event() {
            let id = event.connection;
            if event.set.contains(EventSet::CONNECTED) {
                client.tcp.send(id, Buffer::from(vec![b'q'; 100]).whole());
            }
            client.tcp.consume(id, client.tcp.readable(id).len());
            if event.set.contains(EventSet::FINISHED) {
                client.tcp.finish(id);
            }
        }
        transmit(client, now, wire);
    }

    /// Nobody reads what comes, for so long.
    fn stand_still(&mut self, time: Duration) {
        let end = self.now + time;
        let (mut to_server, mut to_client) = (Vec::new(), Vec::<Vec<u8>>::new());
        while self.now < end {
            self.now += Duration::from_millis(10);
            for frame in std::mem::take(&mut to_client) {
                self.client
                    .handle_frame(self.now, &frame, RxChecksum::Unknown);
            }
            self.client.handle_timeout(self.now);
            while let Some(event) = self.client.poll_event() {
                if event.set.contains(EventSet::CONNECTED) {
                    self.client
                        .tcp
                        .send(event.connection, Buffer::from(vec![b'q'; 100]).whole());
                }
            }
            transmit(&mut self.client, self.now, &mut to_server);
            let frames = std::mem::take(&mut to_server);
            counted(|| self.serve(&frames, &mut to_client));
        }
    }

    /// This many connections are opened, and have a request and its response; then all is still for so long.
    fn open_and_rest(&mut self, count: u32, time: Duration, side: Side) {
        let at = std::net::SocketAddr::new(address(1, false), 80);
        let when = |on: bool, work: &mut dyn FnMut()| if on { counted(work) } else { work() };
        for _ in 0..count {
            when(side == Side::Client, &mut || {
                let options = Options::default();
                let opened = self.client.tcp.connect(self.now, None, at, &options);
                opened.expect("a free port and a route");
            });
        }
        let end = self.now + time;
        let (mut to_server, mut to_client) = (Vec::new(), Vec::new());
        while self.now < end {
            self.now += Duration::from_millis(1);
            let frames = std::mem::take(&mut to_client);
            when(side == Side::Client, &mut || {
                self.ask(&frames, &mut to_server);
            });
            let frames = std::mem::take(&mut to_server);
            when(side == Side::Server, &mut || {
                self.serve(&frames, &mut to_client);
            });
        }
    }

    /// One connection from beginning to end.
    fn connection(&mut self, ipv6: bool) -> ConnectionId {
        let at = std::net::SocketAddr::new(address(1, ipv6), 80);
        let id = self
            .client
            .tcp
            .connect(self.now, None, at, &Options::default())
            .expect("a free port and a route");
        let before = self.closed;
        let (mut to_server, mut to_client) = (Vec::new(), Vec::new());
        while self.closed == before || !to_server.is_empty() || !to_client.is_empty() {
            self.now += Duration::from_micros(100);
            let frames = std::mem::take(&mut to_client);
            self.ask(&frames, &mut to_server);
            let frames = std::mem::take(&mut to_server);
            counted(|| self.serve(&frames, &mut to_client));
        }
        id
    }
}

#[test]
fn a_short_connection_allocates_nothing() {
    for ipv6 in [false, true] {
        let mut world = World::new();
        // Long enough for connections in TIME-WAIT to end, and for the timer wheel to turn round: beginning at
        // whole turns of its lower levels, they come to the same slots again.
        let connections = |world: &mut World| {
            for _ in 0..512 {
                world.now = Instant::from_millis((world.now.millis() / 512 + 1) * 512);
                world.connection(ipv6);
            }
        };
        (0..3).for_each(|_| connections(&mut world));
        let before = allocations();
        connections(&mut world);
        let counted = allocations() - before;
        assert_eq!(world.closed, 2048);
        assert_eq!(counted, 0, "allocations in 512 connections, IPv6: {ipv6}");
    }
}

/// The counting allocator counts: the first connections of a stack do allocate.
#[test]
fn the_first_connection_does() {
    let before = allocations();
    World::new().connection(false);
    assert!(allocations() > before);
}

/// What waits for its reader lies in the program's buffer; the connection itself is a control block (480 bytes), what it
/// knows of the path (296), its queue and the records of a probe (160), its part of tables (150) and a buffer in which
/// its request came, which is back in the pool. Of the first burst, of up to 45 segments, nothing is left.
#[test]
fn a_slow_reader_costs_little() {
    const READERS: i64 = 500;
    let mut world = World::new();
    world.response = Buffer::from(vec![b'r'; 1_000_000]);
    let at = std::net::SocketAddr::new(address(1, false), 80);
    let options = Options::with_receive_buffer(64 * 1024);
    world.stand_still(Duration::from_secs(1));
    let before = held();
    for _ in 0..READERS {
        let opened = world.client.tcp.connect(world.now, None, at, &options);
        opened.expect("a free port and a route");
    }
    world.stand_still(Duration::from_secs(10));
    assert_eq!(world.server.tcp.connections() as i64, READERS);
    let each = (held() - before) / READERS;
    assert!(each < 1400, "{each} bytes a reader");
}

/// A million of them have to fit. A slot of 480 bytes, of which a chunk of 256 is allocated at a time; eight bytes of the
/// index, which is as full here as it may be; and what the last that were opened have left for those to come, which is
/// the same however many there are.
#[test]
fn an_idle_connection_is_its_control_block() {
    const IDLE: u32 = 16_384;
    const AT_ONCE: u32 = 64;
    for side in [Side::Server, Side::Client] {
        // A listener remembers when the last connections began, twice as many as it has half open at most.
        let mut world = World::with(ListenOptions {
            backlog: AT_ONCE as usize,
            ..ListenOptions::default()
        });
        world.finishes = false;
        let mut open = |count: u32| {
            for _ in 0..count / AT_ONCE {
                world.open_and_rest(AT_ONCE, Duration::from_secs(2), side);
            }
            assert_eq!(
                world.server.tcp.connections(),
                world.client.tcp.connections()
            );
            held()
        };
        let half = open(IDLE / 2);
        let all = open(IDLE / 2);
        let each = (all - half) as f64 / f64::from(IDLE / 2);
        assert_eq!(each.round(), 488.0, "{side:?}: {each} bytes");
    }
}
