//! A member's steps: it takes what is in a pipe, says so, sends it on, and lets go.

use super::{Doing, Fault, PIPES, Pipe, Take, World};

impl World {
    /// References of a member: slices, and what it has sent on.
    pub(super) fn references(&self, member: usize) -> u8 {
        let sent = PIPES.iter().zip(&self.pipes);
        let kept = sent.filter(|((from, _), pipe)| *from == Some(member) && pipe.is_kept);
        self.members[member].slices + kept.count() as u8
    }

    /// A member has one reference less: with the last its hold goes.
    pub(super) fn settle(&mut self, member: usize) {
        if self.references(member) == 0 && self.members[member].held != 0 {
            self.members[member].held = 0;
            self.holds[member] = 0;
        }
    }

    pub(super) fn member_steps(&self, member: usize, fault: Fault, next: &mut Vec<Self>) {
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

    pub(super) fn drain(&mut self, member: usize) -> bool {
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
}
