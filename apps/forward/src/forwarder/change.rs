//! What changes between packets: servers at run time, and what follows from that, a bounded part each turn.

use super::ending::Ending;
use super::frames::Forwarder;
use crate::flow::FlowId;
use crate::limits::{ENTRIES_AT_ONCE, FLOWS_AT_ONCE};
use crate::packets::reach::Reach;
use crate::ports::PAGES;
use crate::service::Services;

impl Forwarder {
    /// Listeners and servers, to be changed.
    pub fn services_mut(&mut self) -> &mut Services {
        &mut self.services
    }

    /// Forgets the flows of a server that was taken away from a listener, in the turns to come. What their ends send is
    /// answered with resets then, as of flows that never were.
    pub fn end_flows(&mut self, listener: u16, server: u16) {
        self.endings.push(Ending {
            listener,
            server,
            page: 0,
        });
    }

    /// True when there is something to do in the next turn too.
    pub(super) fn is_changing(&self) -> bool {
        self.services.is_building() || !self.endings.is_empty()
    }

    /// Goes on with what follows from changes.
    pub(super) fn change(&mut self) {
        self.services.build(ENTRIES_AT_ONCE);
        let Some(mut ending) = self.endings.pop() else {
            return;
        };
        let Ending {
            listener, server, ..
        } = ending;
        // Anyone who has the place now is to have flows: it has come back, or is another.
        let listens = &self.services.listeners[usize::from(listener)];
        if listens.member(server).is_some() {
            return;
        }
        let is_meant = |id: &FlowId| self.flows.get(*id).key.listener == listener;
        let there = &self.services.servers[usize::from(server)];
        let (ids, pages): (Vec<FlowId>, usize) = if there.reach == Reach::Nat {
            let flows = there.ports.flows(ending.page).filter(is_meant);
            (flows.collect(), PAGES)
        } else {
            let begin = ending.page * FLOWS_AT_ONCE;
            let flows = self.flows.ids_within(begin..begin + FLOWS_AT_ONCE);
            let is_its = |id: &FlowId| self.flows.get(*id).server == server;
            let flows = flows.filter(is_its).filter(is_meant);
            (flows.collect(), self.flows.places().div_ceil(FLOWS_AT_ONCE))
        };
        self.counters.flows_ended += ids.len() as u64;
        ids.into_iter().for_each(|id| self.remove(id));
        ending.page += 1;
        if ending.page < pages {
            self.endings.push(ending);
        }
    }
}
