//! Sets of small numbers that several threads and processes change at once: a bit for each, and one above 64 of them, so that a set
//! of few is emptied by looking at few words.

use std::sync::atomic::{AtomicU64, Ordering};

const WORDS: usize = crate::memory::SOCKETS / 64;
const ABOVE: usize = WORDS / 64;

/// A set of socket numbers. All zeroes: the empty one.
#[repr(C, align(64))]
pub struct Bits {
    above: [AtomicU64; ABOVE],
    words: [AtomicU64; WORDS],
}

impl Bits {
    /// Puts a number in; true if it was not there.
    pub fn set(&self, number: u32) -> bool {
        let (word, bit) = (number as usize / 64 % WORDS, 1 << (number % 64));
        if self.words[word].fetch_or(bit, Ordering::AcqRel) & bit != 0 {
            return false;
        }
        self.above[word / 64].fetch_or(1 << (word % 64), Ordering::Release);
        true
    }

    /// Nothing is in it.
    pub fn is_empty(&self) -> bool {
        let mut above = self.above.iter();
        above.all(|word| word.load(Ordering::Acquire) == 0)
    }

    /// Takes out all that is in it, and gives each to `each`.
    pub fn drain(&self, mut each: impl FnMut(u32)) {
        for (high, above) in self.above.iter().enumerate() {
            if above.load(Ordering::Relaxed) == 0 {
                continue;
            }
            // Before the words: a number that is put in meanwhile leaves its mark for the next time.
            for low in ones(above.swap(0, Ordering::AcqRel)) {
                let word = high * 64 + low;
                for bit in ones(self.words[word].swap(0, Ordering::AcqRel)) {
                    each((word * 64 + bit) as u32);
                }
            }
        }
    }
}

/// The places of a word's ones.
fn ones(mut word: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let place = (word != 0).then(|| word.trailing_zeros() as usize)?;
        word &= word - 1;
        Some(place)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn empty() -> Box<Bits> {
        let bits = Box::<Bits>::new_zeroed();
        // SAFETY: all of its words may be zero.
        unsafe { bits.assume_init() }
    }

    #[test]
    fn what_is_put_in_comes_out_once() {
        let bits = empty();
        assert!(bits.is_empty());
        let numbers = [0, 1, 63, 64, 4095, 4096, crate::memory::SOCKETS as u32 - 1];
        for number in numbers {
            assert!(bits.set(number));
            assert!(!bits.set(number), "it is there");
        }
        assert!(!bits.is_empty());
        let mut seen = Vec::new();
        bits.drain(|number| seen.push(number));
        assert_eq!(seen, numbers);
        assert!(bits.is_empty());
        bits.drain(|number| panic!("{number} again"));
    }

    #[test]
    fn nothing_is_lost_between_threads() {
        const EACH: u32 = 100_000;
        let bits = empty();
        let put = AtomicU64::new(0);
        let mut taken = 0;
        std::thread::scope(|scope| {
            for thread in 0..2 {
                let (bits, put) = (&bits, &put);
                scope.spawn(move || {
                    for n in 0..EACH {
                        if bits.set((n * 2 + thread) % 1000) {
                            put.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                });
            }
            for _ in 0..EACH {
                bits.drain(|_| taken += 1);
            }
        });
        bits.drain(|_| taken += 1);
        assert_eq!(taken, put.load(Ordering::Relaxed));
    }
}
