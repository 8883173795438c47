//! Connections that are kept open without a request: which, how many and for how long.
//!
//! An application like PHP has a process for each, so none is kept unless that is configured.

use std::collections::HashMap;

use exos_inet::Instant;

use super::group::{Group, Idle, Waiting};
use super::groups::GroupId;
use super::{Applications, Keeps, To, Upstream};
use crate::applications::application::{Address, Application};
use crate::applications::proxy::CheckRules;
use crate::applications::rules::Rules;

impl Applications {
    /// A request is over and was answered whole, to the end of a record: its connection is kept, if there is room and the
    /// application leaves it open.
    pub fn release(&mut self, upstream: Upstream, application: &Application, now: Instant) {
        let upstreams = &self.carriers.upstreams;
        let connection = upstream.connection();
        let clean = connection.filter(|connection| upstreams.is_clean(*connection));
        let of = clean.and_then(|connection| upstreams.address_of(connection));
        let (Some(connection), Some((address, id))) = (clean, of) else {
            return self.close(upstream);
        };
        // The request may have begun under other rules.
        let keeps = self.keeps.as_ref();
        let keep_max = keeps.map_or(usize::MAX, |keeps| keep_of(keeps, address));
        let group = self.groups.get_mut(id);
        let room = application.keep.min(keep_max);
        let Some(group) = group.filter(|group| group.idle.len() < room) else {
            return self.close(upstream);
        };
        let keep_time = application.proxy.as_ref().map(|proxy| proxy.keep_time);
        let idle = Idle {
            connection,
            since: now,
            until: keep_time.map(|time| now + time),
        };
        let peer = self.carriers.upstreams.give(connection, None, None);
        group.keep(idle, peer, now);
        self.wake(id);
    }

    /// A connection that was kept, for a client's request, if there is one that will do. One that may be about to be closed is left
    /// for a request that can be repeated; the oldest is closed where it stands in the way of a new one.
    pub(super) fn take_kept(
        &mut self,
        to: &To<'_>,
        id: GroupId,
        asks: &Waiting,
        now: Instant,
    ) -> Option<Upstream> {
        let address = to.address;
        let group = self.groups.get_mut(id)?;
        let newest = *group.idle.last()?;
        let upstream = Upstream::of(address, newest.connection);
        let is_wanted = to.kept_within.is_some_and(|time| now - newest.since < time);
        let upstreams = &self.carriers.upstreams;
        // What may be asked again is asked on one that had said nothing when this turn began; all else where the kernel says so now.
        let was_heard = to.may_be_repeated && self.has_heard_all && newest.since < self.now;
        let is_silent = match was_heard {
            true => upstreams.is_clean(newest.connection),
            false => upstreams.is_silent(newest.connection),
        };
        if is_wanted && is_silent {
            group.idle.pop();
            group.shares.begin(asks.peer);
            let client = Some(asks.client);
            (self.carriers.upstreams).give(newest.connection, client, asks.peer);
            return Some(upstream);
        }
        // An application of FastCGI has a process for each, which would be idle.
        let is_cheap = address.of_http().is_some() && !is_wanted;
        if !is_cheap {
            self.leave(upstream);
        } else if group.carrying() + group.idle.len() >= asks.connections {
            let oldest = Upstream::of(address, group.idle[0].connection);
            self.leave(oldest);
        }
        None
    }

    /// Other rules hold from now on, those of all sites: connections that none of them keeps are closed, and what is known of
    /// applications that none of them names is forgotten, when nobody asks them any more.
    #[expect(
        clippy::mutable_key_type,
        reason = "an address is told apart by what never changes of it"
    )]
    pub fn follow<'r>(&mut self, rules: impl Iterator<Item = &'r Rules>) {
        let mut keeps = Keeps::default();
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

    /// The upstreams of these rules are asked from now on whether they are well, as far as the rules want that, and no others.
    #[expect(
        clippy::mutable_key_type,
        reason = "an address is told apart by what never changes of it"
    )]
    pub fn check<'r>(&mut self, rules: impl Iterator<Item = &'r Rules>, now: Instant) {
        let mut checked: HashMap<Address, CheckRules> = HashMap::new();
        for rule in rules.flat_map(Rules::iter) {
            let proxy = rule.application.proxy.as_ref();
            if let Some(check) = proxy.and_then(|proxy| proxy.check.as_ref()) {
                let addresses = rule.application.addresses.iter().cloned();
                checked.extend(addresses.map(|address| (address, check.clone())));
            }
        }
        self.checks
            .follow(checked, &mut self.carriers.upstreams, now);
    }

    /// Closes connections that were kept for long enough.
    pub(super) fn end_idle(&mut self, now: Instant) {
        let mut ended = Vec::new();
        for (address, group) in self.groups.iter() {
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
#[expect(
    clippy::mutable_key_type,
    reason = "an address is told apart by what never changes of it"
)]
fn keep_of(keeps: &Keeps, address: &Address) -> usize {
    keeps.get(address).copied().unwrap_or(0)
}
