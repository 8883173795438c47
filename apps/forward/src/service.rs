//! Listeners and the servers behind them: what is forwarded, and to whom it may go.
//!
//! A server is one for each protocol, end and address of ours, whichever listeners it is behind: its ports are its own.

use std::fmt;
use std::net::SocketAddr;

use hashbrown::HashTable;

use exos_inet::siphash::SipKey;

use crate::endpoint::{Address, Endpoint};
use crate::flow::Flow;
use crate::limits::{LISTENERS_MAX, SERVERS_PER_LISTENER_MAX};
use crate::maglev::{Candidate, Maglev};
use crate::packet::Transport;
use crate::ports::Ports;
use crate::rewrite::Rewrite;

/// What somebody wants forwarded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listen {
    /// Of which protocol.
    pub transport: Transport,
    /// The address of ours, and its port, that clients speak to.
    pub at: SocketAddr,
    /// The servers, each with its weight and the address of ours that it sees.
    pub to: Vec<(SocketAddr, u16, std::net::IpAddr)>,
}

/// Why something cannot be forwarded as it is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Misfit {
    /// Two listeners are at one place.
    Twice(SocketAddr),
    /// There are more listeners than there may be.
    TooManyListeners,
    /// There are more servers than there may be.
    TooManyServers(SocketAddr),
    /// A server is named twice.
    SameServer(SocketAddr),
    /// What would come to the server comes to us again.
    Loop(SocketAddr),
    /// There is no server to forward to.
    NoServer(SocketAddr),
    /// Client and server would be of two families.
    Family(SocketAddr, SocketAddr),
}

impl fmt::Display for Misfit {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Twice(at) => write!(out, "{at} is listened at twice; leave one out"),
            Self::TooManyListeners => write!(
                out,
                "more than {LISTENERS_MAX} listeners; start another forwarder for the rest"
            ),
            Self::TooManyServers(at) => write!(
                out,
                "more than {} servers behind {at}; forward to other forwarders",
                SERVERS_PER_LISTENER_MAX[1]
            ),
            Self::SameServer(at) => {
                write!(
                    out,
                    "the server {at} is named twice; give it a weight instead"
                )
            }
            Self::Loop(at) => write!(
                out,
                "{at} is an address of the forwarder's own, and so would be a loop; name a server elsewhere"
            ),
            Self::NoServer(at) => write!(
                out,
                "no server for {at}; name one of its family with a weight above zero"
            ),
            Self::Family(at, server) => write!(
                out,
                "{at} and {server} are of two families, and packets are not translated from one to the other"
            ),
        }
    }
}

/// A listener.
pub struct Listener {
    /// Of which protocol.
    pub transport: Transport,
    /// Where.
    pub at: Endpoint,
    /// Its servers, as places among all.
    servers: Vec<u16>,
    weights: Vec<u16>,
    table: Option<Maglev>,
}

/// A server.
pub struct Server {
    /// Of which protocol.
    pub transport: Transport,
    /// Where it is.
    pub at: Endpoint,
    /// The address of ours that it sees.
    pub ours: Address,
    /// The ports of ours that it sees.
    pub ports: Ports,
    /// Flows that it was given so far.
    pub begun: u64,
}

impl Server {
    fn hash(&self) -> u64 {
        hash(self.transport, self.at)
    }
}

