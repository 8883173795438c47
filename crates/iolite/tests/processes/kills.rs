//! Processes that are killed at any moment: no buffer is lost for good, and none is used for something else while one that lives has it.
//!
//! Every buffer is full of its message's number. A process that has one looks at it when it comes and again before it lets go, so that a buffer
//! that was written meanwhile is found. Bytes are lost only with the process that has sent them on. Each test kills a hundred, and `EXOS_SEEDS` times as many where that is set.

use crate::common::{SMALL, pool, sockets};
use crate::start::{assert_all_back, role, start, start_with};
use exos_iolite::{Aggregate, Error, LowWater, Options, Pool, Read, Receiver, Sender, Trust, Wait};
use exos_testing::Random;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::VecDeque;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

const TEST: &str = "kills::part";
const LEN: usize = 4096;
/// What is not so by then will not be.
const AT_MOST: Duration = Duration::from_secs(20);
const FORWARDS: Options = Options {
    slots: 8,
    spares: 1,
    pools: 16,
};

/// More than is ever under way to a consumer beside what it keeps: it is woken since its producer flushes what it has.
const MUCH: LowWater = LowWater::slices(5);

/// What a consumer waits for, one or the other.
fn consumes(seed: u64) -> &'static str {
    ["consumes", "consumes-much"][seed as usize % 2]
}

fn kills() -> u64 {
    exos_testing::cases(100)
}

/// The other processes.
#[test]
fn part() {
    let Some((role, socket)) = role() else {
        return;
    };
    let result = match &role[..] {
        "produces" => produce(socket),
        "consumes" => consume(socket, LowWater::default()),
        "consumes-much" => consume(socket, MUCH),
        // Where its standard error goes to is the socket of its own consumer.
        "sends-on" => send_on(socket),
        other => panic!("no such role: {other}"),
    };
    let is_over = matches!(result, Ok(()) | Err(Error::PeerGone));
    std::process::exit(if is_over { 0 } else { 9 });
}

/// A message: its number in every word.
fn message(pool: &Pool, number: u64) -> exos_iolite::Result<Aggregate> {
    let mut draft = pool.draft(LEN)?;
    let (words, _) = draft.bytes_mut().as_chunks_mut();
    words.fill(number.to_ne_bytes());
    Ok(draft.freeze().into())
}

/// The number in every word of a message. A message that says two things was written while this process had it.
fn number_of(message: &Aggregate) -> u64 {
    let bytes = message.to_vec();
    let (words, _) = bytes.as_chunks::<8>();
    assert!(words.iter().all(|word| word == &words[0]), "a torn message");
    u64::from_ne_bytes(words[0])
}

fn produce(socket: OwnedFd) -> exos_iolite::Result<()> {
    let pool = pool(SMALL);
    let mut sender = Sender::connect(socket, &pool, FORWARDS)?;
    (0..).try_for_each(|number| feed(&pool, &mut sender, number))
}

/// Sends a message, as soon as there is a buffer for it.
fn feed(pool: &Pool, sender: &mut Sender, number: u64) -> exos_iolite::Result<()> {
    let end = Instant::now() + AT_MOST;
    loop {
        let sent = message(pool, number).and_then(|mut data| {
            while sender.write(&mut data)? == 0 {
                let is_room = sender.wait_for_room(Wait::SleepAtMost(AT_MOST))?;
                assert!(is_room, "nothing is taken");
            }
            Ok(())
        });
        match sent {
            Err(Error::Exhausted { .. } | Error::ShareExceeded { .. }) => {
                if sender.is_peer_gone() {
                    return Err(Error::PeerGone);
                }
                sender.flush();
                assert!(Instant::now() < end, "no buffer comes back: {sent:?}");
                std::thread::yield_now();
            }
            other => return other,
        }
    }
}

/// Messages that a process has, and their numbers when they came.
#[derive(Default)]
struct Kept {
    messages: VecDeque<(u64, Aggregate)>,
    last: Option<u64>,
}

impl Kept {
    fn put(&mut self, message: Aggregate) {
        let number = number_of(&message);
        assert!(self.last.is_none_or(|last| number > last), "out of order");
        self.last = Some(number);
        self.messages.push_back((number, message));
        if self.messages.len() > 2 {
            self.check();
            self.messages.pop_front();
        }
    }

    fn check(&self) {
        let is_same = |(number, message): &(u64, Aggregate)| number_of(message) == *number;
        assert!(
            self.messages.iter().all(is_same),
            "written while it was in use"
        );
    }
}

fn consume(socket: OwnedFd, low_water: LowWater) -> exos_iolite::Result<()> {
    let mut receiver = Receiver::accept(socket, Trust::Trusted)?;
    receiver.set_low_water(low_water);
    let mut kept = Kept::default();
    loop {
        match receiver.read_wait(LEN, Wait::Sleep) {
            Ok(Read::Data(data)) => kept.put(data),
            Ok(_) => return Ok(()),
            Err(error) => {
                // What it has it has, though others have gone.
                for _ in 0..20 {
                    kept.check();
                    std::thread::sleep(Duration::from_micros(100));
                }
                if !matches!(error, Error::Lost) {
                    return Err(error);
                }
                assert!(has_ended(&receiver), "lost, though its sender lives");
            }
        }
    }
}

