//! How listeners and servers come, change and go, before the first packet and between any two.
//!
//! What does not fit is refused before anything has changed. What changes the weights of a listener's servers takes effect at
//! once for servers that are to have nothing more; the others' keys move when the new table is whole
//! ([`Services::build`]).

use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};

use super::end::Standing;
use super::listener::{Listener, Member};
use super::policy::Balance;
use super::server::Server;
use super::services::Services;
use super::table::{NextTable, Table};
use super::wanted::{Listen, Misfit};
use crate::limits::{LISTENERS_MAX, SERVERS_MAX, SERVERS_PER_LISTENER_MAX};
use crate::maglev::{Building, Candidate, Maglev};
use crate::packets::endpoint::{Address, Endpoint};
use crate::packets::packet::Transport;
use crate::packets::reach::Reach;

impl Services {
    /// What is wanted, if it fits together.
    ///
    /// # Errors
    ///
    /// It does not.
    pub fn new(wanted: &[Listen]) -> Result<Self, Misfit> {
        if wanted.len() > LISTENERS_MAX {
            return Err(Misfit::TooManyListeners);
        }
        let mut services = Self::default();
        for listen in wanted {
            services.add_listener(listen)?;
        }
        while !services.build(usize::MAX) {}
        Ok(services)
    }

    /// Listens at a place more. Its place among the listeners is returned.
    ///
    /// # Errors
    ///
    /// It does not fit to the others.
    pub fn add_listener(&mut self, listen: &Listen) -> Result<u16, Misfit> {
        self.check_listener(listen)?;
        let Listen {
            transport,
            at,
            reach,
            to,
        } = listen;
        let place = match self.listener(*transport, (*at).into()) {
            // It is leaving, and comes back.
            Some(place) => {
                self.listeners[usize::from(place)].table_len = Maglev::len_for(to.len());
                place
            }
            None => self.place_for_listener(*transport, (*at).into(), *reach, to.len()),
        };
        for &(server, weight, ours) in to {
            self.put_behind(place, server, weight, ours);
        }
        self.listeners[usize::from(place)].standing = Standing::InUse;
        Ok(place)
    }

    fn check_listener(&self, listen: &Listen) -> Result<(), Misfit> {
        let Listen {
            transport,
            at,
            reach,
            to,
        } = listen;
        let there = self.listener(*transport, (*at).into());
        let leaves = |place: u16| self.listeners[usize::from(place)].standing == Standing::Leaving;
        if there.is_some_and(|place| !leaves(place)) {
            return Err(Misfit::Twice(*at));
        }
        if let Some(other) = there.map(|place| self.reach(place)).filter(|m| m != reach) {
            return Err(Misfit::OtherReach(*at, other));
        }
        let open = self.open_listeners().count();
        if there.is_none() && open >= LISTENERS_MAX {
            return Err(Misfit::TooManyListeners);
        }
        listen.check_servers()?;
        for &(server, _, ours) in to {
            check_server(*at, *reach, server, ours)?;
            self.check_ours(*at, *reach, server, ours)?;
            if at.ip() == server.ip() || self.is_listened_at(server.ip()) {
                return Err(Misfit::Loop(server));
            }
        }
        self.check_places(*transport, *reach, to)?;
        self.check_against_servers(*transport, *at)
    }

    /// A new listener is in the way of no server.
    pub(super) fn check_against_servers(
        &self,
        transport: Transport,
        at: SocketAddr,
    ) -> Result<(), Misfit> {
        let end = Endpoint::from(at);
        for (_, server) in self.present() {
            if server.at.address == end.address {
                return Err(Misfit::Loop(server.at.into()));
            }
            let is_seen = server.transport == transport && server.ours == end.address;
            if is_seen && server.ports.get(end.port).is_some() {
                return Err(Misfit::PortInUse(at));
            }
        }
        Ok(())
    }

    /// A server that has listeners' addresses is spoken to from another.
    fn check_ours(
        &self,
        at: SocketAddr,
        reach: Reach,
        server: SocketAddr,
        ours: IpAddr,
    ) -> Result<(), Misfit> {
        if reach.hears_servers() {
            return Ok(());
        }
        let is_there = |ip: IpAddr| {
            let mut all = self.open_listeners();
            all.any(|(_, l)| !l.reach.hears_servers() && l.at.address == ip.into())
        };
        if ours == at.ip() || is_there(ours) {
            return Err(Misfit::OwnAddress(server, ours));
        }
        let mut servers = self.present().map(|(_, server)| server);
        let from_here = |s: &Server| !s.reach.hears_servers() && s.ours == at.ip().into();
        match servers.find(|s| from_here(s)) {
            Some(other) => Err(Misfit::OwnAddress(other.at.into(), at.ip())),
            None => Ok(()),
        }
    }

