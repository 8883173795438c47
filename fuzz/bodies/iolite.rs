//! What fuzz targets of pipes over shared memory check: one end is the crate's, the other made by hand, and writes what a script says
//! into rings, pools and holds, and over the socket of the pipe.
//!
//! A script is a byte, and then steps of eight: what is done, and seven bytes for it.
//!
//! The file is included by the fuzz targets and by `crates/iolite/tests/all/corpus.rs`, which replays the corpora with a stable compiler; it depends
//! on nothing but `exos_iolite` and `rustix`.

#[path = "iolite/by_hand.rs"]
pub mod by_hand;

use by_hand::{
    BUFFER, COLUMN_LEN, HEAD, INLINE, KIND_PIPE, KIND_POOL, POOL_LEN, RING_LEN, bells, get,
    good_pool, put, receive, sealed, send, set,
};
use exos_iolite::{
    Aggregate, LowWater, Options, Pool, Read, Receiver, Sender, Shape, Slice, Trust,
};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;

const STEPS_MAX: usize = 64;
/// Words of a ring of 4 slots that mean something.
const RING_WORDS: u64 = 64 + 4 * 8;

/// Steps of a script.
fn steps(script: &[u8]) -> impl Iterator<Item = [u8; 8]> {
    let (steps, _) = script.get(1..).unwrap_or_default().as_chunks();
    steps.iter().copied().take(STEPS_MAX)
}

/// A number that is short, or has its bits anywhere.
fn number(step: [u8; 8]) -> u64 {
    let few = u64::from_le_bytes(step) >> 24;
    few.rotate_left(step[2].into())
}

fn sockets() -> (OwnedFd, OwnedFd) {
    let (one, other) = UnixStream::pair().expect("descriptors");
    (one.into(), other.into())
}

/// The end that is read from, and what its producer has of it.
struct Consumer {
    receiver: Receiver,
    trust: Trust,
    ring: OwnedFd,
    peer: OwnedFd,
    pools: [OwnedFd; 2],
    columns: [OwnedFd; 2],
    /// The ends of bells, and of the life of its membership.
    bells: Vec<OwnedFd>,
    kept: Vec<(Aggregate, Vec<u8>)>,
}

/// A producer writes anything: what is read has the bounds that were asked for, and what was not believed is read the same afterwards.
pub fn consumer(script: &[u8]) {
    let Some(mut consumer) = Consumer::new(script.first().copied().unwrap_or(0)) else {
        return;
    };
    for step in steps(script) {
        consumer.step(step);
    }
    for (data, bytes) in &consumer.kept {
        let now = data.to_vec();
        assert!(consumer.trust == Trust::Trusted || now == *bytes);
    }
}

impl Consumer {
    fn new(how: u8) -> Option<Consumer> {
        let (socket, peer) = sockets();
        let ((sleeps, wakes), (theirs, wakes_us)) = (bells(), bells());
        let ring = sealed(RING_LEN);
        let fds = [ring.as_fd(), sleeps.as_fd(), wakes_us.as_fd()];
        let kind = KIND_PIPE ^ u32::from(how >> 6);
        assert!(send(&peer, [kind, 4, 0, 0], &fds), "room for the first");
        let trust = match how & 1 {
            0 => Trust::Trusted,
            _ => Trust::Untrusted,
        };
        let receiver = Receiver::accept(socket, trust).ok()?;
        let receiver = match how & 2 {
            0 => receiver,
            _ => receiver.of_one_pool(),
        };
        Some(Consumer {
            receiver,
            trust,
            ring,
            peer,
            pools: [good_pool(), good_pool()],
            columns: [sealed(COLUMN_LEN), sealed(COLUMN_LEN)],
            bells: vec![wakes, theirs],
            kept: Vec::new(),
        })
    }

    fn step(&mut self, step: [u8; 8]) {
        let [what, which, ..] = step;
        let pool = usize::from(which & 1);
        match what % 12 {
            // Most often what has a meaning, where it is looked for.
            0..3 => put(&self.ring, get(&self.ring, HEAD), descriptor(step)),
            3 => set(&self.ring, u64::from(which) % RING_WORDS, number(step)),
            4 => {
                let word = u64::from(which) | u64::from(step[2] & 1) << 8;
                set(&self.pools[pool], word % (POOL_LEN / 8), number(step));
            }
            5 => self.tell(step),
            6 => {
                let slices = usize::from(which);
                let bytes = usize::from(step[2]) << (step[3] % 8);
                self.receiver.set_low_water(LowWater { slices, bytes });
            }
            7 => {
                let _ = self.receiver.arm();
                self.receiver.woken();
            }
            8 if which > 250 => self.bells.clear(),
            8 => self.kept.truncate(usize::from(which)),
            _ => self.read(usize::from(which) << (step[2] % 8)),
        }
    }

    /// A message of a pool, which may have the wrong number, memory, or count of descriptors.
    fn tell(&self, step: [u8; 8]) {
        let [_, which, number, mixed, count, ..] = step;
        let (life, _) = bells();
        let pool = usize::from(which & 1);
        let mut fds = [&self.pools[pool], &self.columns[pool], &life];
        fds.rotate_left(usize::from(mixed / 64));
        let count = if count < 128 {
            3
        } else {
            usize::from(count % 9)
        };
        let fds: Vec<_> = fds
            .iter()
            .cycle()
            .map(|fd| fd.as_fd())
            .take(count)
            .collect();
        let kind = KIND_POOL ^ u32::from(mixed & 1);
        let _ = send(&self.peer, [kind, u32::from(number), 0, 0], &fds);
    }

