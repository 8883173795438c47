//! The short ways and the general way are one protocol: every game is played twice, once with the short ways and
//! once without, and both send the same frames at the same times and end up in the same state.
//!
//! A game is two stacks with a few connections between them, programs that write, read, finish and abort at
//! random, options drawn at random, and a wire that loses, delays, repeats, damages and marks. Whatever a short way did
//! otherwise than the general way, if only by a byte, would part the two runs, since all that follows depends on it.
//! `EXOS_SEEDS` multiplies how many seeds are tried; a failing one is named.

use std::fmt::Debug;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use exos_buf::Buffer;
use exos_inet::tcp::congestion::Algorithm;
use exos_inet::tcp::{
    ConnectionId, EcnMode, EventSet, Keepalive, ListenOptions, Options, ShortWays,
};
use exos_inet::{Config, Instant, RxChecksum, Stack};
use exos_testing::Random;
use exos_wire::Mac;

const ADDRESSES: [[&str; 2]; 2] = [["10.0.0.1", "10.0.0.2"], ["fd10::1", "fd10::2"]];

/// One end, and the connections that its program knows.
struct End {
    stack: Stack,
    connections: Vec<ConnectionId>,
    /// What it has heard and read, summed up.
    heard: u64,
}

/// How a wire treats frames, in percent.
#[derive(Copy, Clone)]
struct Wire {
    loss: u64,
    late: u64,
    marks: u64,
    latency_us: u64,
}

struct Game {
    random: Random,
    now: Instant,
    ends: [End; 2],
    /// When it arrives, at which end.
    under_way: Vec<(Instant, usize, Vec<u8>)>,
    wire: Wire,
    /// How far time goes on from one step to the next, at most.
    step_us: u64,
    /// How often a program acts, in percent.
    eager: u64,
    /// How often a frame comes with a byte changed, in percent.
    damage: u64,
    /// What the link says of the checksums.
    checked: RxChecksum,
    aborts: bool,
    /// Frames that have left since the last step, and from where.
    sent: Vec<(usize, Vec<u8>)>,
}

fn options(random: &mut Random) -> Options {
    Options {
        receive_buffer_bytes: random.pick(&[1500, 5000, 70_000, 300_000]),
        receive_buffer_max_bytes: random.pick(&[0, 6 << 20]),
        nagle: random.chance(30),
        sack: random.chance(80),
        ecn: random.pick(&[EcnMode::Off, EcnMode::Accept, EcnMode::Request]),
        congestion: random.pick(&[Algorithm::Cubic, Algorithm::NewReno, Algorithm::Bbr]),
        keepalive: random.chance(10).then(Keepalive::default),
        user_timeout: random.chance(10).then_some(Duration::from_secs(5)),
        statistics: random.chance(10),
        ..Options::default()
    }
}

impl Game {
    fn new(seed: u64, short: bool) -> Self {
        let mut random = Random(seed);
        let now = Instant::from_millis(1);
        let addresses = random.pick(&ADDRESSES);
        let segmentation = random.chance(20).then_some(65_535);
        let checksum = random.chance(20) || segmentation.is_some();
        let memory = random.pick(&[64 << 20, 64 << 20, 150_000]);
        let mut end = |n: usize| {
            let mut config = Config::new(Mac([2, 0, 0, 0, 0, n as u8 + 1]), 1500);
            config.addresses = vec![(addresses[n].parse::<IpAddr>().unwrap(), 24)];
            config.offload.segmentation = segmentation;
            config.offload.checksum = checksum;
            config.tcp_memory_bytes_max = memory;
            let mut stack = Stack::new(config, random.next(), now).unwrap();
            if !short {
                stack.without_short_ways();
            }
            End {
                stack,
                connections: Vec::new(),
                heard: 0,
            }
        };
        let mut ends = [end(0), end(1)];
        let listen = ListenOptions {
            connection: options(&mut random),
            ..ListenOptions::default()
        };
        ends[1].stack.tcp.listen(None, 80, listen).unwrap();
        let server = SocketAddr::new(addresses[1].parse().unwrap(), 80);
        for _ in 0..1 + random.below(3) {
            let options = options(&mut random);
            let id = ends[0].stack.tcp_connect(now, None, server, &options);
            ends[0].connections.push(id.unwrap());
        }
        // Runs of segments need a path that is short, so that nothing is paced, and without faults.
        let bulk = random.chance(40);
        let wire = Wire {
            loss: random.pick(&[0, 0, 0, 1, 10]),
            late: random.pick(&[0, 0, 1, 10]),
            marks: random.pick(&[0, 0, 5]),
            latency_us: random.pick(&[20, 500, 20_000]),
        };
        Self {
            wire: match bulk {
                true => Wire {
                    loss: 0,
                    late: 0,
                    marks: 0,
                    latency_us: 20,
                },
                false => wire,
            },
            step_us: if bulk {
                30
            } else {
                random.pick(&[30, 1000, 10_000])
            },
            eager: if bulk { 90 } else { random.pick(&[5, 30, 90]) },
            aborts: random.chance(10),
            damage: random.pick(&[0, 0, 2]),
            // A link that leaves checksums to its peer cannot say that they are unknown.
            checked: match !checksum && random.chance(60) {
                true => random.pick(&[RxChecksum::Unknown, RxChecksum::MaybePartial]),
                false => RxChecksum::Verified,
            },
            random,
            now,
            ends,
            under_way: Vec::new(),
            sent: Vec::new(),
        }
    }

