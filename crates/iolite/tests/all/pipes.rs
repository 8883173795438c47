//! Pipes with both ends in one process.

use crate::common::{SMALL, bytes, is_readable, pipe, pool, read, sockets};
use exos_iolite::{Aggregate, Error, Options, Read, Sender, Shape, Slice, Trust, Wait};
use exos_testing::Random;
use std::time::Duration;

const FOUR: Options = Options {
    slots: 4,
    spares: 0,
    pools: 16,
};

/// Slices of all kinds, read in pieces of any length, trusted and not.
#[test]
fn bytes_come_out_as_they_went_in() {
    for (seed, trust) in (0..60).flat_map(|seed| [(seed, Trust::Trusted), (seed, Trust::Untrusted)])
    {
        let (mut random, pool) = (Random(seed), pool(SMALL));
        let (mut sender, mut receiver) = pipe(&pool, FOUR, trust);
        let (mut sent, mut received) = (Vec::new(), Vec::new());
        let mut waiting = Aggregate::new();
        for _ in 0..200 {
            if random.one_in(2) && waiting.is_empty() {
                let len = random.pick(&[1, 7, 32, 33, 100, 4096, 9000]);
                let bytes = random.bytes(len);
                waiting = match (random.one_in(2), pool.copy(&bytes)) {
                    (true, Ok(copy)) => copy,
                    _ => Slice::from(exos_buf::Buffer::from(&bytes[..]).whole()).into(),
                };
                sent.extend(bytes);
            }
            sender.write(&mut waiting).expect("a good consumer");
            let at_most = random.below(6000);
            if let Read::Data(data) = receiver.read(at_most).expect("a good producer") {
                assert!(data.len() <= at_most && !data.is_empty());
                received.extend(data.to_vec());
            }
        }
        while received.len() < sent.len() {
            sender.write(&mut waiting).expect("a good consumer");
            received.extend(read(&mut receiver, usize::MAX).to_vec());
        }
        assert!(sent == received, "seed {seed}");
        drop(sender);
        assert!(matches!(receiver.read(1), Ok(Read::End)));
        assert_eq!(pool.look().free, SMALL.buffers, "seed {seed}");
    }
}

#[test]
fn trusted_bytes_stay_where_they_are_until_the_last_lets_go() {
    let pool = pool(SMALL);
    let (mut sender, mut receiver) = pipe(&pool, FOUR, Trust::Trusted);
    sender
        .write(&mut bytes(&pool, b'a', 4096).into())
        .expect("room");
    assert_eq!(pool.look().own, 1, "under way");
    let data = read(&mut receiver, 3000);
    sender.collect().expect("good");
    assert_eq!(
        (pool.look().own, pool.look().released),
        (0, 1),
        "with the consumer"
    );
    let rest = read(&mut receiver, usize::MAX);
    let both = (data.to_vec(), rest.to_vec());
    assert_eq!(both, (vec![b'a'; 3000], vec![b'a'; 1096]));
    let slice = data.first().expect("one").clone();
    assert!(
        slice.as_bytes().is_none(),
        "no reference to what another can write"
    );
    drop((data, rest));
    assert_eq!(pool.look().free, 7);
    // The consumer has what it has, whatever the pipe and the pool come to.
    drop((sender, receiver, pool));
    assert_eq!(slice.settled().as_bytes().expect("its own"), [b'a'; 3000]);
}

#[test]
fn what_is_not_trusted_is_copied_before_it_is_seen() {
    let pool = pool(SMALL);
    let (mut sender, mut receiver) = pipe(&pool, FOUR, Trust::Untrusted);
    sender
        .write(&mut bytes(&pool, b'a', 100).into())
        .expect("room");
    let data = read(&mut receiver, usize::MAX);
    assert_eq!(pool.look().free, 8, "it is not needed any more");
    assert_eq!(
        data.first().expect("one").as_bytes().expect("a copy"),
        [b'a'; 100]
    );
}

