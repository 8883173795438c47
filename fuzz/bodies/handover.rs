//! What the fuzz target for connections from other processes checks.
//!
//! The input is a connection's bytes behind their head (`DetachedConnection::encode`), with any values. They are
//! refused with an error, or make a connection with which a stack can live: a peer acknowledges what it sends
//! and sends data of its own for some rounds, the program reads, takes it out, puts it in again, and then the
//! peer falls silent. Nothing panics or spins, segments are sound, and in the end nothing is waited for.
//!
//! Included by the fuzz target and by `crates/inet/tests/all/corpus.rs`, which have `frames` at their root.

use std::net::IpAddr;

use exos_inet::tcp::{ConnectionId, DetachedConnection, EventSet, HandoverError};
use exos_inet::{Config, Duration, Instant, Neighbors, RxChecksum, Stack};
use exos_wire::SeqNumber;
use exos_wire::tcp::{TcpFlags, TcpHeader, TcpOptions, TcpView, Timestamps};

use crate::frames::{OURS, THEIRS, segment_frame, segment_of};

const MTU: usize = 1500;
/// Bytes in front of the first field: magic, version, length.
const HEAD: usize = 10;
/// Rounds in which the peer answers.
const ROUNDS: usize = 30;
/// Frames of one round that are too many: a congestion window from nowhere may hold this much.
const FRAMES_MAX: usize = 60_000;
/// Wakings until a connection with a silent peer is over: a dozen retransmissions and some others.
const WAKINGS_MAX: usize = 500;
/// Received data takes at most its own size and that of the window beyond, twice.
const MEMORY_MAX: usize = 64 << 20;

/// Any bytes as a connection's fields.
pub fn handover(data: &[u8]) {
    if let Ok(detached) = decode(data)
        && let Some(mut world) = World::new(detached)
    {
        world.live();
    }
}

/// The connection of these fields, or why there is none.
pub fn decode(data: &[u8]) -> Result<DetachedConnection, HandoverError> {
    let mut bytes = b"EXTC\x08\x00".to_vec();
    bytes.extend(((HEAD + data.len()) as u32).to_le_bytes());
    bytes.extend(data);
    let decoded = DetachedConnection::decode(&bytes);
    match &decoded {
        Ok(detached) => assert_eq!(detached.encode(), bytes),
        Err(HandoverError::Version(_)) => {
            panic!("the bytes have a new version, the head here has not")
        }
        Err(_) => {}
    }
    decoded
}

/// A stack with the connection, and what its peer knows.
struct World {
    stack: Stack,
    now: Instant,
    id: ConnectionId,
    over: bool,
    ends: (IpAddr, IpAddr),
    ports: (u16, u16),
    /// The number behind the last that left, and what the stack last acknowledged.
    end: Option<SeqNumber>,
    expected: SeqNumber,
    clock: Option<Timestamps>,
}

impl World {
    /// `None` when no stack can have such addresses.
    fn new(detached: DetachedConnection) -> Option<Self> {
        let (local, remote) = (detached.flow().local(), detached.flow().remote());
        let now = Instant::from_millis(1000);
        let mut config = Config::new(OURS, MTU);
        config.addresses = vec![(local.ip(), 1)];
        config.neighbors = Neighbors::External;
        let mut stack = Stack::new(config, 1, now).ok()?;
        stack.set_neighbor(now, remote.ip(), THEIRS);
        let id = stack.tcp.put_in(now, detached).ok()?;
        Some(Self {
            stack,
            now,
            id,
            over: false,
            ends: (local.ip(), remote.ip()),
            ports: (local.port(), remote.port()),
            end: None,
            expected: SeqNumber(0),
            clock: None,
        })
    }

    fn live(&mut self) {
        for round in 0..ROUNDS {
            self.settle();
            if self.over {
                return;
            }
            if round == ROUNDS / 2 {
                self.move_on();
            }
            self.answer(round);
            self.now += Duration::from_millis(20);
        }
        for _ in 0..WAKINGS_MAX {
            self.settle();
            let Some(at) = self.stack.poll_timeout(self.now).filter(|_| !self.over) else {
                break;
            };
            self.now = self.now.max(at);
        }
        let left = self.stack.tcp.connection(self.id).filter(|_| !self.over);
        let left = left.map_or(0, |c| c.unacknowledged());
        assert_eq!(left, 0, "a silent peer is waited for without end");
    }

    /// Out of the stack and in again, through its bytes.
    fn move_on(&mut self) {
        let taken = self.stack.tcp.take_out(self.now, self.id);
        let bytes = taken.expect("it stands").encode();
        let again = DetachedConnection::decode(&bytes).expect("what a stack wrote");
        self.id = self.stack.tcp.put_in(self.now, again).expect("its place");
        self.settle();
    }

    /// Deadlines, events and frames, to their end.
    fn settle(&mut self) {
        self.stack.handle_timeout(self.now);
        while let Some(event) = self.stack.poll_event() {
            let unread = self.stack.tcp.readable(event.connection).len();
            self.stack.tcp.consume(event.connection, unread);
            self.over |= event.set.contains(EventSet::CLOSED);
        }
        for count in 0.. {
            assert!(count < FRAMES_MAX, "frames without end");
            let Some(out) = self.stack.poll_transmit(self.now) else {
                break;
            };
            let frame = [&[out.head], out.body.parts()].concat().concat();
            assert!(frame.len() <= 14 + MTU, "larger than the MTU");
            let (us, peer) = self.ends;
            let segment = segment_of(&frame, us, peer);
            self.learn(&segment);
        }
        while let Some(ip) = self.stack.poll_unresolved() {
            self.stack.set_neighbor(self.now, ip, THEIRS);
        }
        assert!(self.stack.tcp.memory().used <= MEMORY_MAX);
    }

    fn learn(&mut self, segment: &TcpView<'_>) {
        if segment.flags().contains(TcpFlags::RST) {
            return;
        }
        let end = segment.seq() + segment.seq_len();
        self.end = Some(self.end.map_or(end, |before| before.max(end)));
        self.expected = segment.ack();
        self.clock = segment.options().timestamps;
    }

    /// The peer has got all, and sends some; every third time only the half, every fifth a FIN.
    fn answer(&mut self, round: usize) {
        let Some(end) = self.end else { return };
        let mut flags = TcpFlags::ACK;
        if round % 5 == 4 {
            flags |= TcpFlags::FIN;
        }
        let header = TcpHeader {
            src_port: self.ports.1,
            dst_port: self.ports.0,
            // Now and then behind a gap.
            seq: self.expected + 50 * u32::from(round % 4 == 3),
            ack: end - (round % 3) as u32 / 2,
            flags,
            window: 60_000,
            urgent: 0,
        };
        let mut options = TcpOptions::NONE;
        options.timestamps = self.clock.map(|t| Timestamps {
            value: t.echo.wrapping_add(1),
            echo: t.value,
        });
        let (us, peer) = self.ends;
        let data = std::iter::repeat_n(round as u8, 100);
        let frame = segment_frame((peer, us), &header, &options, data);
        let now = self.now;
        self.stack.handle_frame(now, &frame, RxChecksum::Unknown);
    }
}
