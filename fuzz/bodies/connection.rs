//! What the fuzz target for a live connection checks: one connection of a stack, kept alive by a peer
//! whose segments are nearly right.
//!
//! `inet.rs` throws any bytes at a stack; here the handshake is always done, and the peer knows the
//! numbers, the scale of windows and the timestamps, so that each byte of the input leads somewhere in
//! TCP: data in any order and overlap, partial, duplicate, selective and forged acknowledgements,
//! windows that close and shrink, resets and SYNs, ICMP errors, time, and a program that sends, reads
//! and ends as it likes. After each step:
//!
//! - the bytes that the program reads are the peer's, each at its place, and what leaves are ours;
//! - nothing leaves beyond the furthest edge that the peer ever offered, a probe's byte apart;
//! - acknowledgements do not go back, nor does the edge that we offer, rounding apart;
//! - segments without data are not more than what came, and what deadlines asked for;
//! - what waits for the peer has a deadline, and deadlines that were seen to lie in the future;
//! - received data takes bounded memory.
//!
//! In the end the peer falls silent: a connection with something unacknowledged ends by itself.
//!
//! Included by the fuzz target and by `crates/inet/tests/all/corpus.rs`. `peer` and `program` do to the connection what
//! the input says, `verdict` judges it; `frames` is how segments look; the
//! crate that includes this has it at its root.

mod peer;
mod program;
mod verdict;

use std::net::{IpAddr, SocketAddr};

use exos_inet::tcp::{ConnectionId, EventSet, ListenOptions, Options};
use exos_inet::{Config, Duration, Instant, Neighbors, Stack};
use exos_wire::SeqNumber;
use exos_wire::tcp::TcpFlags;

use crate::frames::{OURS, THEIRS};

const MTU: usize = 1500;
/// The peer's sequence numbers begin near their wrap.
const ISN_PEER: u32 = 0xffff_f000;
/// Frames of one step that are too many: a whole send queue of small segments.
const FRAMES_MAX: usize = 30_000;
/// Bytes that the program queues at most.
const SENT_MAX: usize = 300_000;
/// Wakings until a connection with a silent peer is over: a dozen retransmissions and some others.
const WAKINGS_MAX: usize = 500;
/// Acknowledgements that it takes to report all ranges that are remembered, three to each.
const REPORTS_MAX: usize = 12;
/// Received data takes at most a few times the greatest window, since it moves when it grows.
const MEMORY_MAX: usize = 32 << 20;

/// Bytes taken from the front; zeros when they are used up.
struct Script<'a>(&'a [u8]);

impl Script<'_> {
    fn byte(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        *first
    }

    fn word(&mut self) -> u16 {
        u16::from_be_bytes([self.byte(), self.byte()])
    }

    /// A length: mostly small or a segment's, now and then any of 16 bits.
    fn len(&mut self) -> usize {
        match self.byte() {
            255 => usize::from(self.word()),
            n @ 200..=254 => 1000 + usize::from(n - 200) * 10,
            n => usize::from(n) * 3,
        }
    }
}

fn content(stream: u32, at: u32) -> u8 {
    (at.wrapping_add(stream).wrapping_mul(2_654_435_761) >> 16) as u8
}

const OUR_STREAM: u32 = 1;
const THEIR_STREAM: u32 = 77;

fn address(ipv6: bool, last: u8) -> IpAddr {
    if ipv6 {
        std::net::Ipv6Addr::new(0xfd10, 0, 0, 0, 0, 0, 0, last.into()).into()
    } else {
        [10, 10, 0, last].into()
    }
}

/// What the peer's SYN says.
struct Peer {
    mss: Option<u16>,
    scale: Option<u8>,
    sack: bool,
    timestamps: bool,
}

/// The stack, the peer and the program.
struct World {
    stack: Stack,
    now: Instant,
    id: Option<ConnectionId>,
    over: bool,
    ipv6: bool,
    ports: (u16, u16),
    peer: Peer,
    /// Our SYN's number, once seen, and the number behind the highest that left.
    ours: Option<SeqNumber>,
    our_end: SeqNumber,
    our_scale: u8,
    /// What the peer has acknowledged, and the furthest edge that it ever offered.
    acknowledged: SeqNumber,
    offered: SeqNumber,
    /// What the stack has acknowledged, and the edge that it offers.
    expected: Option<SeqNumber>,
    edge: Option<SeqNumber>,
    /// The peer's next number, as it sends in order.
    next: SeqNumber,
    our_timestamp: u32,
    sent: usize,
    read: u32,
    /// Segments that came since the last look, and segments without data that left.
    came: usize,
    bare: usize,
    woken: usize,
}

/// One connection, and a script of any bytes for everything around it.
pub fn connection(data: &[u8]) {
    let mut script = Script(data);
    let mut world = World::new(&mut script);
    while !script.0.is_empty() && !world.over {
        match script.byte() % 16 {
            0..=3 => world.data(&mut script),
            4..=7 => world.acknowledgement(&mut script),
            8 => world.stray(&mut script),
            9 => world.icmp(&mut script),
            10 | 11 => world.wait(&mut script),
            _ => world.program(&mut script),
        }
        world.settle();
    }
    world.leave_alone();
}

