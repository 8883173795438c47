//! Which slot a four-tuple's connection lies in: a hash table whose buckets are cache lines.
//!
//! A bucket holds ten entries, each sixteen bits of its hash (the tag) and a slot's number, so that a look-up
//! reads one line here and then, the tag being right, the one that begins the control block. A bucket that is
//! full passes entries on to the next, and counts them: only while that count is not zero does a look-up go on
//! there, once around at most: what was passed on stays where it is when its bucket empties, so in a small table
//! every count may be more than zero. The count makes removal exact; there are no tombstones, and a table that connections come to and leave
//! for ever stays as it is.
//!
//! Hashes are not stored here: the owner keeps each connection's, and tells it when the table grows. They must
//! come from a keyed function that outsiders cannot foretell (`flow`), else they could fill one bucket's chain.
//!
//! Rules: a slot is inserted at most once; `remove` is given the hash that `insert` was given.

use std::mem;

/// Entries of a bucket: with tags, numbers and two small counts they fill a cache line of 64 bytes.
const WAYS: usize = 10;

/// Buckets of the smallest table.
const BUCKETS_MIN: usize = 4;

/// The table grows when more than this part of it is taken: eight of ten. One in twenty entries then lies one
/// bucket further than its own.
const LOAD_MAX: (usize, usize) = (8, 10);

#[repr(C, align(64))]
#[derive(Clone, Default)]
struct Bucket {
    tags: [u16; WAYS],
    /// Bit `n` is set when entry `n` is one.
    taken: u16,
    /// Entries of this bucket, and of those before it, that lie further on.
    passed: u16,
    slots: [u32; WAYS],
}

/// All entries taken.
const FULL: u16 = (1 << WAYS) - 1;

impl Bucket {
    /// Where the entries with this tag are, as bits.
    #[inline]
    fn matches(&self, tag: u16) -> u16 {
        let mut bits = 0;
        for (n, &t) in self.tags.iter().enumerate() {
            bits |= u16::from(t == tag) << n;
        }
        bits & self.taken
    }
}

/// The bits that are set, lowest first.
#[inline]
fn ones(mut bits: u16) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let n = bits.trailing_zeros() as usize;
        let some = bits != 0;
        bits &= bits.wrapping_sub(1);
        some.then_some(n)
    })
}

/// The upper half: the lower bits choose the bucket.
#[inline]
const fn tag_of(hash: u32) -> u16 {
    (hash >> 16) as u16
}

/// The table.
#[derive(Default)]
pub(in crate::tcp) struct Index {
    /// None, or a power of two.
    buckets: Vec<Bucket>,
    len: usize,
}

impl Index {
    /// How many entries there are.
    #[inline]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Take all slots out, and keep the room.
    pub fn clear(&mut self) {
        self.buckets.fill(Bucket::default());
        self.len = 0;
    }

    /// The slot among those with this hash for which `is_it` holds.
    #[inline]
    pub fn find(&self, hash: u32, mut is_it: impl FnMut(u32) -> bool) -> Option<u32> {
        if self.buckets.is_empty() {
            return None;
        }
        let home = self.home(hash);
        let mut at = home;
        loop {
            let bucket = &self.buckets[at];
            for n in ones(bucket.matches(tag_of(hash))) {
                if is_it(bucket.slots[n]) {
                    return Some(bucket.slots[n]);
                }
            }
            if bucket.passed == 0 {
                return None;
            }
            at = self.next(at);
            if at == home {
                return None;
            }
        }
    }

    /// Add a slot, which must not be there. `hash_of` tells the hashes of those that are.
    #[inline]
    pub fn insert(&mut self, hash: u32, slot: u32, hash_of: impl Fn(u32) -> u32) {
        let (most, of) = LOAD_MAX;
        if (self.len + 1) * of > self.buckets.len() * WAYS * most {
            self.grow(hash_of);
        }
        self.place(hash, slot);
        self.len += 1;
    }

    /// Take a slot out; false when it is not there.
    pub fn remove(&mut self, hash: u32, slot: u32) -> bool {
        if self.buckets.is_empty() {
            return false;
        }
        let home = self.home(hash);
        let mut at = home;
        let way = loop {
            let bucket = &self.buckets[at];
            let found = ones(bucket.matches(tag_of(hash))).find(|&n| bucket.slots[n] == slot);
            match found {
                Some(way) => break way,
                None if bucket.passed == 0 || self.next(at) == home => return false,
                None => at = self.next(at),
            }
        };
        self.buckets[at].taken &= !(1 << way);
        self.len -= 1;
        let mut on_the_way = home;
        while on_the_way != at {
            self.buckets[on_the_way].passed -= 1;
            on_the_way = self.next(on_the_way);
        }
        true
    }

    #[inline]
    fn home(&self, hash: u32) -> usize {
        hash as usize & (self.buckets.len() - 1)
    }