    /// There are places for the servers that have none.
    fn check_places(
        &self,
        transport: Transport,
        reach: Reach,
        to: &[(SocketAddr, u16, IpAddr)],
    ) -> Result<(), Misfit> {
        let is_new = |&&(server, _, ours): &&(SocketAddr, u16, IpAddr)| {
            let there = self.server(transport, server.into(), ours.into(), reach);
            there.is_none()
        };
        let there = self.by_server.len();
        let fits = there + to.iter().filter(is_new).count() <= SERVERS_MAX;
        fits.then_some(()).ok_or(Misfit::TooManyServersInAll)
    }

    pub(super) fn is_listened_at(&self, ip: IpAddr) -> bool {
        let address = Address::from(ip);
        self.open_listeners().any(|(_, l)| l.at.address == address)
    }

    /// No flow begins here any more; those that are there go on.
    pub fn remove_listener(&mut self, place: u16) {
        let listener = &mut self.listeners[usize::from(place)];
        listener.standing = Standing::Leaving;
        (listener.table, listener.next) = (None, NextTable::Settled);
        let is_empty = listener.flows == 0;
        for member in std::mem::take(&mut listener.members) {
            self.let_go(member.server);
        }
        if is_empty {
            self.free_listener(place);
        }
    }

    /// Puts a server behind a listener.
    ///
    /// # Errors
    ///
    /// It does not fit there, or is there.
    pub fn add_server(
        &mut self,
        listener: u16,
        server: SocketAddr,
        weight: u16,
        ours: IpAddr,
    ) -> Result<(), Misfit> {
        let Listener {
            transport,
            at,
            reach,
            ref members,
            ..
        } = self.listeners[usize::from(listener)];
        check_server(at.into(), reach, server, ours)?;
        self.check_ours(at.into(), reach, server, ours)?;
        if self.is_listened_at(server.ip()) {
            return Err(Misfit::Loop(server));
        }
        if members.len() >= SERVERS_PER_LISTENER_MAX[1] {
            return Err(Misfit::TooManyServers(at.into()));
        }
        if self.behind(listener, server).is_ok() {
            return Err(Misfit::SameServer(server));
        }
        self.check_places(transport, reach, &[(server, weight, ours)])?;
        self.put_behind(listener, server, weight, ours);
        Ok(())
    }

    /// Takes a server away from a listener: it gets no flow of it any more, and those that it has go on. Its place is returned.
    ///
    /// # Errors
    ///
    /// It is not there.
    pub fn remove_server(&mut self, listener: u16, server: SocketAddr) -> Result<u16, Misfit> {
        let at = self.behind(listener, server)?;
        let members = &mut self.listeners[usize::from(listener)].members;
        let place = members.remove(at).server;
        self.want_table(listener);
        self.let_go(place);
        Ok(place)
    }

    /// Gives a server behind a listener another weight.
    ///
    /// # Errors
    ///
    /// It is not there.
    pub fn set_weight(
        &mut self,
        listener: u16,
        server: SocketAddr,
        weight: u16,
    ) -> Result<(), Misfit> {
        self.change(listener, server, |member| member.weight = weight)
    }

    /// Gives a server no new flows of a listener, or again as many as its weight says.
    ///
    /// # Errors
    ///
    /// It is not there.
    pub fn set_draining(
        &mut self,
        listener: u16,
        server: SocketAddr,
        is_draining: bool,
    ) -> Result<(), Misfit> {
        self.change(listener, server, |member| member.is_draining = is_draining)
    }

    fn change(
        &mut self,
        listener: u16,
        server: SocketAddr,
        change: impl FnOnce(&mut Member),
    ) -> Result<(), Misfit> {
        let at = self.behind(listener, server)?;
        let member = &mut self.listeners[usize::from(listener)].members[at];
        let before = member.effective_weight();
        change(member);
        if member.effective_weight() != before {
            self.want_table(listener);
        }
        Ok(())
    }