    fn read(&mut self, at_most: usize) {
        let Ok(Read::Data(data)) = self.receiver.read(at_most) else {
            return;
        };
        assert!((1..=at_most).contains(&data.len()) && data.slices().len() <= 5);
        let bytes = data.to_vec();
        assert_eq!(bytes.len(), data.len());
        self.kept.push((data, bytes));
    }
}

/// Words of a descriptor: of a buffer, of few bytes, or of neither.
fn descriptor([_, which, generation, first, second, third, fourth, kind]: [u8; 8]) -> [u64; 3] {
    let words = |bytes: [u8; 2]| u64::from(u16::from_le_bytes(bytes));
    let (start, len) = (words([first, second]), words([third, fourth]));
    match kind % 8 {
        0..4 => {
            let pool = u64::from(kind / 8 % 3) << 48;
            let buffer = BUFFER | pool | u64::from(which % 9);
            let generation = u64::from(generation.saturating_sub(250)) + 1;
            [buffer, generation, (start % 4097) << 32 | (len % 4098)]
        }
        4 | 5 => [INLINE, start, len % 34],
        6 => [BUFFER | start << 8, u64::from(generation) << 48, len << 20],
        _ => [u64::from(kind) << 53, start, len],
    }
}

/// The end that is written to, and what its consumer has of it.
struct Producer {
    sender: Sender,
    pool: Pool,
    peer: OwnedFd,
    /// Its ring, and the ends of its bells.
    ring: OwnedFd,
    bells: Vec<OwnedFd>,
    /// What it was passed of pools: memory, holds and lives.
    told: Vec<OwnedFd>,
    /// What this side has still, and which byte it is of.
    kept: Vec<(Slice, u8)>,
}

/// A consumer writes anything: what this side has stays as it is, and when the consumer has ended all buffers are to be had again.
pub fn producer(script: &[u8]) {
    let mut producer = Producer::new(script.first().copied().unwrap_or(0));
    for step in steps(script) {
        producer.step(step);
        producer.check();
    }
    // The consumer ends with all that it has, then what this side has.
    let Producer {
        sender,
        pool,
        kept,
        peer,
        ring,
        bells,
        told,
    } = producer;
    drop((bells, told, peer, ring));
    drop((kept, sender));
    let usage = pool.look();
    assert_eq!((usage.members, usage.free + usage.own), (0, 8), "{usage:?}");
    assert_eq!(usage.own, 0, "{usage:?}");
}

impl Producer {
    fn new(how: u8) -> Producer {
        let (socket, peer) = sockets();
        let shape = Shape {
            buffer_len: 4096,
            buffers: 8,
            share: 1 + u32::from(how % 8),
        };
        let pool = Pool::new("exos-fuzz", shape).expect("memory");
        let options = Options {
            slots: 4,
            spares: u32::from(how / 8 % 3),
            pools: 1 + usize::from(how / 64),
        };
        let sender = Sender::connect(socket, &pool, options).expect("a pipe");
        let mut bells = receive(&peer);
        Producer {
            sender,
            pool,
            ring: bells.remove(0),
            peer,
            bells,
            told: Vec::new(),
            kept: Vec::new(),
        }
    }

    fn step(&mut self, step: [u8; 8]) {
        let [what, which, ..] = step;
        match what % 12 {
            0..3 => self.write(step),
            // Most often no more than there can have been.
            3 | 4 => set(
                &self.ring,
                HEAD,
                get(&self.ring, HEAD) + u64::from(which % 3),
            ),
            5 => set(&self.ring, u64::from(which) % RING_WORDS, number(step)),
            6 => self.told.extend(receive(&self.peer)),
            7 => self.hold(step),
            8 => {
                let _ = self.sender.arm();
                self.sender.woken();
            }
            9 if which > 250 => self.end(),
            9 => self.sender.set_low_water(usize::from(which)),
            10 => {
                self.sender.flush();
                let _ = self.sender.collect();
                self.sender.look_at_share(u32::from(which % 16));
            }
            _ => self.kept.truncate(usize::from(which % 8)),
        }
    }

    /// Buffers of one byte each, or few bytes.
    fn write(&mut self, [_, which, many, ..]: [u8; 8]) {
        let mut data = Aggregate::new();
        for _ in 0..=many % 5 {
            match which % 4 {
                0 => data.append(Slice::of_few(&[which; 9]).expect("they are few")),
                _ => {
                    let Ok(mut draft) = self.pool.draft(4096) else {
                        break;
                    };
                    draft.bytes_mut().fill(which);
                    let slice = draft.freeze();
                    self.kept.push((slice.clone(), which));
                    data.append(slice);
                }
            }
        }
        let before = data.len();
        match self.sender.write(&mut data) {
            Ok(len) => assert_eq!(len + data.len(), before),
            Err(_) => assert!(data.len() <= before),
        }
    }

    /// A word of what it was passed: holds are its own to write, and the pool is not.
    fn hold(&self, step: [u8; 8]) {
        let place = usize::from(step[1]);
        let Some(file) = self.told.get(place % self.told.len().max(1)) else {
            return;
        };
        let word = 8 * u64::from(step[2] % 9);
        let _ = rustix::io::pwrite(file, &number(step).to_ne_bytes(), word);
    }

    /// The consumer ends.
    fn end(&mut self) {
        self.bells.clear();
        self.told.clear();
    }

    fn check(&self) {
        for (slice, byte) in &self.kept {
            let bytes = slice.as_bytes().expect("it is ours");
            assert!(bytes.iter().all(|it| it == byte), "another's bytes");
        }
        let usage = self.pool.look();
        assert!(usage.free + usage.own + usage.released == 8, "{usage:?}");
    }
}
