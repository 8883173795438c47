//! One game: two stacks, programs that do as they please, and a wire with faults. All of it follows from a seed.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use exos_buf::Buffer;
use exos_inet::tcp::congestion::Algorithm;
use exos_inet::tcp::{ConnectionId, EcnMode, EventSet, Keepalive, ListenOptions, Options};
use exos_inet::{Config, Instant, RxChecksum, Stack};
use exos_testing::Random;
use exos_wire::Mac;

const ADDRESSES: [[&str; 2]; 2] = [["10.0.0.1", "10.0.0.2"], ["fd10::1", "fd10::2"]];

/// One end, and the connections that its program knows.
pub struct End {
    pub stack: Stack,
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

pub struct Game {
    random: Random,
    now: Instant,
    pub ends: [End; 2],
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
    /// Connections are short, and others take their place.
    lively: bool,
    server: &'static str,
    /// Frames that have left since the last step, and from where.
    pub sent: Vec<(usize, Vec<u8>)>,
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
        ..Options::default()
    }
}

fn connect(end: &mut End, random: &mut Random, now: Instant, server: &str) {
    let server = SocketAddr::new(server.parse().unwrap(), 80);
    let options = options(random);
    let id = end.stack.tcp.connect(now, None, server, &options);
    end.connections.push(id.unwrap());
}

impl Game {
    pub fn new(seed: u64, fast: bool) -> Self {
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
            if !fast {
                stack.without_fast_paths();
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
        for _ in 0..1 + random.below(3) {
            connect(&mut ends[0], &mut random, now, addresses[1]);
        }
        // Bursts of segments need a path that is short, so that nothing is paced, and without faults.
        let bulk = random.chance(40);
        let wire = Wire {
            loss: random.pick(&[0, 0, 0, 1, 10]),
            late: random.pick(&[0, 0, 1, 10]),
            marks: random.pick(&[0, 0, 5]),
            latency_us: random.pick(&[20, 20, 500, 20_000]),
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
            lively: random.chance(40),
            server: addresses[1],
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

    /// A program's turn: it connects, reads, writes and finishes as it pleases.
    fn act(&mut self, n: usize) {
        self.hear(n);
        let random = &mut self.random;
        let end = &mut self.ends[n];
        if self.lively && n == 0 && end.connections.len() < 6 && random.chance(50) {
            connect(end, random, self.now, self.server);
        }
        for id in end.connections.clone() {
            if random.chance(self.eager) {
                let unread = end.stack.tcp.readable(id).len();
                let part = match random.chance(70) {
                    true => unread,
                    false => random.below(unread + 1),
                };
                for bytes in end.stack.tcp.readable(id)[..part].chunks(8) {
                    let mut word = [0; 8];
                    word[..bytes.len()].copy_from_slice(bytes);
                    end.heard = mix(end.heard, u64::from_le_bytes(word));
                }
                end.stack.tcp.consume(id, part);
            }
            let lengths = if self.lively { 4 } else { 6 };
            if random.chance(self.eager / 2) {
                let len = random.pick(&[1, 100, 1448, 3000, 20_000, 100_000][..lengths]);
                let period: [u8; 256] = std::array::from_fn(|at| (at * 7 + n) as u8);
                let mut bytes = period.repeat(len / period.len() + 1);
                bytes.truncate(len);
                end.stack.tcp.send(id, Buffer::from(bytes).into());
            }
            match random.below(if self.lively { 6 } else { 2000 }) {
                0 => end.stack.tcp.finish(id),
                1 if self.aborts => end.stack.tcp.abort(id),
                2 => end.stack.tcp.acknowledge_now(id),
                _ => {}
            }
        }
    }

    /// What a stack has to tell its program.
    fn hear(&mut self, n: usize) {
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
    }

    /// Both stacks send; what is due arrives.
    fn carry(&mut self) {
        for n in 0..2 {
            let end = &mut self.ends[n];
            end.stack.handle_timeout(self.now);
            // A link may have no room for all.
            let mut room = match self.random.chance(30) {
                true => self.random.below(20),
                false => usize::MAX,
            };
            while let Some(t) = end.stack.poll_transmit_within(self.now, room) {
                room -= 1;
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
        let due = self.under_way.extract_if(.., |(at, ..)| *at <= now);
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

    pub fn step(&mut self) {
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
    pub fn state(&self) -> Vec<String> {
        let state_of = |end: &End| {
            let of = |&id: &ConnectionId| {
                let c = end.stack.tcp.connection(id)?;
                Some(format!("{:?} {:?}", c.info(), c.next_deadline()))
            };
            let mut all: Vec<String> = end.connections.iter().filter_map(of).collect();
            let memory = end.stack.tcp.memory();
            let waiting = end.stack.tcp.time_wait_connections();
            all.push(format!("{} {waiting} {memory:?}", end.heard));
            all.push(format!("{:?}", end.stack.counters().list()));
            all
        };
        self.ends.iter().flat_map(state_of).collect()
    }
}

fn mix(sum: u64, value: u64) -> u64 {
    (sum ^ value).wrapping_mul(0x100_0000_01b3)
}
