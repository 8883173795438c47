//! A predicate in memory of both: one waits until it holds, and the other evaluates it behind what it changes.
//!
//! ```text
//! 32 bits  state: 0, nobody waits; else the number of the wait
//! 32 bits  nothing
//!  7 words the predicate
//! ```
//!
//! | the one that waits | the writer |
//! |---|---|
//! | writes the predicate | changes a value |
//! | writes the state: the next number | *full barrier* |
//! | *full barrier* | looks at the state: 0, or a number |
//! | looks at the values; sleeps if they do not do | reads the predicate, and evaluates it |
//! | awake: state 0 | if it holds: state 0, if the number is the same still; wakes |
//!
//! Each looks behind a barrier at what the other writes in front of one, so one of them sees the other's word (Dekker): either the writer
//! finds the wait, or the one that waits finds the change. What the writer reads may be of two waits; then it does not matter what comes
//! of it, since the later wait has looked at the values behind the change. The number keeps it from ending a wait of which it did not
//! read. A wait may be published over one that is announced, by a later number: its look is at the same values, behind what it published, and
//! a claim of the earlier number fails then. One that does not look so may sleep for good. The model in `tests` runs these steps in every
//! order; it is sequentially consistent, and no process ends in it.

use crate::predicate::{Encoded, Predicate, WORDS};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// One side's published predicate, a cache line. Zeroed memory is one for which nobody waits.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct Line {
    state: AtomicU32,
    reserved: AtomicU32,
    words: [AtomicU64; WORDS],
}

/// The words of a line. Every store is in force before any later load (a full barrier).
pub(crate) trait Words {
    fn state(&self) -> u32;
    fn set_state(&self, state: u32);
    /// Makes it 0 if it is this; whether it was.
    fn claim(&self, state: u32) -> bool;
    fn word(&self, n: usize) -> u64;
    fn set_word(&self, n: usize, word: u64);
}

/// Publishing a predicate, step by step: each step touches one shared word once.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Publish {
    Word(usize),
    Announce,
    Done,
}

impl Publish {
    pub const FIRST: Self = Self::Word(0);

    #[inline]
    pub fn step(self, number: u32, encoded: &Encoded, words: &impl Words) -> Self {
        match self {
            Self::Word(n) => {
                words.set_word(n, encoded[n]);
                match n + 1 {
                    WORDS => Self::Announce,
                    next => Self::Word(next),
                }
            }
            Self::Announce => {
                words.set_state(number);
                Self::Done
            }
            Self::Done => self,
        }
    }
}

/// Deciding whether to wake, behind a change, step by step: each step touches one shared word once.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Decide {
    State,
    /// Reads a word of the predicate of this wait; those before are read.
    Word(u32, usize, Encoded),
    Claim(u32),
    Done(bool),
}

impl Decide {
    #[inline]
    pub fn step(self, values: &[u64], words: &impl Words) -> Self {
        match self {
            Self::State => match words.state() {
                0 => Self::Done(false),
                number => Self::Word(number, 0, [0; WORDS]),
            },
            Self::Word(number, n, mut encoded) => {
                encoded[n] = words.word(n);
                if n + 1 < WORDS {
                    return Self::Word(number, n + 1, encoded);
                }
                // What has no meaning to us might hold.
                match Predicate::decode(&encoded).is_none_or(|p| p.holds(values)) {
                    true => Self::Claim(number),
                    false => Self::Done(false),
                }
            }
            Self::Claim(number) => Self::Done(words.claim(number)),
            Self::Done(_) => self,
        }
    }
}

impl Words for Line {
    #[inline]
    fn state(&self) -> u32 {
        self.state.load(Ordering::Acquire)
    }

    #[inline]
    fn set_state(&self, state: u32) {
        self.state.store(state, Ordering::Release);
        fence(Ordering::SeqCst);
    }

    fn claim(&self, state: u32) -> bool {
        let (success, failure) = (Ordering::AcqRel, Ordering::Relaxed);
        let claimed = self.state.compare_exchange(state, 0, success, failure);
        claimed.is_ok()
    }

    fn word(&self, n: usize) -> u64 {
        self.words[n].load(Ordering::Relaxed)
    }

    fn set_word(&self, n: usize, word: u64) {
        self.words[n].store(word, Ordering::Relaxed);
    }
}

impl Line {
    /// Publishes what is waited for, and the number of the wait, which is not 0 and not that of the wait before. The values are looked at
    /// behind this, and the wait is given up if they do.
    pub fn publish(&self, number: u32, predicate: &Predicate) {
        debug_assert!(number != 0, "that is the state in which nobody waits");
        let (mut publish, encoded) = (Publish::FIRST, predicate.encode());
        while publish != Publish::Done {
            publish = publish.step(number, &encoded, self);
        }
    }

    /// Nobody waits any more.
    pub fn withdraw(&self) {
        // The writer has mostly done so already, and then the line stays where it is.
        if self.state.load(Ordering::Relaxed) != 0 {
            self.state.store(0, Ordering::Release);
        }
    }

    /// Whether someone waits here.
    #[inline]
    pub fn is_waited_at(&self) -> bool {
        self.state.load(Ordering::Relaxed) != 0
    }

    /// Behind a change: whether the one that waits is to be woken, since its predicate holds for these values now. True once for each wait.
    #[inline]
    pub fn decide(&self, values: &[u64]) -> bool {
        fence(Ordering::SeqCst);
        self.is_waited_at() && self.decide_now(values)
    }

    #[cold]
    fn decide_now(&self, values: &[u64]) -> bool {
        let mut decide = Decide::State;
        loop {
            if let Decide::Done(is_to_wake) = decide {
                return is_to_wake;
            }
            decide = decide.step(values, self);
        }
    }
}

#[cfg(test)]
#[path = "tests/orders.rs"]
mod orders;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::predicate::Test;

    #[test]
    fn one_that_waits_is_woken_once_and_only_for_what_it_wants() {
        let line = Line::default();
        assert!(!line.decide(&[u64::MAX]), "nobody waits");
        let ten = Predicate::NEVER.or(0, Test::Reached(10));
        line.publish(1, &ten);
        assert!(!line.decide(&[9]) && line.is_waited_at());
        assert!(line.decide(&[10]) && !line.is_waited_at());
        assert!(!line.decide(&[10]));
        line.publish(2, &ten);
        line.withdraw();
        assert!(!line.decide(&[10]));
    }

    #[test]
    fn what_has_no_meaning_wakes() {
        let line = Line::default();
        line.publish(1, &Predicate::NEVER);
        line.words[0].store(u64::MAX, Ordering::Relaxed);
        assert!(line.decide(&[0]));
    }
}
