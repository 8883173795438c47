//! Bytes that a program skips are received as others are: the same game is played by a client that reads all that comes
//! and by one that skips what it does not want, and both ends send the same frames at the same times.
//!
//! A server sends streams of bytes on a few connections, over a wire that loses, delays and repeats. The client wants
//! some stretches of them, and no more than the length of the others. In every second game the one who skips goes without
//! the fast paths. `EXOS_SEEDS` multiplies how many seeds are tried;
//! a failing one is named.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use exos_buf::Buffer;
use exos_inet::tcp::{ConnectionId, EcnMode, EventSet, ListenOptions, Options};
use exos_inet::{Config, Instant, RxChecksum, Stack};
use exos_testing::Random;
use exos_wire::Mac;

const ADDRESSES: [[&str; 2]; 2] = [["10.0.0.1", "10.0.0.2"], ["fd10::1", "fd10::2"]];

/// The byte at a place of every stream.
fn content(at: u64) -> u8 {
    (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

/// What the client is at on a connection.
struct Stream {
    id: ConnectionId,
    random: Random,
    /// Bytes of it that were read or counted.
    done: u64,
    /// Bytes that it wants before the next that it does not.
    wanted: u32,
    /// Bytes that it does not want after them; of a client that skips, as far as it has not said so.
    unwanted: u32,
    /// What it has said so of and not seen yet.
    asked: u32,
    finished: bool,
}

impl Stream {
    /// The next stretches: as long as heads and bodies are, or longer than all that comes.
    fn next(&mut self) {
        self.wanted = self.random.pick(&[0, 1, 300, 3000]);
        self.unwanted = self.random.pick(&[1, 100, 1448, 20_000, 300_000, u32::MAX]);
    }

    /// Takes what has come, looking at what it wants.
    fn read(&mut self, stack: &mut Stack) {
        let mut readable = stack.tcp.readable(self.id);
        let count = readable.len();
        while !readable.is_empty() {
            let wanted = readable.len().min(self.wanted as usize);
            self.look(&readable[..wanted]);
            let unwanted = (readable.len() - wanted).min(self.unwanted as usize);
            self.unwanted -= unwanted as u32;
            self.done += unwanted as u64;
            readable = &readable[wanted + unwanted..];
            if (self.wanted, self.unwanted) == (0, 0) {
                self.next();
            }
        }
        stack.tcp.consume(self.id, count);
    }

    /// Reads as a program does that skips what it does not want.
    fn read_or_skip(&mut self, stack: &mut Stack) {
        loop {
            let left = stack.tcp.connection(self.id).map_or(0, |c| c.skipping());
            self.done += u64::from(self.asked - left);
            self.asked = left;
            if left > 0 {
                assert!(stack.tcp.readable(self.id).is_empty());
                return;
            }
            if (self.wanted, self.unwanted) == (0, 0) {
                self.next();
            }
            let readable = stack.tcp.readable(self.id);
            let count = readable.len().min(self.wanted as usize);
            self.look(&readable[..count]);
            stack.tcp.consume(self.id, count);
            if self.wanted > 0 {
                return;
            }
            self.asked = std::mem::take(&mut self.unwanted);
            stack.tcp.skip(self.id, self.asked);
        }
    }

    fn look(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            assert_eq!(byte, content(self.done), "at {}", self.done);
            self.done += 1;
        }
        self.wanted -= bytes.len() as u32;
    }
}

/// How a wire treats frames, in percent.
#[derive(Copy, Clone)]
struct Wire {
    loss: u64,
    late: u64,
    latency_us: u64,
}

struct Game {
    random: Random,
    now: Instant,
    skips: bool,
    client: Stack,
    server: Stack,
    streams: Vec<Stream>,
    /// The server's connections, and how much each has sent.
    sources: Vec<(ConnectionId, u64)>,
    length: u64,
    wire: Wire,
    under_way: Vec<(Instant, usize, Vec<u8>)>,
    sent: Vec<(usize, Vec<u8>)>,
}

fn options(random: &mut Random) -> Options {
    Options {
        receive_buffer_bytes: random.pick(&[1500, 5000, 70_000, 300_000]),
        receive_buffer_max_bytes: random.pick(&[0, 6 << 20]),
        sack: random.chance(80),
        ecn: random.pick(&[EcnMode::Off, EcnMode::Request]),
        ..Options::default()
    }
}

impl Game {
    fn new(seed: u64, skips: bool) -> Self {
        let mut random = Random(seed);
        let now = Instant::from_millis(1);
        let addresses = random
            .pick(&ADDRESSES)
            .map(|ip| ip.parse::<IpAddr>().unwrap());
        let segmentation = random.chance(30).then_some(65_535);
        let mut end = |n: usize| {
            let mut config = Config::new(Mac([2, 0, 0, 0, 0, n as u8 + 1]), 1500);
            config.addresses = vec![(addresses[n], 24)];
            config.offload.segmentation = segmentation;
            config.offload.checksum = segmentation.is_some();
            Stack::new(config, random.next(), now).unwrap()
        };
        let (mut client, mut server) = (end(0), end(1));
        if skips && seed % 2 == 1 {
            client.without_fast_paths();
        }
        let listen = ListenOptions {
            connection: options(&mut random),
            ..ListenOptions::default()
        };
        server.tcp.listen(None, 80, listen).unwrap();
        let to = SocketAddr::new(addresses[1], 80);
        let count = 1 + random.below(3);
        let streams = (0..count).map(|_| {
            let id = client.tcp.connect(now, None, to, &options(&mut random));
            let random = Random(random.next());
            let (done, wanted, unwanted, asked, finished) = (0, 0, 1, 0, false);
            Stream {
                id: id.unwrap(),
                random,
                done,
                wanted,
                unwanted,
                asked,
                finished,
            }
        });
        Self {
            streams: streams.collect(),
            client,
            server,
            now,
            skips,
            sources: Vec::new(),
            length: random.pick(&[1000, 100_000, 3_000_000]),
            wire: Wire {
                loss: random.pick(&[0, 0, 1, 10]),
                late: random.pick(&[0, 0, 1, 10]),
                latency_us: random.pick(&[20, 500, 20_000]),
            },
            random,
            under_way: Vec::new(),
            sent: Vec::new(),
        }
    }

    /// The server goes on, now and then with little, and finishes in the end.
    fn serve(&mut self) {
        while let Some(event) = self.server.poll_event() {
            if event.set.contains(EventSet::ACCEPTED) {
                self.sources.push((event.connection, 0));
            }
        }
        for (id, sent) in &mut self.sources {
            let queued = self
                .server
                .tcp
                .connection(*id)
                .map_or(0, |c| c.queue().len());
            if *sent == self.length || queued > 200_000 || self.random.chance(50) {
                continue;
            }
            let most = self
                .random
                .pick(&[100, 5000, 100_000])
                .min(self.length - *sent);
            let bytes: Vec<u8> = (*sent..*sent + most).map(content).collect();
            self.server.tcp.send(*id, Buffer::from(bytes).whole());
            *sent += most;
            if *sent == self.length {
                self.server.tcp.finish(*id);
            }
        }
    }

    /// The client takes what has come, and now and then says something.
    fn take(&mut self) {
        while let Some(event) = self.client.poll_event() {
            let stream = self.streams.iter_mut().find(|s| s.id == event.connection);
            let stream = stream.expect("the client's own");
            match self.skips {
                true => stream.read_or_skip(&mut self.client),
                false => stream.read(&mut self.client),
            }
            if event.set.contains(EventSet::FINISHED) {
                stream.finished = true;
                self.client.tcp.finish(stream.id);
            }
        }
    }

    /// What both ends have to send is under way then.
    fn transmit(&mut self) {
        for (n, stack) in [&mut self.client, &mut self.server].into_iter().enumerate() {
            stack.handle_timeout(self.now);
            while let Some(t) = stack.poll_transmit(self.now) {
                let frame = [&[t.head], t.body.parts()].concat().concat();
                self.sent.push((n, frame.clone()));
                if self.random.chance(self.wire.loss) {
                    continue;
                }
                let late = u64::from(self.random.chance(self.wire.late));
                let late = late * self.random.below(30_000) as u64;
                let copies = 1 + u64::from(self.random.chance(self.wire.late / 3));
                let at = self.now + Duration::from_micros(self.wire.latency_us + late);
                for _ in 0..copies {
                    self.under_way.push((at, 1 - n, frame.clone()));
                }
            }
        }
    }

    /// One after the other, so that a client that reads has read a segment before the next one comes.
    fn step(&mut self) {
        self.sent.clear();
        if self.random.chance(10) {
            let stream = self.random.below(self.streams.len());
            let (id, request) = (self.streams[stream].id, Buffer::from(vec![7; 100]));
            self.client.tcp.send(id, request.whole());
        }
        self.serve();
        self.transmit();
        let now = self.now;
        let (due, later) = std::mem::take(&mut self.under_way)
            .into_iter()
            .partition(|(at, ..)| *at <= now);
        self.under_way = later;
        let due: Vec<(Instant, usize, Vec<u8>)> = due;
        for (_, n, frame) in due {
            let stack = [&mut self.client, &mut self.server];
            stack
                .into_iter()
                .nth(n)
                .unwrap()
                .handle_frame(now, &frame, RxChecksum::Verified);
            self.take();
            self.transmit();
        }
        self.now += Duration::from_micros(1 + self.random.next() % 1000);
    }

    /// How far the client is on each connection.
    fn done(&self) -> Vec<(u64, bool)> {
        let seen = |s: &Stream| {
            let left = self
                .client
                .tcp
                .connection(s.id)
                .map_or(s.asked, |c| c.skipping());
            (s.done + u64::from(s.asked - left), s.finished)
        };
        self.streams.iter().map(seen).collect()
    }

    fn is_over(&self) -> bool {
        self.streams.iter().all(|s| s.finished)
    }
}

/// Play one game both ways; gives how many bytes came, and the least memory that it took the one who skips.
fn play(seed: u64) -> u64 {
    let (mut reads, mut skips) = (Game::new(seed, false), Game::new(seed, true));
    for step in 0..3000 {
        reads.step();
        skips.step();
        for (read, skipped) in reads.sent.iter().zip(&skips.sent) {
            assert_eq!(read, skipped, "seed {seed}, step {step}");
        }
        assert_eq!(
            reads.sent.len(),
            skips.sent.len(),
            "seed {seed}, step {step}"
        );
        assert_eq!(reads.done(), skips.done(), "seed {seed}, step {step}");
        if reads.is_over() {
            break;
        }
    }
    let done = reads.done();
    for &(bytes, finished) in &done {
        assert!(!finished || bytes == reads.length, "seed {seed}: {bytes}");
    }
    done.iter().map(|(bytes, _)| bytes).sum()
}

#[test]
fn who_skips_acknowledges_like_who_reads() {
    let seeds = exos_testing::cases(60);
    let came: u64 = (0..seeds).map(play).sum();
    assert!(came > 500_000 * seeds, "only {came} bytes");
}
