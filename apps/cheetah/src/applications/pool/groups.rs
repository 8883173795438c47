//! The groups of a loop, one for each application: by address where a request begins, by number for what is under way.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use super::group::Group;
use super::permits::AllPermits;
use crate::applications::application::Address;
use crate::site::hash::PathHasher;

/// Which group. None that was forgotten has that of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct GroupId {
    place: usize,
    /// How many groups came before.
    serial: u64,
}

/// All of them.
#[derive(Default)]
pub(super) struct Groups {
    /// Places of those that are forgotten are used again.
    all: Vec<Option<Entry>>,
    places: HashMap<Address, GroupId, BuildHasherDefault<PathHasher>>,
    /// That of the next.
    serial: u64,
    /// That which was looked for last by its address: mostly it is the next as well.
    last: Option<GroupId>,
    /// For requests to applications that other loops may ask too.
    pub(super) permits: AllPermits,
}

struct Entry {
    serial: u64,
    address: Address,
    group: Group,
}

impl Groups {
    /// The group of an application, which has one from now on.
    pub(super) fn of(&mut self, address: &Address) -> GroupId {
        if let Some(last) = self.last
            && let Some(Some(entry)) = self.all.get(last.place)
            && entry.serial == last.serial
            && entry.address == *address
        {
            return last;
        }
        let id = self.find(address).unwrap_or_else(|| self.add(address));
        self.last = Some(id);
        id
    }

    fn add(&mut self, address: &Address) -> GroupId {
        let free = self.all.iter().position(Option::is_none);
        let place = free.unwrap_or(self.all.len());
        if free.is_none() {
            self.all.push(None);
        }
        let serial = self.serial;
        self.serial += 1;
        self.all[place] = Some(Entry {
            serial,
            address: address.clone(),
            group: Group::of(address, &self.permits),
        });
        let id = GroupId { place, serial };
        self.places.insert(address.clone(), id);
        id
    }

    /// The group of an application, if it has one.
    pub(super) fn find(&self, address: &Address) -> Option<GroupId> {
        self.places.get(address).copied()
    }

    pub(super) fn get(&self, id: GroupId) -> Option<&Group> {
        let entry = self.all.get(id.place)?.as_ref();
        let entry = entry.filter(|it| it.serial == id.serial)?;
        Some(&entry.group)
    }

    pub(super) fn get_mut(&mut self, id: GroupId) -> Option<&mut Group> {
        let entry = self.all.get_mut(id.place)?.as_mut();
        let entry = entry.filter(|it| it.serial == id.serial)?;
        Some(&mut entry.group)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Address, &Group)> {
        let all = self.all.iter().flatten();
        all.map(|entry| (&entry.address, &entry.group))
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Group> {
        let all = self.all.iter_mut().flatten();
        all.map(|entry| &mut entry.group)
    }

    /// Forgets all others.
    pub(super) fn retain(&mut self, is_kept: impl Fn(&Address, &Group) -> bool) {
        for place in &mut self.all {
            let gone = place.take_if(|entry| !is_kept(&entry.address, &entry.group));
            if let Some(entry) = gone {
                self.places.remove(&entry.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_of_a_group_is_of_none_that_takes_its_place() {
        let address = |path: &str| Address::parse_shared(path).expect("an address");
        let mut groups = Groups::default();
        let first = groups.of(&address("/run/one"));
        groups.retain(|_, _| false);
        let second = groups.of(&address("/run/two"));
        assert!(groups.of(&address("/run/two")) == second);
        assert!(first != second && groups.all.len() == 1);
        assert!(groups.get_mut(first).is_none() && groups.get(first).is_none());
        assert!(groups.get_mut(second).is_some() && groups.get(second).is_some());
    }
}
