//! The ledger's account of the file cache that processes share: what may come from there, and what goes from it.
//!
//! The rest of the ledger keeps what has come. What was lent under a membership that is over goes as soon as that is known, since it keeps all of
//! the earlier pool; it is read again when it is next asked for.

use exos_replacement::{Key, Policy as _};

use super::ledger::{Cache, Evicted};
use super::lending::FromCache;
use crate::limits::LENT_LARGE_PART;

impl Cache {
    /// Has documents go until there is room for another one that keeps this much of the file cache, if it may have that for them: what is to be
    /// read has room before it is. Also says whether there is: what would not be kept there is not asked for.
    pub fn make_lent_room(&mut self, lent: u64) -> (Vec<Evicted>, bool) {
        self.sweep();
        let mut evicted = self.end_memberships();
        // Where nothing is known, it is when the service was asked.
        let limit = self.lender.as_ref().and_then(FromCache::limit);
        let limit = limit.unwrap_or(u64::MAX);
        let is_large = lent > limit / LENT_LARGE_PART;
        while self.lent > limit || (self.lent + lent > limit && !is_large) {
            let Some(mut victims) = self.evict(true) else {
                break;
            };
            evicted.append(&mut victims);
        }
        self.publish();
        (evicted, self.lent + lent <= limit)
    }

    /// Whether a document that has come may keep so much there. It was read under the membership that was known before, or it is not kept.
    pub(super) fn has_lent_room(&self, lent: u64) -> bool {
        let limit = self.lender.as_ref().and_then(FromCache::limit);
        !self.is_membership_over() && self.lent + lent <= limit.unwrap_or(0)
    }

    fn is_membership_over(&self) -> bool {
        let ended = self.lender.as_ref().map_or(0, FromCache::ended);
        ended != self.memberships_ended
    }

    /// Takes out all that is lent, if the membership is over under which it was.
    pub(super) fn end_memberships(&mut self) -> Vec<Evicted> {
        if !self.is_membership_over() {
            return Vec::new();
        }
        self.memberships_ended = self.lender.as_ref().map_or(0, FromCache::ended);
        let keys = (0..self.units.len() as u32).map(Key::new);
        let is_lent = |key: &Key| {
            self.units[key.index()]
                .as_ref()
                .is_some_and(|it| it.lent > 0)
        };
        let lent: Vec<Key> = keys.filter(is_lent).collect();
        let mut evicted = Vec::new();
        for key in lent {
            self.lent_policy.removed(key);
            evicted.append(&mut self.take_out(key));
        }
        evicted
    }
}
