//! The policies that say what goes: one for what is everybody's, and one for what each program brought in that has a policy of its own.
//!
//! Such a program's part of the memory is its share: what it brings in beyond that takes the place of something else that it brought in, as its policy
//! says, and of nothing that others use. All such parts together have half of the memory, or the largest of them gives something up first. What another
//! program reads, too, is everybody's from then on. When the last of its connections has ended, what
//! is left in its part goes before anything else does.

use crate::users::Owner;
use exos_replacement::{Newcomer, Policy};

/// Which part: by its number, as long as it has something or a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Part(usize);

/// The part of the memory that programs with policies of their own may have together: half, as there is one half for all others.
const OWN_PART: u64 = 2;

/// What is nobody's own.
pub(crate) const COMMON: Part = Part(0);

#[derive(Debug)]
struct Own {
    policy: Box<dyn Policy>,
    /// Whose it is; nobody's is the common one.
    owner: Option<Owner>,
    /// How many connections it has.
    connections: usize,
    /// Bytes that it may have, and has.
    limit: u64,
    held: u64,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Parts {
    parts: Vec<Option<Own>>,
    /// Bytes that all but the common one may have before that has to give something up.
    own_limit: u64,
}

impl Parts {
    /// With `memory` bytes in all, and a policy for what is everybody's.
    pub fn new(policy: Box<dyn Policy>, memory: u64) -> Self {
        let common = Own {
            policy,
            owner: None,
            connections: 1,
            limit: u64::MAX,
            held: 0,
        };
        Self {
            parts: vec![Some(common)],
            own_limit: memory / OWN_PART,
        }
    }

    /// The part of an owner, one more of whose connections has it. The first of them says by which policy.
    pub fn join(&mut self, owner: Owner, policy: Box<dyn Policy>, limit: u64) -> Part {
        let is_own = |own: &Option<Own>| own.as_ref().is_some_and(|it| it.owner == Some(owner));
        let place = self.parts.iter().position(is_own).unwrap_or_else(|| {
            let free = self.parts.iter().position(Option::is_none);
            let place = free.unwrap_or(self.parts.len());
            self.parts
                .resize_with(self.parts.len().max(place + 1), || None);
            self.parts[place] = Some(Own {
                policy,
                owner: Some(owner),
                connections: 0,
                limit,
                held: 0,
            });
            place
        });
        let part = Part(place);
        self.of(part).connections += 1;
        part
    }

    /// One of its connections has ended.
    pub fn leave(&mut self, part: Part) {
        if part != COMMON {
            self.of(part).connections -= 1;
            self.drop_if_over(part);
        }
    }

    fn drop_if_over(&mut self, part: Part) {
        let own = self.of(part);
        if own.connections == 0 && own.held == 0 {
            self.parts[part.0] = None;
        }
    }

    fn of(&mut self, part: Part) -> &mut Own {
        self.parts[part.0].as_mut().expect("it has something")
    }

    /// The policy that says what goes of a part.
    pub fn policy(&mut self, part: Part) -> &mut dyn Policy {
        &mut *self.of(part).policy
    }

    /// Something of this length is in a part now; its policy does not know of it yet.
    pub fn add(&mut self, part: Part, bytes: u64) {
        self.of(part).held += bytes;
    }

    /// It has gone from there.
    pub fn remove(&mut self, part: Part, bytes: u64) {
        self.of(part).held -= bytes;
        self.drop_if_over(part);
    }

    /// Something that its policy knows of is everybody's from now on.
    pub fn make_common(&mut self, part: Part, newcomer: Newcomer) {
        self.policy(part).removed(newcomer.key);
        self.add(COMMON, newcomer.bytes);
        self.policy(COMMON).admitted(newcomer);
        self.remove(part, newcomer.bytes);
    }

    /// Whether a part has more than it may.
    pub fn is_over(&mut self, part: Part) -> bool {
        let own = self.of(part);
        own.held > own.limit
    }

    /// From which part something goes first when there is no room: from those whose programs have ended, from the largest where the programs' own
    /// have more than their part together, from what is everybody's, and then from the rest.
    pub fn in_order(&self) -> Vec<Part> {
        let there = self.parts.iter().enumerate();
        let there = there.filter_map(|(place, own)| own.as_ref().map(|own| (Part(place), own)));
        let own_held: u64 = there
            .clone()
            .filter(|(part, _)| *part != COMMON)
            .map(|(_, own)| own.held)
            .sum();
        let mut order: Vec<_> = there.collect();
        order.sort_by_key(|(part, own)| {
            let rank = match (*part, own.connections) {
                (COMMON, _) => 2,
                (_, 0) => 0,
                _ if own_held > self.own_limit => 1,
                _ => 3,
            };
            (rank, std::cmp::Reverse(own.held))
        });
        order.into_iter().map(|(part, _)| part).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use exos_replacement::Lru;

    fn part(parts: &mut Parts, pid: u32) -> Part {
        parts.join(Owner::of_process(7, pid), Box::<Lru>::default(), 40)
    }

    #[test]
    fn what_has_ended_goes_first_and_large_parts_before_what_all_use() {
        let mut parts = Parts::new(Box::<Lru>::default(), 200);
        parts.add(COMMON, 100);
        let [one, two, three] = [1, 2, 3].map(|pid| part(&mut parts, pid));
        assert_eq!(part(&mut parts, 2), two, "by another connection");
        parts.add(one, 30);
        parts.add(two, 40);
        parts.add(three, 30);
        assert!(!parts.is_over(two));
        assert_eq!(parts.in_order(), [COMMON, two, one, three]);
        parts.add(two, 1);
        assert!(parts.is_over(two));
        assert_eq!(parts.in_order(), [two, one, three, COMMON]);
        parts.leave(one);
        parts.leave(two);
        assert_eq!(parts.in_order(), [one, two, three, COMMON]);
        // It is as if it had not been there, and its place another's.
        parts.remove(one, 30);
        assert_eq!(parts.in_order(), [COMMON, two, three]);
        assert_eq!(part(&mut parts, 4), one);
        parts.leave(three);
        parts.remove(three, 30);
        parts.leave(two);
        assert_eq!(parts.in_order(), [two, COMMON, one]);
    }
}