    #[inline]
    fn next(&self, at: usize) -> usize {
        (at + 1) & (self.buckets.len() - 1)
    }

    /// Put an entry where there is room, beginning with its own bucket.
    #[inline]
    fn place(&mut self, hash: u32, slot: u32) {
        let mut at = self.home(hash);
        while self.buckets[at].taken == FULL {
            self.buckets[at].passed += 1;
            at = self.next(at);
        }
        let bucket = &mut self.buckets[at];
        let way = (!bucket.taken).trailing_zeros() as usize;
        bucket.taken |= 1 << way;
        (bucket.tags[way], bucket.slots[way]) = (tag_of(hash), slot);
    }

    /// Twice the buckets.
    #[cold]
    fn grow(&mut self, hash_of: impl Fn(u32) -> u32) {
        let count = (self.buckets.len() * 2).max(BUCKETS_MIN);
        let before = mem::replace(&mut self.buckets, vec![Bucket::default(); count]);
        for bucket in &before {
            for n in ones(bucket.taken) {
                self.place(hash_of(bucket.slots[n]), bucket.slots[n]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    #[test]
    fn a_bucket_is_a_cache_line() {
        assert_eq!((size_of::<Bucket>(), align_of::<Bucket>()), (64, 64));
    }

    /// As outsiders see it: a good hash.
    fn mixed(n: u32) -> u32 {
        crate::siphash::Random::new(u64::from(n)).next_u64() as u32
    }

    /// Few look-ups leave their own bucket, at any fill: the promise of one cache line.
    #[test]
    fn entries_lie_in_their_own_bucket() {
        let mut index = Index::default();
        for n in 0..100_000 {
            index.insert(mixed(n), n, mixed);
        }
        let at_home = (0..100_000)
            .filter(|&n| index.buckets[index.home(mixed(n))].slots.contains(&n))
            .count();
        assert!(at_home > 93_000, "{at_home}");
        let room = index.buckets.len() * WAYS;
        assert!(room < 100_000 * 5 / 2, "{room} places");
    }

    #[test]
    fn coming_and_going_leaves_nothing_behind() {
        let mut index = Index::default();
        let hash = |n: u32| mixed(n);
        for n in 0..1_000 {
            index.insert(hash(n), n, hash);
        }
        let size = index.buckets.len();
        for n in 0..200_000 {
            assert!(index.remove(hash(n), n));
            index.insert(hash(n + 1_000), n + 1_000, hash);
        }
        assert_eq!((index.len(), index.buckets.len()), (1_000, size));
        (200_000..201_000).for_each(|n| assert!(index.remove(hash(n), n)));
        assert!(index.len() == 0 && index.buckets.iter().all(|b| b.passed == 0 && b.taken == 0));
    }

    /// Each bucket was full once and has passed on one entry, which stays: a look-up in vain still ends.
    #[test]
    fn a_look_up_in_vain_ends_where_it_began() {
        let hash = |slot: u32| slot / 100;
        let mut index = Index::default();
        for bucket in 0..BUCKETS_MIN as u32 {
            let slots = 100 * bucket..;
            let count = index
                .buckets
                .get(bucket as usize)
                .map_or(0, |b| b.taken.count_ones());
            let here: Vec<u32> = slots.take(WAYS + 1 - count as usize).collect();
            here.iter()
                .for_each(|&slot| index.insert(hash(slot), slot, hash));
            let (_, staying) = here.split_last().unwrap();
            staying
                .iter()
                .for_each(|&slot| assert!(index.remove(hash(slot), slot)));
        }
        assert_eq!(index.buckets.len(), BUCKETS_MIN);
        assert!(index.buckets.iter().all(|b| b.passed > 0));
        for home in 0..BUCKETS_MIN as u32 {
            assert_eq!(index.find(home, |_| false), None);
            assert!(!index.remove(home, 1000));
        }
    }

    proptest! {
        /// Against a map, with so bad a hash that chains are long.
        #[test]
        fn agrees_with_a_map(steps in prop::collection::vec((any::<bool>(), 0u32..300), 1..2000)) {
            let hash = |n: u32| (n % 5) | (n % 3) << 16;
            let mut index = Index::default();
            let mut model: HashMap<u32, u32> = HashMap::new();
            for (add, n) in steps {
                if add && !model.contains_key(&n) {
                    index.insert(hash(n), n, hash);
                    model.insert(n, hash(n));
                } else if !add {
                    prop_assert_eq!(index.remove(hash(n), n), model.remove(&n).is_some());
                }
                prop_assert_eq!(index.len(), model.len());
            }
            for n in 0..300 {
                let found = index.find(hash(n), |slot| slot == n);
                prop_assert_eq!(found.is_some(), model.contains_key(&n));
            }
        }
    }
}
