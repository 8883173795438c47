//! The owner's steps: it uses the buffer, sends it, hears of a member's end, and reclaims.

use super::{Fault, LAST, MIDDLE, PIPES, Pipe, Reclaim, State, USES, World};

impl World {
    /// The owner has one reference less.
    pub(super) fn settle_owner(&mut self) {
        let kept = PIPES.iter().zip(&self.pipes);
        let mut kept = kept.filter(|((from, _), pipe)| from.is_none() && pipe.is_kept);
        if self.state == State::Used && !self.has_slice && kept.next().is_none() {
            self.state = State::Released;
        }
    }

    pub(super) fn owner_steps(&self, fault: Fault, next: &mut Vec<Self>) {
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

    pub(super) fn drain_owner(&mut self) {
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
