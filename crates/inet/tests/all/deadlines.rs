//! Two connected stacks under random options and commands, small buffers and a bad wire (loss, delay,
//! repetition, damage, other order): anyone who waits for the
//! other has a deadline, and when the wire heals both sides come to their end with all the bytes.
//!
//! `EXOS_SEEDS` multiplies how many seeds are tried, `EXOS_FIRST_SEED` says where to begin; a failing one is
//! named. A soak says how far it is, with `-- --nocapture`.

use std::net::{IpAddr, SocketAddr};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use exos_buf::Buffer;
use exos_inet::tcp::congestion::Algorithm;
use exos_inet::tcp::{ConnectionId, EventSet, Keepalive, ListenOptions, Options, Reason, State};
use exos_inet::{Config, Instant, RxChecksum, Stack};
use exos_testing::Random;
use exos_wire::Mac;

/// Games between two lines of progress: none in an ordinary run.
const PROGRESS_EVERY: u64 = 10_000;

/// An end that has sent this much sends no more.
const SENT_MAX: usize = 400_000;
/// The most that is sent at once.
const SEND_MAX: usize = 20_000;

const ADDRESSES: [&str; 2] = ["10.0.0.1", "10.0.0.2"];

/// One end, and what its program has done and seen.
struct End {
    stack: Stack,
    /// Its link would cut up long segments.
    cuts: bool,
    id: Option<ConnectionId>,
    sent: usize,
    received: usize,
    finished: bool,
    heard_end: bool,
    aborted: bool,
    closed: Option<Reason>,
}

struct Game {
    seed: u64,
    random: Random,
    now: Instant,
    ends: [End; 2],
    /// When it arrives, at which end.
    wire: Vec<(Instant, usize, Vec<u8>)>,
    /// Percent of frames lost.
    loss: u64,
    /// Somebody may lose patience.
    aborts: bool,
}

/// What each end sends: any other place has other bytes.
static CONTENT: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let byte = |at: usize| (at.wrapping_mul(2_654_435_761) >> 16) as u8;
    (0..SENT_MAX + SEND_MAX).map(byte).collect()
});

impl Game {
    fn new(seed: u64) -> Self {
        let now = Instant::from_millis(1);
        let mut random = Random(seed);
        let loss = [0, 1, 10, 40][random.below(4)];
        let mut end = |n: usize| {
            let mut config = Config::new(Mac([2, 0, 0, 0, 0, n as u8 + 1]), 1500);
            config.addresses = vec![(ADDRESSES[n].parse::<IpAddr>().unwrap(), 24)];
            let cuts = random.chance(30);
            if cuts {
                config.offload.segmentation = Some(65_535);
            }
            End {
                stack: Stack::new(config, random.next(), now).unwrap(),
                cuts,
                id: None,
                sent: 0,
                received: 0,
                finished: false,
                heard_end: false,
                aborted: false,
                closed: None,
            }
        };
        let mut ends = [end(0), end(1)];
        let options = |random: &mut Random| Options {
            receive_buffer_bytes: [1500, 5000, 70_000, 300_000][random.below(4)],
            receive_buffer_max_bytes: [0, 6 << 20][random.below(2)],
            nagle: random.chance(30),
            sack: random.chance(75),
            congestion: [Algorithm::Cubic, Algorithm::NewReno, Algorithm::Bbr][random.below(3)],
            keepalive: random.chance(10).then(Keepalive::default),
            ..Options::default()
        };
        let listen = ListenOptions {
            connection: options(&mut random),
            ..ListenOptions::default()
        };
        ends[1].stack.tcp.listen(None, 80, listen).unwrap();
        let server = SocketAddr::new(ADDRESSES[1].parse().unwrap(), 80);
        let options = options(&mut random);
        let aborts = random.chance(10);
        ends[0].id = Some(
            ends[0]
                .stack
                .tcp
                .connect(now, None, server, &options)
                .unwrap(),
        );
        Self {
            seed,
            random,
            now,
            ends,
            wire: Vec::new(),
            loss,
            aborts,
        }
    }

    /// A program's turn: it reads, writes and finishes as it pleases.
    fn act(&mut self, n: usize, healed: bool) {
        let random = &mut self.random;
        let end = &mut self.ends[n];
        while let Some(event) = end.stack.poll_event() {
            end.id = Some(event.connection);
            end.heard_end |= event.set.contains(EventSet::FINISHED);
            if event.set.contains(EventSet::CLOSED) {
                // The last bytes are read now or never.
                let rest = end.stack.tcp.readable(event.connection).len();
                read(self.seed, end, event.connection, rest);
                end.closed = Some(event.reason);
            }
        }
        let Some(id) = end.id.filter(|_| end.closed.is_none()) else {
            return;
        };
        if healed || random.chance(20) {
            let unread = end.stack.tcp.readable(id).len();
            let part = if healed || random.chance(50) {
                unread
            } else {
                random.below(unread + 1)
            };
            read(self.seed, end, id, part);
        }
        let standing = end.stack.tcp.connection(id).is_some();
        if standing && !end.finished && end.sent < SENT_MAX && random.chance(10) {
            let len = [1, 100, 1448, SEND_MAX][random.below(4)];
            let bytes = &CONTENT[end.sent..][..len];
            assert!(end.stack.tcp.send(id, Buffer::from(bytes.to_vec()).into()));
            end.sent += len;
        }
        if self.aborts && random.below(1000) == 0 {
            end.stack.tcp.abort(id);
            end.aborted = true;
        } else if !end.finished && (healed || random.chance(1)) {
            end.stack.tcp.finish(id);
            end.finished = true;
        }
    }

