//! Connections that are followed, in two generations: when the younger one is full, by number or by bytes, the older one is forgotten. What
//! is still spoken of moves to the younger one, which is empty then: so it stays as long as others do not fill a whole generation between two
//! of its packets. All that they keep has one bound, and each generation and each connection a share of it.

use std::collections::HashMap;
use std::hash::Hash;

use crate::limits::{
    CONNECTION_HELD_MAX, DECRYPTED_CONNECTIONS_MAX, MUCH_BYTES, SILENT_HELD_MAX, YOUNG_HELD_MAX,
};

/// What is followed.
pub(super) trait Follow {
    /// Bytes that it keeps.
    fn held(&self) -> usize;

    /// Nothing more is expected of it.
    fn is_done(&self) -> bool;

    /// Gives its bytes up: nothing more is told of it.
    fn forget(&mut self);
}

/// The connections.
#[derive(Debug)]
pub(super) struct Generations<K, C> {
    young: HashMap<K, Box<C>>,
    old: HashMap<K, Box<C>>,
    /// Bytes of the younger one.
    young_held: usize,
    forgotten: u64,
}

impl<K, C> Default for Generations<K, C> {
    fn default() -> Self {
        Self {
            young: HashMap::new(),
            old: HashMap::new(),
            young_held: 0,
            forgotten: 0,
        }
    }
}

impl<K: Eq + Hash, C: Follow> Generations<K, C> {
    /// Looks at a connection.
    pub(super) fn get(&self, key: &K) -> Option<&C> {
        let known = self.young.get(key).or_else(|| self.old.get(key));
        known.map(Box::as_ref)
    }

    /// How many were forgotten, or have lost what they kept, before they were done.
    pub(super) fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// Takes a connection out.
    pub(super) fn take(&mut self, key: &K) -> Option<Box<C>> {
        match self.young.remove(key) {
            Some(known) => {
                self.young_held -= known.held();
                Some(known)
            }
            None => self.old.remove(key),
        }
    }

    /// Keeps a connection, and gives those that are forgotten for it.
    pub(super) fn keep(&mut self, key: K, mut connection: Box<C>) -> HashMap<K, Box<C>> {
        if connection.held() > CONNECTION_HELD_MAX {
            self.forgotten += u64::from(!connection.is_done());
            connection.forget(); // Else all others would go for this one.
        }
        let held = connection.held();
        let is_full = self.young.len() >= DECRYPTED_CONNECTIONS_MAX / 2;
        let forgotten = match is_full || self.young_held + held > YOUNG_HELD_MAX {
            true => self.turn(),
            false => HashMap::new(),
        };
        self.young_held += held;
        self.young.insert(key, connection);
        forgotten
    }

    /// Makes the younger generation the older one, and gives that which is forgotten.
    fn turn(&mut self) -> HashMap<K, Box<C>> {
        let young = std::mem::take(&mut self.young);
        self.young_held = 0;
        let mut forgotten = std::mem::replace(&mut self.old, young);
        if self.old.len() + forgotten.len() <= DECRYPTED_CONNECTIONS_MAX / 2 {
            // Those that hold much wait for what may never come; where they alone were too many bytes, all others go on.
            let little = forgotten.values().map(|it| it.held());
            if little.filter(|held| *held <= MUCH_BYTES).sum::<usize>() <= SILENT_HELD_MAX {
                let little = forgotten.extract_if(|_, it| it.held() <= MUCH_BYTES);
                self.old.extend(little);
            }
        }
        let undone = forgotten.values().filter(|it| !it.is_done());
        self.forgotten += undone.count() as u64;
        forgotten
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::HELD_BYTES_MAX;

    /// Bytes that it keeps.
    struct Held(usize);

    impl Follow for Held {
        fn held(&self) -> usize {
            self.0
        }

        fn is_done(&self) -> bool {
            self.0 == 0
        }

        fn forget(&mut self) {
            self.0 = 0;
        }
    }

    fn held(all: &Generations<usize, Held>) -> usize {
        all.young
            .values()
            .chain(all.old.values())
            .map(|it| it.0)
            .sum()
    }

    /// What is spoken of stays, and what is forgotten is given back once.
    #[test]
    fn connections_are_bounded() {
        let mut all = Generations::default();
        let mut forgotten = 0;
        for key in 0..3 * DECRYPTED_CONNECTIONS_MAX {
            let lost = all.keep(key, Box::new(Held(1)));
            assert!(lost.keys().all(|old| *old != 0 && *old < key));
            forgotten += lost.len();
            let first = all.take(&0).expect("it is spoken of");
            forgotten += all.keep(0, first).len();
            assert!(all.young.len() + all.old.len() <= DECRYPTED_CONNECTIONS_MAX + 1);
        }
        assert!(all.take(&1).is_none() && all.take(&0).is_some());
        assert!((1..=3 * DECRYPTED_CONNECTIONS_MAX).contains(&forgotten));
        assert_eq!(all.forgotten(), forgotten as u64);
        assert_eq!(all.young_held, all.young.len());
    }

    #[test]
    fn bytes_are_bounded() {
        let mut all = Generations::default();
        for key in 0..4 * (HELD_BYTES_MAX >> 20) {
            all.keep(key, Box::new(Held(1 << 20)));
            assert!(held(&all) <= HELD_BYTES_MAX);
        }
        // One that keeps little goes on beside those that keep much.
        all.keep(usize::MAX, Box::new(Held(100)));
        for key in 0..HELD_BYTES_MAX >> 20 {
            all.keep(key + 10_000, Box::new(Held(1 << 20)));
        }
        assert_eq!(all.take(&usize::MAX).map(|it| it.0), Some(100));
    }

    /// Those that speak stay beside as many others as come, whatever these hold, and so do all where half of the bound is enough for them.
    #[test]
    fn what_is_spoken_of_stays() {
        for others in [1000, 20_000, MUCH_BYTES, 100_000, CONNECTION_HELD_MAX] {
            let mut all = Generations::default();
            let speaking = [(usize::MAX, 20_000), (usize::MAX - 1, 300_000)];
            for (key, bytes) in speaking {
                all.keep(key, Box::new(Held(bytes)));
            }
            for nth in 0..4 * DECRYPTED_CONNECTIONS_MAX {
                all.keep(nth, Box::new(Held(others)));
                for (key, bytes) in speaking {
                    let known = all.take(&key).expect("it is spoken of");
                    assert_eq!(known.0, bytes, "beside {others}");
                    all.keep(key, known);
                }
            }
            assert!(held(&all) <= HELD_BYTES_MAX);
        }
        let mut all = Generations::default();
        let count = YOUNG_HELD_MAX / 20_000;
        for _ in 0..3 {
            for key in 0..count {
                let known = all.take(&key).unwrap_or_else(|| Box::new(Held(20_000)));
                all.keep(key, known);
            }
        }
        assert!((0..count).all(|key| all.take(&key).is_some()));
    }

    /// Whatever one of them holds, the others stay.
    #[test]
    fn one_that_keeps_too_much_goes_alone() {
        let mut all = Generations::default();
        all.keep(0, Box::new(Held(100)));
        for _ in 0..3 {
            all.keep(1, Box::new(Held(2 * HELD_BYTES_MAX)));
            assert!(held(&all) <= HELD_BYTES_MAX);
            assert_eq!(all.take(&1).map(|it| it.0), Some(0));
        }
        assert_eq!(all.take(&0).map(|it| it.0), Some(100));
        assert_eq!(all.forgotten(), 3);
    }
}
