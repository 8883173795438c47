//! Places of listeners and servers: given out, and free again.

use super::end::{Standing, hash};
use super::listener::Listener;
use super::server::{Health, Server};
use super::services::Services;
use super::table::NextTable;
use crate::maglev::Maglev;
use crate::packets::endpoint::{Address, Endpoint};
use crate::packets::packet::Transport;
use crate::packets::reach::Reach;
use crate::packets::traffic::Traffic;
use crate::ports::Ports;

impl Services {
    pub(super) fn place_for_listener(
        &mut self,
        transport: Transport,
        at: Endpoint,
        reach: Reach,
        servers: usize,
    ) -> u16 {
        let listener = Listener {
            transport,
            at,
            reach,
            standing: Standing::InUse,
            flows: 0,
            begun: 0,
            refused: 0,
            traffic: Traffic::default(),
            members: Vec::new(),
            table: None,
            next: NextTable::Settled,
            table_len: Maglev::len_for(servers),
            has_an_address_each: false,
        };
        let is_free = |listener: &Listener| listener.standing == Standing::Gone;
        let place = put(&mut self.listeners, listener, is_free);
        let listeners = &self.listeners;
        let rehash = |place: &u16| listeners[usize::from(*place)].hash();
        self.by_place.insert_unique(rehash(&place), place, rehash);
        self.changes += 1;
        // What comes from a server to there is for the listener.
        for server in &mut self.servers {
            if server.transport == transport && server.ours == at.address {
                server.ports.keep(at.port);
            }
        }
        place
    }

    pub(super) fn free_listener(&mut self, place: u16) {
        let listener = &mut self.listeners[usize::from(place)];
        listener.standing = Standing::Gone;
        let (transport, at) = (listener.transport, listener.at);
        let entry = self
            .by_place
            .find_entry(hash(transport, at), |p| *p == place);
        entry.expect("a listener that is there").remove();
        self.changes += 1;
        for server in &mut self.servers {
            if server.transport == transport && server.ours == at.address {
                server.ports.release(at.port);
            }
        }
    }

    pub(super) fn place_for_server(
        &mut self,
        transport: Transport,
        at: Endpoint,
        ours: Address,
        reach: Reach,
    ) -> u16 {
        let mut server = Server {
            transport,
            at,
            ours,
            reach,
            standing: Standing::InUse,
            ports: Ports::default(),
            flows: 0,
            open: 0,
            begun: 0,
            refused: 0,
            unanswered: 0,
            traffic: Traffic::default(),
            health: Health::default(),
            listeners: 0,
        };
        let is_in_the_way = |l: &Listener| l.transport == transport && l.at.address == ours;
        let listeners = self.open_listeners().map(|(_, listener)| listener);
        let in_the_way = listeners.filter(|l| is_in_the_way(l));
        in_the_way.for_each(|listener| server.ports.keep(listener.at.port));
        let is_free = |server: &Server| server.standing == Standing::Gone;
        let place = put(&mut self.servers, server, is_free);
        let servers = &self.servers;
        let rehash = |place: &u16| servers[usize::from(*place)].hash();
        self.by_server.insert_unique(rehash(&place), place, rehash);
        self.changes += 1;
        self.transparent += usize::from(reach == Reach::Transparent);
        place
    }

    pub(super) fn free_server(&mut self, place: u16) {
        let server = self.server_mut(place);
        server.standing = Standing::Gone;
        let (hash, reach) = (server.hash(), server.reach);
        let entry = self.by_server.find_entry(hash, |p| *p == place);
        entry.expect("a server that is there").remove();
        self.transparent -= usize::from(reach == Reach::Transparent);
        self.changes += 1;
    }
}

/// Puts something at the first place that is free. There are fewer than 65,536.
fn put<T>(all: &mut Vec<T>, one: T, is_free: impl Fn(&T) -> bool) -> u16 {
    match all.iter().position(is_free) {
        Some(place) => {
            all[place] = one;
            place as u16
        }
        None => {
            all.push(one);
            (all.len() - 1) as u16
        }
    }
}
