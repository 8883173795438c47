//! Every order of every step of three processes, each of which may end between any two: the owner of a pool, a member that sends
//! on what it got, and a member that gets it from both. One buffer, used twice.
//!
//! Steps are in one order for all that look (sequential consistency). That real loads pass real stores is not in the model: full barriers in
//! `Words` keep the two apart where a step looks behind what the step before it wrote.
//!
//! In every state that is reached: no member that lives has bytes other than those it was told of (*none freed that is in use*), what one
//! that lives has sent is got, and once all that live have let go of what they have, the owner, where it lives, has the buffer back (*none lost for good*).

use super::{Reclaim, State, Take, Words};
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

    /// References of a member: slices, and what it has sent on.
    fn references(&self, member: usize) -> u8 {
        let sent = PIPES.iter().zip(&self.pipes);
        let kept = sent.filter(|((from, _), pipe)| *from == Some(member) && pipe.is_kept);
        self.members[member].slices + kept.count() as u8
    }

    /// A member has one reference less: with the last its hold goes.
    fn settle(&mut self, member: usize) {
        if self.references(member) == 0 && self.members[member].held != 0 {
            self.members[member].held = 0;
            self.holds[member] = 0;
        }
    }

    /// The owner has one reference less.
    fn settle_owner(&mut self) {
        let kept = PIPES.iter().zip(&self.pipes);
        let mut kept = kept.filter(|((from, _), pipe)| from.is_none() && pipe.is_kept);
        if self.state == State::Used && !self.has_slice && kept.next().is_none() {
            self.state = State::Released;
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

    fn owner_steps(&self, fault: Fault, next: &mut Vec<Self>) {
        if let Some(reclaim) = self.reclaim {
            return next.push(self.reclaimed(reclaim, fault));
        }
        for member in [MIDDLE, LAST] {
            if !self.members[member].lives && !self.known_ended[member] {
                next.push(self.after(|w| w.owner_hears_of_end(member, fault)));
            }
        }
        match self.state {
            State::Free if self.generation <= USES => next.push(self.after(|w| {
                w.state = State::Used;
                w.has_slice = true;
                w.bytes = w.generation;
            })),
            State::Free => {}
            State::Used => self.owner_uses(next),
            State::Released | State::Advanced => {
                next.push(self.after(|w| w.reclaim = Some(Reclaim::of(w.state))));
            }
        }
    }

    fn owner_uses(&self, next: &mut Vec<Self>) {
        for (number, (from, to)) in PIPES.iter().enumerate() {
            if from.is_some() {
                continue;
            }
            let pipe = self.pipes[number];
            if self.has_slice && pipe == Pipe::default() && !self.known_ended[*to] {
                next.push(self.after(|w| {
                    w.pipes[number] = Pipe {
                        unread: Some(w.generation),
                        is_kept: true,
                    };
                }));
            }
            if pipe.is_kept && pipe.unread.is_none() {
                next.push(self.after(|w| {
                    w.pipes[number].is_kept = false;
                    w.settle_owner();
                }));
            }
        }
        if self.has_slice {
            next.push(self.after(|w| {
                w.has_slice = false;
                w.settle_owner();
            }));
        }
    }

    fn owner_hears_of_end(&mut self, member: usize, fault: Fault) {
        self.known_ended[member] = fault != Fault::Mourns;
        for (number, (from, to)) in PIPES.iter().enumerate() {
            if from.is_none() && *to == member {
                self.pipes[number].is_kept = false;
            }
        }
        self.settle_owner();
    }

    fn reclaimed(&self, reclaim: Reclaim, fault: Fault) -> Self {
        let seen = self.seen();
        let mut done = reclaim.step(&seen);
        if fault == Fault::NoSecondLook && matches!(done, Reclaim::LookAgain(_)) {
            done = Reclaim::Done(State::Free);
        }
        let generation = seen.generation.get();
        self.after(|w| {
            w.generation = generation;
            w.reclaim = Some(done);
            if let Reclaim::Done(state) = done {
                w.state = state;
                w.reclaim = None;
            }
        })
    }

    fn member_steps(&self, member: usize, fault: Fault, next: &mut Vec<Self>) {
        match self.members[member].doing {
            Doing::Takes(pipe, generation, take) => {
                next.push(self.taken(member, pipe, generation, take, fault));
            }
            Doing::Says(pipe) => next.push(self.after(|w| {
                w.pipes[pipe].unread = None;
                w.members[member].doing = Doing::Nothing;
            })),
            Doing::Nothing => self.member_is_free(member, fault, next),
        }
    }

    fn taken(&self, member: usize, pipe: usize, generation: u64, take: Take, fault: Fault) -> Self {
        let seen = self.seen();
        let mut done = take.step(generation, &seen);
        if fault == Fault::NoValidation && done == Take::Validate {
            done = Take::Held;
        }
        let own = seen.own.get();
        self.after(|w| {
            w.holds[member] = own.unwrap_or(w.holds[member]);
            let after = match fault {
                Fault::SaysFirst => Doing::Nothing,
                _ => Doing::Says(pipe),
            };
            w.members[member].doing = match done {
                Take::Held | Take::Lost => after,
                _ => Doing::Takes(pipe, generation, done),
            };
            if done == Take::Lost {
                w.misses(pipe);
            }
            if done == Take::Held {
                w.members[member].held = generation;
                w.members[member].slices += 1;
            }
        })
    }

    fn member_is_free(&self, member: usize, fault: Fault, next: &mut Vec<Self>) {
        for (number, (from, to)) in PIPES.iter().enumerate() {
            let pipe = self.pipes[number];
            // Two slices show all that more would.
            let takes = *to == member && self.members[member].slices < 2;
            if let Some(generation) = pipe.unread.filter(|_| takes) {
                next.push(self.begun(member, number, generation, fault));
            }
            if *from != Some(member) {
                continue;
            }
            if self.members[member].slices > 0 && pipe == Pipe::default() {
                let held = self.members[member].held;
                next.push(self.after(|w| {
                    w.pipes[number] = Pipe {
                        unread: Some(held),
                        is_kept: true,
                    };
                }));
            }
            if pipe.is_kept && (pipe.unread.is_none() || !self.members[*to].lives) {
                next.push(self.after(|w| {
                    w.pipes[number].is_kept = false;
                    w.settle(member);
                }));
            }
        }
        if self.members[member].slices > 0 {
            next.push(self.after(|w| {
                w.members[member].slices -= 1;
                w.settle(member);
            }));
        }
    }

    /// A member begins to take: what it holds already it has, or it was told of something that cannot be any more.
    fn begun(&self, member: usize, pipe: usize, generation: u64, fault: Fault) -> Self {
        let has_some = self.references(member) > 0;
        let is_held = self.members[member].held == generation;
        self.after(|w| {
            if fault == Fault::SaysFirst {
                w.pipes[pipe].unread = None;
            }
            w.members[member].doing = match has_some {
                true => Doing::Says(pipe),
                false => Doing::Takes(pipe, generation, Take::Announce),
            };
            match has_some {
                true if is_held => w.members[member].slices += 1,
                true => w.misses(pipe),
                false => {}
            }
        })
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

    fn drain(&mut self, member: usize) -> bool {
        let mut next = Vec::new();
        self.member_steps(member, Fault::None, &mut next);
        // The last step is the one that lets go; sending on is none that it has to do.
        let fewer = |w: &Self| w.left(member) < self.left(member);
        let step = next.into_iter().rev().find(fewer);
        let is_step = step.is_some();
        *self = step.unwrap_or_else(|| self.clone());
        is_step
    }

    /// How much a member has to do until it has nothing any more.
    fn left(&self, member: usize) -> u32 {
        let unread = PIPES.iter().zip(&self.pipes);
        let unread = unread.filter(|((_, to), pipe)| *to == member && pipe.unread.is_some());
        let doing = match self.members[member].doing {
            Doing::Nothing => 9,
            Doing::Takes(_, _, Take::Announce) => 8,
            Doing::Takes(_, _, Take::Validate) => 7,
            Doing::Takes(..) => 6,
            Doing::Says(_) => 3,
        };
        unread.count() as u32 * 20 + doing + 2 * u32::from(self.references(member))
    }

    fn drain_owner(&mut self) {
        while let Some(reclaim) = self.reclaim {
            *self = self.reclaimed(reclaim, Fault::None);
        }
        for member in [MIDDLE, LAST] {
            if !self.members[member].lives {
                self.owner_hears_of_end(member, Fault::None);
            }
        }
        for (pipe, (from, _)) in self.pipes.iter_mut().zip(PIPES) {
            pipe.is_kept &= from.is_some() || pipe.unread.is_some();
        }
        self.has_slice = false;
        self.settle_owner();
        let reclaim = matches!(self.state, State::Released | State::Advanced);
        self.reclaim = reclaim.then(|| Reclaim::of(self.state));
        while let Some(reclaim) = self.reclaim {
            *self = self.reclaimed(reclaim, Fault::None);
        }
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
