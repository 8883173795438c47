//! Connections that are followed, in two generations: when the younger one is full, the older one is forgotten. What is still spoken of
//! moves to the younger one. All that they keep has one bound, and each a share of it.

use std::collections::HashMap;
use std::hash::Hash;

use crate::limits::{CONNECTION_HELD_MAX, DECRYPTED_CONNECTIONS_MAX, HELD_BYTES_MAX};

/// What is followed.
pub(super) trait Follow {
    /// Bytes that it keeps.
    fn held(&self) -> usize;

    /// Gives its bytes up, if they are many: it waits for what may never come.
    fn let_go_of_much(&mut self);
}

impl<C: Follow> Follow for Box<C> {
    fn held(&self) -> usize {
        (**self).held()
    }

    fn let_go_of_much(&mut self) {
        (**self).let_go_of_much();
    }
}

/// The connections.
#[derive(Debug)]
pub(super) struct Generations<K, C> {
    young: HashMap<K, C>,
    old: HashMap<K, C>,
    held: usize,
}

impl<K, C> Default for Generations<K, C> {
    fn default() -> Self {
        Self {
            young: HashMap::new(),
            old: HashMap::new(),
            held: 0,
        }
    }
}

impl<K: Eq + Hash, C: Follow> Generations<K, C> {
    /// Looks at a connection.
    pub(super) fn get(&self, key: &K) -> Option<&C> {
        self.young.get(key).or_else(|| self.old.get(key))
    }

    /// Takes a connection out.
    pub(super) fn take(&mut self, key: &K) -> Option<C> {
        let known = self.young.remove(key).or_else(|| self.old.remove(key));
        self.held -= known.as_ref().map_or(0, C::held);
        known
    }

    /// Keeps a connection, and gives those that are forgotten for it.
    pub(super) fn keep(&mut self, key: K, mut connection: C) -> HashMap<K, C> {
        if connection.held() > CONNECTION_HELD_MAX {
            connection.let_go_of_much(); // Else all others would go for this one.
        }
        self.held += connection.held();
        let mut forgotten = HashMap::new();
        let is_full = self.young.len() >= DECRYPTED_CONNECTIONS_MAX / 2;
        if is_full || self.held > HELD_BYTES_MAX {
            let old = std::mem::take(&mut self.young);
            forgotten = std::mem::replace(&mut self.old, old);
            self.count_held(&connection);
        }
        if self.held > HELD_BYTES_MAX {
            // Those that hold much wait for what may never come; all others go on.
            self.old.values_mut().for_each(C::let_go_of_much);
            self.count_held(&connection);
        }
        self.young.insert(key, connection);
        forgotten
    }

    /// Counts the bytes of all that are old, and of this one.
    fn count_held(&mut self, connection: &C) {
        let held = self.old.values().map(C::held).sum::<usize>();
        self.held = held + connection.held();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::MUCH_BYTES;

    /// Bytes that it keeps.
    struct Held(usize);

    impl Follow for Held {
        fn held(&self) -> usize {
            self.0
        }

        fn let_go_of_much(&mut self) {
            if self.0 > MUCH_BYTES {
                self.0 = 0;
            }
        }
    }

    /// What is spoken of stays, and what is forgotten is given back once.
    #[test]
    fn connections_are_bounded() {
        let mut all = Generations::default();
        let mut forgotten = 0;
        for key in 0..3 * DECRYPTED_CONNECTIONS_MAX {
            assert!(
                all.keep(key, Held(1))
                    .keys()
                    .all(|old| *old != 0 && *old < key)
            );
            let first = all.take(&0).expect("it is spoken of");
            forgotten += all.keep(0, first).len();
            assert!(all.young.len() + all.old.len() <= DECRYPTED_CONNECTIONS_MAX + 1);
        }
        assert!(all.take(&1).is_none() && all.take(&0).is_some());
        assert!(forgotten <= 2 * DECRYPTED_CONNECTIONS_MAX);
        assert_eq!(all.held, all.young.len() + all.old.len());
    }

    #[test]
    fn bytes_are_bounded() {
        let mut all = Generations::default();
        for key in 0..4 * (HELD_BYTES_MAX >> 20) {
            all.keep(key, Held(1 << 20));
            assert!(all.held <= HELD_BYTES_MAX + (1 << 20));
        }
        // One that keeps little goes on beside those that keep much.
        all.keep(usize::MAX, Held(100));
        for key in 0..HELD_BYTES_MAX >> 20 {
            all.keep(key + 10_000, Held(1 << 20));
        }
        assert_eq!(all.take(&usize::MAX).map(|it| it.0), Some(100));
    }

    /// Whatever one of them holds, the others stay.
    #[test]
    fn one_that_keeps_too_much_goes_alone() {
        let mut all = Generations::default();
        all.keep(0, Held(100));
        for _ in 0..3 {
            all.keep(1, Held(2 * HELD_BYTES_MAX));
            assert!(all.held <= HELD_BYTES_MAX);
            assert_eq!(all.take(&1).map(|it| it.0), Some(0));
        }
        assert_eq!(all.take(&0).map(|it| it.0), Some(100));
    }
}
