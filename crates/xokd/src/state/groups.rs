//! Users' groups in the state file: each list of them once, however many grants are held by that user's right.
//!
//! A process may have thousands of groups. Of a user's are kept those that the policy has rules for, and of the others so
//! many that an ordinary user keeps all of theirs, should the next policy have rules for them.

use std::collections::BTreeMap;
use std::rc::Rc;

use serde::{Deserialize, Serialize};

use crate::limits::GROUPS_SAVED;
use crate::policy::{Policy, Subject, Who};

/// A user's groups.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Groups {
    /// A list of the file, by its place.
    At(usize),
    /// The list itself, as it was written before there were lists of the file.
    Here(Vec<u32>),
}

/// The lists of a file that is to be written.
#[derive(Debug, Default)]
pub struct GroupLists {
    lists: BTreeMap<Vec<u32>, usize>,
    /// Whom we have met: one user has many grants.
    met: BTreeMap<*const Who, usize>,
}

impl GroupLists {
    /// Where the groups of somebody are. Anyone who is asked about stays until all are.
    pub fn place(&mut self, who: &Rc<Who>, policy: &Policy) -> Groups {
        let next = self.lists.len();
        let lists = &mut self.lists;
        let met = self.met.entry(Rc::as_ptr(who));
        let at = met.or_insert_with(|| *lists.entry(kept(who, policy)).or_insert(next));
        Groups::At(*at)
    }

    /// The lists in their order.
    pub fn into_lists(self) -> Vec<Vec<u32>> {
        let mut lists: Vec<_> = self.lists.into_iter().collect();
        lists.sort_by_key(|(_, at)| *at);
        lists.into_iter().map(|(groups, _)| groups).collect()
    }
}

/// The groups that the policy has rules for, and some of the others.
fn kept(who: &Who, policy: &Policy) -> Vec<u32> {
    let ruled = |group: &u32| {
        let subject = Subject::Group(*group);
        policy.rules.iter().any(|rule| rule.subject == subject)
    };
    let (mut kept, others): (Vec<u32>, Vec<u32>) = who.groups.iter().partition(|g| ruled(g));
    let more = GROUPS_SAVED.saturating_sub(kept.len());
    kept.extend(others.into_iter().take(more));
    kept.sort_unstable();
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Rule;

    fn policy(group: u32) -> Policy {
        Policy {
            rules: vec![Rule::everything(Subject::Group(group))],
            ..Policy::default()
        }
    }

    #[test]
    fn a_list_is_written_once_and_no_longer_than_it_must_be() {
        const LAST: u32 = 66_000;
        let who = || {
            Rc::new(Who {
                uid: 1000,
                groups: (LAST - 1023..=LAST).collect(),
            })
        };
        let ours = who();
        let mut lists = GroupLists::default();
        for _ in 0..12_000 {
            assert_eq!(lists.place(&ours, &policy(LAST)), Groups::At(0));
        }
        let same = who();
        assert_eq!(lists.place(&same, &policy(LAST)), Groups::At(0), "by value");
        let other = Rc::new(Who {
            uid: 1001,
            groups: vec![27, 3],
        });
        assert_eq!(lists.place(&other, &policy(LAST)), Groups::At(1));
        let lists = lists.into_lists();
        assert_eq!(lists[0].len(), GROUPS_SAVED);
        assert!(lists[0].contains(&LAST), "the one that there is a rule for");
        assert_eq!(lists[1..], [[3, 27]], "all of an ordinary user's");
    }

    #[test]
    fn what_was_written_before_there_were_lists_is_read() {
        let read = |text| serde_json::from_str::<Groups>(text).expect("sound");
        assert_eq!(read("[27,3]"), Groups::Here(vec![27, 3]));
        assert_eq!(read("4"), Groups::At(4));
    }
}
