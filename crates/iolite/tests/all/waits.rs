//! Waiting for a time, and event loops that wait at other places too.

use crate::common::{SMALL, bytes, is_readable, pipe, pool, read, sockets};
use exos_iolite::{Aggregate, Counts, LowWater, Options, Read, Receiver, Sender, Trust, Wait};
use std::time::{Duration, Instant};

const SHORT: Wait = Wait::SleepAtMost(Duration::from_millis(5));
const TWO: Options = Options {
    slots: 2,
    spares: 1,
    pools: 16,
};

#[test]
fn what_finds_no_room_in_time_is_left() {
    let pool = pool(SMALL);
    let (mut sender, mut receiver) = pipe(&pool, TWO, Trust::Trusted);
    let mut all: Aggregate = (0..3).map(|n| bytes(&pool, n, 4096)).collect();
    assert!(!sender.write_all(&mut all, SHORT).expect("good"));
    assert_eq!(all.to_vec(), [2; 4096], "two fit");
    read(&mut receiver, usize::MAX);
    assert!(sender.write_all(&mut all, SHORT).expect("good") && all.is_empty());
    drop(receiver);
    (6..8).for_each(|n| all.append(bytes(&pool, n, 4096)));
    assert!(sender.write_all(&mut all, SHORT).is_err());
    assert_eq!(all.to_vec(), [7; 4096], "also on an error");
}

#[test]
fn a_time_may_be_as_long_as_can_be_told() {
    let (socket, theirs) = sockets();
    let producer = std::thread::spawn(move || {
        let pool = pool(SMALL);
        let mut sender = Sender::connect(socket, &pool, TWO).expect("a pipe");
        for byte in 0..2 {
            // The other looks at the clock meanwhile.
            std::thread::sleep(Duration::from_millis(20));
            let mut data = bytes(&pool, byte, 100).into();
            sender.write(&mut data).expect("room");
        }
    });
    let mut receiver = Receiver::accept(theirs, Trust::Untrusted).expect("a pipe");
    for how in [
        Wait::PollFor(Duration::MAX),
        Wait::SleepAtMost(Duration::MAX),
    ] {
        let data = receiver.read_wait(100, how);
        assert!(matches!(data, Ok(Read::Data(_))), "{data:?}");
    }
    producer.join().expect("it does not panic");
}

/// An event loop has armed a sender, and then waits for something else without its descriptors: what was or will be rung is there still.
#[test]
fn what_rings_for_an_event_loop_is_not_taken_by_another_wait() {
    for is_taken_before in [true, false] {
        let (origin, middle) = (pool(SMALL), pool(SMALL));
        let (mut first, mut between) = pipe(&origin, TWO, Trust::Trusted);
        let (mut second, mut last) = pipe(&middle, TWO, Trust::Trusted);
        let mut all = (0..2).map(|n| bytes(&origin, n, 4096)).collect();
        first.write(&mut all).expect("room");
        let mut data = read(&mut between, usize::MAX);
        assert_eq!(second.write(&mut data).expect("room"), 2 * 4096);
        assert!(!second.arm().expect("good") && !is_readable(&second));
        if is_taken_before {
            read(&mut last, 4096);
        }
        let nothing = between.read_wait(1, SHORT);
        assert!(matches!(nothing, Ok(Read::Nothing)), "{nothing:?}");
        if !is_taken_before {
            read(&mut last, 4096);
        }
        assert!(is_readable(&second), "{is_taken_before}");
        second.woken();
        assert!(!is_readable(&second));
    }
}

/// More than the pool's share is never under way: what is waited for never comes, and the producer that waits for that flushes what is there.
#[test]
fn a_consumer_that_waits_for_too_much_and_its_producer_do_not_wait_for_each_other() {
    let (socket, theirs) = sockets();
    let producer = std::thread::spawn(move || {
        let pool = pool(SMALL);
        let mut sender = Sender::connect(socket, &pool, Options::default()).expect("a pipe");
        sender.set_low_water(usize::MAX);
        let mut all: Aggregate = (0..8).map(|n| bytes(&pool, n, 4096)).collect();
        let end = Wait::SleepAtMost(Duration::from_secs(20));
        let is_written = sender.write_all(&mut all, end).expect("good");
        assert!(is_written, "{} bytes are left", all.len());
    });
    let mut receiver = Receiver::accept(theirs, Trust::Untrusted).expect("a pipe");
    receiver.set_low_water(LowWater::slices(60));
    let mut len = 0;
    while let Read::Data(data) = receiver.read_wait(usize::MAX, Wait::Sleep).expect("good") {
        len += data.len();
    }
    assert_eq!(len, 8 * 4096);
    producer.join().expect("it does not panic");
}

#[test]
fn what_has_come_in_time_is_read_though_more_was_waited_for() {
    let pool = pool(SMALL);
    let (mut sender, mut receiver) = pipe(&pool, Options::default(), Trust::Trusted);
    let bytes = |len| bytes(&pool, 7, len).into();
    receiver.set_low_water(LowWater::bytes(5000));
    sender.write(&mut bytes(4096)).expect("room");
    let data = receiver.read_wait(96, SHORT);
    assert!(matches!(data, Ok(Read::Data(data)) if data.len() == 96));
    // What is left of that counts: with 1,000 more it is enough.
    sender.write(&mut bytes(1000)).expect("room");
    let before = receiver.waits();
    let data = receiver.read_wait(usize::MAX, Wait::Sleep);
    assert!(matches!(data, Ok(Read::Data(data)) if data.len() == 5000));
    assert_eq!(receiver.waits(), before, "nothing was waited for");
}