#[test]
fn a_consumer_keeps_its_share_and_its_producer_is_told() {
    let pool = pool(SMALL);
    let (mut sender, mut receiver) = pipe(&pool, Options::default(), Trust::Trusted);
    let mut kept = Vec::new();
    for n in 0..4 {
        sender
            .write(&mut bytes(&pool, n, 4096).into())
            .expect("within its share");
    }
    let mut more: Aggregate = bytes(&pool, 9, 4096).into();
    assert_eq!(sender.write(&mut more).expect("it has not read yet"), 0);
    assert!(
        !sender
            .wait_for_room(Wait::SleepAtMost(Duration::ZERO))
            .expect("good")
    );
    kept.push(read(&mut receiver, 4096));
    assert!(
        sender.wait_for_room(Wait::Sleep).expect("good"),
        "one was taken"
    );
    kept.push(read(&mut receiver, usize::MAX));
    let error = sender.write(&mut more).expect_err("it keeps too many");
    assert!(
        matches!(error, Error::ShareExceeded { held: 4, share: 4 }),
        "{error}"
    );
    assert_eq!(more.len(), 4096, "nothing was taken out");
    // Others have the rest.
    let (mut sender2, mut receiver2) = pipe(&pool, Options::default(), Trust::Trusted);
    for n in 0..100 {
        sender2
            .write(&mut bytes(&pool, n, 4096).into())
            .expect("not its affair");
        assert_eq!(read(&mut receiver2, usize::MAX).to_vec(), [n; 4096]);
    }
    kept.pop();
    assert_eq!(sender.write(&mut more).expect("it let go of some"), 4096);
}

#[test]
fn what_a_sender_left_behind_is_there_until_it_is_taken() {
    let pool = pool(SMALL);
    let (mut sender, mut receiver) = pipe(&pool, FOUR, Trust::Trusted);
    let mut all: Aggregate = (0..4).map(|n| bytes(&pool, n, 4096)).collect();
    sender.write(&mut all).expect("room");
    drop(sender);
    for _ in 0..100 {
        let others: Vec<_> = (0..4).map(|_| bytes(&pool, 9, 4096)).collect();
        assert!(pool.draft(4096).is_err());
        drop(others);
    }
    for n in 0..4 {
        assert_eq!(read(&mut receiver, 4096).to_vec(), [n; 4096]);
    }
    assert!(matches!(receiver.read(1), Ok(Read::End)));
    assert_eq!(pool.look().free, 8);
}

#[test]
fn a_consumer_that_goes_gives_all_back() {
    let pool = pool(SMALL);
    let (mut sender, mut receiver) = pipe(&pool, FOUR, Trust::Trusted);
    let mut all: Aggregate = (0..4).map(|n| bytes(&pool, n, 4096)).collect();
    sender.write(&mut all).expect("room");
    let kept = read(&mut receiver, 2 * 4096);
    drop(receiver);
    assert!(sender.is_peer_gone());
    assert_eq!(pool.look().free, 6, "it has two still");
    drop(kept);
    assert_eq!((pool.look().free, pool.look().members), (8, 0));
    let gone = sender.write(&mut bytes(&pool, 1, 4096).into());
    assert!(matches!(gone, Err(Error::PeerGone)));
    assert!(sender.wait_for_room(Wait::Sleep).is_err());
}

/// Through a process in the middle: in place where the owner lets others in, copied where it does not.
#[test]
fn what_is_sent_on_is_not_copied_if_the_owner_lets_others_in() {
    for (spares, copied, is_here) in [(1, 0, true), (0, 4096, false)] {
        let (origin, middle) = (pool(SMALL), pool(SMALL));
        let options = Options {
            slots: 4,
            spares,
            ..Options::default()
        };
        let (mut first, mut between) = pipe(&origin, options, Trust::Trusted);
        let (mut second, mut last) = pipe(&middle, FOUR, Trust::Trusted);
        first
            .write(&mut bytes(&origin, b'a', 4096).into())
            .expect("room");
        second
            .write(&mut read(&mut between, usize::MAX))
            .expect("room");
        assert_eq!(second.copied_bytes(), copied);
        let data = read(&mut last, usize::MAX);
        drop((second, between));
        first.collect().expect("good");
        assert_eq!(origin.look().released > 0, is_here);
        assert_eq!(data.to_vec(), [b'a'; 4096]);
        drop(data);
        assert_eq!((origin.look().free, middle.look().free), (8, 8));
    }
}

