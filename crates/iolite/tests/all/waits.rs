//! Waiting for a time, and event loops that wait at other places too.

use crate::common::{SMALL, bytes, is_readable, pipe, pool, read, sockets};
use exos_iolite::{Aggregate, Options, Read, Receiver, Sender, Trust, Wait};
use std::time::Duration;

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
