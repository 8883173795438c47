//! All listeners and servers: which one a packet is for, and what its flow changes of them.

use std::collections::HashMap;

use hashbrown::HashTable;

use super::end::{Standing, hash};
use super::listener::Listener;
use super::policy::{Affinity, Balance};
use super::server::{Server, is_unanswered};
use crate::flow::{Flow, FlowId};
use crate::health::passive;
use crate::packets::endpoint::{Address, Endpoint};
use crate::packets::packet::Transport;
use crate::packets::reach::Reach;
use crate::packets::rewrite::Rewrite;
use crate::packets::traffic::Course;

/// All listeners and servers.
#[derive(Default)]
pub struct Services {
    /// The listeners, by their places.
    pub listeners: Vec<Listener>,
    /// The servers, by theirs.
    pub servers: Vec<Server>,
    /// Places among the listeners and among the servers, by the hash of protocol and end.
    pub(super) by_place: HashTable<u16>,
    pub(super) by_server: HashTable<u16>,
    /// How often listeners and servers have come, were taken away, or have become free.
    pub(super) changes: u64,
    /// How a server is chosen.
    pub(super) balance: Balance,
    /// What of a client decides that.
    pub(super) affinity: Affinity,
    /// When a server rests, if ever.
    pub(super) passive: Option<passive::Rule>,
    /// Servers that rest.
    pub(super) resting: Vec<u16>,
    /// Some listener's table is being made.
    pub(super) is_building: bool,
    /// Servers that see their clients' addresses, and whose answers come to us.
    pub(super) transparent: usize,
    /// The names of servers, by their addresses.
    pub(super) called: HashMap<Address, String>,
}

impl Services {
    /// The listener at this end.
    #[inline]
    pub fn listener(&self, transport: Transport, at: Endpoint) -> Option<u16> {
        let is_it = |place: &u16| {
            let listener = &self.listeners[usize::from(*place)];
            listener.at == at && listener.transport == transport
        };
        self.by_place.find(hash(transport, at), is_it).copied()
    }

    /// The server at this end that sees this address of ours and is reached so.
    #[inline]
    pub fn server(
        &self,
        transport: Transport,
        at: Endpoint,
        ours: Address,
        reach: Reach,
    ) -> Option<usize> {
        let is_it = |place: &u16| {
            let server = &self.servers[usize::from(*place)];
            let is_there = server.at == at && server.transport == transport;
            is_there && server.ours == ours && server.reach == reach
        };
        let place = self.by_server.find(hash(transport, at), is_it)?;
        Some(usize::from(*place))
    }

    /// The server that has sent a packet from this end to this address: of ours, or of a client.
    #[inline]
    pub fn sender(&self, transport: Transport, at: Endpoint, to: Address) -> Option<usize> {
        let nat = self.server(transport, at, to, Reach::Nat);
        match nat {
            None if self.transparent > 0 => self.transparent_server(transport, at),
            _ => nat,
        }
    }

    fn transparent_server(&self, transport: Transport, at: Endpoint) -> Option<usize> {
        let is_it = |place: &u16| {
            let server = &self.servers[usize::from(*place)];
            let is_there = server.at == at && server.transport == transport;
            is_there && server.reach == Reach::Transparent
        };
        let place = self.by_server.find(hash(transport, at), is_it)?;
        Some(usize::from(*place))
    }

    /// What is done with packets to a listener.
    #[inline]
    pub fn reach(&self, listener: u16) -> Reach {
        self.listeners[usize::from(listener)].reach
    }

    /// True when the server of a client is chosen the same way each time, without a flow.
    pub(crate) fn is_agreed(&self) -> bool {
        self.balance == Balance::Maglev
    }

    #[inline]
    pub(crate) fn server_mut(&mut self, place: u16) -> &mut Server {
        &mut self.servers[usize::from(place)]
    }

    /// Those that are there, with their places.
    pub fn present(&self) -> impl Iterator<Item = (u16, &Server)> {
        (0..)
            .zip(&self.servers)
            .filter(|(_, s)| s.standing != Standing::Gone)
    }

    /// Listeners that are there, with their places.
    pub fn open_listeners(&self) -> impl Iterator<Item = (u16, &Listener)> {
        (0..)
            .zip(&self.listeners)
            .filter(|(_, l)| l.standing != Standing::Gone)
    }

    /// A number that is another when a listener or server has come, was taken away, or has become free.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// True when the server is to have new flows of this listener.
    pub fn is_in_use(&self, listener: u16, server: u16) -> bool {
        let member = self.listeners[usize::from(listener)].member(server);
        member.is_some_and(|member| member.effective_weight() > 0)
    }

    /// True when flows may begin at a listener.
    pub fn is_open(&self, listener: u16) -> bool {
        self.listeners[usize::from(listener)].standing == Standing::InUse
    }

    /// A packet of this many bytes has gone on.
    #[inline]
    pub fn note(&mut self, course: Course, bytes: u64) {
        let listener = &mut self.listeners[usize::from(course.listener)];
        listener.traffic.note(course.to_server, bytes);
        let server = &mut self.servers[usize::from(course.server)];
        server.traffic.note(course.to_server, bytes);
    }

    /// Packets of this many bytes together have gone on.
    pub fn note_many(&mut self, course: Course, packets: u64, bytes: u64) {
        let listener = &mut self.listeners[usize::from(course.listener)];
        let server = &mut self.servers[usize::from(course.server)];
        for traffic in [&mut listener.traffic, &mut server.traffic] {
            traffic.note_many(course.to_server, packets, bytes);
        }
    }

    /// A flow is there, by a port that was free.
    pub(crate) fn flow_begins(&mut self, id: FlowId, flow: &Flow) {
        self.listeners[usize::from(flow.key.listener)].flows += 1;
        let server = self.server_mut(flow.server);
        if flow.reach == Reach::Nat {
            server.ports.take(flow.our_port, id);
        }
        server.flows += 1;
        server.open += u32::from(!flow.state.is_over());
    }

    /// It is not there any more. With the last one goes what was taken away.
    pub(crate) fn flow_ends(&mut self, flow: &Flow) {
        let listener = &mut self.listeners[usize::from(flow.key.listener)];
        listener.flows -= 1;
        let is_last_there = listener.flows == 0 && listener.standing == Standing::Leaving;
        let server = self.server_mut(flow.server);
        if flow.reach == Reach::Nat {
            server.ports.give(flow.our_port);
        }
        server.flows -= 1;
        server.open -= u32::from(!flow.state.is_over());
        server.unanswered += u64::from(is_unanswered(flow));
        let is_last = server.flows == 0 && server.standing == Standing::Leaving;
        if is_last_there {
            self.free_listener(flow.key.listener);
        }
        if is_last {
            self.free_server(flow.server);
        }
    }

    /// What becomes of a flow's packets one way or the other.
    #[inline]
    pub fn rewrite(&self, flow: &Flow, to_server: bool) -> Rewrite {
        let server = &self.servers[usize::from(flow.server)];
        if to_server {
            let ours = Endpoint {
                address: server.ours,
                port: flow.our_port,
            };
            Rewrite {
                src: match flow.reach {
                    Reach::Nat => ours,
                    Reach::Transparent | Reach::Direct | Reach::Tunnel => flow.key.client,
                },
                dst: server.at,
                ident: 0,
            }
        } else {
            Rewrite {
                src: self.listeners[usize::from(flow.key.listener)].at,
                dst: flow.key.client,
                ident: 0,
            }
        }
    }
}
