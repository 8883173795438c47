//! How flows begin, and which have to end for that.

use exos_inet::Instant;
use exos_wire::tcp::TcpFlags;
use strum::VariantArray as _;

use super::direction::tick_of;
use super::frames::Forwarder;
use super::verdict::{NoFlow, NoServer, Verdict};
use crate::flow::{Begun, Class, Flow, FlowId, Key, State, Tick};
use crate::kept::KeptFlow;
use crate::limits::{DATAGRAM_SHARE, EVICTABLE_AFTER, OPENING_SHARE};
use crate::packets::endpoint::Endpoint;
use crate::packets::packet::{Segment, Transport};
use crate::packets::reach::Reach;
use crate::ports::Found;
use crate::service::{Affinity, is_unanswered};

impl Forwarder {
    /// The flow of a packet to a listener, begun where there is none; or how it goes on without one.
    #[inline]
    pub(super) fn flow_of(
        &mut self,
        now: Tick,
        transport: Transport,
        key: &Key,
        hash: u32,
        upper: &[u8],
    ) -> Result<FlowId, NoFlow> {
        let begins = transport == Transport::Udp || {
            const CONTROLS: u8 =
                TcpFlags::SYN.0 | TcpFlags::ACK.0 | TcpFlags::RST.0 | TcpFlags::FIN.0;
            Segment::read(upper).flags.0 & CONTROLS == TcpFlags::SYN.0
        };
        match self.flows.find_hashed(key, hash) {
            // Another connection of the same client goes to the same server, while that is to have new ones.
            Some(id) if begins && self.is_done(id) => self.remove(id),
            Some(id) => return Ok(id),
            None => {}
        }
        // RFC 1812 §5.3.7: what nobody can have sent is not passed on, or its answer would go to everybody.
        if !self.links.may_send(key.client.address.into()) {
            self.counters.drop_source += 1;
            return Err(NoFlow::Becomes(Verdict::Drop));
        }
        if !begins || !self.services.is_open(key.listener) {
            return Err(match self.agreed_server(key) {
                Some(server) => NoFlow::To(server),
                None => NoFlow::Becomes(self.unknown()),
            });
        }
        self.begin(now, transport, key)
    }

    /// Where servers answer clients by themselves and are chosen by the client's end alone, a packet of no flow goes to the one
    /// that any forwarder would choose: one that has taken over from another breaks nothing.
    pub(super) fn agreed_server(&mut self, key: &Key) -> Option<u16> {
        let listener = key.listener;
        let can_do = !self.services.reach(listener).hears_servers() && self.services.is_agreed();
        if !can_do || !self.services.is_open(listener) {
            return None;
        }
        let server = self.services.choose(listener, self.hash_of(key))?;
        Some(server as u16)
    }

    /// By which a client belongs to a server.
    pub(super) fn hash_of(&self, key: &Key) -> u64 {
        let Endpoint { address, port } = key.client;
        let port = match self.services.affinity() {
            Affinity::Connection => port,
            Affinity::Client => 0,
        };
        self.spread.hash_and_half(address.words(), port.into())
    }

    /// True for a flow that is over or was never answered, and whose server is to have no others. A flow that was reset is only
    /// forgotten by its age: the reset may have been forged, and the SYN after it too.
    fn is_done(&self, id: FlowId) -> bool {
        let flow = self.flows.get(id);
        let may_end = flow.state.begins_by_syn() || is_unanswered(flow);
        may_end && !self.services.is_in_use(flow.key.listener, flow.server)
    }

    pub(super) fn unknown(&mut self) -> Verdict {
        self.counters.unknown_flow += 1;
        Verdict::Stack
    }

