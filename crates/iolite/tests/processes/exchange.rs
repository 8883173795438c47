//! Two processes, and three.

use crate::common::{SMALL, bytes, pool, sockets};
use crate::start::{assert_all_back, role, start, start_with};
use exos_iolite::{Error, LowWater, Options, Pool, Read, Receiver, Sender, Shape, Trust, Wait};
use std::os::fd::{AsFd as _, OwnedFd};
use std::process::Child;
use std::time::{Duration, Instant};

const TEST: &str = "exchange::part";

/// A process that sends back what it gets, each way a pipe over the same socket.
struct Echo {
    process: Child,
    sender: Sender,
    receiver: Receiver,
    pool: Pool,
}

fn echo(how: &str) -> Echo {
    let (socket, theirs) = sockets();
    let process = start(TEST, how, theirs);
    let pool = pool(Shape::of(64));
    let sender = Sender::connect(
        socket.try_clone().expect("a descriptor"),
        &pool,
        Options::default(),
    );
    Echo {
        process,
        sender: sender.expect("a pipe"),
        receiver: Receiver::accept(socket, Trust::Trusted).expect("a pipe"),
        pool,
    }
}

/// The other process.
#[test]
fn part() {
    let Some((role, socket)) = role() else {
        return;
    };
    match &role[..] {
        "echo-polls" => send_back(socket, Wait::Poll),
        "echo-sleeps" => send_back(socket, Wait::Sleep),
        "echo-adapts" => send_back(socket, Wait::Adaptive),
        "passes-on" => pass_on(socket),
        "writes-lines" => crate::lines::write_lines(socket, 100_000).expect("it reads"),
        "sends-small" => send_small(socket),
        "sends-and-stays" => send_and_stay(socket),
        other => panic!("no such role: {other}"),
    }
}

fn send_back(socket: OwnedFd, how: Wait) {
    let clone = socket.try_clone().expect("a descriptor");
    let mut receiver = Receiver::accept(clone, Trust::Trusted).expect("a pipe");
    let pool = pool(Shape::of(64));
    let mut sender = Sender::connect(socket, &pool, Options::default()).expect("a pipe");
    while let Read::Data(mut data) = receiver.read_wait(usize::MAX, how).expect("it closes it") {
        sender.write_all(&mut data, how).expect("it reads");
    }
}

/// To the consumer at its standard error.
fn pass_on(socket: OwnedFd) {
    let mut receiver = Receiver::accept(socket, Trust::Trusted).expect("a pipe");
    let next = std::io::stderr().as_fd().try_clone_to_owned();
    let pool = pool(SMALL);
    let sender = Sender::connect(next.expect("open"), &pool, Options::default());
    let mut sender = sender.expect("a pipe");
    while let Read::Data(mut data) = receiver.read_wait(4096, Wait::Sleep).expect("it closes it") {
        sender.write_all(&mut data, Wait::Sleep).expect("it reads");
    }
}

fn send_and_stay(socket: OwnedFd) {
    let pool = pool(SMALL);
    let mut sender = Sender::connect(socket, &pool, Options::default()).expect("a pipe");
    let mut all = (0..4).map(|n| bytes(&pool, n, 4096)).collect();
    sender.write(&mut all).expect("room");
    loop {
        std::thread::sleep(Duration::from_secs(1));
    }
}

const SMALL_ONES: u32 = 2000;

/// Small messages, each written by itself.
fn send_small(socket: OwnedFd) {
    let pool = pool(Shape::of(64));
    let mut sender = Sender::connect(socket, &pool, Options::default()).expect("a pipe");
    for n in 0..SMALL_ONES {
        let mut data = bytes(&pool, n as u8, 1000).into();
        let is_written = sender.write_all(&mut data, Wait::Sleep);
        assert!(is_written.expect("it reads"));
    }
}

/// The producer decides: of 2,000 messages of 1,000 bytes at most every sixteenth wakes one that waits for 16,000, however the two are
/// scheduled. What wakes for nothing is counted.
#[test]
fn a_consumer_that_waits_for_many_bytes_is_not_woken_by_few() {
    let (socket, theirs) = sockets();
    let mut process = start(TEST, "sends-small", theirs);
    let mut receiver = Receiver::accept(socket, Trust::Trusted).expect("a pipe");
    receiver.set_low_water(LowWater::bytes(16_000));
    let (mut messages, mut reads) = (0, 0);
    loop {
        match receiver.read_wait(usize::MAX, Wait::Sleep) {
            Ok(Read::Data(data)) => messages += data.len() as u32 / 1000,
            Ok(Read::End) => break,
            other => panic!("{other:?}"),
        }
        reads += 1;
    }
    assert_eq!(messages, SMALL_ONES);
    let waits = receiver.waits();
    // The last may be less.
    let most = u64::from(SMALL_ONES / 16 + 1);
    assert!(reads <= most, "{reads} reads of {most}");
    // It rings when what is waited for is there, once for each wait, and then it is read.
    assert!(waits.wakes <= reads + 1, "{reads} reads, {waits:?}");
    assert!(waits.wakes <= waits.sleeps, "{waits:?}");
    assert!(process.wait().expect("ours").success());
}

/// The owner of a pool sends, another process sends it on, and the owner reads what that sends.
struct Chain {
    pool: Pool,
    sender: Sender,
    receiver: Receiver,
    process: Child,
}

impl Chain {
    fn begin(slots: usize) -> Self {
        let pool = pool(SMALL);
        let (socket, theirs) = sockets();
        let (next, last) = sockets();
        let process = start_with(TEST, "passes-on", theirs, next);
        let options = Options {
            slots,
            spares: 1,
            ..Options::default()
        };
        Self {
            sender: Sender::connect(socket, &pool, options).expect("a pipe"),
            receiver: Receiver::accept(last, Trust::Trusted).expect("a pipe"),
            pool,
            process,
        }
    }

