//! All connections: what epoll tells goes to each, new ones are accepted, and those whose time is over end.
//!
//! One thread and one epoll. Sockets of connections are registered once, for both directions and by edges; what was told of
//! them is remembered until a system call says otherwise ([`Ready`](super::pipe::Ready)). Listeners are looked at by level, and
//! not at all while there is no room.

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, OwnedFd};

use exos::Error;
use exos_inet::Instant;
use exos_inet::tcp::ConnectionId;
use exos_program::sockets::Table;
use rustix::event::Timespec;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::SocketFlags;

use super::choice::Service;
use super::connection::{Connection, Fault, Side, State, connect, reset};
use super::counters::Counters;
use super::pipe::Pool;
use super::proxy::{self, Version};
use crate::limits::{ACCEPT_AT_ONCE, ACCEPT_PAUSE};

/// What epoll says of listeners (from here on), and of what others watch; sockets of connections have smaller numbers.
const LISTENERS: u64 = u64::MAX - (1 << 16);
const OTHERS: u64 = u64::MAX;

/// Events taken at once.
const EVENTS_MAX: usize = 256;

/// The forwarder on sockets.
pub(super) struct Splicer {
    epoll: OwnedFd,
    pub services: Vec<Service>,
    listeners: Vec<OwnedFd>,
    version: Option<Version>,
    connections: Table<Connection>,
    open_max: u32,
    /// Whether listeners are looked at, and if not for a while, until when.
    accepting: bool,
    pause_until: Option<Instant>,
    /// Connections by when it is seen to their time.
    due: BTreeSet<(Instant, ConnectionId)>,
    /// Connections that have something to do, each once.
    to_go_on: Vec<ConnectionId>,
    pub pool: Pool,
    pub counters: Counters,
    events: Vec<epoll::Event>,
}

impl Splicer {
    /// Listens.
    ///
    /// # Errors
    ///
    /// An address is taken, or none of this host's.
    pub fn listen(
        mut services: Vec<Service>,
        version: Option<Version>,
        open_max: u32,
    ) -> Result<Self, Error> {
        let fail = |e: Errno| Error::io("cannot wait for connections", e);
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(fail)?;
        let mut listeners = Vec::new();
        for (data, service) in (LISTENERS..).zip(&mut services) {
            let listener = listen(service.at)?;
            service.at = address_of(&listener)?;
            let data = EventData::new_u64(data);
            epoll::add(&epoll, &listener, data, EventFlags::IN).map_err(fail)?;
            listeners.push(listener);
        }
        Ok(Self {
            epoll,
            services,
            listeners,
            version,
            connections: Table::default(),
            open_max,
            accepting: true,
            pause_until: None,
            due: BTreeSet::new(),
            to_go_on: Vec::new(),
            pool: Pool::default(),
            counters: Counters::default(),
            events: Vec::with_capacity(EVENTS_MAX),
        })
    }

    /// A turn begins, too, whenever something comes to be read here.
    ///
    /// # Errors
    ///
    /// The kernel has no memory for it.
    pub fn watch(&self, fd: BorrowedFd<'_>) -> io::Result<()> {
        let flags = EventFlags::IN | EventFlags::ET;
        Ok(epoll::add(
            &self.epoll,
            fd,
            EventData::new_u64(OTHERS),
            flags,
        )?)
    }

    /// Connections that are open.
    pub fn open(&self) -> u32 {
        self.connections.open() as u32
    }

    /// How many may be.
    pub fn open_max(&self) -> u32 {
        self.open_max
    }

    /// Through the connections that are open, both ways.
    #[cfg(test)]
    pub fn bytes_moved(&self) -> u64 {
        let open = self
            .due
            .iter()
            .flat_map(|(_, id)| self.connections.get(*id));
        open.flat_map(Connection::bytes).sum()
    }

