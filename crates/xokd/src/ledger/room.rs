//! How many grants a user may have, beside all others that there are.
//!
//! Of each holder: what is shared counts as often. What is kept for a successor counts as its user's.

use exos_xok::Claim;

use super::{Denied, Ledger, Owner, SlotId};
use crate::limits::{ECHOES, ECHOES_PER_USER_MAX, GRANTS, GRANTS_PER_USER_MAX};
use crate::policy::Standing;

/// How many a user has, and how many there are of each standing.
struct Taken {
    mine: usize,
    all: Vec<(Standing, usize)>,
}

impl Ledger {
    /// Refuses one grant more, of this claim, when the slot's user has too many or leaves too few to others.
    pub(super) fn check_room(&self, slot: SlotId, claim: &Claim) -> Result<(), Denied> {
        let standing = self.owner(slot).ok_or(Denied::NotFound("slot"))?.standing;
        let held = self.slots.iter();
        let held = held.map(|(slot, owner)| (owner, self.count_held_by(*slot)));
        let taken = self.taken(slot, held, |_| true)?;
        at_most(taken.mine, GRANTS_PER_USER_MAX, "grants")?;
        let all = || taken.all.iter().copied();
        let room = GRANTS.check(standing, "grants", all());
        room.and_then(|()| GRANTS.check_part(standing, "grants", taken.mine, all()))
            .map_err(Denied::Limit)?;
        if !claim.is_echo() {
            return Ok(());
        }
        let echoes = self.grants.values().filter(|g| g.claim.is_echo());
        let holders = echoes.flat_map(|g| &g.holders);
        let held = holders.filter_map(|slot| Some((self.owner(*slot)?, 1)));
        let taken = self.taken(slot, held, Claim::is_echo)?;
        let things = "identifiers of echo requests";
        at_most(taken.mine, ECHOES_PER_USER_MAX, things)?;
        let room = ECHOES.check(standing, things, taken.all);
        room.map_err(Denied::Limit)
    }

    /// Those that are held, with how many, and those kept for successors that are `counted`.
    fn taken<'a>(
        &'a self,
        slot: SlotId,
        held: impl Iterator<Item = (&'a Owner, usize)>,
        counted: impl Fn(&Claim) -> bool,
    ) -> Result<Taken, Denied> {
        let uid = self.who(slot)?.uid;
        let awaited = self.awaited().filter(|(_, claim, _)| counted(claim));
        let awaited = awaited.map(|(.., awaited)| (&awaited.owner, 1));
        let all: Vec<_> = held.chain(awaited).collect();
        let mine = all.iter().filter(|(owner, _)| owner.who.uid == uid);
        Ok(Taken {
            mine: mine.map(|(_, count)| count).sum(),
            all: all.iter().map(|(o, count)| (o.standing, *count)).collect(),
        })
    }
}

fn at_most(mine: usize, most: usize, things: &str) -> Result<(), Denied> {
    if mine < most {
        return Ok(());
    }
    let text = format!("the programs of this user have {mine} {things}; release some");
    Err(Denied::Limit(text))
}