    /// The one in the middle lets go of its own.
    fn await_all_back(&self) {
        let end = Instant::now() + Duration::from_secs(20);
        while self.pool.look().free < SMALL.buffers {
            assert!(Instant::now() < end, "it keeps {:?}", self.pool.look());
            std::thread::sleep(Duration::from_micros(100));
        }
    }

    fn end(mut self) {
        drop(self.sender);
        assert!(self.process.wait().expect("ours").success());
    }
}

/// The owner's share is under way, one in the middle has sent it on and sleeps, and the last waits for more: it is flushed all the way.
#[test]
fn a_last_one_that_waits_for_more_than_a_share_has_what_there_is() {
    let mut chain = Chain::begin(Options::default().slots);
    chain.receiver.set_low_water(LowWater::slices(60));
    let how = Wait::SleepAtMost(Duration::from_secs(20));
    for round in 0..20 {
        let mut all = (0..4).map(|_| bytes(&chain.pool, round, 4096)).collect();
        assert!(chain.sender.write_all(&mut all, how).expect("it reads"));
        chain.sender.flush();
        let mut len = 0;
        while len < 4 * 4096 {
            let began = Instant::now();
            let Ok(Read::Data(data)) = chain.receiver.read_wait(usize::MAX, how) else {
                panic!("it sends it on");
            };
            assert!(began.elapsed() < Duration::from_secs(20), "in time only");
            len += data.len();
        }
        chain.await_all_back();
    }
    chain.end();
}

#[test]
fn messages_go_round_between_processes() {
    for (role, how, rounds) in [
        ("echo-polls", Wait::Poll, 300),
        ("echo-sleeps", Wait::Sleep, 300),
        ("echo-sleeps", Wait::PollFor(Duration::from_micros(20)), 300),
        ("echo-adapts", Wait::Adaptive, 300),
    ] {
        let mut echo = echo(role);
        for round in 0..rounds {
            let byte = round as u8;
            let len = [1, 100, 65_536][round % 3];
            let data = bytes(&echo.pool, byte, len);
            echo.sender
                .write_all(&mut data.into(), how)
                .expect("it reads");
            let mut back = 0;
            while back < len {
                let Ok(Read::Data(data)) = echo.receiver.read_wait(usize::MAX, how) else {
                    panic!("it sends all back");
                };
                data.for_each_block(|block| assert!(block.iter().all(|b| *b == byte)));
                back += data.len();
            }
        }
        drop(echo.sender);
        assert!(matches!(echo.receiver.read_wait(1, how), Ok(Read::End)));
        assert!(echo.process.wait().expect("ours").success());
        assert_all_back(&echo.pool, role);
    }
}

/// What it sent on it has until that is taken, and no longer, though it sleeps then.
#[test]
fn one_that_sleeps_lets_go_of_what_is_taken() {
    let mut chain = Chain::begin(8);
    for round in 0..20 {
        let mut all = (0..4).map(|_| bytes(&chain.pool, round, 4096)).collect();
        assert_eq!(
            chain
                .sender
                .write(&mut all)
                .expect("it has its share again"),
            4 * 4096
        );
        for _ in 0..4 {
            let Ok(Read::Data(data)) = chain.receiver.read_wait(4096, Wait::Sleep) else {
                panic!("it sends it on");
            };
            assert_eq!(data.to_vec(), [round; 4096]);
            // It sleeps by now, perhaps.
            std::thread::sleep(Duration::from_millis(1));
        }
        chain.await_all_back();
    }
    chain.end();
}

#[test]
fn what_a_producer_sent_before_it_was_killed_is_read() {
    for how in [Wait::Sleep, Wait::Poll] {
        let (socket, theirs) = sockets();
        let mut process = start(TEST, "sends-and-stays", theirs);
        let mut receiver = Receiver::accept(socket, Trust::Trusted).expect("a pipe");
        let first = receiver.read_wait(4096, how).expect("it sends");
        process.kill().expect("ours");
        process.wait().expect("ours");
        let Read::Data(first) = first else {
            panic!("it has not closed it");
        };
        for n in 1..4 {
            let Ok(Read::Data(data)) = receiver.read_wait(4096, how) else {
                panic!("it was sent");
            };
            assert_eq!(data.to_vec(), [n; 4096]);
        }
        assert_eq!(first.to_vec(), [0; 4096]);
        assert!(matches!(receiver.read_wait(1, how), Err(Error::PeerGone)));
    }
}

#[test]
fn a_consumer_that_is_killed_is_heard_of() {
    for how in [Wait::Sleep, Wait::Poll] {
        let mut echo = echo("echo-sleeps");
        echo.process.kill().expect("ours");
        echo.process.wait().expect("ours");
        let sent = (0..1000).try_for_each(|_| {
            let data = echo.pool.draft(4096)?.freeze();
            echo.sender.write_all(&mut data.into(), how).map(drop)
        });
        assert!(matches!(sent, Err(Error::PeerGone)), "{sent:?}");
        assert!(matches!(
            echo.receiver.read_wait(1, how),
            Err(Error::PeerGone)
        ));
        assert_all_back(&echo.pool, "killed");
    }
}

/// The example: a process writes lines, and this one counts them.
#[test]
fn lines_are_counted_where_they_are() {
    let (socket, theirs) = sockets();
    let mut process = start(TEST, "writes-lines", theirs);
    let counted = crate::lines::count_lines(socket).expect("it closes the pipe");
    let with_word = (0..100_000).filter(|number: &u32| number.to_string().contains("999"));
    assert_eq!(counted, (100_000, with_word.count() as u32));
    assert!(process.wait().expect("ours").success());
}