    /// Begins a flow.
    #[cold]
    fn begin(&mut self, now: Tick, transport: Transport, key: &Key) -> Result<FlowId, NoFlow> {
        let reach = self.services.reach(key.listener);
        let Some(server) = self.services.choose(key.listener, self.hash_of(key)) else {
            return self.without_server(key.listener);
        };
        if !self.make_room(now, transport) {
            if let Some(server) = self.agreed_server(key) {
                return Err(NoFlow::To(server));
            }
            self.counters.drop_table_full += 1;
            return self.refuse(key.listener);
        }
        let Some(our_port) = self.way_back(reach, key, server) else {
            return self.refuse(key.listener);
        };
        let begun = Begun {
            key: *key,
            server: server as u16,
            our_port,
            reach,
        };
        let state = State::first(reach, transport);
        let id = self.insert(now, begun, state);
        self.services.listeners[usize::from(key.listener)].begun += 1;
        self.counters.flows_begun += 1;
        Ok(id)
    }

    /// The port of ours that the server is to see, 0 for its client's; `None`, and counted, when its answers could not be told
    /// from others.
    pub(super) fn way_back(&mut self, reach: Reach, key: &Key, server: usize) -> Option<u16> {
        match reach {
            Reach::Nat => {
                let port = self.find_port(server, key.client.port);
                self.counters.drop_no_port += u64::from(port.is_none());
                port
            }
            Reach::Transparent => {
                let is_free = self.free_ends(key, server as u16);
                self.counters.drop_ends_in_use += u64::from(!is_free);
                is_free.then_some(0)
            }
            Reach::Direct | Reach::Tunnel => Some(0),
        }
    }

    /// Nobody is to have the flow: all servers are drained, of no weight, or not well.
    fn without_server(&mut self, listener: u16) -> Result<FlowId, NoFlow> {
        let refused = self.refuse(listener);
        match self.no_server {
            NoServer::Hold => {
                self.counters.drop_no_server += 1;
                refused
            }
            NoServer::Reset => {
                self.counters.refused_no_server += 1;
                Err(NoFlow::Becomes(Verdict::Stack))
            }
        }
    }

    fn refuse(&mut self, listener: u16) -> Result<FlowId, NoFlow> {
        self.services.listeners[usize::from(listener)].refused += 1;
        Err(NoFlow::Becomes(Verdict::Drop))
    }

    /// Where servers see their clients, two flows between the same ends, by two listeners, cannot be told apart on the way
    /// back. True when there is no other, if need be by giving it up.
    fn free_ends(&mut self, key: &Key, server: u16) -> bool {
        match self.flows.find_back(key.client, server) {
            None => true,
            Some(other) if self.flows.get(other).state.class().is_spare() => {
                self.counters.flows_replaced += 1;
                self.remove(other);
                true
            }
            Some(_) => false,
        }
    }

    /// A port that is free, if need be by giving a flow up: one that is over or never stood, or datagrams that were silent
    /// for longest.
    fn find_port(&mut self, server: usize, wanted: u16) -> Option<u16> {
        let flows = &self.flows;
        let cost = |id: FlowId| {
            let Flow { state, seen, .. } = flows.get(id);
            match state.class() {
                class if class.is_spare() => Some(0),
                Class::Talking => Some(*seen),
                _ => None,
            }
        };
        let ports = &mut self.services.servers[server].ports;
        match ports.find(wanted, cost)? {
            Found::Free(port) => Some(port),
            Found::Of(id) => {
                let port = self.flows.get(id).our_port;
                self.give_up(id);
                Some(port)
            }
        }
    }

    /// Has a flow end for a new one, where it takes that. Of those that have just begun there may be only this many of each
    /// protocol, and only this many of datagrams. False when nobody is to go.
    fn make_room(&mut self, now: Tick, transport: Transport) -> bool {
        let flows = &self.flows;
        let share = |part: u32| (flows.capacity() / part).max(1);
        let first = Class::first(transport);
        let gone = if flows.count(first) >= share(OPENING_SHARE) {
            flows.oldest(first)
        } else if transport == Transport::Udp && flows.datagrams() >= share(DATAGRAM_SHARE) {
            self.oldest_of(&Class::DATAGRAMS)
        } else if flows.next_place().is_some() {
            return true;
        } else {
            self.dispensable(now, transport)
        };
        let Some(id) = gone else {
            return false;
        };
        self.give_up(id);
        true
    }

