//! Peers that do not do as agreed: made by hand, without this crate. Nothing panics, nothing is read out of bounds.

use crate::common::{SMALL, bytes, is_readable, pool, sockets};
use crate::corpus::body::by_hand::{
    BUFFER, HEAD, INLINE, KIND_PIPE, KIND_POOL, POOL_LEN, RING_LEN, SLOTS, bells, get, good_pool,
    memory, put, receive, sealed, send, set,
};
use exos_iolite::{Aggregate, Error, Options, Read, Receiver, Sender, Shape, Trust};
use exos_testing::Random;
use rustix::fs::SealFlags;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

#[test]
fn what_is_no_pipe_is_refused() {
    let (one, other) = bells();
    let ends = [one.as_fd(), other.as_fd()];
    let good = sealed(RING_LEN);
    let (longer, open) = (sealed(8192), memory(RING_LEN, SealFlags::GROW));
    let none = sealed(0);
    for (kind, slots, ring) in [
        (KIND_POOL, 4, &good),
        (KIND_PIPE, 3, &good),
        (KIND_PIPE, 0, &good),
        (KIND_PIPE, 1 << 30, &good),
        (KIND_PIPE, 4, &longer),
        (KIND_PIPE, 4, &open),
        (KIND_PIPE, 4, &none),
        (KIND_PIPE, 4, &one),
    ] {
        let (socket, peer) = sockets();
        let fds = [ring.as_fd(), ends[0], ends[1]];
        assert!(send(&peer, [kind, slots, 0, 0], &fds), "room");
        assert!(
            Receiver::accept(socket, Trust::Trusted).is_err(),
            "{kind:x} {slots}"
        );
    }
    for bells in [[good.as_fd(), ends[1]], [ends[0], good.as_fd()]] {
        let (socket, peer) = sockets();
        let fds = [good.as_fd(), bells[0], bells[1]];
        assert!(send(&peer, [KIND_PIPE, 4, 0, 0], &fds), "room");
        let refused = Receiver::accept(socket, Trust::Trusted);
        assert!(matches!(refused, Err(Error::PeerFault(_))), "no bell");
    }
    let (socket, peer) = sockets();
    assert!(send(&peer, [KIND_PIPE, 4, 0, 0], &[good.as_fd()]), "room");
    assert!(Receiver::accept(socket, Trust::Trusted).is_err());
    let (socket, peer) = sockets();
    drop(peer);
    assert!(matches!(
        Receiver::accept(socket, Trust::Trusted),
        Err(Error::PeerGone)
    ));
}

/// A consumer of this crate, whose producer is made by hand.
struct Victim {
    receiver: Receiver,
    ring: OwnedFd,
    peer: OwnedFd,
    bells: [OwnedFd; 2],
}

fn victim() -> Victim {
    victim_with(Trust::Trusted)
}

fn victim_with(trust: Trust) -> Victim {
    let (socket, peer) = sockets();
    let ((sleeps, wakes), (theirs, wakes_us)) = (bells(), bells());
    let ring = sealed(RING_LEN);
    let fds = [ring.as_fd(), sleeps.as_fd(), wakes_us.as_fd()];
    assert!(send(&peer, [KIND_PIPE, 4, 0, 0], &fds), "room");
    Victim {
        receiver: Receiver::accept(socket, trust).expect("a good beginning"),
        ring,
        peer,
        bells: [wakes, theirs],
    }
}

/// An event loop hears of the end behind the last bytes.
#[test]
fn a_producer_that_ends_is_heard_of_when_its_bell_has_rung() {
    let mut victim = victim();
    assert!(!victim.receiver.arm().expect("good") && !is_readable(&victim.receiver));
    put(&victim.ring, 0, [INLINE, 0, 4]);
    drop(victim.bells);
    assert!(is_readable(&victim.receiver));
    victim.receiver.woken();
    assert!(matches!(victim.receiver.read(9), Ok(Read::Data(data)) if data.len() == 4));
    let gone = victim.receiver.read(9);
    assert!(matches!(gone, Err(Error::PeerGone)), "{gone:?}");
}

