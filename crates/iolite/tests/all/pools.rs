//! Buffers of one process.

use crate::common::{SMALL, bytes, pool};
use exos_iolite::{Error, Pool, Shape};

#[test]
fn shapes_beyond_the_limits_are_refused() {
    let shape = |buffer_len, buffers, share| Shape {
        buffer_len,
        buffers,
        share,
    };
    for wrong in [
        shape(0, 1, 1),
        shape(100, 1, 1),
        shape(1 << 21, 1, 1),
        shape(4096, 0, 1),
        shape(64, 1 << 17, 1),
        shape(1 << 20, 1024, 1),
        shape(4096, 8, 0),
        shape(4096, 8, 9),
    ] {
        let refused = Pool::new("exos-test", wrong);
        assert!(matches!(refused, Err(Error::Shape(_))), "{wrong:?}");
    }
    Pool::new("exos-test", shape(64, 1, 1)).expect("the smallest");
}

#[test]
fn small_drafts_share_a_buffer_and_a_buffer_comes_back_with_the_last() {
    let pool = pool(SMALL);
    let slices: Vec<_> = (0..8).map(|n| bytes(&pool, n, 500)).collect();
    assert_eq!((pool.look().free, pool.look().own), (7, 1));
    for (n, slice) in slices.iter().enumerate() {
        assert_eq!(slice.as_bytes().expect("ours"), [n as u8; 500]);
    }
    let last = slices[7].sub(499..500);
    drop(slices);
    assert_eq!(pool.look().own, 1);
    assert_eq!(last.as_bytes().expect("ours"), [7]);
    drop(last);
    assert_eq!(pool.look().free, 8);
}

#[test]
fn there_are_as_many_buffers_as_there_are() {
    let pool = pool(SMALL);
    let all: Vec<_> = (0..8).map(|n| bytes(&pool, n, 4096)).collect();
    for _ in 0..2 {
        let none = pool.draft(1).expect_err("all are used");
        assert_eq!(
            none.to_string(),
            "all 8 buffers of the pool are in use, 0 of them by one member"
        );
    }
    drop(all);
    assert!(matches!(
        pool.draft(4097),
        Err(Error::TooLong { most: 4096, .. })
    ));
    let copy = pool.copy(&[9; 10_000]).expect("room");
    assert_eq!((copy.slices().len(), copy.to_vec()), (3, vec![9; 10_000]));
    drop(copy);
    // What nobody has is used again, and as little as can be.
    for _ in 0..1000 {
        bytes(&pool, 1, 4096);
    }
    assert_eq!(pool.look().free, 8);
}

#[test]
fn members_come_and_go_and_are_not_too_many() {
    let pool = pool(SMALL);
    for _ in 0..3 {
        let members: Vec<_> = (0..64).map(|_| pool.invite().expect("room")).collect();
        assert!(matches!(pool.invite(), Err(Error::Members)));
        assert_eq!(pool.look().members, 64);
        drop(members);
        assert_eq!(pool.look().members, 0);
    }
}
