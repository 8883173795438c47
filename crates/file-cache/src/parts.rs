//! The policies that say what goes: one for what is everybody's, and one for what each program brought in that has a policy of its own.
//!
//! Such a program's part of the memory is at most its share, and all parts of a user at most that user's: what it brings in beyond that takes the place of
//! something else of that user's parts, as their policies say, and of nothing that others use. All such parts together have half of the memory, or the user
//! who has most in them gives something up first. What another program reads, too, is everybody's from then on. When the last of its connections has ended,
//! what is left in its part goes before anything else does.

use crate::users::Owner;
use exos_replacement::{Lru, Newcomer, Policy};
use std::cmp::Reverse;

/// Which part: by its number, as long as it has a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Part(usize);

/// The part of the memory that programs with policies of their own may have together: half, as there is one half for all others.
const OWN_PART: u64 = 2;

/// What is nobody's own.
pub(crate) const COMMON: Part = Part(0);
/// What is left of parts whose programs have ended.
pub(crate) const ENDED: Part = Part(1);

/// What a part may have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Limits {
    /// By itself, in bytes.
    pub program: u64,
    /// With all parts of its user.
    pub user: u64,
}

#[derive(Debug)]
struct Own {
    policy: Box<dyn Policy>,
    /// Whose it is; nobody's are the common one, and that of what has ended.
    owner: Option<Owner>,
    connections: usize,
    limits: Limits,
    /// Bytes that it has.
    held: u64,
}

impl Own {
    fn of_all(policy: Box<dyn Policy>) -> Self {
        Self {
            policy,
            owner: None,
            connections: 0,
            limits: Limits {
                program: u64::MAX,
                user: u64::MAX,
            },
            held: 0,
        }
    }

