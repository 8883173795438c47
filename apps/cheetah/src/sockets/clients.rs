//! All connections: by number, with their deadlines. [`fetching`](super::fetching) is what becomes of those whose requests wait
//! for a document.

use std::net::IpAddr;
use std::os::fd::OwnedFd;

use exos_buf::Slice;
use exos_inet::Instant;
use exos_inet::tcp::alarms::Alarms;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;

use super::client::{Client, Shared};
use super::listener;
use crate::http::{Server, Status, Wanted};
use crate::limits::REQUEST_TIME;
use crate::log::Log;
use crate::serve::{Bounds, Ends, Fetching, Peers, Wait};

/// Bytes read at once: what a connection may have received and not been answered, as on the other way.
const READ_LEN: usize = crate::limits::RECEIVE_BUFFER_LEN as usize;

/// A connection's number and how often it was used before: of another connection, it means nothing.
pub(super) type Id = (u32, u32);

/// Lives of connections, by name.
#[derive(Default)]
pub(super) struct Counters {
    accepted: u64,
    accept_errors: u64,
    pub(super) fetch_failures: u64,
    peer_refusals: u64,
    slow_readers: u64,
    slow_heads: u64,
}

/// All connections.
pub struct Clients {
    server: Server,
    slots: Vec<(u32, Option<Client>)>,
    free: Vec<u32>,
    open: usize,
    pub(super) counters: Counters,
    ends: Ends,
    bounds: Bounds,
    peers: Peers,
    /// Connections at once.
    most: usize,
    pub(super) fetching: Fetching<Id>,
    /// What the request that was looked at last waits for.
    wanted: Option<Wanted>,
    alarms: Alarms,
    due: Vec<u32>,
    out: Vec<Slice>,
    buffer: Vec<u8>,
    now: Instant,
    stopping: bool,
}

impl Clients {
    pub(super) fn new(server: Server, now: Instant) -> Clients {
        Clients {
            server,
            slots: Vec::new(),
            free: Vec::new(),
            open: 0,
            counters: Counters::default(),
            ends: Ends::default(),
            bounds: Bounds::default(),
            peers: Peers::default(),
            most: usize::MAX,
            fetching: Fetching::default(),
            wanted: None,
            alarms: Alarms::new(now),
            due: Vec::new(),
            out: Vec::new(),
            buffer: vec![0; READ_LEN],
            now,
            stopping: false,
        }
    }

    pub(super) fn set_bounds(&mut self, bounds: Bounds, most: Option<u32>) {
        self.bounds = bounds;
        self.most = most.map_or(usize::MAX, |most| most as usize);
    }

    /// No further connection may be accepted now.
    pub(super) fn is_full(&self) -> bool {
        self.open >= self.most
    }

    /// Open connections.
    pub fn open(&self) -> usize {
        self.open
    }

    /// The HTTP server.
    pub fn server(&self) -> &Server {
        &self.server
    }

    pub(super) fn server_mut(&mut self) -> &mut Server {
        &mut self.server
    }

    /// Lives of connections and ends of waits, by name.
    pub fn counters(&self) -> Vec<(&'static str, u64)> {
        let lives = [
            ("sockets_accepted", self.counters.accepted),
            ("sockets_accept_errors", self.counters.accept_errors),
            ("http_fetch_failures", self.counters.fetch_failures),
            ("http_peer_refusals", self.counters.peer_refusals),
            ("http_slow_readers", self.counters.slow_readers),
            ("http_slow_heads", self.counters.slow_heads),
        ];
        lives.into_iter().chain(self.ends.list()).collect()
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        let log = self.server.log().and_then(Log::poll_timeout);
        let alarms = self.alarms.next_deadline();
        [alarms, log].into_iter().flatten().min()
    }

    pub(super) fn begin(&mut self, now: Instant, unix_secs: u64) {
        self.now = now;
        self.server.set_time(unix_secs);
        if let Some(log) = self.server.log_mut() {
            log.set_time(now, unix_secs);
        }
    }

    pub(super) fn end_turn(&mut self, epoll: &OwnedFd) {
        let mut due = std::mem::take(&mut self.due);
        self.alarms.expire(self.now, &mut due);
        for number in due.drain(..) {
            self.handle_alarm(epoll, number as usize);
        }
        self.due = due;
        if let Some(log) = self.server.log_mut() {
            log.tick();
        }
    }

    /// Takes connections that wait, all but those for which there is no room. False when the kernel has none: then it is
    /// better asked later.
    pub(super) fn accept(&mut self, epoll: &OwnedFd, listener: Option<&OwnedFd>) -> bool {
        let Some(listener) = listener else {
            return true;
        };
        while !self.is_full() {
            match listener::accept(listener) {
                Ok(Some((socket, peer))) => self.open_one(epoll, socket, peer),
                Ok(None) => return true,
                Err(e) => {
                    self.counters.accept_errors += 1;
                    let no_room = [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM];
                    // Else the client has gone again.
                    return !no_room.contains(&e);
                }
            }
        }
        true
    }

    fn open_one(&mut self, epoll: &OwnedFd, socket: OwnedFd, peer: IpAddr) {
        let number = self.free.pop().unwrap_or_else(|| {
            self.slots.push((0, None));
            self.slots.len() as u32 - 1
        });
        let client = Client::new(socket, peer, self.now);
        let data = EventData::new_u64(number.into());
        let most = self.bounds.peer_connections;
        if epoll::add(epoll, &client.socket, data, client.interest).is_err() {
            self.counters.accept_errors += 1;
            self.free.push(number);
            return;
        }
        if most.is_some_and(|most| !self.peers.admit(peer, most)) {
            self.counters.peer_refusals += 1;
            self.free.push(number);
            client.abort();
            return;
        }
        self.alarms.arm(client.deadline, number);
        self.slots[number as usize].1 = Some(client);
        self.open += 1;
        self.counters.accepted += 1;
    }

