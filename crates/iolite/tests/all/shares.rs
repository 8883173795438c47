//! Members that share what they may have.

use crate::common::{SMALL, bytes, pipe, pool, read};
use exos_iolite::{Aggregate, Error, Options, Pool, Receiver, Sender, Share, Trust};

fn sharing(pool: &Pool, share: &Share) -> (Sender, Receiver) {
    let (mut sender, receiver) = pipe(pool, Options::default(), Trust::Trusted);
    sender.count_in(share.clone());
    (sender, receiver)
}

/// How many of these buffers are sent; an error where none is, and none is under way of which the end could be waited for.
fn send(pool: &Pool, sender: &mut Sender, buffers: usize) -> Result<usize, Error> {
    let mut all = pool.copy(&vec![1; buffers * 4096]).expect("room");
    sender.write(&mut all).map(|len| len / 4096)
}

/// Three buffers for two members, each of which alone might have four; and a third member that shares nothing.
#[test]
fn what_one_has_the_other_has_not() {
    let pool = pool(SMALL);
    let share = Share::new(3);
    let (mut one, mut reads_one) = sharing(&pool, &share);
    let (mut two, mut reads_two) = sharing(&pool, &share);
    let (mut other, _reads_other) = pipe(&pool, Options::default(), Trust::Trusted);
    let sent = |sender: &mut Sender, buffers| send(&pool, sender, buffers).expect("room");
    assert_eq!(sent(&mut one, 2), 2);
    let held = read(&mut reads_one, 8192);
    assert_eq!(sent(&mut two, 2), 1);
    let last = read(&mut reads_two, 4096);
    for sender in [&mut one, &mut two] {
        let error = send(&pool, sender, 1).expect_err("three are had");
        assert!(
            matches!(error, Error::ShareExceeded { held: 3, share: 3 }),
            "{error}"
        );
    }
    assert_eq!(sent(&mut other, 1), 1);
    assert_eq!(share.left(), 0);
    // What one of them lets go of the other may have.
    drop(held);
    assert_eq!(sent(&mut two, 3), 2);
    drop((last, read(&mut reads_two, 8192)));
    assert_eq!(sent(&mut one, 3), 3);
    // What a member had that has ended counts no more.
    let held = read(&mut reads_one, 3 * 4096);
    assert!(send(&pool, &mut two, 1).is_err());
    drop((held, reads_one));
    assert_eq!(sent(&mut two, 3), 3);
    assert_eq!(share.count(), 3);
}

/// What is reserved can be sent, whatever those that share take meanwhile, and comes free when it is not sent.
#[test]
fn a_part_counts_in_the_whole() {
    let pool = pool(SMALL);
    let whole = Share::new(3);
    let parts = [whole.part(2), whole.part(2)];
    let [mut one, mut two] = parts.each_ref().map(|part| sharing(&pool, part));
    let more: Aggregate = bytes(&pool, 1, 4096).into();
    let reserve = |sender: &mut Sender, what: &Aggregate| {
        let reserved = sender.reserve(what);
        reserved.or_else(|_| {
            sender.look_at_share(1);
            sender.reserve(what)
        })
    };
    assert_eq!(send(&pool, &mut one.0, 3).expect("room"), 2);
    // Two are under way: that they are taken can be waited for.
    assert_eq!(send(&pool, &mut one.0, 1).expect("room comes"), 0);
    assert!(reserve(&mut one.0, &more).is_err());
    assert_eq!((parts[0].left(), parts[1].left()), (0, 1));
    let same: Aggregate = bytes(&pool, 9, 4096).into();
    let reserved = reserve(&mut two.0, &same).expect("it is the last");
    assert_eq!((whole.count(), parts[1].left()), (3, 0));
    drop(read(&mut one.1, 4096));
    assert_eq!(send(&pool, &mut one.0, 2).expect("room"), 1);
    two.0.write(&mut same.clone()).expect("it is reserved");
    drop(reserved);
    // What it has already is nothing more.
    drop(reserve(&mut two.0, &same).expect("it has that"));
    let held = read(&mut one.1, 8192);
    assert!(reserve(&mut two.0, &more).is_err());
    drop(held);
    let reserved = reserve(&mut two.0, &more).expect("there is room");
    assert_eq!((whole.count(), parts[1].count()), (2, 2));
    drop((reserved, read(&mut two.1, 4096)));
    two.0.look_at_share(3);
    assert_eq!((whole.count(), parts[1].count()), (0, 0));
    // Few bytes travel in a descriptor.
    let few: Aggregate = bytes(&pool, 1, 20).into();
    assert!(reserve(&mut two.0, &few).expect("no buffer").is_none());
}

/// One that was given up may still take what is under way to it: that counts, and it is a member for as long as it has that.
#[test]
fn what_was_under_way_when_a_pipe_was_given_up_counts() {
    let pool = pool(SMALL);
    let share = Share::new(3);
    let (mut sender, mut receiver) = sharing(&pool, &share);
    let kept: Aggregate = bytes(&pool, 7, 4096).into();
    sender.write(&mut kept.clone()).expect("room");
    assert_eq!(send(&pool, &mut sender, 1).expect("room"), 1);
    sender.give_up();
    pool.look();
    assert_eq!(share.count(), 2);
    let held = read(&mut receiver, 4096);
    assert_eq!((pool.look().members, share.count()), (1, 2));
    assert_eq!(held.to_vec(), [7; 4096]);
    // With the pipe closed the other one cannot be taken any more: it is no part of the share when that is asked for.
    drop(receiver);
    assert_eq!(pool.look().members, 1);
    let (mut other, its_end) = sharing(&pool, &share);
    let more = pool.copy(&[8; 8192]).expect("room");
    other.look_at_share(2);
    drop(other.reserve(&more).expect("one of three is held"));
    drop((other, its_end));
    drop(held);
    assert_eq!((pool.look().members, share.count()), (0, 0));
}
