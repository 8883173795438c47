//! Every order of the steps of an owner that counts what a member has, and of a member that keeps to its share, takes what it wants and lets
//! go of it. It is never found to have more than its share; and what has more, and does not change it, always is.

use super::super::{Census, hold_word};
use std::collections::HashSet;

const BUFFERS: usize = 3;
const SHARE: usize = 1;
/// How often the member takes: once and again what it had, and another between.
const TAKES: u16 = 4;

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct World {
    holds: [u64; BUFFERS],
    takes: [u16; BUFFERS],
    census: Census,
    is_counted: bool,
}

/// What can be wrong, to see that the model finds it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fault {
    None,
    /// Words are read once.
    OneReading,
    /// Holds of a generation are all alike.
    NoNumber,
}

impl World {
    fn new(holds: [u64; BUFFERS]) -> Self {
        Self {
            holds,
            takes: [0; BUFFERS],
            census: Census::default(),
            is_counted: false,
        }
    }

    fn next(&self, fault: Fault) -> Vec<Self> {
        let mut next = Vec::new();
        if !self.is_counted {
            let mut after = self.clone();
            after.is_counted = after.census.step(BUFFERS, |buffer| self.holds[buffer]);
            next.push(after);
        }
        for buffer in 0..BUFFERS {
            let held = self.holds.iter().filter(|hold| **hold != 0).count();
            let taken: u16 = self.takes.iter().sum();
            let mut after = self.clone();
            if self.holds[buffer] != 0 {
                after.holds[buffer] = 0;
            } else if held < SHARE && taken < TAKES {
                after.takes[buffer] += 1;
                let take = if fault == Fault::NoNumber {
                    0
                } else {
                    after.takes[buffer]
                };
                after.holds[buffer] = hold_word(1, take);
            } else {
                continue;
            }
            next.push(after);
        }
        next
    }

    fn is_wrong(&self, fault: Fault) -> bool {
        match fault {
            Fault::OneReading => {
                let held = self.census.first.iter().filter(|word| **word != 0);
                held.count() > SHARE
            }
            _ => self.census.held as usize > SHARE,
        }
    }
}

fn is_ever_wrong(fault: Fault) -> bool {
    let first = World::new([0; BUFFERS]);
    let (mut known, mut open) = (HashSet::from([first.clone()]), vec![first]);
    while let Some(world) = open.pop() {
        if world.is_wrong(fault) {
            return true;
        }
        for next in world.next(fault) {
            if known.insert(next.clone()) {
                open.push(next);
            }
        }
    }
    assert!(known.len() > 1000, "only {} states", known.len());
    false
}

#[test]
fn a_member_within_its_share_is_never_found_beyond_it() {
    assert!(!is_ever_wrong(Fault::None));
}

#[test]
fn neither_the_second_reading_nor_the_number_can_be_left_out() {
    for fault in [Fault::OneReading, Fault::NoNumber] {
        assert!(is_ever_wrong(fault), "{fault:?} is not found");
    }
}

#[test]
fn one_that_has_more_is_found() {
    for (holds, is_more) in [([1, 0, 1], true), ([7, 8, 9], true), ([0, 9, 0], false)] {
        let found = Census::is_more(BUFFERS, SHARE as u32, |buffer| holds[buffer]);
        assert_eq!(found, is_more, "{holds:?}");
    }
}
