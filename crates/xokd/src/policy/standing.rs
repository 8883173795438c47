//! How well a policy knows a user.

use super::{Policy, Subject, Who};
use crate::pool::Standing;

impl Policy {
    /// How well this policy knows somebody. `own` is the user that the daemon runs as.
    pub fn standing(&self, who: &Who, own: u32) -> Standing {
        let named = self.rules.iter().filter_map(|rule| match rule.subject {
            Subject::User(_) if who.is(rule.subject) => Some(Standing::Named),
            Subject::Group(_) if who.is(rule.subject) => Some(Standing::Member),
            _ => None,
        });
        match who.uid == own {
            true => Standing::Own,
            false => named.max().unwrap_or(Standing::Unnamed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Rule;
    use crate::pool::Standing::{Member, Named, Own, Unnamed};

    #[test]
    fn whom_the_rules_name() {
        let subjects = [Subject::Anyone, Subject::Group(50), Subject::User(1000)];
        let policy = Policy {
            rules: subjects.into_iter().map(Rule::everything).collect(),
            ..Policy::default()
        };
        for (uid, groups, standing) in [
            (1000, vec![1000, 50], Named),
            (1001, vec![1001, 50], Member),
            (1001, vec![1001], Unnamed),
            (0, vec![0], Own),
            // Numbers of users and of groups are not the same thing.
            (50, vec![1000], Unnamed),
        ] {
            assert_eq!(policy.standing(&Who { uid, groups }, 0), standing, "{uid}");
        }
    }
}