/// One that writes as fast as it is read has its consumer go on for as long as the pipe is, not for good.
#[test]
fn a_call_ends_though_there_is_always_more() {
    let mut victim = victim();
    let (ring, is_over) = (&victim.ring, AtomicBool::new(false));
    let follow = || {
        while !is_over.load(Relaxed) {
            let head = get(ring, HEAD);
            // All four slots at once: one call for each would be slower than the reader.
            let mut slots = [[0_u8; 8]; 32];
            for position in head..head + 4 {
                let slot = 8 * (position % 4) as usize;
                for (n, word) in [position + 1, INLINE, 0, 1].into_iter().enumerate() {
                    slots[slot + n] = word.to_ne_bytes();
                }
            }
            rustix::io::pwrite(ring, slots.as_flattened(), 8 * SLOTS).expect("memory");
        }
    };
    std::thread::scope(|scope| {
        let writer = scope.spawn(follow);
        let now = Instant::now();
        let (end, patience) = (now + Duration::from_secs(1), now + Duration::from_secs(60));
        let mut most = 0;
        // And on until the writer has had a turn.
        let goes_on = |most| Instant::now() < end || most == 0 && Instant::now() < patience;
        while goes_on(most) && most <= 4 {
            if let Ok(Read::Data(data)) = victim.receiver.read(1000) {
                most = most.max(data.len());
            }
        }
        is_over.store(true, Relaxed);
        writer.join().expect("it only writes");
        assert!((1..=4).contains(&most), "{most}");
    });
}

#[test]
fn what_is_no_pool_is_refused() {
    let (_, life) = bells();
    let column = sealed(4096);
    let with = |word, value| {
        let pool = good_pool();
        set(&pool, word, value);
        pool
    };
    let open = memory(POOL_LEN, SealFlags::GROW);
    for (pool, column, number, why) in [
        (&with(0, 1), &column, 0, "no pool of this version"),
        (&with(1, 100), &column, 0, "from 64 bytes to 1 MiB"),
        (&with(1, u64::MAX), &column, 0, "no such shape"),
        (&with(2, 9), &column, 0, "another length than it says"),
        (&with(2, 1 << 40), &column, 0, "no such shape"),
        (&with(3, 0), &column, 0, "a share is of one buffer"),
        (&sealed(4096), &column, 0, "no pool of this version"),
        (&sealed(0), &column, 0, "no memory"),
        (&sealed(8 << 30), &column, 0, "longer than is mapped"),
        (&open, &column, 0, "may change its length"),
        (&good_pool(), &sealed(0), 0, "holds of another length"),
        (&good_pool(), &sealed(8192), 0, "holds of another length"),
        (&good_pool(), &life, 0, "no memory file"),
        (&good_pool(), &column, 1, "of which it did not tell"),
    ] {
        let fds = [pool.as_fd(), column.as_fd(), life.as_fd()];
        let refused = read_from(&fds, number).expect_err(why).to_string();
        assert!(refused.contains(why), "{refused}: {why}");
    }
    let fds = [good_pool(), column, life];
    let good = read_from(&fds.each_ref().map(AsFd::as_fd), 0);
    assert!(matches!(good, Ok(Read::Data(_))), "{good:?}");
    let mut victim = victim();
    put(&victim.ring, 0, [BUFFER, 1, 100]);
    assert!(victim.receiver.read(1000).is_err(), "no pool was told of");
}