    /// Something has happened on a connection.
    pub(super) fn handle(&mut self, epoll: &OwnedFd, number: u64, flags: EventFlags) {
        let broken = flags.contains(EventFlags::ERR) || flags.contains(EventFlags::HUP);
        let number = number as usize;
        let Some((client, mut shared)) = self.client_and_shared(number) else {
            return;
        };
        let goes_on = !broken && client.go_on(&mut shared);
        self.settle_or_close(epoll, number, goes_on);
    }

    pub(super) fn client_and_shared(&mut self, number: usize) -> Option<(&mut Client, Shared<'_>)> {
        let client = self.slots.get_mut(number)?.1.as_mut()?;
        let shared = Shared {
            server: &mut self.server,
            out: &mut self.out,
            buffer: &mut self.buffer,
            now: self.now,
            stopping: self.stopping,
            bounds: &self.bounds,
            slow_readers: &mut self.counters.slow_readers,
            wanted: &mut self.wanted,
        };
        Some((client, shared))
    }

    /// The connection that is meant, if it is still there.
    pub(super) fn find(&self, (number, generation): Id) -> Option<&Client> {
        let (current, client) = self.slots.get(number as usize)?;
        client.as_ref().filter(|_| *current == generation)
    }

    /// Tells epoll, the timers and who fetches documents what a connection waits for.
    pub(super) fn settle(&mut self, epoll: &OwnedFd, number: usize) {
        if let Some(document) = self.wanted.take() {
            let id = (number as u32, self.slots[number].0);
            let mut fetching = std::mem::take(&mut self.fetching);
            let is_new = fetching.add(document.clone(), id, |id| {
                self.find(*id).is_some_and(Client::is_fetching)
            });
            if is_new {
                fetching.want(document);
            }
            self.fetching = fetching;
        }
        let Some((_, Some(client))) = self.slots.get_mut(number) else {
            return;
        };
        let wanted = client.wanted();
        if wanted != client.interest {
            client.interest = wanted;
            let data = EventData::new_u64(number as u64);
            // It cannot fail for a descriptor that was added; if it did, the connection's time would end it.
            let _ = epoll::modify(epoll, &client.socket, data, wanted);
        }
        self.alarms.arm(client.deadline, number as u32);
    }

    /// A slot's alarm has come up, which may have been another connection's.
    fn handle_alarm(&mut self, epoll: &OwnedFd, number: usize) {
        let Some(client) = &self.slots[number].1 else {
            return;
        };
        if client.deadline <= self.now {
            self.end_wait(epoll, number);
        } else {
            self.alarms.arm(client.deadline, number as u32);
        }
    }

    /// What a connection waits for has not come.
    fn end_wait(&mut self, epoll: &OwnedFd, number: usize) {
        let (now, has_head_rate) = (self.now, self.bounds.head_rate.is_some());
        let Some((client, mut shared)) = self.client_and_shared(number) else {
            return;
        };
        let (wait, is_idle) = (client.wait, client.is_between_requests());
        // A head that was given less time came too slowly.
        let is_slow_head =
            wait == Wait::Request && !is_idle && has_head_rate && now < client.begun + REQUEST_TIME;
        let goes_on = match wait {
            Wait::Request if !is_idle => client.give_up(Status::RequestTimeout, &mut shared),
            Wait::Fetching => client.give_up(Status::ServiceUnavailable, &mut shared),
            Wait::Request | Wait::Idle => client.finish(&mut shared),
            // Nothing is read by others.
            Wait::Reading | Wait::Sending | Wait::Lingering => {
                client.abort();
                false
            }
        };
        if is_slow_head {
            self.counters.slow_heads += 1;
        } else {
            self.ends.count(wait, is_idle);
        }
        self.settle_or_close(epoll, number, goes_on);
    }

    pub(super) fn settle_or_close(&mut self, epoll: &OwnedFd, number: usize, goes_on: bool) {
        if goes_on {
            self.settle(epoll, number);
        } else {
            self.close(number);
        }
    }

    fn close(&mut self, number: usize) {
        let Some((generation, slot)) = self.slots.get_mut(number) else {
            return;
        };
        let Some(mut client) = slot.take() else {
            return;
        };
        // Nobody waits for it.
        self.wanted = None;
        *generation = generation.wrapping_add(1);
        if let Some(log) = self.server.log_mut() {
            log.ended(&mut client.unfinished);
        }
        if self.bounds.peer_connections.is_some() {
            self.peers.leave(client.peer);
        }
        self.free.push(number as u32);
        self.open -= 1;
    }

    /// Takes no new requests: idle connections end now, the others after their responses.
    pub(super) fn stop(&mut self, epoll: &OwnedFd) {
        self.stopping = true;
        for number in 0..self.slots.len() {
            let Some((client, mut shared)) = self.client_and_shared(number) else {
                continue;
            };
            let goes_on = client.is_busy() || client.finish(&mut shared);
            self.settle_or_close(epoll, number, goes_on);
        }
    }

    /// True while responses are under way.
    pub fn is_busy(&self) -> bool {
        let mut clients = self.slots.iter().filter_map(|(_, client)| client.as_ref());
        clients.any(Client::is_busy)
    }
}
