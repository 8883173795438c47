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
        let was_there = self.words[word].fetch_or(bit, Ordering::AcqRel) & bit != 0;
        // Also when it was there: who put it in may have been killed before it came to this.
        let (above, bit) = (&self.above[word / 64], 1 << (word % 64));
        if was_there && above.load(Ordering::Acquire) & bit != 0 {
            return false;
        }
        above.fetch_or(bit, Ordering::AcqRel);
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
        // How often each was put in, before it was; and what that was when it was last taken out.
        let put: Vec<AtomicU64> = (0..1000).map(|_| AtomicU64::new(0)).collect();
        let mut seen = vec![0; 1000];
        let mut take = |bits: &Bits| {
            bits.drain(|number| {
                seen[number as usize] = put[number as usize].load(Ordering::SeqCst)
            });
        };
        std::thread::scope(|scope| {
            for thread in 0..2 {
                let (bits, put) = (&bits, &put);
                scope.spawn(move || {
                    for n in 0..EACH {
                        let number = (n * 2 + thread) % 1000;
                        put[number as usize].fetch_add(1, Ordering::SeqCst);
                        bits.set(number);
                    }
                });
            }
            for _ in 0..EACH {
                take(&bits);
            }
        });
        take(&bits);
        assert!(bits.is_empty());
        let put: Vec<u64> = put.iter().map(|put| put.load(Ordering::SeqCst)).collect();
        assert_eq!(seen, put, "what was put in last was seen");
    }
}