/// The last may have its share, however it came to be a member, and is one still when it has it.
#[test]
fn one_that_was_let_in_has_a_share_of_its_own() {
    let (origin, middle) = (pool(SMALL), pool(SMALL));
    let forwards = Options {
        slots: 4,
        spares: 1,
        pools: 16,
    };
    let (mut first, mut between) = pipe(&origin, forwards, Trust::Trusted);
    let (mut second, mut last) = pipe(&middle, FOUR, Trust::Trusted);
    let mut kept = Vec::new();
    for n in 0..5 {
        let mut data = bytes(&origin, n, 4096).into();
        first.write(&mut data).expect("the one between keeps none");
        let mut data = read(&mut between, usize::MAX);
        assert_eq!(second.write(&mut data).expect("room"), 4096);
        if n < 4 {
            kept.push(read(&mut last, usize::MAX));
        }
        second.collect().expect("good");
    }
    let full = last.read(usize::MAX);
    let is_share = matches!(full, Err(Error::ShareExceeded { held: 4, share: 4 }));
    assert!(is_share, "{full:?}");
    let usage = origin.look();
    assert_eq!((usage.members, usage.free), (2, 3));
    drop(kept.remove(0));
    kept.push(read(&mut last, usize::MAX));
    for (n, data) in (1..).zip(&kept) {
        assert_eq!(data.to_vec(), [n; 4096]);
    }
    assert_eq!(origin.look().members, 2);
}

/// An invitation to let another in is there for the next, if the first has gone before it came.
#[test]
fn an_invitation_that_did_not_pass_is_not_used() {
    let (origin, middle) = (pool(SMALL), pool(SMALL));
    let forwards = Options {
        slots: 4,
        spares: 1,
        pools: 16,
    };
    let (mut first, mut between) = pipe(&origin, forwards, Trust::Trusted);
    let mut data = bytes(&origin, 1, 4096).into();
    first.write(&mut data).expect("room");
    let mut data = read(&mut between, usize::MAX);
    let (mut gone, receiver) = pipe(&middle, FOUR, Trust::Trusted);
    drop(receiver);
    assert!(matches!(gone.write(&mut data), Err(Error::PeerGone)));
    let (mut second, mut last) = pipe(&middle, FOUR, Trust::Trusted);
    assert_eq!(second.write(&mut data).expect("room"), 4096);
    assert_eq!(second.copied_bytes(), 0);
    assert_eq!(read(&mut last, usize::MAX).to_vec(), [1; 4096]);
}

/// Also from buffers that are longer than those it is copied to.
#[test]
fn what_is_sent_on_is_cut_where_it_does_not_fit() {
    let longer = Shape {
        buffer_len: 8192,
        ..SMALL
    };
    let (origin, middle) = (pool(longer), pool(SMALL));
    let (mut first, mut between) = pipe(&origin, FOUR, Trust::Trusted);
    let (mut second, mut last) = pipe(&middle, FOUR, Trust::Trusted);
    let mut data = bytes(&origin, b'a', 8000).into();
    first.write(&mut data).expect("room");
    let mut data = read(&mut between, usize::MAX);
    assert_eq!(second.write(&mut data).expect("room"), 8000);
    assert_eq!(read(&mut last, usize::MAX).to_vec(), [b'a'; 8000]);
    assert_eq!(second.copied_bytes(), 8000);
}

/// A pipe carries buffers of 16 pools, one of them that to which those of all others are copied.
#[test]
fn buffers_of_more_pools_than_a_pipe_carries_are_copied() {
    let (own, mut others) = (pool(SMALL), Vec::new());
    let (mut sender, mut receiver) = pipe(&own, FOUR, Trust::Trusted);
    for n in 0..20 {
        let another = pool(SMALL);
        let mut data = bytes(&another, n, 100).into();
        assert_eq!(sender.write(&mut data).expect("room"), 100, "{n}");
        assert_eq!(read(&mut receiver, usize::MAX).to_vec(), [n; 100]);
        others.push(another);
    }
    assert_eq!(sender.copied_bytes(), 500, "the last five");
}