/// What a consumer reads from a pool of which it is told.
fn read_from(fds: &[BorrowedFd<'_>], number: u32) -> exos_iolite::Result<Read> {
    let mut victim = victim();
    assert!(send(&victim.peer, [KIND_POOL, number, 0, 0], fds), "room");
    put(&victim.ring, 0, [BUFFER, 1, 100]);
    victim.receiver.read(1000)
}

#[test]
fn references_out_of_bounds_are_refused() {
    let ((_, life), column) = (bells(), sealed(4096));
    let start = |start: u64, len: u64| start << 32 | len;
    for words in [
        [BUFFER | 8, 1, 100],
        [BUFFER | 0xffff_ffff, 1, 100],
        [BUFFER | 1 << 48, 1, 100],
        [BUFFER | 255 << 48, 1, 100],
        [BUFFER, 0, 100],
        [BUFFER, 1, start(0, 4097)],
        [BUFFER, 1, start(4096, 1)],
        [BUFFER, 1, start(u64::from(u32::MAX), 2)],
        [BUFFER, 2, 100],
    ] {
        let mut victim = victim();
        let pool = good_pool();
        let fds = [pool.as_fd(), column.as_fd(), life.as_fd()];
        assert!(send(&victim.peer, [KIND_POOL, 0, 0, 0], &fds), "room");
        put(&victim.ring, 0, [BUFFER | 7, 1, start(1, 4095)]);
        put(&victim.ring, 1, words);
        assert!(victim.receiver.read(4095).is_ok(), "the first is good");
        assert!(victim.receiver.read(1000).is_err(), "{words:x?}");
    }
}

/// Any words anywhere, while it reads.
#[test]
fn a_producer_that_writes_anything_is_borne() {
    let ((_, life), column) = (bells(), sealed(4096));
    let (mut read, mut refused) = (0, 0);
    let seeds = (0..3000).flat_map(|seed| [(seed, Trust::Trusted), (seed, Trust::Untrusted)]);
    for (seed, trust) in seeds {
        // On a busy machine the two seldom run at once.
        if seed >= 60 && read > 100 && refused > 100 {
            break;
        }
        let (mut victim, pool) = (victim_with(trust), good_pool());
        let fds = [pool.as_fd(), column.as_fd(), life.as_fd()];
        assert!(send(&victim.peer, [KIND_POOL, 0, 0, 0], &fds), "room");
        let (ring, is_over) = (&victim.ring, AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| write_anything(ring, &pool, Random(seed), &is_over));
            let mut random = Random(!seed);
            let (mut kept, end) = (Aggregate::new(), Instant::now() + Duration::from_millis(5));
            while Instant::now() < end {
                match victim.receiver.read(random.below(5000)) {
                    Ok(Read::Data(data)) => {
                        read += 1;
                        kept.concatenate(data);
                    }
                    Ok(_) => {}
                    Err(_) => refused += 1,
                }
                kept.to_vec();
                let (keep, drop) = (kept.len().min(10_000), kept.len().saturating_sub(10_000));
                kept = kept.split(drop);
                assert_eq!(kept.len(), keep);
            }
            is_over.store(true, Relaxed);
        });
    }
    assert!(
        read > 100 && refused > 100,
        "{read} read, {refused} refused"
    );
}

/// Descriptors at the place where the consumer looks, most of them good, and any words beside them.
fn write_anything(ring: &OwnedFd, pool: &OwnedFd, mut random: Random, is_over: &AtomicBool) {
    while !is_over.load(Relaxed) {
        let head = get(ring, HEAD);
        let buffer = BUFFER | random.below(9) as u64;
        let (start, len) = (random.below(3000) as u64, random.below(1500) as u64);
        let generation = u64::from(!random.one_in(8));
        let words = [buffer, generation, start << 32 | len];
        put(ring, head, words);
        if random.one_in(4) {
            let value = random.next() >> random.below(64);
            // The head is the consumer's, by which it is followed here; the slots have 96 words.
            let word = random.below(96) as u64;
            set(ring, if word == HEAD { 0 } else { word }, value);
            set(pool, random.below(600) as u64, value);
        }
    }
}

/// A producer of this crate, and the memory that its consumer, made by hand, has.
fn attacked(pool: &exos_iolite::Pool) -> (Sender, OwnedFd, Vec<OwnedFd>) {
    let (socket, peer) = sockets();
    let options = Options {
        slots: 4,
        spares: 0,
        pools: 16,
    };
    let sender = Sender::connect(socket, pool, options).expect("a pipe");
    let fds = receive(&peer);
    (sender, peer, fds)
}

