//! What is remembered of ends, as many as are spoken of, in two generations: when the younger one is full, the older one is forgotten. What is
//! still spoken of moves to the younger one.

use std::collections::HashMap;
use std::hash::Hash;

/// At most `MAX` values by their keys.
#[derive(Debug)]
pub(crate) struct Recent<K, V, const MAX: usize> {
    young: HashMap<K, V>,
    old: HashMap<K, V>,
}

impl<K, V, const MAX: usize> Default for Recent<K, V, MAX> {
    fn default() -> Self {
        Self {
            young: HashMap::new(),
            old: HashMap::new(),
        }
    }
}

impl<K: Copy + Eq + Hash, V, const MAX: usize> Recent<K, V, MAX> {
    /// What is remembered of this key.
    pub(crate) fn find(&mut self, key: K) -> Option<&mut V> {
        if let Some(value) = self.old.remove(&key) {
            self.keep(key, value);
        }
        self.young.get_mut(&key)
    }

    /// What is remembered of this key, from now on.
    pub(crate) fn find_or_default(&mut self, key: K) -> &mut V
    where
        V: Default,
    {
        if self.find(key).is_none() {
            self.keep(key, V::default());
        }
        self.young.entry(key).or_default()
    }

    /// Remembers this, and nothing else of this key.
    pub(crate) fn keep(&mut self, key: K, value: V) {
        self.old.remove(&key);
        if self.young.len() >= MAX / 2 && !self.young.contains_key(&key) {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_bounded_and_the_busy_are_remembered() {
        let mut all = Recent::<usize, usize, 100>::default();
        all.keep(0, 7);
        for other in 1..1000 {
            all.keep(other, other);
            all.keep(other, other + 1);
            assert!(all.young.len() + all.old.len() <= 100);
            assert_eq!(all.find(0), Some(&mut 7));
            assert_eq!(all.find(other), Some(&mut (other + 1)));
        }
        assert_eq!(all.find(1), None);
    }
}
