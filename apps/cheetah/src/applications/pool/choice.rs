//! Which of several upstreams is asked, for how long one that has failed is left alone, and what is not sent to those that are old.
//!
//! One that fails its checks is asked only where no other is left. Of the others
//! the one with the fewest requests is asked, and of several such each in its turn. One that has failed is asked only where no other
//! is left, for its time; then one request tries it, and it is as the others when it has answered that.

use exos_inet::{Duration, Instant};

use super::Applications;
use crate::applications::application::{Address, Application};
use crate::limits::UPSTREAM_FAIL_TIME;

impl Applications {
    /// The number of the address that is to be asked next, of those that are none of the bits of `tried`.
    pub fn choose(&mut self, application: &Application, tried: u64, now: Instant) -> Option<usize> {
        let count = application.addresses.len();
        if count == 1 {
            return (tried == 0).then_some(0);
        }
        self.chosen = self.chosen.wrapping_add(1);
        let in_turn = (0..count).map(|at| (self.chosen + at) % count);
        let untried = in_turn.filter(|at| tried & 1 << at == 0);
        let chosen = untried.min_by_key(|at| {
            let group = self.groups.find(&application.addresses[*at]);
            let group = group.and_then(|id| self.groups.get(id));
            let rests = |until: Instant| now < until;
            let is_out = self.checks.is_out(&application.addresses[*at]);
            group.map_or((is_out, false, 0), |group| {
                let is_resting = group.rests_until.is_some_and(rests);
                (is_out, is_resting, group.outstanding())
            })
        })?;
        if let Some(id) = self.groups.find(&application.addresses[chosen])
            && let Some(group) = self.groups.get_mut(id)
            && group.rests_until.is_some_and(|until| until <= now)
        {
            // All others would follow, for it has nothing to do, and each of them fail.
            let proxy = application.proxy.as_ref();
            let time = proxy.map_or(UPSTREAM_FAIL_TIME, |proxy| proxy.fail_time);
            group.rests_until = Some(now + time);
        }
        Some(chosen)
    }

    /// An upstream has failed: others come before it for this long.
    pub fn rest(&mut self, address: &Address, time: Duration, now: Instant) {
        let group = self.group(address);
        let is_new = group.rests_until.is_none_or(|until| until <= now);
        group.rests_until = Some(now + time);
        self.counters.rests += u64::from(is_new);
    }

    /// An upstream has answered, in HTTP/1.0 if it `is_old`.
    pub fn has_answered(&mut self, address: &Address, is_old: bool) {
        self.end_rest(address);
        let group = self.groups.find(address);
        if let Some(group) = group.and_then(|id| self.groups.get_mut(id)) {
            group.is_old = is_old;
        }
    }

    /// Chunks may be sent there (RFC 9112 §6.1): none of its upstreams has answered in HTTP/1.0 last.
    pub fn takes_chunks(&self, application: &Application) -> bool {
        !application.addresses.iter().any(|address| {
            let group = self.groups.find(address).and_then(|id| self.groups.get(id));
            group.is_some_and(|group| group.is_old)
        })
    }

    /// An upstream that has failed may be asked as the others.
    pub fn end_rest(&mut self, address: &Address) {
        let group = self.groups.find(address);
        if let Some(group) = group.and_then(|id| self.groups.get_mut(id)) {
            group.rests_until = None;
        }
    }
}