    /// The flow that goes for a new one with the table full: first what is over, then the oldest of those that never stood, then what was
    /// silent for longest; of connections if that was long, and none for datagrams, which anybody may forge.
    fn dispensable(&self, now: Tick, transport: Transport) -> Option<FlowId> {
        match transport {
            Transport::Tcp => {
                let silent = |id: &FlowId| self.is_dispensable(now, *id);
                let oldest = |class: &Class| self.flows.oldest(*class).filter(silent);
                Class::VARIANTS.iter().find_map(oldest)
            }
            Transport::Udp => {
                let over = self.flows.oldest(Class::Closing);
                over.or_else(|| self.oldest_of(&Class::DATAGRAMS))
            }
        }
    }

    /// The oldest of the first of these classes that has any.
    fn oldest_of(&self, classes: &[Class]) -> Option<FlowId> {
        classes.iter().find_map(|class| self.flows.oldest(*class))
    }

    /// A flow ends for another.
    fn give_up(&mut self, id: FlowId) {
        if self.flows.get(id).state.class().is_spare() {
            self.counters.flows_replaced += 1;
        } else {
            self.counters.flows_evicted += 1;
        }
        self.remove(id);
    }

    /// True for a flow that is given up for a new one when the table is full.
    fn is_dispensable(&self, now: Tick, id: FlowId) -> bool {
        let flow = self.flows.get(id);
        let silent = now.saturating_sub(flow.seen);
        flow.state.class().is_spare() || silent >= EVICTABLE_AFTER.as_secs() as Tick
    }

    /// Goes on with a flow of a forwarder before us. False where that cannot be: its listener or its server is not there any
    /// more, or somebody has its place.
    pub fn restore(&mut self, now: Instant, kept: &KeptFlow) -> bool {
        let KeptFlow {
            transport,
            client,
            our_port,
            reach,
            state,
            ..
        } = *kept;
        let services = &self.services;
        let listener = services.listener(transport, kept.listener);
        let listener = listener.filter(|listener| services.reach(*listener) == reach);
        let server = services.server(transport, kept.server, kept.ours, reach);
        let (Some(listener), Some(server)) = (listener, server) else {
            return false;
        };
        let key = Key { client, listener };
        let begun = Begun {
            key,
            server: server as u16,
            our_port,
            reach,
        };
        let is_possible = state.transport() == transport && state.is_of(reach);
        let is_taken = self.flows.find(&key).is_some() || !self.has_room_back(&begun);
        if is_taken || self.flows.next_place().is_none() || !is_possible {
            return false;
        }
        let id = self.flows.insert(tick_of(now), begun, state);
        // It is zero where the server was not heard yet: what acknowledges that proves nothing.
        if kept.server_isn != 0 {
            self.flows.set_server_isn(id, kept.server_isn);
        }
        self.services.flow_begins(id, self.flows.get(id));
        self.counters.flows_restored += 1;
        true
    }

    /// True when a server's packets to a flow would be known as such.
    fn has_room_back(&self, begun: &Begun) -> bool {
        match begun.reach {
            Reach::Nat => {
                let server = &self.services.servers[usize::from(begun.server)];
                server.ports.is_free(begun.our_port)
            }
            Reach::Transparent => {
                let other = self.flows.find_back(begun.key.client, begun.server);
                begun.our_port == 0 && other.is_none()
            }
            Reach::Direct | Reach::Tunnel => begun.our_port == 0,
        }
    }

    pub(super) fn remove(&mut self, id: FlowId) {
        let flow = self.flows.remove(id);
        self.services.flow_ends(&flow);
    }
}
