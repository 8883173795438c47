//! Which servers are well, by checks and by what becomes of the flows that they are given.

use super::end::Standing;
use super::listener::Member;
use super::services::Services;
use crate::flow::Tick;
use crate::health::Outcome;
use crate::health::passive::Rule;

impl Services {
    /// Makes servers rest by this rule from now on.
    pub fn set_passive(&mut self, rule: Option<Rule>) {
        self.passive = rule;
    }

    /// Takes up how a check has ended.
    pub fn checked(&mut self, outcome: &Outcome) {
        let health = &mut self.server_mut(outcome.server).health;
        match outcome.result {
            Ok(()) => health.passed += 1,
            Err(failure) => {
                health.failed += 1;
                health.failure = Some(failure);
            }
        }
        if let Some(is_well) = outcome.is_well {
            health.has_failed = !is_well;
            self.tell(outcome.server);
        }
    }

    /// Nobody is checked any more: who failed is taken for well.
    pub fn forget_checks(&mut self) {
        (0..self.servers.len() as u16).for_each(|server| self.forget_checks_of(server));
    }

    /// A server is not checked any more: it is taken for well.
    pub fn forget_checks_of(&mut self, server: u16) {
        self.server_mut(server).health.has_failed = false;
        self.tell(server);
    }

    /// A flow of the server was answered.
    #[inline]
    pub(crate) fn flow_answered(&mut self, server: u16, now: Tick) {
        self.server_mut(server).health.record.answered(now);
    }

    /// A flow of the server, asked for at `asked`, has failed to begin. It rests if that was one too many and there is somebody else.
    pub(crate) fn flow_failed(&mut self, server: u16, asked: Tick, now: Tick) {
        let rule = self.passive;
        let health = &mut self.server_mut(server).health;
        health.flows_failed += 1;
        let Some(rule) = rule else {
            return;
        };
        if !health.record.failed(asked, now, &rule) || self.is_last(server) {
            return;
        }
        let health = &mut self.server_mut(server).health;
        health.record.rest(now, &rule);
        health.rests += 1;
        self.resting.push(server);
        self.tell(server);
    }

    /// True when a listener would have nobody without this server.
    fn is_last(&self, server: u16) -> bool {
        let others = |m: &&Member| m.server != server && m.effective_weight() > 0;
        let needs = |members: &[Member]| {
            members.iter().any(|m| m.server == server) && members.iter().find(others).is_none()
        };
        let mut listeners = self.open_listeners();
        listeners.any(|(_, listener)| needs(listener.members()))
    }

    /// Has a server that rests have flows again where its listener has nobody else any more: it may be there, and the others
    /// are not.
    pub(crate) fn wake_last(&mut self) {
        let resting = std::mem::take(&mut self.resting);
        for server in resting {
            let there = self.server_mut(server);
            if there.health.is_resting() && self.is_last(server) {
                self.server_mut(server).health.record.rests_until = None;
                self.tell(server);
            } else {
                self.resting.push(server);
            }
        }
    }

    /// Lets servers have flows again that have rested for long enough.
    pub(crate) fn wake(&mut self, now: Tick) {
        let resting = std::mem::take(&mut self.resting);
        for server in resting {
            let there = self.server_mut(server);
            match there.health.record.wakes(now) {
                true => self.tell(server),
                // Another may have its place by now.
                false if !there.health.is_resting() => {}
                false => self.resting.push(server),
            }
        }
    }

    /// When somebody wakes next.
    pub(crate) fn next_wake(&self) -> Option<Tick> {
        let until = |server: &u16| {
            let server = &self.servers[usize::from(*server)];
            server.health.record.rests_until
        };
        self.resting.iter().filter_map(until).min()
    }

    /// Tells listeners whether a server of theirs is well.
    fn tell(&mut self, server: u16) {
        let is_well = self.servers[usize::from(server)].health.is_well();
        for place in 0..self.listeners.len() as u16 {
            let listener = &mut self.listeners[usize::from(place)];
            let open = listener.standing == Standing::InUse;
            let is_it = |m: &&mut Member| open && m.server == server && m.is_well != is_well;
            let Some(member) = listener.members.iter_mut().find(is_it) else {
                continue;
            };
            member.is_well = is_well;
            self.want_table(place);
        }
    }
}
