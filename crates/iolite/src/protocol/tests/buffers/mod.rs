//! Every order of every step of three processes, each of which may end between any two: the owner of a pool, a member that sends
//! on what it got, and a member that gets it from both. One buffer, used twice.
//!
//! Steps are in one order for all that look (sequential consistency). That real loads pass real stores is not in the model: full barriers in
//! `Words` keep the two apart where a step looks behind what the step before it wrote.
//!
//! In every state that is reached: no member that lives has bytes other than those it was told of (*none freed that is in use*), what one
//! that lives has sent is got, and once all that live have let go of what they have, the owner, where it lives, has the buffer back (*none lost for good*).

mod member;
mod owner;

use super::super::{Reclaim, State, Take, Words};
use std::cell::Cell;
use std::collections::HashSet;

/// Members by number: the one in the middle, and the one at the end.
const MIDDLE: usize = 0;
const LAST: usize = 1;
/// How often the buffer is used.
const USES: u64 = 2;

/// A pipe with one slot.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, Debug)]
struct Pipe {
    /// The generation of what was sent and not taken.
    unread: Option<u64>,
    /// Its sender keeps a reference to what it sent.
    is_kept: bool,
}

/// Who sends, and who takes: the owner to each, and the member in the middle to the last.
const PIPES: [(Option<usize>, usize); 3] = [(None, MIDDLE), (None, LAST), (Some(MIDDLE), LAST)];

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Doing {
    Nothing,
    /// Takes what is in this pipe.
    Takes(usize, u64, Take),
    /// Has what was in this pipe, or knows that it is lost, and will say that it was taken.
    Says(usize),
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Member {
    lives: bool,
    doing: Doing,
    /// Its slices, without what it has sent on.
    slices: u8,
    held: u64,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct World {
    generation: u64,
    holds: [u64; 2],
    pipes: [Pipe; 3],
    members: [Member; 2],
    owner_lives: bool,
    state: State,
    /// The owner's own reference, without what it has sent.
    has_slice: bool,
    reclaim: Option<Reclaim>,
    /// Members of whose end the owner knows.
    known_ended: [bool; 2],
    /// Of which generation the bytes are.
    bytes: u64,
    /// A member did not get what one sent that lives.
    is_missed: bool,
}

/// What can be wrong with the protocol, to see that the model finds it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fault {
    None,
    /// A member believes what it was told.
    NoValidation,
    /// The owner looks for holds once.
    NoSecondLook,
    /// What was taken is said to be before there is a hold.
    SaysFirst,
    /// The owner believes the holds of members that have ended.
    Mourns,
}

/// What one process sees of the words.
struct Seen<'a> {
    world: &'a World,
    generation: Cell<u64>,
    own: Cell<Option<u64>>,
}

impl Words for Seen<'_> {
    fn generation(&self) -> u64 {
        self.generation.get()
    }

    fn set_generation(&self, generation: u64) {
        self.generation.set(generation);
    }

    fn hold_from(&self, member: usize) -> Option<(usize, u64)> {
        let mut counted = (member..2).filter(|&n| !self.world.known_ended[n]);
        counted.next().map(|n| (n, self.world.holds[n]))
    }

    fn set_hold(&self, generation: u64) {
        self.own.set(Some(generation));
    }
}

impl World {
    fn new() -> Self {
        Self {
            generation: 1,
            holds: [0; 2],
            pipes: Default::default(),
            members: [Member {
                lives: true,
                doing: Doing::Nothing,
                slices: 0,
                held: 0,
            }; 2],
            owner_lives: true,
            state: State::Free,
            has_slice: false,
            reclaim: None,
            known_ended: [false; 2],
            bytes: 0,
            is_missed: false,
        }
    }

    /// A member finds that what was in this pipe is lost, as it may be where its sender has ended.
    fn misses(&mut self, pipe: usize) {
        self.is_missed |= match PIPES[pipe].0 {
            None => self.owner_lives,
            Some(sender) => self.members[sender].lives,
        };
    }

    /// A copy that something is done to.
    fn after(&self, change: impl FnOnce(&mut Self)) -> Self {
        let mut next = self.clone();
        change(&mut next);
        next
    }

    fn seen(&self) -> Seen<'_> {
        Seen {
            world: self,
            generation: Cell::new(self.generation),
            own: Cell::new(None),
        }
    }

    /// All that one step of one process can make of it.
    fn next(&self, fault: Fault) -> Vec<Self> {
        let mut next = Vec::new();
        if self.owner_lives {
            next.push(self.after(|w| w.owner_lives = false));
            self.owner_steps(fault, &mut next);
        }
        for member in [MIDDLE, LAST] {
            if self.members[member].lives {
                next.push(self.after(|w| w.members[member].lives = false));
                self.member_steps(member, fault, &mut next);
            }
        }
        next
    }

    /// A member that lives has other bytes than it was told of, or none though their sender lives.
    fn is_wrong(&self) -> bool {
        let has_wrong = |n: usize| {
            let member = self.members[n];
            member.lives && self.references(n) > 0 && member.held != self.bytes
        };
        self.is_missed || has_wrong(MIDDLE) || has_wrong(LAST)
    }

    /// All that live take what is there, let go of all they have, and hear of everybody's end.
    fn drained(mut self) -> Self {
        for _ in 0..12 {
            for member in [MIDDLE, LAST] {
                while self.members[member].lives && self.drain(member) {}
            }
            if self.owner_lives {
                self.drain_owner();
            }
        }
        self
    }
}

/// All states, and the first that is wrong.
fn explore(fault: Fault) -> (HashSet<World>, Option<World>) {
    let mut known = HashSet::from([World::new()]);
    let mut open = vec![World::new()];
    while let Some(world) = open.pop() {
        if world.is_wrong() {
            return (known, Some(world));
        }
        for next in world.next(fault) {
            if known.insert(next.clone()) {
                open.push(next);
            }
        }
    }
    (known, None)
}

#[test]
fn no_buffer_is_freed_in_use_and_none_is_lost() {
    let (all, wrong) = explore(Fault::None);
    assert_eq!(wrong, None);
    assert!(all.len() > 50_000, "only {} states", all.len());
    let mut reached = HashSet::new();
    for world in all {
        reached.insert(world.state);
        let drained = world.clone().drained();
        let is_back = !world.owner_lives || drained.state == State::Free;
        assert!(is_back, "lost from {world:#?} to {drained:#?}");
    }
    assert_eq!(reached.len(), 4, "every state is reached");
}

/// Each part of the protocol is needed: without it the model finds what goes wrong.
#[test]
fn nothing_of_it_can_be_left_out() {
    for fault in [Fault::NoValidation, Fault::NoSecondLook, Fault::SaysFirst] {
        let (_, wrong) = explore(fault);
        assert!(wrong.is_some(), "{fault:?} is not found");
    }
    let (all, _) = explore(Fault::Mourns);
    let is_stuck = |world: &&World| {
        let owner = world.owner_lives && world.state == State::Released;
        owner && world.holds[LAST] != 0 && !world.members[LAST].lives
    };
    let stuck = all.iter().find(is_stuck).expect("one ends with a hold");
    let never = explore_from(stuck.clone(), Fault::Mourns);
    assert!(never.iter().all(|world| world.state != State::Free));
}

fn explore_from(first: World, fault: Fault) -> HashSet<World> {
    let mut known = HashSet::from([first.clone()]);
    let mut open = vec![first];
    while let Some(world) = open.pop() {
        for next in world.next(fault) {
            if known.insert(next.clone()) {
                open.push(next);
            }
        }
    }
    known
}
