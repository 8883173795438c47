//! How many programs a user may have, and how much memory.
//!
//! What is left of slots that have gone ([`super::leftovers`]) counts as if they were there. When that alone is in the way
//! the refusal is `busy` and not `limit`: as a rule a program is about to end, and ours ask again.

use exos_xok::message::Refusal;

use super::Daemon;
use super::requests::{Refused, refuse};
use crate::limits::CHUNKS_DEFAULT;
use crate::policy::{Rule, Who};

/// How many programs, and how much memory.
#[derive(Clone, Copy, Default)]
struct Taken {
    programs: usize,
    memory: u64,
}

impl Taken {
    fn sum(memories: impl Iterator<Item = u64>) -> Self {
        memories.fold(Self::default(), |sum, memory| Self {
            programs: sum.programs + 1,
            memory: sum.memory + memory,
        })
    }
}

impl Daemon {
    /// How many chunks a newcomer gets that asks for so many, 0 for the usual: when the bounds of a rule have room, and a
    /// link can have so many.
    pub(super) fn check_bounds(&self, who: &Who, rule: &Rule, chunks: u32) -> Result<u32, Refused> {
        let chunks = match chunks {
            0 => CHUNKS_DEFAULT,
            chunks => chunks,
        };
        let seats = self.seats.values().map(|seat| &seat.record);
        let seats = seats.filter(|r| r.uid == who.uid).map(|r| r.memory);
        let left = self.leftovers.records();
        let left = left.filter(|r| r.uid == who.uid).map(|r| r.memory);
        check_user(rule, chunks, Taken::sum(seats), Taken::sum(left))?;
        exos_link::check_chunks(chunks).map_err(|e| refuse(Refusal::BadRequest, e))?;
        Ok(chunks)
    }
}

/// One more of so many chunks, beside what a user's programs have and what is left of others.
fn check_user(rule: &Rule, chunks: u32, has: Taken, left: Taken) -> Result<(), Refused> {
    let (programs_max, memory_max) = (rule.programs_max, rule.memory_max);
    let wanted = u64::from(chunks) * 4096;
    if has.programs >= programs_max {
        let programs = has.programs;
        let text = format!(
            "{programs} programs of this user are attached, and policy allows no more (programs_max = {programs_max})"
        );
        return Err(refuse(Refusal::Limit, text));
    }
    if has.memory + wanted > memory_max {
        let memory = has.memory;
        let text = format!(
            "the programs of this user have {memory} bytes of packet memory, and policy allows {memory_max} (memory_max); ask for fewer chunks than {chunks}"
        );
        return Err(refuse(Refusal::Limit, text));
    }
    let bound = if has.programs + left.programs >= programs_max {
        format!("programs_max = {programs_max}")
    } else if has.memory + left.memory + wanted > memory_max {
        format!("memory_max = {memory_max}")
    } else {
        return Ok(());
    };
    let Taken { programs, memory } = left;
    let text = format!(
        "processes of this user keep sockets or memory of {programs} links that were given back, {memory} bytes, and with those it is more than policy allows ({bound}); try again when they have ended"
    );
    Err(refuse(Refusal::Busy, text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Subject;

    #[test]
    fn what_is_left_counts_and_is_waited_for() {
        let rule = Rule {
            programs_max: 3,
            memory_max: 4 << 20,
            ..Rule::everything(Subject::Anyone)
        };
        const MIB: u64 = 1 << 20;
        for (chunks, has, left, code) in [
            (256, (2, 2 * MIB), (0, 0), None),
            (256, (3, 0), (0, 0), Some(Refusal::Limit)),
            (256, (3, 0), (1, 0), Some(Refusal::Limit)),
            (256, (2, 0), (1, 0), Some(Refusal::Busy)),
            (256, (0, 0), (2, 3 * MIB), None),
            (512, (0, 0), (2, 3 * MIB), Some(Refusal::Busy)),
            (512, (1, 3 * MIB), (0, 0), Some(Refusal::Limit)),
            (u32::MAX, (0, 0), (0, 0), Some(Refusal::Limit)),
        ] {
            let [has, left] = [has, left].map(|(programs, memory)| Taken { programs, memory });
            let refused = check_user(&rule, chunks, has, left).err();
            assert_eq!(refused.map(|r| r.code), code, "{chunks}");
        }
    }
}
