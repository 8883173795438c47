//! Who is told of a socket.

use std::sync::atomic::Ordering;

use super::mapping::Shared;
use super::sizes::WATCHERS;

impl Shared {
    /// Takes a watcher that nobody has.
    pub fn take_watcher(&self) -> Option<u32> {
        for (at, word) in self.head().watchers.iter().enumerate() {
            let taken = word.fetch_update(Ordering::AcqRel, Ordering::Acquire, |word| {
                (word != u64::MAX).then_some(word | word.wrapping_add(1))
            });
            if let Ok(before) = taken {
                return Some(at as u32 * 64 + before.trailing_ones());
            }
        }
        None
    }

    /// Gives a watcher back.
    pub fn leave_watcher(&self, number: u32) {
        let word = &self.head().watchers[number as usize / 64 % (WATCHERS / 64)];
        word.fetch_and(!(1 << (number % 64)), Ordering::AcqRel);
    }

    /// Numbers of the watchers that are told of a socket.
    pub fn watchers(&self, number: u32) -> impl Iterator<Item = u32> + '_ {
        let words = self.socket(number).watchers.iter().enumerate();
        words.flat_map(|(at, word)| {
            let mut word = word.load(Ordering::Acquire);
            std::iter::from_fn(move || {
                let place = (word != 0).then(|| word.trailing_zeros())?;
                word &= word - 1;
                Some(at as u32 * 64 + place)
            })
        })
    }

    /// Whether a watcher is told of a socket.
    pub fn watch(&self, number: u32, watcher: u32, on: bool) {
        let word = &self.socket(number).watchers[watcher as usize / 64 % (WATCHERS / 64)];
        let bit = 1 << (watcher % 64);
        match on {
            true => word.fetch_or(bit, Ordering::AcqRel),
            false => word.fetch_and(!bit, Ordering::AcqRel),
        };
    }
}
