//! Groups: who gets which flows of a port that several slots hold together.
//!
//! A member has a place as long as it is one, and the buckets of a group are dealt such that all members have as many as the
//! others, give or take one, and that no more of them change hands than must. The kernel's tables are all there is of it: a
//! daemon that starts finds who is in a group in them.

use std::sync::Arc;

use exos_filter::gate::group::{BUCKETS, GROUP, MEMBERS_MAX, group_of};
use exos_filter::gate::limits::GROUPS_MAX;
use exos_filter::gate::{FlowKey, FlowValue, Group, Maps, Member};
use exos_host::bpf::Map;
use exos_host::error::{Error, Result};
use exos_host::random::random_number;

use crate::clock::now;
use crate::ledger::SlotId;

/// The groups of one gate.
#[derive(Debug)]
pub(super) struct Groups {
    maps: Arc<Maps<Map>>,
}

impl Groups {
    /// Of the gate with these maps.
    pub(super) fn new(maps: &Arc<Maps<Map>>) -> Self {
        Self {
            maps: Arc::clone(maps),
        }
    }

    /// Divides the packets of a grant among these slots, of which some get new flows. Returns what its entry leads to.
    pub(super) fn set_members(
        &self,
        flow: &FlowKey,
        grant: u32,
        members: &[(SlotId, bool)],
    ) -> Result<u32> {
        let (number, mut group) = match self.of_grant(flow, grant)? {
            Some(found) => found,
            None => self.free(grant)?,
        };
        deal(&mut group, members, now().as_nanos() as u64);
        self.write(number, &group)?;
        Ok(GROUP | number)
    }

    /// The group that a flow leads to.
    pub(super) fn of_flow(&self, flow: &FlowKey) -> Result<Option<(u32, Group)>> {
        let value = self.maps.flows.lookup(&flow.to_bytes())?;
        let value = value.and_then(|value| FlowValue::from_bytes(&value));
        let number = value.and_then(|value| group_of(value.slot));
        number.map_or(Ok(None), |number| self.read(number).map(Some))
    }

    /// Nothing leads to a group any more.
    pub(super) fn forget(&self, number: u32) -> Result<()> {
        self.write(number, &Group::default())
    }

    fn of_grant(&self, flow: &FlowKey, grant: u32) -> Result<Option<(u32, Group)>> {
        let found = self.of_flow(flow)?;
        Ok(found.filter(|(_, group)| group.grant == grant))
    }

    fn free(&self, grant: u32) -> Result<(u32, Group)> {
        for number in 0..GROUPS_MAX {
            if self.read(number)?.1.grant == 0 {
                let seed = random_number();
                let group = Group {
                    seed,
                    grant,
                    ..Group::default()
                };
                return Ok((number, group));
            }
        }
        Err(Error::new("too many ports are shared by several programs").mend("end some of them"))
    }

    /// Takes down groups that no flow leads to: a daemon may have ended between the two.
    pub(super) fn forget_others(&self) -> Result<()> {
        let mut led = [false; GROUPS_MAX as usize];
        for key in self.maps.flows.keys()? {
            let value = self.maps.flows.lookup(&key)?;
            let value = value.and_then(|value| FlowValue::from_bytes(&value));
            if let Some(number) = value.and_then(|value| group_of(value.slot)) {
                led[number as usize] = true;
            }
        }
        let mut others = (0..GROUPS_MAX).filter(|number| !led[*number as usize]);
        others.try_for_each(|number| self.forget(number))
    }

    pub(super) fn read(&self, number: u32) -> Result<(u32, Group)> {
        let bytes = self.maps.groups.lookup(&number.to_ne_bytes())?;
        let group = bytes.and_then(|bytes| Group::from_bytes(&bytes));
        Ok((number, group.unwrap_or_default()))
    }

    fn write(&self, number: u32, group: &Group) -> Result<()> {
        let key = number.to_ne_bytes();
        self.maps.groups.update(&key, &group.to_bytes())
    }
}

/// The members of a group, those that have been there for longest first, and whether each gets new flows.
pub(super) fn members_of(group: &Group) -> Vec<(SlotId, bool)> {
    let places = (0..).zip(&group.members);
    let mut there: Vec<(u8, &Member)> = places.filter(|(_, m)| m.is_there()).collect();
    there.sort_by_key(|(_, member)| member.since);
    let members = there.into_iter();
    let gets_new = |place| group.buckets.contains(&place);
    let members = members.map(|(place, member)| (member.slot, gets_new(place)));
    members.collect()
}