/// An event loop's ends are readable when what they wait for is there, and not before; what comes of it is counted.
#[test]
fn event_loops_are_woken_by_what_they_wait_for() {
    let pool = pool(SMALL);
    let (mut sender, mut receiver) = pipe(&pool, TWO, Trust::Trusted);
    receiver.set_low_water(LowWater::slices(2));
    sender.set_low_water(2);
    let one = || bytes(&pool, 1, 100).into();
    for round in 1..=3 {
        // Turns of the loop that do not sleep are no sleeps.
        (0..3).for_each(|_| assert!(!receiver.arm().expect("good")));
        sender.write(&mut one()).expect("room");
        assert!(!is_readable(&receiver));
        sender.write(&mut one()).expect("room");
        assert!(is_readable(&receiver));
        receiver.woken();
        assert!(!sender.arm().expect("good"));
        read(&mut receiver, 100);
        assert!(!is_readable(&sender));
        read(&mut receiver, 100);
        assert!(is_readable(&sender));
        sender.woken();
        let counts = Counts {
            sleeps: round,
            wakes: round,
            ..Counts::default()
        };
        assert_eq!((sender.waits(), receiver.waits()), (counts, counts));
    }
    // What has rung and was read before anybody heard it is a wake-up for nothing.
    assert!(!receiver.arm().expect("good"));
    let mut two = [bytes(&pool, 1, 1), bytes(&pool, 2, 1)]
        .into_iter()
        .collect();
    sender.write(&mut two).expect("room");
    read(&mut receiver, 2);
    receiver.woken();
    assert_eq!(receiver.waits().false_wakes, 1);
}

#[test]
fn a_look_for_room_that_is_there_wakes_nobody() {
    let pool = pool(SMALL);
    let (mut sender, mut receiver) = pipe(&pool, Options::default(), Trust::Trusted);
    receiver.set_low_water(LowWater::slices(3));
    assert!(!receiver.arm().expect("good"));
    for _ in 0..2 {
        sender
            .write(&mut bytes(&pool, 1, 100).into())
            .expect("room");
        assert!(sender.wait_for_room(Wait::Sleep).expect("good"));
        assert!(sender.arm().expect("good"), "there is room");
    }
    assert!(!is_readable(&receiver));
    sender.flush();
    assert!(is_readable(&receiver));
}

/// A header is read first; what is left of the slice was flushed, and no more comes.
#[test]
fn the_rest_of_what_was_flushed_is_read() {
    let pool = pool(SMALL);
    let (mut sender, mut receiver) = pipe(&pool, Options::default(), Trust::Trusted);
    receiver.set_low_water(LowWater::bytes(1 << 16));
    sender
        .write(&mut bytes(&pool, 1, 4096).into())
        .expect("room");
    sender.flush();
    read(&mut receiver, 100);
    let rest = receiver.read_wait(usize::MAX, Wait::Sleep);
    assert!(matches!(rest, Ok(Read::Data(data)) if data.len() == 3996));
}

/// One that is stuck since its share is under way waits for any of it, whatever the room that it wants.
#[test]
fn one_that_is_stuck_goes_on_when_something_is_taken() {
    let pool = pool(SMALL);
    let (mut sender, mut receiver) = pipe(&pool, Options::default(), Trust::Untrusted);
    sender.set_low_water(usize::MAX);
    let mut all: Aggregate = (0..5).map(|n| bytes(&pool, n, 4096)).collect();
    assert_eq!(sender.write(&mut all).expect("room"), 4 * 4096);
    assert_eq!(sender.write(&mut all).expect("it waits"), 0);
    assert!(!sender.arm().expect("good"));
    read(&mut receiver, 4096);
    assert!(is_readable(&sender));
    sender.woken();
    assert!(sender.wait_for_room(Wait::Sleep).expect("good"));
    assert_eq!(sender.waits().false_wakes, 0);
    assert_eq!(sender.write(&mut all).expect("room"), 4096);
}

/// An event loop's wait for room stands, while the thread sleeps for something else and what was sent on is taken.
#[test]
fn a_wait_of_an_event_loop_is_not_published_over() {
    for _ in 0..200 {
        let (origin, middle) = (pool(SMALL), pool(SMALL));
        let (mut first, mut between) = pipe(&origin, TWO, Trust::Trusted);
        let (socket, theirs) = sockets();
        let mut second = Sender::connect(socket, &middle, TWO).expect("a pipe");
        let mut all = (0..2).map(|n| bytes(&origin, n, 4096)).collect();
        first.write(&mut all).expect("room");
        let mut data = read(&mut between, usize::MAX);
        assert_eq!(second.write(&mut data).expect("room"), 2 * 4096);
        assert!(!second.arm().expect("good"));
        let (is_over, over) = std::sync::mpsc::channel::<()>();
        let last = std::thread::spawn(move || {
            let mut last = Receiver::accept(theirs, Trust::Untrusted).expect("a pipe");
            assert_eq!(read(&mut last, usize::MAX).len(), 2 * 4096);
            // It lives on: its end would ring, too.
            let _ = over.recv();
        });
        let _ = between.read_wait(1, Wait::SleepAtMost(Duration::from_micros(300)));
        let is_rung = || is_readable(&second);
        let end = Instant::now() + Duration::from_secs(20);
        while !is_rung() && Instant::now() < end {
            std::thread::yield_now();
        }
        assert!(is_rung(), "it sleeps for good");
        drop(is_over);
        last.join().expect("it does not panic");
    }
}
