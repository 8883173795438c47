//! Listeners and the servers behind them: what is forwarded, and to whom it may go.
//!
//! A server is one for each protocol, end, address of ours and [`Reach`], whichever listeners it is behind: its ports are its
//! own.
//!
//! Both have places, which flows name. What is taken away keeps its place while it has flows, which go on as before; then the
//! place is free for another. `wanted` is what somebody wants and why it cannot be, `change` how it becomes what there is,
//! also while packets come; a hashing table is then made again beside the old one, a bounded part at a time. `balance` is
//! how a server is chosen, `slots` how places are given out, `health` which servers are well, and `names` what becomes of
//! servers that have names.

mod balance;
mod change;
mod health;
mod names;
mod reload;
mod slots;
#[cfg(test)]
mod tests;
mod wanted;

use hashbrown::HashTable;

use exos_inet::siphash::SipKey;

use crate::endpoint::{Address, Endpoint};
use crate::flow::{Flow, FlowId, State};
use crate::health::passive;
use crate::maglev::{Building, Maglev};
use crate::packet::Transport;
use crate::ports::Ports;
use crate::reach::Reach;
use crate::rewrite::Rewrite;
use crate::traffic::{Course, Traffic};
pub use balance::{Affinity, Balance};
pub use health::Health;
pub use reload::Changes;
pub use wanted::{Listen, Misfit};

/// Whether a listener or a server is to have new flows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Standing {
    /// It is.
    #[default]
    InUse,
    /// It was taken away, and has flows yet.
    Leaving,
    /// It is gone: its place is free.
    Gone,
}

/// A server, as a listener knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its place among all servers.
    pub server: u16,
    /// How much it is to get compared with others.
    pub weight: u16,
    /// It is to have no new flows, whatever its weight.
    pub is_draining: bool,
    /// It is well; if not, it is to have none either.
    pub is_well: bool,
    /// How much it is due for a turn.
    credit: i64,
}

impl Member {
    /// What it gets now.
    pub fn effective_weight(&self) -> u16 {
        if self.is_draining || !self.is_well {
            0
        } else {
            self.weight
        }
    }
}

/// A listener.
pub struct Listener {
    /// Of which protocol.
    pub transport: Transport,
    /// Where.
    pub at: Endpoint,
    /// What is done with packets that come there.
    pub reach: Reach,
    /// Whether it takes new flows.
    pub standing: Standing,
    /// Flows that came to it and are there.
    pub flows: u32,
    /// Flows that began here so far.
    pub begun: u64,
    /// First packets for which there was no server, no port or no room.
    pub refused: u64,
    /// What has gone through.
    pub traffic: Traffic,
    members: Vec<Member>,
    table: Option<Table>,
    next: NextTable,
    /// Entries of its tables; as many as long as it is there, since in another size nearly everything moves.
    table_len: usize,
    /// No two of its servers have one address.
    has_an_address_each: bool,
}

/// A table that is to take the other's place when it is whole.
enum NextTable {
    /// None: the one that there is tells it.
    Settled,
    /// It is wanted. So however much changes at once, one is begun.
    Wanted,
    /// It is being made, of servers at these places.
    Building(Building, Vec<u16>),
}

/// Which server a key belongs to.
struct Table {
    maglev: Maglev,
    /// The servers' places in the order in which the table knows them.
    servers: Vec<u16>,
}

/// A server.
pub struct Server {
    /// Of which protocol.
    pub transport: Transport,
    /// Where it is.
    pub at: Endpoint,
    /// The address of ours that it sees, if it does not see its clients', and that checks come from.
    pub ours: Address,
    /// How packets reach it.
    pub reach: Reach,
    /// Whether it is behind a listener.
    pub standing: Standing,
    /// The ports of ours that it sees.
    pub ports: Ports,
    /// Its flows.
    pub flows: u32,
    /// Its flows that are not over.
    pub open: u32,
    /// Flows that it was given so far.
    pub begun: u64,
    /// Flows that it refused: it answered a SYN with a reset.
    pub refused: u64,
    /// Flows that were forgotten without a word from it.
    pub unanswered: u64,
    /// What has gone through.
    pub traffic: Traffic,
    /// What is known of its health.
    pub health: Health,
    /// How many listeners it is behind.
    listeners: u16,
}

/// All listeners and servers.
#[derive(Default)]
pub struct Services {
    /// The listeners, by their places.
    pub listeners: Vec<Listener>,
    /// The servers, by theirs.
    pub servers: Vec<Server>,
    /// Places among the listeners and among the servers, by the hash of protocol and end.
    by_place: HashTable<u16>,
    by_server: HashTable<u16>,
    /// How often listeners and servers have come, were taken away, or have become free.
    changes: u64,
    /// How a server is chosen.
    balance: Balance,
    /// What of a client decides that.
    affinity: Affinity,
    /// When a server rests, if ever.
    passive: Option<passive::Rule>,
    /// Servers that rest.
    resting: Vec<u16>,
    /// Some listener's table is being made.
    is_building: bool,
    /// Servers that see their clients' addresses, and whose answers come to us.
    transparent: usize,
    /// What servers are called.
    called: names::Called,
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

impl Listener {
    fn hash(&self) -> u64 {
        hash(self.transport, self.at)
    }

    /// Its servers.
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// What it says of this server.
    pub fn member(&self, server: u16) -> Option<&Member> {
        self.members.iter().find(|member| member.server == server)
    }
}

impl Server {
    fn hash(&self) -> u64 {
        hash(self.transport, self.at)
    }

    /// A flow of it stands otherwise now.
    pub(crate) fn changed(&mut self, before: State, after: State, by_server: bool) {
        match (before.is_over(), after.is_over()) {
            (false, true) => self.open -= 1,
            (true, false) => self.open += 1,
            (false, false) | (true, true) => {}
        }
        self.refused += u64::from(after == State::Refused && by_server);
    }
}

impl Table {
    fn server_of(&self, hash: u64) -> u16 {
        self.servers[self.maglev.server_of(hash)]
    }
}

/// True for a flow of which nobody but the client was heard, as far as that can be told.
pub(crate) fn is_unanswered(flow: &Flow) -> bool {
    match flow.state {
        State::SynSeen | State::Asked => true,
        State::OneWay => flow.reach.hears_servers(),
        _ => false,
    }
}

/// For the tables of listeners and servers, which nobody else fills: no secret.
#[inline]
fn hash(transport: Transport, at: Endpoint) -> u64 {
    let rest = u32::from(at.port) << 8 | u32::from(transport.number());
    SipKey::from_seed(1).hash_and_half(at.address.words(), rest)
}