/// Programs that wait for many things poll either end.
#[test]
fn both_ends_can_be_polled() {
    let pool = pool(Shape::of(64));
    let (mut sender, mut receiver) = pipe(&pool, FOUR, Trust::Trusted);
    assert!(!receiver.arm().expect("good") && !is_readable(&receiver));
    let mut all: Aggregate = (0..5).map(|n| bytes(&pool, n, 100)).collect();
    assert_eq!(sender.write(&mut all).expect("room"), 400);
    assert!(is_readable(&receiver));
    receiver.woken();
    assert!(!is_readable(&receiver));
    assert!(receiver.arm().expect("good"), "there is something");
    receiver.woken();
    assert!(!sender.arm().expect("good") && !is_readable(&sender));
    read(&mut receiver, usize::MAX);
    assert!(is_readable(&sender));
    sender.woken();
    assert!(!is_readable(&sender) && sender.arm().expect("good"));
    drop(receiver);
    assert!(is_readable(&sender), "the peer has gone");
}

#[test]
fn the_end_is_told_apart_from_a_peer_that_has_gone() {
    let pool = pool(SMALL);
    let (sender, mut receiver) = pipe(&pool, FOUR, Trust::Trusted);
    let short = Wait::SleepAtMost(Duration::from_millis(2));
    for how in [short, Wait::SleepAtMost(Duration::ZERO)] {
        assert!(matches!(receiver.read_wait(1, how), Ok(Read::Nothing)));
    }
    drop(sender);
    for how in [
        Wait::Poll,
        Wait::Sleep,
        Wait::PollFor(Duration::ZERO),
        short,
    ] {
        assert!(
            matches!(receiver.read_wait(1, how), Ok(Read::End)),
            "{how:?}"
        );
    }
}

#[test]
fn of_two_that_agree_on_one_pool_no_other_passes() {
    let (own, other) = (pool(SMALL), pool(SMALL));
    let one_pool = Options {
        pools: 1,
        ..Options::default()
    };
    for (options, is_good) in [(one_pool, true), (Options::default(), false)] {
        let (mut sender, receiver) = pipe(&own, options, Trust::Untrusted);
        let mut receiver = receiver.of_one_pool();
        let mut sent = Aggregate::from(bytes(&own, 1, 100));
        sent.append(bytes(&other, 2, 100));
        sender.write(&mut sent).expect("room");
        let got = read(&mut receiver, usize::MAX);
        match is_good {
            true => assert_eq!(got.to_vec(), [[1; 100], [2; 100]].concat()),
            false => {
                assert_eq!(got.to_vec(), [1; 100]);
                let refused = receiver.read(usize::MAX);
                assert!(matches!(refused, Err(Error::PeerFault(_))));
            }
        }
    }
    let none = Options {
        pools: 0,
        ..Options::default()
    };
    assert!(Sender::connect(sockets().0, &own, none).is_err());
}

#[test]
fn one_that_gives_up_has_its_buffers_back_at_once() {
    let pool = pool(SMALL);
    let (mut sender, mut receiver) = pipe(&pool, Options::default(), Trust::Untrusted);
    let mut sent = Aggregate::new();
    sent.append(bytes(&pool, 7, 4096));
    assert_eq!(sender.write(&mut sent).expect("it is there"), 4096);
    assert_eq!(pool.look().own, 1);
    sender.give_up();
    assert_eq!(pool.look().free, SMALL.buffers);
    // Used for others, they are none of what was sent; the consumer hears of that, or of the end.
    let others: Vec<Slice> = (0..SMALL.buffers).map(|_| bytes(&pool, 9, 4096)).collect();
    match receiver.read(usize::MAX) {
        Err(Error::Lost) | Ok(Read::End) => {}
        other => panic!("{other:?}"),
    }
    drop(others);
}