    /// A program's turn: it reads, writes and finishes as it pleases.
    fn act(&mut self, n: usize) {
        let random = &mut self.random;
        let end = &mut self.ends[n];
        while let Some(event) = end.stack.poll_event() {
            end.heard = mix(end.heard, format!("{:?}", event.set).len() as u64);
            if event
                .set
                .contains(EventSet::ACCEPTED.with(EventSet::CLOSED))
            {
                continue;
            }
            if event.set.contains(EventSet::ACCEPTED) {
                end.connections.push(event.connection);
            }
            if event.set.contains(EventSet::CLOSED) {
                end.connections.retain(|&id| id != event.connection);
            }
        }
        for id in end.connections.clone() {
            if random.chance(self.eager) {
                let unread = end.stack.tcp.readable(id).len();
                let part = match random.chance(70) {
                    true => unread,
                    false => random.below(unread + 1),
                };
                for &byte in &end.stack.tcp.readable(id)[..part] {
                    end.heard = mix(end.heard, u64::from(byte));
                }
                end.stack.tcp.consume(id, part);
            }
            if random.chance(self.eager / 2) {
                let len = random.pick(&[1, 100, 1448, 3000, 20_000, 100_000]);
                let bytes: Vec<u8> = (0..len).map(|at| (at * 7 + n) as u8).collect();
                end.stack.tcp.send(id, Buffer::from(bytes).into());
            }
            match random.below(2000) {
                0 => end.stack.tcp.finish(id),
                1 if self.aborts => end.stack.tcp_abort(id),
                2 => end.stack.tcp.acknowledge_now(id),
                _ => {}
            }
        }
    }

    /// Both stacks send; what is due arrives.
    fn carry(&mut self) {
        for n in 0..2 {
            let end = &mut self.ends[n];
            end.stack.handle_timeout(self.now);
            while let Some(t) = end.stack.poll_transmit(self.now) {
                let mut frame = [&[t.head], t.body.parts()].concat().concat();
                self.sent.push((n, frame.clone()));
                let random = &mut self.random;
                if random.chance(self.wire.loss) {
                    continue;
                }
                if random.chance(self.wire.marks) && frame[12] == 8 && frame[15] & 3 == 2 {
                    // Congestion experienced; the header's sum is one less for one more.
                    frame[15] |= 3;
                    let sum = u16::from_be_bytes([frame[24], frame[25]]).wrapping_sub(1);
                    frame[24..26].copy_from_slice(&sum.to_be_bytes());
                }
                let late = u64::from(random.chance(self.wire.late)) * random.below(30_000) as u64;
                let copies = 1 + u64::from(random.chance(self.wire.late / 3));
                let at = self.now + Duration::from_micros(self.wire.latency_us + late);
                for _ in 0..copies {
                    self.under_way.push((at, 1 - n, frame.clone()));
                }
            }
        }
        let now = self.now;
        let (due, later) = self.under_way.drain(..).partition(|(at, ..)| *at <= now);
        self.under_way = later;
        let due: Vec<(Instant, usize, Vec<u8>)> = due;
        for (_, n, mut frame) in due {
            // What the link has verified is not damaged.
            let checksum = self.checked;
            if checksum != RxChecksum::Verified && self.random.chance(self.damage) {
                let at = self.random.below(frame.len());
                frame[at] ^= 1 << self.random.below(8);
            }
            self.ends[n].stack.handle_frame(now, &frame, checksum);
        }
    }

