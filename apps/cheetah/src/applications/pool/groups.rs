//! The groups of a loop, one for each application: by address where a request begins, by number for what is under way.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use super::group::Group;
use crate::applications::application::Address;
use crate::site::hash::PathHasher;

/// Which group: as long as that is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct GroupId(usize);

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Groups {
    /// Places of those that are forgotten are used again.
    all: Vec<Option<(Address, Group)>>,
    places: HashMap<Address, GroupId, BuildHasherDefault<PathHasher>>,
    /// Other loops ask the same applications.
    pub(super) are_asked_by_others: bool,
}

impl Groups {
    /// The group of an application, which has one from now on.
    pub(super) fn of(&mut self, address: &Address) -> GroupId {
        if let Some(id) = self.find(address) {
            return id;
        }
        let free = self.all.iter().position(Option::is_none);
        let place = free.unwrap_or(self.all.len());
        if free.is_none() {
            self.all.push(None);
        }
        self.all[place] = Some((
            address.clone(),
            Group::of(address, self.are_asked_by_others),
        ));
        self.places.insert(address.clone(), GroupId(place));
        GroupId(place)
    }

    /// The group of an application, if it has one.
    pub(super) fn find(&self, address: &Address) -> Option<GroupId> {
        self.places.get(address).copied()
    }

    pub(super) fn get(&self, id: GroupId) -> Option<&Group> {
        let (_, group) = self.all.get(id.0)?.as_ref()?;
        Some(group)
    }

    pub(super) fn get_mut(&mut self, id: GroupId) -> Option<&mut Group> {
        let (_, group) = self.all.get_mut(id.0)?.as_mut()?;
        Some(group)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Address, &Group)> {
        self.all
            .iter()
            .flatten()
            .map(|(address, group)| (address, group))
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Group> {
        self.all.iter_mut().flatten().map(|(_, group)| group)
    }

    /// Forgets all others, of which none may be in use.
    pub(super) fn retain(&mut self, is_kept: impl Fn(&Address, &Group) -> bool) {
        for place in &mut self.all {
            if let Some((address, _)) = place.take_if(|(address, group)| !is_kept(address, group)) {
                self.places.remove(&address);
            }
        }
    }
}