/// All listeners and servers.
pub struct Services {
    /// The listeners.
    pub listeners: Vec<Listener>,
    /// The servers.
    pub servers: Vec<Server>,
    /// Places among the listeners and among the servers, by the hash of protocol and end.
    by_place: HashTable<u16>,
    by_server: HashTable<u16>,
}

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
        let mut services = Self {
            listeners: Vec::new(),
            servers: Vec::new(),
            by_place: HashTable::new(),
            by_server: HashTable::new(),
        };
        for listen in wanted {
            services.add(listen)?;
        }
        services.reserve();
        let own = |to: &SocketAddr| wanted.iter().any(|w| w.at.ip() == to.ip());
        let servers = wanted.iter().flat_map(|w| &w.to);
        match servers.map(|(to, ..)| to).find(|to| own(to)) {
            Some(to) => Err(Misfit::Loop(*to)),
            None => Ok(services),
        }
    }

    fn add(&mut self, listen: &Listen) -> Result<(), Misfit> {
        let Listen { transport, at, to } = listen;
        if to.len() > SERVERS_PER_LISTENER_MAX[1] {
            return Err(Misfit::TooManyServers(*at));
        }
        let mut servers = Vec::new();
        for &(server, _, ours) in to {
            if server.is_ipv6() != at.is_ipv6() || ours.is_ipv6() != at.is_ipv6() {
                return Err(Misfit::Family(*at, server));
            }
            let place = self.server_place(*transport, server.into(), ours.into());
            if servers.contains(&place) {
                return Err(Misfit::SameServer(server));
            }
            servers.push(place);
        }
        if self.listener(*transport, (*at).into()).is_some() {
            return Err(Misfit::Twice(*at));
        }
        let mut listener = Listener {
            transport: *transport,
            at: (*at).into(),
            servers,
            weights: to.iter().map(|(_, weight, _)| *weight).collect(),
            table: None,
        };
        listener.fill(&self.servers);
        if listener.table.is_none() {
            return Err(Misfit::NoServer(*at));
        }
        let next = self.listeners.len() as u16;
        self.listeners.push(listener);
        let listeners = &self.listeners;
        let rehash = |place: &u16| listeners[usize::from(*place)].hash();
        self.by_place.insert_unique(rehash(&next), next, rehash);
        Ok(())
    }

    fn server_place(&mut self, transport: Transport, at: Endpoint, ours: Address) -> u16 {
        if let Some(place) = self.server(transport, at, ours) {
            return place as u16;
        }
        let next = self.servers.len() as u16;
        self.servers.push(Server {
            transport,
            at,
            ours,
            ports: Ports::default(),
            begun: 0,
        });
        let servers = &self.servers;
        let rehash = |place: &u16| servers[usize::from(*place)].hash();
        self.by_server.insert_unique(rehash(&next), next, rehash);
        next
    }

    /// The listener at this end.
    #[inline]
    pub fn listener(&self, transport: Transport, at: Endpoint) -> Option<u16> {
        let is_it = |place: &u16| {
            let listener = &self.listeners[usize::from(*place)];
            listener.at == at && listener.transport == transport
        };
        self.by_place.find(hash(transport, at), is_it).copied()
    }

    /// The server at this end that sees this address of ours.
    #[inline]
    pub fn server(&self, transport: Transport, at: Endpoint, ours: Address) -> Option<usize> {
        let is_it = |place: &u16| {
            let server = &self.servers[usize::from(*place)];
            server.at == at && server.transport == transport && server.ours == ours
        };
        let place = self.by_server.find(hash(transport, at), is_it)?;
        Some(usize::from(*place))
    }

    /// The server that a new flow with this hash goes to.
    pub fn choose(&self, listener: u16, hash: u64) -> Option<usize> {
        let listener = &self.listeners[usize::from(listener)];
        let among = listener.table.as_ref()?.server_of(hash);
        Some(listener.servers[among].into())
    }

    /// True when the server is to have new flows of this listener.
    pub fn is_in_use(&self, listener: u16, server: u16) -> bool {
        let Listener {
            servers, weights, ..
        } = &self.listeners[usize::from(listener)];
        let mut both = servers.iter().zip(weights);
        both.any(|(place, weight)| *place == server && *weight > 0)
    }

    /// Keeps ports from servers: what comes to those is for a listener.
    fn reserve(&mut self) {
        for server in &mut self.servers {
            let ours =
                |l: &&Listener| l.transport == server.transport && l.at.address == server.ours;
            let listeners = self.listeners.iter().filter(ours);
            listeners.for_each(|listener| server.ports.keep(listener.at.port));
        }
    }

    /// What becomes of a flow's packets one way or the other.
    #[inline]
    pub fn rewrite(&self, flow: &Flow, to_server: bool) -> Rewrite {
        let server = &self.servers[usize::from(flow.server)];
        if to_server {
            Rewrite {
                src: Endpoint {
                    address: server.ours,
                    port: flow.our_port,
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

impl Listener {
    fn hash(&self) -> u64 {
        hash(self.transport, self.at)
    }

    /// Fills the table anew, in the size that it has.
    fn fill(&mut self, servers: &[Server]) {
        let candidate = |(&place, &weight): (&u16, &u16)| Candidate {
            name: name(&servers[usize::from(place)]),
            weight,
        };
        let both = self.servers.iter().zip(&self.weights);
        let candidates: Vec<Candidate> = both.map(candidate).collect();
        self.table = Maglev::build(&candidates, Maglev::len_for(candidates.len()));
    }
}

/// For the tables of listeners and servers, which nobody else fills: no secret.
#[inline]
fn hash(transport: Transport, at: Endpoint) -> u64 {
    let rest = u32::from(at.port) << 8 | u32::from(transport.number());
    SipKey::from_seed(1).hash_and_half(at.address.words(), rest)
}

/// What others call a server too: its end.
fn name(server: &Server) -> u64 {
    let Endpoint { address, port } = server.at;
    SipKey::from_seed(0).hash_and_half(address.words(), port.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ports::Found;

    fn listen(at: &str, to: &[(&str, u16)]) -> Listen {
        let at: SocketAddr = at.parse().unwrap();
        let server = |(to, weight): &(&str, u16)| (to.parse().unwrap(), *weight, at.ip());
        Listen {
            transport: Transport::Tcp,
            at,
            to: to.iter().map(server).collect(),
        }
    }

    #[test]
    fn what_does_not_fit_together_is_refused_and_named() {
        let vip = "10.0.0.1:80";
        let at = |text: &str| text.parse::<SocketAddr>().unwrap();
        let good = listen(vip, &[("10.0.0.2:80", 1)]);
        let cases = [
            (vec![good.clone(), good.clone()], Misfit::Twice(at(vip))),
            (vec![listen(vip, &[])], Misfit::NoServer(at(vip))),
            (
                vec![listen(vip, &[("10.0.0.2:80", 0)])],
                Misfit::NoServer(at(vip)),
            ),
            (
                vec![listen(vip, &[("10.0.0.2:80", 1), ("10.0.0.2:80", 2)])],
                Misfit::SameServer(at("10.0.0.2:80")),
            ),
            (
                vec![listen(vip, &[("10.0.0.1:81", 1)])],
                Misfit::Loop(at("10.0.0.1:81")),
            ),
            (
                vec![listen(vip, &[("[fd00::2]:80", 1)])],
                Misfit::Family(at(vip), at("[fd00::2]:80")),
            ),
            (
                vec![good.clone(); LISTENERS_MAX + 1],
                Misfit::TooManyListeners,
            ),
        ];
        for (wanted, misfit) in cases {
            let said = Services::new(&wanted).err();
            assert_eq!(said, Some(misfit), "{wanted:?}");
        }
        assert!(Services::new(&[good]).is_ok());
    }

    #[test]
    fn a_server_behind_two_listeners_is_one() {
        let two = [
            listen("10.0.0.1:80", &[("10.0.0.2:80", 1)]),
            listen("10.0.0.1:8080", &[("10.0.0.2:80", 1), ("10.0.0.3:80", 1)]),
        ];
        let mut services = Services::new(&two).unwrap();
        assert_eq!(services.servers.len(), 2);
        let found = services.servers[0].ports.find(8080, |_| false);
        assert!(matches!(found, Some(Found::Free(port)) if port != 8080));
    }
}