    /// Waits for something to do.
    ///
    /// # Errors
    ///
    /// The kernel refuses to wait.
    pub fn wait(&mut self, now: Instant) -> io::Result<()> {
        let first = self.due.first().map(|(at, _)| *at);
        let at_once = (!self.to_go_on.is_empty()).then_some(now);
        let at = [first, self.pause_until, at_once]
            .into_iter()
            .flatten()
            .min();
        let timeout = at.and_then(|at| Timespec::try_from(at - now).ok());
        self.events.clear();
        let spare = rustix::buffer::spare_capacity(&mut self.events);
        match epoll::wait(&self.epoll, spare, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Does what there is to do at a moment: what the last wait told of, and what is due.
    pub fn handle(&mut self, now: Instant) {
        let mut events = std::mem::take(&mut self.events);
        for event in events.drain(..) {
            match event.data.u64() {
                OTHERS => {}
                data if data >= LISTENERS => self.accept(now, (data - LISTENERS) as usize),
                data => self.hear(data, event.flags),
            }
        }
        self.events = events;
        // Only now: so each moves no more in a turn, however often it was told of.
        let turn = self.to_go_on.len();
        for at in 0..turn {
            self.go_on(now, self.to_go_on[at]);
        }
        self.to_go_on.drain(..turn);
        self.expire(now);
        self.pause_until = self.pause_until.filter(|until| *until > now);
        self.listen_where_there_is_room();
    }

    fn accept(&mut self, now: Instant, service: usize) {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        for _ in 0..ACCEPT_AT_ONCE {
            if self.open() == self.open_max {
                return;
            }
            match rustix::net::acceptfrom_with(&self.listeners[service], flags) {
                Ok((client, from)) => {
                    if let Some(from) = from.and_then(|from| SocketAddr::try_from(from).ok()) {
                        self.begin(now, service, client, from);
                    }
                }
                Err(Errno::AGAIN) => return,
                // The client has gone again.
                Err(Errno::CONNABORTED | Errno::INTR | Errno::PROTO) => {}
                // No descriptors, or no memory: there may be some when connections have ended.
                Err(_) => {
                    self.counters.accept_failed += 1;
                    self.pause_until = Some(now + ACCEPT_PAUSE);
                    return;
                }
            }
        }
    }

    fn begin(&mut self, now: Instant, service: usize, client: OwnedFd, from: SocketAddr) {
        self.counters.connections_accepted += 1;
        let Service { at, servers, .. } = &self.services[service];
        let server = self.services[service].choose(from);
        let preface = self
            .version
            .map(|version| proxy::header(version, from, *at));
        let to = (service, server);
        match connect(&client, servers[server].at) {
            Ok(socket) => {
                let sockets = [client, socket];
                self.enter(Connection::new(
                    now,
                    sockets,
                    to,
                    preface.unwrap_or_default(),
                ));
            }
            Err(error) => {
                self.note(to, Fault::Connect(error));
                reset(&client);
            }
        }
    }

    /// Has a new connection looked at.
    fn enter(&mut self, mut connection: Connection) {
        connection.listed = connection.deadline();
        let (to, listed) = (connection.to, connection.listed);
        let id = self.connections.insert(connection);
        if let Err(error) = self.register(id) {
            self.note(to, Fault::Connect(error));
            self.connections
                .take(id)
                .into_iter()
                .for_each(Connection::abort);
            return;
        }
        self.due.insert((listed, id));
        let server = &mut self.services[to.0].servers[to.1];
        server.begun += 1;
        server.open += 1;
    }

    fn register(&self, id: ConnectionId) -> rustix::io::Result<()> {
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        let connection = self.connections.get(id).expect("it was put in just now");
        [Side::Client, Side::Server]
            .into_iter()
            .try_for_each(|side| {
                let data = EventData::new_u64(data_of(id, side));
                epoll::add(&self.epoll, connection.socket(side), data, flags)
            })
    }

    /// What epoll tells of a connection's socket.
    fn hear(&mut self, data: u64, flags: EventFlags) {
        let (id, side) = of_data(data);
        if let Some(connection) = self.connections.get_mut(id) {
            connection.hear(side, flags);
            if !std::mem::replace(&mut connection.is_to_go_on, true) {
                self.to_go_on.push(id);
            }
        }
    }

    /// Has a connection do what it can.
    fn go_on(&mut self, now: Instant, id: ConnectionId) {
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        let outcome = connection.go_on(now, &mut self.pool);
        connection.is_to_go_on = connection.is_unfinished();
        // Its time may be shorter than when it was listed. A longer one is seen when that has come.
        if connection.deadline() < connection.listed {
            self.due.remove(&(connection.listed, id));
            connection.listed = connection.deadline();
            self.due.insert((connection.listed, id));
        }
        match outcome {
            Ok(()) if connection.state == State::Over => {
                self.counters.connections_closed += 1;
                self.end(id);
            }
            Ok(()) if connection.is_to_go_on => self.to_go_on.push(id),
            Ok(()) => {}
            Err(fault) => {
                let to = connection.to;
                self.note(to, fault);
                self.end(id).abort();
            }
        }
    }

    fn note(&mut self, (service, server): (usize, usize), fault: Fault) {
        let counters = &mut self.counters;
        match fault {
            Fault::Connect(Errno::CONNREFUSED) => counters.connect_refused += 1,
            Fault::Connect(Errno::TIMEDOUT) => counters.connect_timed_out += 1,
            Fault::Connect(_) => counters.connect_failed += 1,
            Fault::Broken(Errno::MFILE | Errno::NFILE) => counters.connections_no_pipe += 1,
            Fault::Broken(_) => counters.connections_broken += 1,
        }
        if matches!(fault, Fault::Connect(_)) {
            self.services[service].servers[server].failed += 1;
        }
    }

    /// Takes a connection out.
    fn end(&mut self, id: ConnectionId) -> Connection {
        let mut connection = self.connections.take(id).expect("it is there");
        connection.give_back(&mut self.pool);
        self.due.remove(&(connection.listed, id));
        let (service, server) = connection.to;
        self.services[service].servers[server].open -= 1;
        let [there, back] = connection.bytes();
        self.counters.bytes_to_servers += there;
        self.counters.bytes_to_clients += back;
        connection
    }

    /// Ends connections whose time is over. One that was heard of since it was listed is listed again.
    fn expire(&mut self, now: Instant) {
        while let Some(&(at, id)) = self.due.first()
            && at <= now
        {
            self.due.pop_first();
            let connection = self.connections.get_mut(id).expect("it is listed");
            connection.listed = connection.deadline();
            self.due.insert((connection.listed, id));
            if connection.listed > now {
                continue;
            }
            let ended = self.end(id);
            if ended.state == State::Connecting {
                self.note(ended.to, Fault::Connect(Errno::TIMEDOUT));
            } else {
                self.counters.connections_expired += 1;
            }
            ended.abort();
        }
    }

    /// Clients for which there is no room wait in the kernel, which would tell of them in each turn.
    fn listen_where_there_is_room(&mut self) {
        let has_room = self.open() < self.open_max && self.pause_until.is_none();
        if has_room == self.accepting {
            return;
        }
        self.accepting = has_room;
        let flags = if has_room {
            EventFlags::IN
        } else {
            EventFlags::empty()
        };
        for (data, listener) in (LISTENERS..).zip(&self.listeners) {
            // It cannot fail for a descriptor that was added.
            let _ = epoll::modify(&self.epoll, listener, EventData::new_u64(data), flags);
        }
    }
}

/// Listens at an address of this host's.
fn listen(at: SocketAddr) -> Result<OwnedFd, Error> {
    let fail = |e| {
        Error::io(format!("cannot listen at {at}"), e)
            .mend("with --splice listen at an address that this host has, and a port that is free")
    };
    // Connections of a forwarder that was here before may be in TIME-WAIT: the library allows for that.
    let listener = std::net::TcpListener::bind(at).map_err(fail)?;
    listener.set_nonblocking(true).map_err(fail)?;
    Ok(listener.into())
}

/// Where it listens.
fn address_of(listener: &OwnedFd) -> Result<SocketAddr, Error> {
    let at = rustix::net::getsockname(listener).and_then(SocketAddr::try_from);
    at.map_err(|e| Error::io("cannot tell where it listens", e))
}

/// Slots of connections are fewer, so this bit of an identity says which of the two sockets it is.
const SERVER: u64 = 1 << 31;

/// What epoll is to say of a connection's socket.
const fn data_of(id: ConnectionId, side: Side) -> u64 {
    match side {
        Side::Client => id.to_bits(),
        Side::Server => id.to_bits() | SERVER,
    }
}

const fn of_data(data: u64) -> (ConnectionId, Side) {
    let id = ConnectionId::from_bits(data & !SERVER);
    match data & SERVER {
        0 => (id, Side::Client),
        _ => (id, Side::Server),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{accept_all, splicer};
    use super::*;
    use crate::limits::FLOWS_MAX;

    impl Splicer {
        /// True while a server has not answered.
        pub(in crate::splice) fn is_connecting(&self) -> bool {
            let mut connections = self
                .due
                .iter()
                .filter_map(|(_, id)| self.connections.get(*id));
            connections.any(|connection| connection.state == State::Connecting)
        }
    }

    /// Else one that is told of by both its sockets, and has not finished its last turn, moves three shares in one.
    #[test]
    fn a_connection_goes_on_once_in_a_turn_however_often_it_is_told_of() {
        let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let mut splicer = splicer(server.local_addr().unwrap(), None, 10);
        let _client = std::net::TcpStream::connect(splicer.services[0].at).unwrap();
        accept_all(&mut splicer, 1);
        splicer.to_go_on.clear();
        let id = splicer.due.first().unwrap().1;
        splicer.connections.get_mut(id).unwrap().is_to_go_on = false;
        for side in [Side::Client, Side::Server, Side::Client] {
            splicer.hear(data_of(id, side), EventFlags::IN);
            assert_eq!(splicer.to_go_on, [id]);
        }
        splicer.handle(exos::clock::now());
        assert_eq!(splicer.to_go_on, []);
        splicer.hear(data_of(id, Side::Client), EventFlags::IN);
        assert_eq!(splicer.to_go_on, [id], "and again in the next");
        // Nobody goes on for one who is there no more.
        splicer.to_go_on.clear();
        let another = ConnectionId::from_bits(id.to_bits() + (1 << 32));
        splicer.hear(data_of(another, Side::Client), EventFlags::IN);
        assert_eq!(splicer.to_go_on, []);
    }

    #[test]
    fn what_epoll_says_is_understood() {
        for side in [Side::Client, Side::Server] {
            for (generation, slot) in [(0, 0), (1, 2), (u32::MAX, FLOWS_MAX)] {
                let id = ConnectionId::from_bits(u64::from(generation) << 32 | u64::from(slot));
                let data = data_of(id, side);
                assert_eq!(of_data(data), (id, side));
                assert!(data < LISTENERS);
            }
        }
    }
}
