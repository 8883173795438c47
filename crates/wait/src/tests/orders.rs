//! Every order of the steps of one that waits three times, each for something else, of which one sleep may end by itself and one wait may
//! be published over itself, and of a writer that
//! counts a value up. No wake-up is lost, and no wait is ended by what was read of another.

use super::{Decide, Publish, Words};
use crate::predicate::{Encoded, Predicate, Test};
use std::cell::RefCell;
use std::collections::HashSet;

/// What the waits are for, one after the other.
const WANTED: [u64; 3] = [1, 3, 2];
/// How far the writer counts.
const LAST: u64 = 3;

/// What can be wrong, to see that the model finds it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fault {
    None,
    /// The one that waits sleeps without a look behind what it published.
    NoLook,
    /// It announces the wait before it has written for what.
    AnnouncedFirst,
    /// The writer looks at the state before it changes the value.
    DecidedFirst,
    /// The writer ends whatever wait there is.
    NoNumber,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
struct Memory {
    state: u32,
    words: Encoded,
    value: u64,
}

struct Shared<'a>(RefCell<&'a mut Memory>, Fault);

impl Words for Shared<'_> {
    fn state(&self) -> u32 {
        self.0.borrow().state
    }
    fn set_state(&self, state: u32) {
        self.0.borrow_mut().state = state;
    }
    fn claim(&self, state: u32) -> bool {
        let mut memory = self.0.borrow_mut();
        let is_it = memory.state == state || (self.1 == Fault::NoNumber && memory.state != 0);
        if is_it {
            memory.state = 0;
        }
        is_it
    }
    fn word(&self, n: usize) -> u64 {
        self.0.borrow().words[n]
    }
    fn set_word(&self, n: usize, word: u64) {
        self.0.borrow_mut().words[n] = word;
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Sleeper {
    Publish(Publish),
    Look,
    Asleep,
    Withdraw,
    LookAgain,
    Done,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Writer {
    Change,
    Decide(Decide),
    Wake,
    Done,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct World {
    memory: Memory,
    sleeper: Sleeper,
    wait: usize,
    number: u32,
    /// One sleep may end by itself, and with it what was waited for.
    may_end: bool,
    /// One wait may be published again over itself, as an event loop does that arms twice.
    may_repeat: bool,
    writer: Writer,
    has_rung: bool,
    /// A wait was ended whose predicate did not hold.
    is_ended_for_nothing: bool,
}

impl World {
    fn new(fault: Fault, may_repeat: bool) -> Self {
        Self {
            memory: Memory::default(),
            sleeper: Sleeper::Publish(Publish::FIRST),
            wait: 0,
            number: 1,
            may_end: true,
            may_repeat,
            writer: Self::first(fault),
            has_rung: false,
            is_ended_for_nothing: false,
        }
    }

    fn first(fault: Fault) -> Writer {
        match fault {
            Fault::DecidedFirst => Writer::Decide(Decide::State),
            _ => Writer::Change,
        }
    }

    fn test(&self) -> Test {
        Test::Reached(WANTED[self.wait.min(WANTED.len() - 1)])
    }

    fn holds(&self) -> bool {
        self.test().holds(self.memory.value)
    }

    /// The wait is over; the next begins.
    fn wait_for_next(&mut self) {
        self.wait += 1;
        self.sleeper = match self.wait < WANTED.len() {
            true => Sleeper::Publish(Publish::FIRST),
            false => Sleeper::Done,
        };
    }

    fn publish(&mut self, publish: Publish, fault: Fault) -> Sleeper {
        let encoded = Predicate::NEVER.or(0, self.test()).encode();
        let shared = Shared(RefCell::new(&mut self.memory), fault);
        match (fault, publish) {
            (Fault::AnnouncedFirst, Publish::FIRST) if shared.state() != self.number => {
                shared.set_state(self.number);
                Sleeper::Publish(publish)
            }
            (Fault::AnnouncedFirst, Publish::Announce) => Sleeper::Look,
            (Fault::NoLook, Publish::Done) => Sleeper::Asleep,
            (_, Publish::Done) => Sleeper::Look,
            _ => Sleeper::Publish(publish.step(self.number, &encoded, &shared)),
        }
    }

    fn sleeper_next(&self, fault: Fault) -> Option<Self> {
        let mut after = self.clone();
        after.sleeper = match self.sleeper {
            Sleeper::Publish(publish) => after.publish(publish, fault),
            Sleeper::Look if self.holds() => Sleeper::Withdraw,
            Sleeper::Look => Sleeper::Asleep,
            Sleeper::Asleep if self.has_rung => {
                after.has_rung = false;
                Sleeper::Withdraw
            }
            Sleeper::Withdraw => {
                after.memory.state = 0;
                after.number += 1;
                Sleeper::LookAgain
            }
            Sleeper::LookAgain if self.holds() => {
                after.wait_for_next();
                after.sleeper
            }
            Sleeper::LookAgain => Sleeper::Publish(Publish::FIRST),
            Sleeper::Asleep | Sleeper::Done => return None,
        };
        Some(after)
    }

    /// A wait is published over itself.
    fn repeats(&self) -> Option<Self> {
        let mut after = self.clone();
        if self.sleeper != Sleeper::Asleep || !self.may_repeat {
            return None;
        }
        after.may_repeat = false;
        after.number += 1;
        after.sleeper = Sleeper::Publish(Publish::FIRST);
        Some(after)
    }

    /// A sleep ends since its time is over.
    fn sleep_ends(&self) -> Option<Self> {
        let mut after = self.clone();
        if self.sleeper != Sleeper::Asleep || !self.may_end {
            return None;
        }
        after.may_end = false;
        after.memory.state = 0;
        after.number += 1;
        after.wait_for_next();
        Some(after)
    }

    fn writer_next(&self, fault: Fault) -> Option<Self> {
        let mut after = self.clone();
        let next = |value| match value == LAST {
            true => Writer::Done,
            false => Self::first(fault),
        };
        let is_decided_first = fault == Fault::DecidedFirst;
        let behind_decision = match is_decided_first {
            true => Writer::Change,
            false => next(self.memory.value),
        };
        after.writer = match self.writer {
            Writer::Change => {
                after.memory.value += 1;
                match is_decided_first {
                    true => next(after.memory.value),
                    false => Writer::Decide(Decide::State),
                }
            }
            Writer::Decide(Decide::Done(true)) => Writer::Wake,
            Writer::Decide(Decide::Done(false)) => behind_decision,
            Writer::Decide(decide) => {
                let value = self.memory.value + u64::from(is_decided_first);
                let shared = Shared(RefCell::new(&mut after.memory), fault);
                let decided = decide.step(&[value], &shared);
                after.is_ended_for_nothing |= decided == Decide::Done(true) && !self.holds();
                Writer::Decide(decided)
            }
            Writer::Wake => {
                after.has_rung = true;
                behind_decision
            }
            Writer::Done => return None,
        };
        Some(after)
    }

    /// The writer has done all that it does, what is waited for is there, and nothing wakes the one that waits for it.
    fn is_lost(&self) -> bool {
        let is_asleep = self.sleeper == Sleeper::Asleep && !self.has_rung;
        is_asleep && self.writer == Writer::Done && self.holds()
    }
}

/// Whether something is ever so.
fn is_ever(fault: Fault, may_repeat: bool, is_so: impl Fn(&World) -> bool) -> bool {
    let first = World::new(fault, may_repeat);
    let (mut known, mut open) = (HashSet::from([first.clone()]), vec![first]);
    while let Some(world) = open.pop() {
        if is_so(&world) {
            return true;
        }
        let next = [
            world.sleeper_next(fault),
            world.sleep_ends(),
            world.repeats(),
            world.writer_next(fault),
        ];
        for next in next.into_iter().flatten() {
            if known.insert(next.clone()) {
                open.push(next);
            }
        }
    }
    assert!(known.len() > 1000, "only {} states", known.len());
    false
}

#[test]
fn no_wake_up_is_lost() {
    assert!(!is_ever(Fault::None, true, World::is_lost));
}

#[test]
fn no_wait_is_ended_by_what_was_read_of_another() {
    let is_wrong = |world: &World| world.is_ended_for_nothing;
    assert!(!is_ever(Fault::None, false, is_wrong));
    for fault in [Fault::NoNumber, Fault::AnnouncedFirst] {
        assert!(is_ever(fault, false, is_wrong), "{fault:?} is not found");
    }
}

#[test]
fn neither_order_can_be_another() {
    for fault in [Fault::NoLook, Fault::DecidedFirst] {
        assert!(
            is_ever(fault, true, World::is_lost),
            "{fault:?} is not found"
        );
    }
}