/// Has these slots be the members. Those that were already keep their places, and their buckets as far as others are not to
/// have them.
fn deal(group: &mut Group, members: &[(SlotId, bool)], now: u64) {
    let is_member = |member: &Member| members.iter().any(|(slot, _)| *slot == member.slot);
    let gone = group.members.iter_mut().filter(|m| !is_member(m));
    gone.for_each(|member| *member = Member::NOBODY);
    let mut since = group.members.iter().map(|m| m.since).fold(now, u64::max);
    let mut takers = Vec::new();
    for (slot, gets_new) in members {
        let place = |group: &Group, slot| group.members.iter().position(|m| m.slot == slot);
        let known = place(group, *slot);
        let place = known.or_else(|| place(group, Member::NOBODY.slot));
        let place = place.expect("the ledger allows as many as there are places");
        if known.is_none() {
            since += 1;
            group.members[place] = Member { slot: *slot, since };
        }
        if *gets_new {
            takers.push(place as u8);
        }
    }
    deal_buckets(&mut group.buckets, &takers);
}

/// As many buckets for each of these places, give or take one; no more change hands than must.
fn deal_buckets(buckets: &mut [u8; BUCKETS], takers: &[u8]) {
    let mut counts = [0; MEMBERS_MAX];
    let mut open = Vec::new();
    for (at, place) in buckets.iter().enumerate() {
        match takers.contains(place) {
            true => counts[usize::from(*place)] += 1,
            false => open.push(at),
        }
    }
    let count = |counts: &[u32; MEMBERS_MAX], place: u8| counts[usize::from(place)];
    loop {
        let least = takers.iter().min_by_key(|place| count(&counts, **place));
        let most = takers.iter().max_by_key(|place| count(&counts, **place));
        let (Some(least), Some(most)) = (least, most) else {
            return;
        };
        let at = match open.pop() {
            Some(at) => at,
            None if count(&counts, *most) > count(&counts, *least) + 1 => {
                counts[usize::from(*most)] -= 1;
                let given = buckets.iter().position(|place| place == most);
                given.expect("it has the most")
            }
            None => return,
        };
        buckets[at] = *least;
        counts[usize::from(*least)] += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(group: &Group) -> Vec<usize> {
        let members = group.members.iter().enumerate();
        let there = members.filter(|(_, member)| member.is_there());
        let count = |place| group.buckets.iter().filter(|p| **p == place as u8).count();
        there.map(|(place, _)| count(place)).collect()
    }

    fn moved(before: &Group, after: &Group) -> usize {
        let both = before.buckets.iter().zip(&after.buckets);
        both.filter(|(a, b)| a != b).count()
    }

    #[test]
    fn members_have_as_many_buckets_and_few_change_hands() {
        let mut group = Group::default();
        deal(&mut group, &[(7, true)], 100);
        assert_eq!(counts(&group), [256]);
        for (slots, most) in [
            (&[7, 9][..], 128),
            (&[7, 9, 3], 86),
            (&[9, 3], 86),
            (&[9, 3, 7], 86),
            (&[9, 3, 7, 1, 2, 4, 5], 147),
            (&[5], 220),
        ] {
            let members: Vec<_> = slots.iter().map(|slot| (*slot, true)).collect();
            let before = group.clone();
            deal(&mut group, &members, 100);
            let counts = counts(&group);
            assert_eq!(counts.iter().sum::<usize>(), BUCKETS, "{slots:?}");
            let (least, largest) = (counts.iter().min(), counts.iter().max());
            assert!(largest.unwrap() - least.unwrap() <= 1, "{counts:?}");
            let moved = moved(&before, &group);
            assert!(moved <= most, "{slots:?}: {moved} of {most}");
            let mut there: Vec<_> = members_of(&group).iter().map(|m| m.0).collect();
            there.sort_unstable();
            let mut slots = slots.to_vec();
            slots.sort_unstable();
            assert_eq!(there, slots);
        }
    }

    #[test]
    fn who_comes_back_is_another_member() {
        let mut group = Group::default();
        deal(&mut group, &[(1, true), (2, true)], 100);
        let (first, other) = (group.members[0], group.members[1]);
        deal(&mut group, &[(2, true)], 100);
        assert_eq!(group.members[1], other, "its place stays");
        deal(&mut group, &[(2, true), (1, true)], 100);
        let again = group.members[0];
        assert!(again.slot == first.slot && again.since > other.since);
        deal(&mut group, &[(2, true), (1, true)], 5000);
        assert_eq!((group.members[0], group.members[1]), (again, other));
        assert_eq!(members_of(&group), [(2, true), (1, true)]);
    }

    #[test]
    fn who_retires_has_no_buckets_and_stays_a_member() {
        let mut group = Group::default();
        deal(&mut group, &[(1, true), (2, true)], 100);
        let first = group.members[0];
        deal(&mut group, &[(1, false), (2, true)], 200);
        assert_eq!(counts(&group), [0, 256]);
        assert_eq!(group.members[0], first);
        assert_eq!(members_of(&group), [(1, false), (2, true)]);
    }
}
