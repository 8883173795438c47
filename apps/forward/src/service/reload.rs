//! From what is listened to now to what is wanted, without anything of what stays.

use super::end::Standing;
use super::listener::Listener;
use super::policy::Balance;
use super::server::Server;
use super::services::Services;
use super::wanted::{Listen, Misfit};
use crate::limits::{LISTENERS_MAX, SERVERS_MAX};
use crate::packets::endpoint::Endpoint;

/// What has changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Listeners and servers behind them that have come.
    pub added: usize,
    /// Those that have gone.
    pub removed: usize,
    /// Servers with another weight.
    pub weighed: usize,
}

impl Services {
    /// Listens and forwards as is wanted from now on. What stays keeps its flows, its counters, and whether it is drained; what
    /// goes keeps its flows until they are over.
    ///
    /// # Errors
    ///
    /// It does not fit together, or not to what is there; then nothing has changed.
    pub fn become_these(&mut self, wanted: &[Listen]) -> Result<Changes, Misfit> {
        self.check_together(wanted)?;
        let mut changes = Changes::default();
        for place in self.unwanted(wanted) {
            self.remove_listener(place);
            changes.removed += 1;
        }
        for listen in wanted {
            match self.open_at(listen) {
                Some(place) => self.change_servers(place, listen, &mut changes)?,
                None => {
                    self.add_listener(listen)?;
                    changes.added += 1;
                }
            }
        }
        Ok(changes)
    }

    /// Whether all is well with what is wanted, alone and beside all that is there now. So where a server and a listener change
    /// places, that takes two steps.
    fn check_together(&self, wanted: &[Listen]) -> Result<(), Misfit> {
        let mut alone = Self {
            // Without tables, which nobody would look at.
            balance: Balance::RoundRobin,
            ..Self::default()
        };
        for listen in wanted {
            alone.add_listener(listen)?;
        }
        let there = wanted.iter().filter_map(|listen| {
            let place = self.listener(listen.transport, listen.at.into())?;
            Some((listen, self.reach(place)))
        });
        if let Some((listen, reach)) = there.into_iter().find(|(listen, m)| listen.reach != *m) {
            return Err(Misfit::OtherReach(listen.at, reach));
        }
        let is_wanted = |l: &Listener| alone.listener(l.transport, l.at).is_some();
        let listeners = self.open_listeners().map(|(_, listener)| listener);
        let staying = listeners.filter(|l| l.flows > 0 && !is_wanted(l)).count();
        if staying + wanted.len() > LISTENERS_MAX {
            return Err(Misfit::TooManyListeners);
        }
        let new = alone.servers.iter();
        let new = new.filter(|s| {
            let there = self.server(s.transport, s.at, s.ours, s.reach);
            there.is_none()
        });
        if self.by_server.len() + new.count() > SERVERS_MAX {
            return Err(Misfit::TooManyServersInAll);
        }
        let beginning = wanted
            .iter()
            .filter(|listen| self.open_at(listen).is_none());
        for listen in beginning {
            self.check_against_servers(listen.transport, listen.at)?;
        }
        let is_ours = |server: &&Server| self.is_listened_at(server.at.address.into());
        match alone.servers.iter().find(is_ours) {
            Some(server) => Err(Misfit::Loop(server.at.into())),
            None => Ok(()),
        }
    }

    /// The listener that is there for this.
    fn open_at(&self, listen: &Listen) -> Option<u16> {
        let place = self.listener(listen.transport, listen.at.into())?;
        self.is_open(place).then_some(place)
    }

    fn unwanted(&self, wanted: &[Listen]) -> Vec<u16> {
        let open = self.open_listeners();
        let open = open.filter(|(_, listener)| listener.standing == Standing::InUse);
        let is_wanted = |transport, at| {
            let mut all = wanted.iter();
            all.any(|w| w.transport == transport && Endpoint::from(w.at) == at)
        };
        let gone = open.filter(|(_, l)| !is_wanted(l.transport, l.at));
        gone.map(|(place, _)| place).collect()
    }

    fn change_servers(
        &mut self,
        place: u16,
        listen: &Listen,
        changes: &mut Changes,
    ) -> Result<(), Misfit> {
        let members = self.listeners[usize::from(place)].members().to_vec();
        let is_at = |server: u16, end: Endpoint| self.servers[usize::from(server)].at == end;
        let wanted = |server: u16| listen.to.iter().any(|(to, ..)| is_at(server, (*to).into()));
        let gone = members.iter().filter(|m| !wanted(m.server));
        let gone: Vec<_> = gone
            .map(|m| self.servers[usize::from(m.server)].at)
            .collect();
        for end in gone {
            self.remove_server(place, end.into())?;
            changes.removed += 1;
        }
        for &(server, weight, ours) in &listen.to {
            let end = Endpoint::from(server);
            let there = members
                .iter()
                .find(|m| self.servers[usize::from(m.server)].at == end);
            match there {
                Some(member) if member.weight == weight => {}
                Some(_) => {
                    self.set_weight(place, server, weight)?;
                    changes.weighed += 1;
                }
                None => {
                    self.add_server(place, server, weight, ours)?;
                    changes.added += 1;
                }
            }
        }
        Ok(())
    }
}
