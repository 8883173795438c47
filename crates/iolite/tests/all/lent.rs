//! What a member lends to other threads of its process.

use crate::common::{SMALL, bytes, pipe, pool, read};
use exos_iolite::{Aggregate, Lent, Options, Pool, Receiver, Sender, Trust};

/// Two buffers and a few bytes, which come in a slot of the pipe, as a member has them.
fn lent(pool: &Pool) -> (Sender, Receiver, Lent) {
    let (mut sender, mut receiver) = pipe(pool, Options::default(), Trust::Trusted);
    let mut sent: Aggregate = [(1, 4096), (2, 4000), (3, 20)]
        .map(|(byte, len)| bytes(pool, byte, len))
        .into_iter()
        .collect();
    sender.write(&mut sent).expect("room");
    let mut data = read(&mut receiver, 8116);
    let behind = data.split(1);
    drop(sent);
    (sender, receiver, behind.lend())
}

fn content(lent: &Lent) -> Vec<u8> {
    let mut out = vec![0; lent.len()];
    lent.copy_to(0, &mut out);
    out
}

fn wanted() -> Vec<u8> {
    [vec![1; 4095], vec![2; 4000], vec![3; 20]].concat()
}

/// All of the other buffers are written, which would be the lent ones too if nobody had them.
fn fill(pool: &Pool) {
    let drafts: Vec<_> = std::iter::from_fn(|| pool.draft(4096).ok()).collect();
    for mut draft in drafts {
        draft.bytes_mut().fill(9);
        drop(draft.freeze());
    }
}

#[test]
fn any_thread_reads_what_is_lent_and_its_member_takes_it_back() {
    let pool = pool(SMALL);
    let (_sender, receiver, lent) = lent(&pool);
    assert_eq!(lent.taken(), 2 * 4096);
    let other = std::thread::spawn(move || {
        assert_eq!(content(&lent), wanted());
        for (start, len) in [(4000, 200), (8090, 25), (8095, 0), (8114, 1)] {
            let mut part = vec![0; len];
            lent.copy_to(start, &mut part);
            assert_eq!(part, wanted()[start..start + len], "{start} {len}");
        }
        lent
    });
    let lent = other.join().expect("it reads");
    receiver.take_back();
    fill(&pool);
    assert_eq!(content(&lent), wanted());
    assert_eq!(pool.look().free, SMALL.buffers - 2);
    std::thread::spawn(move || drop(lent)).join().expect("room");
    // The member has not looked.
    assert_eq!(pool.look().free, SMALL.buffers - 2);
    receiver.take_back();
    assert_eq!(pool.look().free, SMALL.buffers);
}

#[test]
fn what_is_lent_outlives_the_thread_that_lent_it() {
    let pool = pool(SMALL);
    let (sender, receiver, lent) = lent(&pool);
    drop((sender, receiver));
    fill(&pool);
    assert_eq!(content(&lent), wanted());
    assert_eq!(pool.look_at_members(), 1);
    drop(lent);
    assert_eq!(pool.look_at_members(), 0);
    assert_eq!(pool.look().free, SMALL.buffers);
}

/// Each buffer is free when nobody uses it any more, though the pipe is closed and another is in use.
#[test]
fn a_member_takes_back_what_it_lent_before_it_retired() {
    let pool = pool(SMALL);
    let (sender, receiver, first) = lent(&pool);
    let (_sender, _receiver, other) = lent(&pool);
    let loans = receiver.retire();
    drop(sender);
    assert_eq!(pool.look().free, SMALL.buffers - 4);
    loans.take_back();
    assert!(!loans.are_over());
    assert_eq!(content(&first), wanted());
    std::thread::spawn(move || drop(first))
        .join()
        .expect("room");
    loans.take_back();
    assert!(loans.are_over());
    pool.look_at_members();
    assert_eq!(pool.look().free, SMALL.buffers - 2);
    assert_eq!(content(&other), wanted());
}

#[test]
#[should_panic(expected = "of 8115")]
fn nothing_is_behind_its_end() {
    let (_sender, _receiver, lent) = lent(&pool(SMALL));
    lent.copy_to(8110, &mut [0; 6]);
}