impl World {
    fn new(script: &mut Script<'_>) -> Self {
        let bits = script.byte();
        let (ipv6, active) = (bits & 1 == 1, bits & 2 == 2);
        let mut config = Config::new(OURS, MTU);
        config.addresses = vec![(address(ipv6, 1), 24)];
        config.neighbors = Neighbors::External;
        let now = Instant::from_millis(1);
        let mut stack = Stack::new(config, u64::from(bits), now).expect("sound addresses");
        stack.set_neighbor(now, address(ipv6, 2), THEIRS);
        let options = Options {
            receive_buffer_bytes: [1500, 5000, 70_000, 300_000][usize::from(bits >> 2 & 3)],
            nagle: bits & 16 == 16,
            user_timeout: (bits & 32 == 32).then_some(Duration::from_secs(30)),
            ..Options::default()
        };
        let choice = script.byte();
        let mut world = World {
            stack,
            now,
            id: None,
            over: false,
            ipv6,
            ports: if active { (5000, 80) } else { (80, 4000) },
            peer: Peer {
                mss: [None, Some(1000), Some(100), Some(9000)][usize::from(choice & 3)],
                scale: [None, Some(0), Some(3), Some(14)][usize::from(choice >> 2 & 3)],
                sack: choice & 16 == 16,
                timestamps: choice & 32 == 32,
            },
            ours: None,
            our_end: SeqNumber(0),
            our_scale: 0,
            acknowledged: SeqNumber(0),
            offered: SeqNumber(0),
            expected: None,
            edge: None,
            next: SeqNumber(ISN_PEER),
            our_timestamp: 0,
            sent: 0,
            read: 0,
            came: 0,
            bare: 0,
            woken: 0,
        };
        world.handshake(active, &options, script.word());
        world
    }

    fn handshake(&mut self, active: bool, options: &Options, window: u16) {
        let syn = |flags: TcpFlags| (flags, SeqNumber(ISN_PEER));
        if active {
            let from = SocketAddr::new(address(self.ipv6, 1), self.ports.0);
            let to = SocketAddr::new(address(self.ipv6, 2), self.ports.1);
            let made = self.stack.tcp.connect(self.now, Some(from), to, options);
            self.id = Some(made.expect("the first connection"));
            self.settle();
            let (flags, seq) = syn(TcpFlags::SYN | TcpFlags::ACK);
            self.arrive(flags, seq, self.our_end, window, 0, &[]);
        } else {
            let listen = ListenOptions {
                connection: options.clone(),
                ..ListenOptions::default()
            };
            let made = self.stack.tcp.listen(None, self.ports.0, listen);
            made.expect("the first listener");
            let (flags, seq) = syn(TcpFlags::SYN);
            self.arrive(flags, seq, SeqNumber(0), window, 0, &[]);
            self.settle();
            self.next = SeqNumber(ISN_PEER) + 1;
            self.arrive(TcpFlags::ACK, self.next, self.our_end, window, 0, &[]);
        }
        self.next = SeqNumber(ISN_PEER) + 1;
        self.settle();
        assert!(self.id.is_some(), "a handshake without fault");
    }

    /// Deadlines, events and frames, to their end.
    fn settle(&mut self) {
        let due = self
            .stack
            .poll_timeout(self.now)
            .is_some_and(|at| at <= self.now);
        self.woken += usize::from(due);
        self.stack.handle_timeout(self.now);
        let next = self.stack.poll_timeout(self.now);
        assert!(
            next.is_none_or(|at| at > self.now),
            "a deadline in the past"
        );
        while let Some(event) = self.stack.poll_event() {
            self.id = self.id.or(Some(event.connection));
            if event.set.contains(EventSet::CLOSED) {
                let rest = self.stack.tcp.readable(event.connection).len();
                self.take(event.connection, rest);
                self.over = true;
            }
        }
        for count in 0.. {
            assert!(count < FRAMES_MAX, "frames without end");
            let Some(out) = self.stack.poll_transmit(self.now) else {
                break;
            };
            let frame = [&[out.head], out.body.parts()].concat().concat();
            self.leave(&frame);
        }
        while let Some(ip) = self.stack.poll_unresolved() {
            self.stack.set_neighbor(self.now, ip, THEIRS);
        }
        self.check();
    }

    /// The peer is silent from now on.
    fn leave_alone(&mut self) {
        for _ in 0..WAKINGS_MAX {
            if self.over || self.stack.poll_timeout(self.now).is_none() {
                break;
            }
            self.pass_to_next_deadline();
            self.settle();
        }
        let left = self
            .id
            .filter(|_| !self.over)
            .and_then(|id| self.stack.tcp.connection(id))
            .map_or(0, |c| c.unacknowledged());
        assert_eq!(left, 0, "a silent peer is waited for without end");
    }
}
