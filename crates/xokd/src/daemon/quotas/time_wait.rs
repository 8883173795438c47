//! Whose the connections in TIME-WAIT are that programs have left with slot 0.
//!
//! The stack knows connections, and not users. So what was taken of each user is remembered here as long as it can be
//! there, by the second: what ends earlier counts until then.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::clock::Now;
use crate::limits::{TIME_WAIT_LIFE, TIME_WAIT_PER_USER_MAX, TIME_WAITS};
use crate::pool::Standing;

/// What was taken lately.
#[derive(Debug, Default)]
pub(in crate::daemon) struct TimeWaits {
    /// By second and user.
    taken: BTreeMap<(u64, u32), (Standing, usize)>,
}

impl TimeWaits {
    /// How many more may be taken of a user.
    pub(in crate::daemon) fn room(&mut self, now: Now, uid: u32, standing: Standing) -> usize {
        let oldest = now.saturating_sub(TIME_WAIT_LIFE + Duration::from_secs(1));
        self.taken = self.taken.split_off(&(oldest.as_secs(), 0));
        let of_user = self.taken.iter().filter(|((_, user), _)| *user == uid);
        let of_user: usize = of_user.map(|(_, (_, count))| count).sum();
        let all = self.taken.values().copied();
        TIME_WAITS
            .room_of_part(standing, of_user, all)
            .min(TIME_WAIT_PER_USER_MAX.saturating_sub(of_user))
    }

    /// This many were taken.
    pub(in crate::daemon) fn add(&mut self, now: Now, uid: u32, standing: Standing, count: usize) {
        let taken = self.taken.entry((now.as_secs(), uid));
        taken.or_insert((standing, 0)).1 += count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_users_connections_leave_room_for_the_others() {
        let mut waits = TimeWaits::default();
        let now = Now::from_secs(100);
        let most = TIME_WAITS.most(Standing::Unnamed);
        for uid in 1000.. {
            let room = waits.room(now, uid, Standing::Unnamed);
            assert!(room <= TIME_WAIT_PER_USER_MAX);
            if room == 0 {
                break;
            }
            waits.add(now, uid, Standing::Unnamed, room);
        }
        let room = TIME_WAITS.most(Standing::Named) - most;
        let room = room.min(TIME_WAIT_PER_USER_MAX);
        assert_eq!(waits.room(now, 7, Standing::Named), room);
        waits.add(now, 7, Standing::Named, room);
        assert_eq!(waits.room(now, 7, Standing::Named), 0);
        assert!(waits.room(now, 8, Standing::Named) > 0);
        // Over, all of them.
        let later = now + TIME_WAIT_LIFE + Duration::from_secs(3);
        assert_eq!(
            waits.room(later, 7, Standing::Named),
            TIME_WAIT_PER_USER_MAX
        );
        assert!(waits.taken.is_empty());
    }
}