    fn user(&self) -> Option<u32> {
        self.owner.map(|owner| owner.user)
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Parts {
    parts: Vec<Option<Own>>,
    /// Bytes that all parts of programs may have before one of them has to give something up.
    own_limit: u64,
}

impl Parts {
    /// With `memory` bytes in all, and a policy for what is everybody's.
    pub fn new(policy: Box<dyn Policy>, memory: u64) -> Self {
        let ended = Own::of_all(Box::<Lru>::default());
        Self {
            parts: vec![Some(Own::of_all(policy)), Some(ended)],
            own_limit: memory / OWN_PART,
        }
    }

    /// The part of an owner, one more of whose connections has it. The first of them says by which policy.
    pub fn join(&mut self, owner: Owner, policy: Box<dyn Policy>, limits: Limits) -> Part {
        let is_own = |own: &Option<Own>| own.as_ref().is_some_and(|it| it.owner == Some(owner));
        let place = self.parts.iter().position(is_own).unwrap_or_else(|| {
            let free = self.parts.iter().position(Option::is_none);
            let place = free.unwrap_or(self.parts.len());
            self.parts
                .resize_with(self.parts.len().max(place + 1), || None);
            self.parts[place] = Some(Own {
                owner: Some(owner),
                limits,
                ..Own::of_all(policy)
            });
            place
        });
        let part = Part(place);
        self.of(part).connections += 1;
        part
    }

    /// One of its connections has ended. True where it was the last: then all that is in it is to be [moved](Self::remove) from there.
    pub fn leave(&mut self, part: Part) -> bool {
        if part == COMMON {
            return false;
        }
        self.of(part).connections -= 1;
        self.of(part).connections == 0
    }

    /// A part that was left, and has nothing any more.
    pub fn end(&mut self, part: Part) {
        let gone = self.parts[part.0].take();
        debug_assert_eq!(gone.map(|own| own.held), Some(0));
    }

    fn of(&mut self, part: Part) -> &mut Own {
        self.parts[part.0].as_mut().expect("it has a connection")
    }

    /// The policy that says what goes of a part.
    pub fn policy(&mut self, part: Part) -> &mut dyn Policy {
        &mut *self.of(part).policy
    }

    /// Something is in a part now, and takes these bytes of it.
    pub fn add(&mut self, part: Part, bytes: u64) {
        self.of(part).held += bytes;
    }

    /// It has gone from there.
    pub fn remove(&mut self, part: Part, bytes: u64) {
        self.of(part).held -= bytes;
    }

    /// Something is of another part from now on; where the policy of the one knows of it, that of the other does then.
    pub fn move_to(&mut self, from: Part, to: Part, what: Newcomer, is_known: bool) {
        self.remove(from, what.bytes);
        self.add(to, what.bytes);
        if is_known {
            self.policy(from).removed(what.key);
            self.policy(to).admitted(what);
        }
    }

    fn there(&self) -> impl Iterator<Item = (Part, &Own)> + Clone {
        let there = self.parts.iter().enumerate();
        there.filter_map(|(place, own)| own.as_ref().map(|own| (Part(place), own)))
    }

    /// What all parts of a user have.
    fn held_by(&self, user: Option<u32>) -> u64 {
        let own = self.there().filter(|(_, own)| own.user() == user);
        own.map(|(_, own)| own.held).sum()
    }

    /// Which part has to give something up for what another has: that itself, or the largest of its user.
    pub fn over(&mut self, part: Part) -> Option<Part> {
        let own = self.of(part);
        let (user, limits, held) = (own.user(), own.limits, own.held);
        if held > limits.program {
            return Some(part);
        }
        if self.held_by(user) <= limits.user {
            return None;
        }
        let own = self.there().filter(|(_, own)| own.user() == user);
        own.max_by_key(|(_, own)| own.held).map(|(part, _)| part)
    }

    /// From which part something goes first when there is no room: from those whose programs have ended; from the largest of the user who has most, where the
    /// programs' own have more than their part together; from what is everybody's; and then from the rest.
    pub fn in_order(&self) -> Vec<Part> {
        let own = self.there().filter(|(_, own)| own.owner.is_some());
        let is_over = own.map(|(_, own)| own.held).sum::<u64>() > self.own_limit;
        let mut order: Vec<_> = self.there().collect();
        order.sort_by_cached_key(|(part, own)| {
            let rank = match *part {
                ENDED => 0,
                COMMON => 2,
                _ if is_over => 1,
                _ => 3,
            };
            (rank, Reverse(self.held_by(own.user())), Reverse(own.held))
        });
        order.into_iter().map(|(part, _)| part).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits {
        program: 40,
        user: 70,
    };

    fn part(parts: &mut Parts, user: u32, pid: u32) -> Part {
        let owner = Owner::of_process(user, pid);
        parts.join(owner, Box::<Lru>::default(), LIMITS)
    }

    #[test]
    fn what_has_ended_goes_first_and_the_largest_users_parts_before_what_all_use() {
        let mut parts = Parts::new(Box::<Lru>::default(), 200);
        parts.add(COMMON, 100);
        let [one, two, other] = [(7, 1), (7, 2), (8, 1)].map(|(u, p)| part(&mut parts, u, p));
        assert_eq!(part(&mut parts, 7, 2), two, "by another connection");
        parts.add(one, 30);
        parts.add(two, 31);
        parts.add(other, 39);
        assert_eq!([one, two, other].map(|part| parts.over(part)), [None; 3]);
        assert_eq!(parts.in_order(), [ENDED, COMMON, two, one, other]);
        // More than half of the memory.
        parts.add(other, 1);
        assert_eq!(parts.over(other), None);
        assert_eq!(parts.in_order(), [ENDED, two, one, other, COMMON]);
        // More than a program may have, and than its user may.
        parts.add(two, 10);
        assert_eq!(parts.over(two), Some(two));
        assert_eq!(parts.over(one), Some(two));
        parts.remove(two, 1);
        assert_eq!(parts.over(two), None);
        parts.add(one, 1);
        assert_eq!(parts.over(one), Some(two));
        // One is left by its only connection, the other by one of two.
        assert!(parts.leave(one) && !parts.leave(two));
        let all = Newcomer {
            key: exos_replacement::Key::new(3),
            name: 3,
            bytes: 31,
            is_asked_for: true,
        };
        parts.move_to(one, ENDED, all, false);
        parts.end(one);
        assert_eq!(parts.in_order(), [ENDED, COMMON, two, other]);
        assert_eq!(part(&mut parts, 7, 4), one, "its place is another's");
    }
}
