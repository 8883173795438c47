//! The operations of aggregates, beside the same on vectors.

use crate::common::{SMALL, bytes, pool};
use exos_iolite::{Aggregate, Bytes, Pool, Slice, SumCache};
use exos_testing::Random;
use exos_wire::checksum::Sum;

/// A slice of bytes, in the pool or of this process alone.
fn slice(random: &mut Random, pool: &Pool) -> (Slice, Vec<u8>) {
    let len = random.below(50);
    let bytes = random.bytes(len);
    if random.one_in(2) {
        let local = exos_buf::Buffer::from(&bytes[..]).whole();
        return (local.into(), bytes);
    }
    let mut draft = pool.draft(bytes.len()).expect("a buffer");
    draft.bytes_mut().copy_from_slice(&bytes);
    (draft.freeze(), bytes)
}

fn operate(random: &mut Random, pool: &Pool, ours: &mut Aggregate, other: &mut Vec<u8>) {
    let at = random.below(other.len() + 1);
    match random.below(6) {
        0 => {
            let (slice, bytes) = slice(random, pool);
            ours.append(slice);
            other.extend(bytes);
        }
        1 => {
            let (slice, bytes) = slice(random, pool);
            ours.prepend(slice);
            other.splice(0..0, bytes);
        }
        2 => {
            ours.truncate(at);
            other.truncate(at);
        }
        3 => {
            let mut front = std::mem::take(ours);
            let mut behind = front.split(at);
            assert_eq!((front.len(), behind.len()), (at, other.len() - at));
            behind.concatenate(front);
            *ours = behind;
            other.rotate_left(at);
        }
        4 => {
            let end = at + random.below(other.len() - at + 1);
            let (slice, bytes) = slice(random, pool);
            ours.replace(at..end, slice.into());
            other.splice(at..end, bytes);
        }
        _ => {
            let twice = ours.clone();
            ours.concatenate(twice);
            other.extend_from_within(..);
            ours.truncate(2000);
            other.truncate(2000);
        }
    }
}

#[test]
fn operations_do_what_they_do_to_vectors() {
    for seed in 0..200 {
        let (mut random, pool) = (Random(seed), pool(SMALL));
        let (mut ours, mut other) = (Aggregate::new(), Vec::new());
        for _ in 0..60 {
            operate(&mut random, &pool, &mut ours, &mut other);
            assert_eq!(ours.to_vec(), other, "seed {seed}");
            assert_eq!(
                (ours.len(), ours.is_empty()),
                (other.len(), other.is_empty())
            );
            assert!(ours.slices().all(|slice| !slice.is_empty()));
            assert_eq!(ours.sum().finish(), Sum::of(&other).finish(), "seed {seed}");
            let end = random.below(other.len() + 1);
            let start = random.below(end + 1);
            let mut part = vec![0; end - start];
            ours.copy_to(start..end, &mut part);
            assert_eq!(part, other[start..end]);
        }
        let local = ours.to_local();
        assert_eq!(local.to_vec(0..local.len()), other);
        drop(ours);
        assert_eq!(pool.look().free, SMALL.buffers, "all came back");
    }
}

#[test]
fn what_is_changed_is_chained_and_the_rest_stays_where_it_is() {
    let pool = pool(SMALL);
    let whole = Aggregate::from(bytes(&pool, b'a', 100));
    let mut changed = whole.clone();
    changed.replace(40..60, bytes(&pool, b'b', 5).into());
    assert_eq!((whole.len(), changed.len()), (100, 85));
    let place = |slice: &Slice| match slice.bytes() {
        Bytes::Immutable(bytes) => bytes.as_ptr().addr(),
        Bytes::Trusted(_) => panic!("it is ours"),
    };
    let start = place(whole.first().expect("one"));
    let places: Vec<usize> = changed.slices().map(place).collect();
    assert_eq!((places[0], places[2]), (start, start + 60));
}

/// A buffer that is used again is of another generation, so its sums are others.
#[test]
fn a_sum_that_is_remembered_is_of_these_bytes() {
    let (pool, mut sums) = (pool(SMALL), SumCache::new());
    for turn in 0..100_u8 {
        let slice = bytes(&pool, turn, 4096);
        let sum = sums.slice(&slice).value();
        assert_eq!(sum, Sum::of(&[turn; 4096]).value());
        assert_eq!(sums.slice(&slice).value(), sum);
    }
    assert_eq!(sums.hits_and_misses(), (100, 100));
    let slice = bytes(&pool, 1, 4096);
    let both: Aggregate = [slice.sub(0..1), slice.sub(1..4096)].into_iter().collect();
    assert_eq!(sums.aggregate(&both).finish(), Sum::of(&[1; 4096]).finish());
}
