//! How many programs a user may have, and how much memory; and all users of a standing together.
//!
//! What is left of slots that have gone ([`super::leftovers`]) counts as if they were there. When that alone is in the way
//! the refusal is `busy` and not `limit`: as a rule a program is about to end, and ours ask again.

use std::collections::BTreeMap;

use exos_xok::message::Refusal;

use super::Daemon;
use super::answers::{Refused, refuse};
use super::attachment::Attachment;
use super::taps::Taps;
use crate::ledger::SlotId;
use crate::limits::{
    CHUNKS_DEFAULT, CONNECTIONS_BESIDE, CONNECTIONS_PER_USER_MAX, MEMORY_UNNAMED, PROGRAMS,
};
use crate::policy::{Policy, Rule, Who};
use crate::pool::Standing;
use crate::server::newcomers::{Awaited, Guests};
use crate::server::{ConnectionId, User};

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
    /// How many chunks a newcomer gets that asks for this many, 0 for the usual: when the bounds of a rule have room, and a
    /// link can have this many.
    pub(super) fn check_bounds(&self, who: &Who, rule: &Rule, chunks: u32) -> Result<u32, Refused> {
        let chunks = match chunks {
            0 => CHUNKS_DEFAULT,
            chunks => chunks,
        };
        let attachments = self
            .attachments
            .values()
            .map(|attachment| &attachment.record);
        let attachments = attachments
            .filter(|r| r.who.uid == who.uid)
            .map(|r| r.memory);
        let left = self.leftovers.records();
        let left = left.filter(|r| r.who.uid == who.uid).map(|r| r.memory);
        check_user(rule, chunks, Taken::sum(attachments), Taken::sum(left))?;
        self.check_standing(who, chunks)?;
        exos_link::check_chunks(chunks).map_err(|e| refuse(Refusal::BadRequest, e))?;
        Ok(chunks)
    }

    /// Whether a user may have this many bytes more beside what the user's programs have, and what is left of others.
    pub(super) fn check_more_memory(
        &self,
        who: &Who,
        interface: u32,
        bytes: u64,
    ) -> Result<(), Refused> {
        let interface = self.interface(interface).expect("slots are of interfaces");
        let rule = self.config.policy.attach(who, &interface.link.name, None);
        let rule = rule.map_err(|e| refuse(Refusal::NotAllowed, e))?;
        let attachments = self.attachments.values();
        let attachments = attachments.map(|a| (&a.record.who, a.record.memory));
        let left = self.leftovers.records().map(|r| (&r.who, r.memory));
        let (mut theirs, mut unnamed) = (0, 0);
        for (holder, memory) in attachments.chain(left) {
            theirs += memory * u64::from(holder.uid == who.uid);
            unnamed += memory * u64::from(self.standing(holder) == Standing::Unnamed);
        }
        let too_much = theirs + bytes > rule.memory_max
            || self.standing(who) == Standing::Unnamed && unnamed + bytes > MEMORY_UNNAMED;
        if too_much {
            let text = format!(
                "{bytes} bytes more of packet memory are not to be had, by memory_max of the policy or what users have together whom it does not name"
            );
            return Err(refuse(Refusal::Limit, text));
        }
        Ok(())
    }

    /// How well the policy knows somebody.
    pub(super) fn standing(&self, who: &Who) -> Standing {
        self.config.policy.standing(who, own_user())
    }

    /// A user as the policy knows them.
    pub(super) fn user(&self, who: &Who) -> User {
        (self.standing(who), who.uid)
    }

    /// One more program beside those of users like this one, and what is left of others.
    fn check_standing(&self, who: &Who, chunks: u32) -> Result<(), Refused> {
        let attachments = self
            .attachments
            .values()
            .map(|attachment| &attachment.record);
        let attachments = attachments.map(|r| (self.standing(&r.who), r.memory));
        let left = self.leftovers.records();
        let left = left.map(|r| (self.standing(&r.who), r.memory));
        let all: Vec<(Standing, u64)> = attachments.chain(left).collect();
        let standing = self.standing(who);
        let programs = all.iter().map(|(standing, _)| (*standing, 1));
        let room = PROGRAMS.check(standing, "programs", programs);
        room.map_err(|text| refuse(Refusal::Limit, text))?;
        let unnamed = all.iter().filter(|(s, _)| *s == Standing::Unnamed);
        let memory: u64 = unnamed.map(|(_, memory)| memory).sum();
        let wanted = u64::from(chunks) * 4096;
        if standing == Standing::Unnamed && memory + wanted > MEMORY_UNNAMED {
            let text = format!(
                "users whom no rule of the policy names may have {MEMORY_UNNAMED} bytes of packet memory together, and have {memory}; ask for fewer chunks than {chunks}, or have the user named in a rule of their own (user = \"NAME\")"
            );
            return Err(refuse(Refusal::Limit, text));
        }
        Ok(())
    }
}

/// What the server asks about its connections.
pub(super) struct House<'a> {
    pub(super) policy: &'a Policy,
    pub(super) attachments: &'a BTreeMap<SlotId, Attachment>,
    pub(super) taps: &'a Taps,
}

impl Guests for House<'_> {
    fn standing(&self, who: &Who) -> Standing {
        self.policy.standing(who, own_user())
    }

    fn connections_max(&self, uid: u32, groups: Option<&[u32]>) -> usize {
        let programs = self.policy.programs_max(uid, groups);
        CONNECTIONS_PER_USER_MAX.max(programs.saturating_add(CONNECTIONS_BESIDE))
    }

    fn holds(&self, id: ConnectionId) -> bool {
        let mut attachments = self.attachments.values();
        attachments.any(|attachment| attachment.connection == Some(id))
            || self.taps.are_shown_to(id)
    }

    fn awaited(&self) -> Vec<Awaited> {
        let mut users: BTreeMap<u32, Awaited> = BTreeMap::new();
        for attachment in self
            .attachments
            .values()
            .filter(|attachment| attachment.ends.is_some())
        {
            let uid = attachment.record.who.uid;
            let standing = self.standing(&attachment.record.who);
            let user = users.entry(uid).or_insert(Awaited {
                uid,
                standing,
                away: 0,
                present: 0,
            });
            user.standing = user.standing.min(standing);
            user.away += 1;
        }
        for attachment in self
            .attachments
            .values()
            .filter(|attachment| attachment.ends.is_none())
        {
            if let Some(user) = users.get_mut(&attachment.record.who.uid) {
                user.present += 1;
            }
        }
        users.into_values().collect()
    }
}

/// The user that the daemon runs as.
pub(super) fn own_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// One more of this many chunks, beside what a user's programs have and what is left of others.
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