    /// Where a server is among those of a listener.
    fn behind(&self, listener: u16, server: SocketAddr) -> Result<usize, Misfit> {
        let listener = &self.listeners[usize::from(listener)];
        let end = Endpoint::from(server);
        let mut members = listener.members.iter();
        let is_it = |member: &Member| self.servers[usize::from(member.server)].at == end;
        let missing = Misfit::NotBehind(listener.at.into(), server);
        members.position(is_it).ok_or(missing)
    }

    /// Goes on with tables that are being made, looking at this many entries at most. True when there are none. Who rests and has
    /// become the last by what has changed is woken then.
    pub fn build(&mut self, entries_max: usize) -> bool {
        if !self.is_building {
            return true;
        }
        for place in 0..self.listeners.len() {
            let listener = &mut self.listeners[place];
            match std::mem::replace(&mut listener.next, NextTable::Settled) {
                NextTable::Settled => continue,
                NextTable::Wanted => self.begin_table(place),
                NextTable::Building(building, servers) => match building.advance(entries_max) {
                    Ok(maglev) => listener.table = Some(Table { maglev, servers }),
                    Err(rest) => listener.next = NextTable::Building(rest, servers),
                },
            }
            return false;
        }
        self.is_building = false;
        self.wake_last();
        !self.is_building
    }

    /// True while a table is being made, or somebody may have to be woken.
    pub fn is_building(&self) -> bool {
        self.is_building
    }

    fn put_behind(&mut self, listener: u16, server: SocketAddr, weight: u16, ours: IpAddr) {
        let Listener {
            transport, reach, ..
        } = self.listeners[usize::from(listener)];
        let (at, ours) = (server.into(), ours.into());
        let place = match self.server(transport, at, ours, reach) {
            Some(place) => place as u16,
            None => self.place_for_server(transport, at, ours, reach),
        };
        let there = self.server_mut(place);
        (there.standing, there.listeners) = (Standing::InUse, there.listeners + 1);
        let member = Member {
            server: place,
            weight,
            is_draining: false,
            is_well: there.health.is_well(),
            credit: 0,
        };
        self.changes += 1;
        self.listeners[usize::from(listener)].members.push(member);
        self.want_table(listener);
    }

    /// A server is behind a listener less.
    fn let_go(&mut self, place: u16) {
        let server = self.server_mut(place);
        server.listeners -= 1;
        if server.listeners == 0 {
            server.standing = Standing::Leaving;
            let is_empty = server.flows == 0;
            self.changes += 1;
            if is_empty {
                self.free_server(place);
            }
        }
    }

    /// A listener's servers or their weights are others: it is to have the table that they ask for.
    pub(super) fn want_table(&mut self, place: u16) {
        let listener = &mut self.listeners[usize::from(place)];
        let servers = listener.members.iter().map(|member| member.server);
        let addresses: HashSet<_> = servers
            .map(|server| self.servers[usize::from(server)].at.address)
            .collect();
        listener.has_an_address_each = addresses.len() == listener.members.len();
        listener.next = NextTable::Settled;
        let has_one = self.balance == Balance::Maglev
            && listener.members.iter().any(|m| m.effective_weight() > 0);
        match has_one {
            true => listener.next = NextTable::Wanted,
            false => listener.table = None,
        }
        self.is_building |= has_one || !self.resting.is_empty();
    }

    /// Begins that table.
    fn begin_table(&mut self, place: usize) {
        let listener = &self.listeners[place];
        let candidate = |member: &Member| Candidate {
            name: self.name(listener, member.server),
            weight: member.effective_weight(),
        };
        let candidates: Vec<Candidate> = listener.members.iter().map(candidate).collect();
        let servers = listener.members.iter().map(|member| member.server);
        let servers = servers.collect();
        if let Some(building) = Building::begin(&candidates, listener.table_len) {
            self.listeners[place].next = NextTable::Building(building, servers);
        }
    }
}

fn check_server(
    at: SocketAddr,
    reach: Reach,
    server: SocketAddr,
    ours: IpAddr,
) -> Result<(), Misfit> {
    let is_one_family = server.is_ipv6() == at.is_ipv6() && ours.is_ipv6() == at.is_ipv6();
    if !is_one_family {
        return Err(Misfit::Family(at, server));
    }
    let is_reached = reach.may_change_port() || server.port() == at.port();
    is_reached
        .then_some(())
        .ok_or(Misfit::OtherPort(at, server))
}
