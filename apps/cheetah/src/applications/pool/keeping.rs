//! Connections that are kept open without a request: which, how many and for how long.
//!
//! An application like PHP has a process for each, so none is kept unless that is configured.

use std::collections::HashMap;

use exos_inet::Instant;

use super::group::{Group, Idle};
use super::{Applications, Upstream};
use crate::applications::application::{Address, Application};
use crate::applications::rules::Rules;

impl Applications {
    /// A request is over and was answered whole, to the end of a record: its connection is kept, if there is room and the
    /// application leaves it open.
    pub fn release(&mut self, upstream: Upstream, application: &Application, now: Instant) {
        let upstreams = &self.carriers.upstreams;
        let connection = upstream.connection();
        let clean = connection.filter(|connection| upstreams.is_clean(*connection));
        let address = clean.and_then(|connection| upstreams.address_of(connection));
        let (Some(connection), Some(address)) = (clean, address.cloned()) else {
            return self.close(upstream);
        };
        // The request may have begun under other rules.
        let keeps = self.keeps.as_ref();
        let keep_max = keeps.map_or(usize::MAX, |keeps| keep_of(keeps, &address));
        let group = self.groups.entry(address.clone()).or_default();
        if group.idle.len() >= application.keep.min(keep_max) {
            return self.close(upstream);
        }
        let keep_time = application.proxy.as_ref().map(|proxy| proxy.keep_time);
        group.idle.push(Idle {
            connection,
            since: now,
            until: keep_time.map(|time| now + time),
        });
        group.shares.end(upstream);
        self.carriers.upstreams.give(connection, None);
        self.wake(&address);
    }

    /// A connection that was kept, which is kept no longer.
    pub(super) fn take_idle(&mut self, address: &Address) -> Option<Idle> {
        self.groups.get_mut(address)?.idle.pop()
    }

    /// Other rules hold from now on, those of all sites: connections that none of them keeps are closed, and what is known of
    /// applications that none of them names is forgotten, when nobody asks them any more.
    pub fn follow<'r>(&mut self, rules: impl Iterator<Item = &'r Rules>) {
        let mut keeps: HashMap<Address, usize> = HashMap::new();
        for rule in rules.flat_map(Rules::iter) {
            for address in &rule.application.addresses {
                let keep = keeps.entry(address.clone()).or_default();
                *keep = (*keep).max(rule.application.keep);
            }
        }
        let beyond = |(address, group): (&Address, &Group)| {
            // The newest, which are used first, have the longest to live.
            let idle = group.idle.iter().rev().skip(keep_of(&keeps, address));
            let beyond = idle.map(|idle| Upstream::of(address, idle.connection));
            beyond.collect::<Vec<_>>()
        };
        let beyond: Vec<Upstream> = self.groups.iter().flat_map(beyond).collect();
        beyond.into_iter().for_each(|idle| self.close(idle));
        self.carriers
            .links
            .keep_only(|address| keeps.contains_key(address));
        self.groups
            .retain(|address, group| keeps.contains_key(address) || group.is_in_use());
        self.keeps = Some(keeps);
    }

    /// Closes connections that were kept for long enough.
    pub(super) fn end_idle(&mut self, now: Instant) {
        let mut ended = Vec::new();
        for (address, group) in &self.groups {
            // In the order in which they were kept.
            let mut idle = group.idle.iter();
            while let Some(idle) = idle
                .next()
                .filter(|it| it.until.is_some_and(|at| at <= now))
            {
                ended.push(Upstream::of(address, idle.connection));
            }
        }
        ended.into_iter().for_each(|idle| self.close(idle));
    }
}

/// How many connections to an application are kept.
fn keep_of(keeps: &HashMap<Address, usize>, address: &Address) -> usize {
    keeps.get(address).copied().unwrap_or(0)
}