#[test]
fn a_consumer_that_says_that_it_took_what_was_not_there_is_told_of() {
    for head in [2, u64::MAX, 1 << 63] {
        let pool = pool(SMALL);
        let (mut sender, _peer, fds) = attacked(&pool);
        sender
            .write(&mut bytes(&pool, 1, 100).into())
            .expect("room");
        set(&fds[0], HEAD, head);
        let mut more: Aggregate = bytes(&pool, 1, 100).into();
        assert!(matches!(sender.write(&mut more), Err(Error::PeerFault(_))));
        assert!(matches!(sender.write(&mut more), Err(Error::PeerGone)));
    }
}

/// Holds of what it never got, and of all there is: it is no member any more.
#[test]
fn a_consumer_that_says_that_it_has_everything_is_not_believed() {
    let pool = pool(SMALL);
    let (mut sender, peer, _pipe) = attacked(&pool);
    sender
        .write(&mut bytes(&pool, 1, 100).into())
        .expect("room");
    let told = receive(&peer);
    let column = &told[1];
    (0..4).for_each(|buffer| set(column, buffer, u64::MAX));
    let others: Vec<_> = (0..8).map_while(|_| pool.draft(4096).ok()).collect();
    assert!(others.len() >= 3, "it keeps its share at most");
    drop(others);
    (0..8).for_each(|buffer| set(column, buffer, 1));
    let usage = pool.look();
    assert_eq!((usage.free, usage.own, usage.members), (7, 1, 0));
    let mut more: Aggregate = bytes(&pool, 1, 100).into();
    assert!(matches!(sender.write(&mut more), Err(Error::PeerGone)));
}

/// One that shares with others is believed only what it was given.
#[test]
fn one_that_shares_and_says_that_it_has_what_it_never_got_is_not_believed() {
    let pool = pool(SMALL);
    let (mut sender, peer, _pipe) = attacked(&pool);
    sender.count_in(exos_iolite::Share::new(4));
    let mut first: Aggregate = bytes(&pool, 1, 4096).into();
    sender.write(&mut first).expect("room");
    let told = receive(&peer);
    set(&told[1], 0, 1);
    assert_eq!(pool.look().members, 1);
    set(&told[1], 5, 1);
    assert_eq!(pool.look().members, 0);
}

/// One that lets go of a buffer and then takes another, while its words are read one by one, is a member.
#[test]
fn a_member_that_takes_and_lets_go_keeps_to_its_share() {
    let shape = Shape {
        buffer_len: 64,
        buffers: 4096,
        share: 1,
    };
    let pool = pool(shape);
    let (mut sender, peer, _pipe) = attacked(&pool);
    sender.write(&mut bytes(&pool, 1, 64).into()).expect("room");
    let column = receive(&peer);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for take in (1_u64..).take_while(|_| !is_over.load(Relaxed)) {
                for buffer in [1, 4000] {
                    set(&column[1], buffer, take << 48 | 1);
                    set(&column[1], buffer, 0);
                }
            }
        });
        let end = Instant::now() + Duration::from_secs(1);
        let mut members = 1;
        while members == 1 && Instant::now() < end {
            members = pool.look().members;
        }
        is_over.store(true, Relaxed);
        assert_eq!(members, 1, "it is a member no more");
    });
}

/// What has the pool's descriptor cannot write it.
#[test]
fn a_consumer_cannot_write_the_pool() {
    let pool = pool(SMALL);
    let (mut sender, peer, _pipe) = attacked(&pool);
    let slice = bytes(&pool, 1, 100);
    sender.write(&mut slice.clone().into()).expect("room");
    let told = receive(&peer);
    let hole = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
    assert!(rustix::io::pwrite(&told[0], &[7; 100], 4096).is_err());
    assert!(rustix::fs::ftruncate(&told[0], 0).is_err());
    assert!(rustix::fs::fallocate(&told[0], hole, 0, POOL_LEN).is_err());
    let path = format!(
        "/proc/self/fd/{}",
        std::os::fd::AsRawFd::as_raw_fd(&told[0])
    );
    let opened = std::fs::File::options().read(true).write(true).open(path);
    let written = opened.and_then(|file| std::os::unix::fs::FileExt::write_at(&file, &[7], 4096));
    assert!(written.is_err());
    assert_eq!(slice.as_bytes().expect("ours"), [1; 100]);
}