/// Whether a producer has ended, or does at once: of one that is killed one descriptor is closed after another.
fn has_ended(receiver: &Receiver) -> bool {
    let mut fds = [PollFd::new(receiver, PollFlags::empty())];
    let time = Timespec::try_from(Duration::from_secs(2)).expect("short");
    poll(&mut fds, Some(&time)).expect("it can be polled") > 0
}

fn send_on(socket: OwnedFd) -> exos_iolite::Result<()> {
    let mut receiver = Receiver::accept(socket, Trust::Trusted)?;
    let next = std::io::stderr().as_fd().try_clone_to_owned();
    let own = pool(SMALL);
    let mut sender = Sender::connect(next.expect("a descriptor"), &own, FORWARDS)?;
    let mut kept = Kept::default();
    loop {
        match receiver.read_wait(LEN, Wait::Sleep) {
            Ok(Read::Data(mut data)) => {
                kept.put(data.clone());
                sender.write_all(&mut data, Wait::Sleep)?;
                kept.messages.drain(1..);
            }
            Ok(_) => return Ok(()),
            // What is under way to the last is ours until it takes it.
            Err(Error::ShareExceeded { .. }) if sender.is_peer_gone() => {
                return Err(Error::PeerGone);
            }
            Err(Error::ShareExceeded { .. }) => {
                sender.flush();
                sender.collect()?;
            }
            Err(error) => return Err(error),
        }
    }
}

fn kill(process: &mut Child) {
    process.kill().expect("ours");
    let status = process.wait().expect("ours");
    assert!(
        status.signal() == Some(9) || status.code() == Some(0),
        "{status}"
    );
}

/// How one ended that was not killed.
fn ended(process: &mut Child) -> ExitStatus {
    let end = Instant::now() + AT_MOST;
    loop {
        if let Some(status) = process.try_wait().expect("ours") {
            return status;
        }
        assert!(
            Instant::now() < end,
            "it does not hear that its producer has ended"
        );
        std::thread::sleep(Duration::from_micros(100));
    }
}

/// Until a moment that a seed chooses.
fn moment(random: &mut Random) -> Instant {
    Instant::now() + Duration::from_micros(random.below(3000) as u64)
}

#[test]
fn a_consumer_is_killed_and_nothing_is_lost() {
    let pool = pool(SMALL);
    for seed in 0..kills() {
        let mut random = Random(seed);
        let (socket, theirs) = sockets();
        let mut process = start(TEST, consumes(seed), theirs);
        let mut sender = Sender::connect(socket, &pool, FORWARDS).expect("a pipe");
        sender.set_low_water(1 + seed as usize % 3);
        // It is killed when it has started, or while it does.
        let first = if random.one_in(8) { 0 } else { 20 };
        (0..first).for_each(|n| feed(&pool, &mut sender, n).expect("it reads"));
        let end = moment(&mut random);
        let more = |n: &u64| *n == first || Instant::now() < end;
        (first..)
            .take_while(more)
            .for_each(|n| feed(&pool, &mut sender, n).expect("it reads"));
        kill(&mut process);
        drop(sender);
        assert_all_back(&pool, &format!("seed {seed}"));
    }
}

#[test]
fn a_producer_is_killed_and_what_was_sent_stays_as_it_is() {
    for seed in 0..kills() {
        let mut random = Random(seed);
        let (socket, theirs) = sockets();
        let mut process = start(TEST, "produces", theirs);
        let mut receiver = match Receiver::accept(socket, Trust::Trusted) {
            Ok(receiver) => receiver,
            Err(error) => panic!("seed {seed}: {error}"),
        };
        if seed % 2 == 1 {
            receiver.set_low_water(MUCH);
        }
        let (mut kept, end) = (Kept::default(), moment(&mut random));
        while Instant::now() < end {
            if let Ok(Read::Data(data)) = receiver.read_wait(LEN, Wait::Sleep) {
                kept.put(data);
            }
        }
        kill(&mut process);
        while let Ok(Read::Data(data)) = receiver.read_wait(LEN, Wait::Sleep) {
            kept.put(data);
        }
        let gone = receiver.read_wait(LEN, Wait::Sleep);
        assert!(
            matches!(gone, Err(Error::PeerGone)),
            "seed {seed}: {gone:?}"
        );
        kept.check();
    }
}

/// The owner here, one that sends on, and the last: either of these is killed, and then the other.
#[test]
fn one_in_the_middle_is_killed_and_nothing_is_lost_or_used_too_early() {
    let pool = pool(SMALL);
    for seed in 0..kills() {
        let mut random = Random(seed);
        let (socket, to_middle) = sockets();
        let (from_middle, to_last) = sockets();
        let mut last = start(TEST, consumes(seed), to_last);
        let mut middle = start_with(TEST, "sends-on", to_middle, from_middle);
        let mut sender = Sender::connect(socket, &pool, FORWARDS).expect("a pipe");
        (0..20).for_each(|n| feed(&pool, &mut sender, n).expect("it reads"));
        let end = moment(&mut random);
        let mut number = 20;
        while Instant::now() < end {
            feed(&pool, &mut sender, number).expect("it reads");
            number += 1;
        }
        if random.one_in(3) {
            kill(&mut last);
            kill(&mut middle);
        } else {
            kill(&mut middle);
            // The buffers are used for something else as fast as can be, while the last looks at what it has.
            for _ in 0..random.below(2000) {
                drop(message(&pool, u64::MAX));
            }
            assert_eq!(ended(&mut last).code(), Some(0), "seed {seed}");
        }
        drop(sender);
        assert_all_back(&pool, &format!("seed {seed}"));
    }
}