    fn step(&mut self) {
        self.sent.clear();
        self.act(0);
        self.act(1);
        self.carry();
        // Now and then nothing happens for so long that a connection rests.
        let pause = match self.random.below(300) {
            0 => 2_000_000,
            _ => 1 + self.random.next() % self.step_us,
        };
        self.now += Duration::from_micros(pause);
    }

    /// All that can be seen of the connections.
    fn state(&self) -> Vec<String> {
        let state_of = |end: &End| {
            let of = |&id: &ConnectionId| {
                let c = end.stack.tcp.connection(id)?;
                let (info, statistics) = (c.info(), c.statistics());
                Some(format!("{info:?} {statistics:?} {:?}", c.next_deadline()))
            };
            let mut all: Vec<String> = end.connections.iter().filter_map(of).collect();
            let memory = end.stack.tcp.memory();
            all.push(format!("{} {:?}", end.heard, memory));
            all.push(format!("{:?}", end.stack.counters().list()));
            all
        };
        self.ends.iter().flat_map(state_of).collect()
    }
}

fn mix(sum: u64, value: u64) -> u64 {
    (sum ^ value).wrapping_mul(0x100_0000_01b3)
}

/// Fails with the first that differs.
fn compare<T: PartialEq + Debug>(short: &[T], general: &[T], seed: u64, step: usize) {
    for (short, general) in short.iter().zip(general) {
        assert_eq!(short, general, "seed {seed}, step {step}");
    }
    assert_eq!(short.len(), general.len(), "seed {seed}, step {step}");
}

/// How much was seen of what the games are for.
#[derive(Copy, Clone, Default)]
struct Seen {
    frames: u64,
    data: u64,
    acknowledgements: u64,
    out: u64,
    run: u64,
    damaged: u64,
}

impl Seen {
    fn and(self, other: Self) -> Self {
        Self {
            frames: self.frames + other.frames,
            data: self.data + other.data,
            acknowledgements: self.acknowledgements + other.acknowledgements,
            out: self.out + other.out,
            run: self.run + other.run,
            damaged: self.damaged + other.damaged,
        }
    }
}

/// Play one game both ways.
fn play(seed: u64) -> Seen {
    let (mut short, mut general) = (Game::new(seed, true), Game::new(seed, false));
    let mut seen = Seen::default();
    for n in 0..1500 {
        short.step();
        general.step();
        compare(&short.sent, &general.sent, seed, n);
        if n % 8 == 0 {
            compare(&short.state(), &general.state(), seed, n);
        }
        seen.frames += short.sent.len() as u64;
    }
    for (short, general) in short.ends.iter().zip(&general.ends) {
        let taken = short.stack.short_ways_taken();
        seen.data += taken.data;
        seen.acknowledgements += taken.acknowledgements;
        seen.out += taken.out;
        seen.run += taken.run;
        seen.damaged += short.stack.counters().drop_tcp_checksum;
        assert_eq!(general.stack.short_ways_taken(), ShortWays::default());
    }
    seen
}

#[test]
fn both_ways_send_the_same() {
    let factor: u64 = std::env::var("EXOS_SEEDS")
        .ok()
        .and_then(|s| s.parse().ok())
        .unwrap_or(1);
    let seeds = 60 * factor;
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
    let seen = std::thread::scope(|scope| {
        let players: Vec<_> = (0..threads)
            .map(|first| {
                let mine = (first..seeds).step_by(threads as usize);
                scope.spawn(move || mine.map(play).fold(Seen::default(), Seen::and))
            })
            .collect();
        let each = players.into_iter().map(|p| p.join().unwrap());
        each.fold(Seen::default(), Seen::and)
    });
    assert!(seen.frames > 500 * seeds, "only {} frames", seen.frames);
    assert!(seen.damaged > seeds, "only {} damaged", seen.damaged);
    if cfg!(debug_assertions) {
        // Else nothing would be compared, however equal it is.
        let ways = [seen.data, seen.acknowledgements, seen.out, seen.run];
        assert!(ways.iter().all(|&n| n > 20 * seeds), "short ways: {ways:?}");
    }
}