    /// Both stacks send; what arrives is taken in.
    fn carry(&mut self) {
        for n in 0..2 {
            self.ends[n].stack.handle_timeout(self.now);
            while let Some(t) = self.ends[n].stack.poll_transmit(self.now) {
                let frame = [&[t.head], t.body.parts()].concat().concat();
                let copies = if self.random.chance(self.loss) {
                    0
                } else {
                    1 + u64::from(self.random.chance(self.loss / 2))
                };
                for _ in 0..copies {
                    let mut frame = frame.clone();
                    if !self.ends[n].cuts && self.random.chance(self.loss / 4) {
                        // Beyond the Ethernet header, whose damage nobody notices.
                        let at = 14 + self.random.below(frame.len() - 14);
                        frame[at] ^= 1 << self.random.below(8);
                    }
                    let jitter = if self.random.chance(self.loss) {
                        20_000
                    } else {
                        0
                    };
                    let delay = Duration::from_micros(500 + jitter);
                    self.wire.push((self.now + delay, 1 - n, frame));
                }
            }
            self.check_armed(n);
        }
        let now = self.now;
        for (_, n, frame) in self.wire.extract_if(.., |(at, ..)| *at <= now) {
            // What the link would have cut up has no checksum of its own yet.
            let checksum = if self.ends[1 - n].cuts {
                RxChecksum::Verified
            } else {
                RxChecksum::Unknown
            };
            self.ends[n].stack.handle_frame(now, &frame, checksum);
        }
    }

    /// A connection that has sent all that may be sent now, and waits for an answer, has a deadline.
    fn check_armed(&self, n: usize) {
        let Some(connection) = self.ends[n]
            .id
            .and_then(|id| self.ends[n].stack.tcp.connection(id))
        else {
            return;
        };
        let waits = connection.unacknowledged() > 0
            || matches!(
                connection.state(),
                State::SynSent
                    | State::SynReceived
                    | State::FinWait1
                    | State::FinWait2
                    | State::Closing
                    | State::LastAck
            );
        let over = self.ends[n].closed.is_some() || connection.state() == State::Closed;
        assert!(
            over || !waits || connection.next_deadline().is_some(),
            "seed {}: end {n} waits for ever at {}: {:?}",
            self.seed,
            self.now,
            connection.info()
        );
    }

    fn play(&mut self) {
        for _ in 0..2000 {
            self.act(0, false);
            self.act(1, false);
            self.carry();
            self.now += Duration::from_micros(500 + self.random.below(3000) as u64);
        }
        self.loss = 0;
        for _ in 0..400_000 {
            self.act(0, true);
            self.act(1, true);
            self.carry();
            if self.ends.iter().all(|e| e.closed.is_some()) {
                break;
            }
            let next = self
                .ends
                .iter()
                .filter_map(|e| e.stack.poll_timeout(self.now))
                .chain(self.wire.iter().map(|(at, ..)| *at))
                .min();
            self.now = next.map_or(self.now, |at| at.max(self.now)) + Duration::from_micros(500);
        }
        let [a, b] = &self.ends;
        if a.aborted || b.aborted {
            // Anyone who did not lose patience hears of it, unless the reset was lost and nothing more is to
            // be said. What was received has been compared already.
            return;
        }
        for (one, other) in [(a, b), (b, a)] {
            if one.closed == Some(Reason::Done) {
                let all = (one.received, one.heard_end);
                assert_eq!(all, (other.sent, true), "seed {}", self.seed);
            }
        }
        // A peer that was not accepted before the wire healed may have been given up.
        if b.id.is_some() {
            let ends = [a.closed, b.closed];
            assert_eq!(ends, [Some(Reason::Done); 2], "seed {}", self.seed);
        }
    }
}

fn read(seed: u64, end: &mut End, id: ConnectionId, count: usize) {
    let bytes = &end.stack.tcp.readable(id)[..count];
    assert!(bytes == &CONTENT[end.received..][..count], "seed {seed}");
    end.stack.tcp.consume(id, count);
    end.received += count;
}

#[test]
fn nobody_waits_without_a_deadline() {
    let first = std::env::var("EXOS_FIRST_SEED").ok();
    let first: u64 = first.map_or(0, |n| n.parse().expect("EXOS_FIRST_SEED is a number"));
    let seeds = first..first + exos_testing::cases(6000);
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
    let played = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (seeds, played) = (seeds.clone(), &played);
            scope.spawn(move || {
                for seed in seeds.skip(thread as usize).step_by(threads as usize) {
                    Game::new(seed).play();
                    let played = played.fetch_add(1, Ordering::Relaxed) + 1;
                    if played.is_multiple_of(PROGRESS_EVERY) {
                        eprintln!("{played} games without a failure");
                    }
                }
            });
        }
    });
}
