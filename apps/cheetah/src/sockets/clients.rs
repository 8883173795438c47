//! All connections: by number, with their timers.

use std::net::IpAddr;
use std::os::fd::OwnedFd;

use exos_buf::Slice;
use exos_inet::Instant;
use exos_inet::tcp::wheel::Wheel;
use rustix::event::epoll::{self, EventData, EventFlags};

use super::client::{Client, Shared};
use super::listener;
use crate::http::{Server, Status};
use crate::log::Log;
use crate::serve::{Ends, Wait};

/// Bytes read at once: what a connection may have received and not been answered, as on the other way.
const READ_LEN: usize = crate::limits::RECEIVE_BUFFER_LEN as usize;

/// A connection's number and how often it was used before: of another connection, it means nothing.
type Id = (u32, u32);

/// All connections.
pub struct Clients {
    server: Server,
    slots: Vec<(u32, Option<Client>)>,
    free: Vec<u32>,
    open: usize,
    accepted: u64,
    accept_errors: u64,
    ends: Ends,
    timers: Wheel<Id>,
    due: Vec<Id>,
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
            accepted: 0,
            accept_errors: 0,
            ends: Ends::default(),
            timers: Wheel::new(now),
            due: Vec::new(),
            out: Vec::new(),
            buffer: vec![0; READ_LEN],
            now,
            stopping: false,
        }
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
            ("sockets_accepted", self.accepted),
            ("sockets_accept_errors", self.accept_errors),
        ];
        lives.into_iter().chain(self.ends.list()).collect()
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        let log = self.server.log().and_then(Log::poll_timeout);
        let timers = self.timers.next_deadline();
        [timers, log].into_iter().flatten().min()
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
        self.timers.expire(self.now, &mut due);
        for id in due.drain(..) {
            self.handle_timer(epoll, id);
        }
        self.due = due;
        if let Some(log) = self.server.log_mut() {
            log.tick();
        }
    }

    /// Takes all connections that wait.
    pub(super) fn accept(&mut self, epoll: &OwnedFd, listener: Option<&OwnedFd>) {
        let Some(listener) = listener else {
            return;
        };
        loop {
            match listener::accept(listener) {
                Ok(Some((socket, peer))) => self.open_one(epoll, socket, peer),
                Ok(None) => return,
                Err(_) => {
                    // The client has gone again, or there are too many descriptors: the next turn tries again.
                    self.accept_errors += 1;
                    return;
                }
            }
        }
    }

    fn open_one(&mut self, epoll: &OwnedFd, socket: OwnedFd, peer: IpAddr) {
        let number = self.free.pop().unwrap_or_else(|| {
            self.slots.push((0, None));
            self.slots.len() as u32 - 1
        });
        let client = Client::new(socket, peer, self.now);
        let data = EventData::new_u64(number.into());
        if epoll::add(epoll, &client.socket, data, client.interest).is_err() {
            self.accept_errors += 1;
            self.free.push(number);
            return;
        }
        let (generation, slot) = &mut self.slots[number as usize];
        self.timers.arm(client.deadline, (number, *generation));
        *slot = Some(client);
        self.open += 1;
        self.accepted += 1;
    }

    /// Something has happened on a connection.
    pub(super) fn handle(&mut self, epoll: &OwnedFd, number: u64, flags: EventFlags) {
        let broken = flags.contains(EventFlags::ERR) || flags.contains(EventFlags::HUP);
        let number = number as usize;
        let Some((client, mut shared)) = self.client_and_shared(number) else {
            return;
        };
        if broken || !client.go_on(&mut shared) {
            self.close(number);
            return;
        }
        self.settle(epoll, number);
    }

    fn client_and_shared(&mut self, number: usize) -> Option<(&mut Client, Shared<'_>)> {
        let client = self.slots.get_mut(number)?.1.as_mut()?;
        let shared = Shared {
            server: &mut self.server,
            out: &mut self.out,
            buffer: &mut self.buffer,
            now: self.now,
            stopping: self.stopping,
        };
        Some((client, shared))
    }

    /// Tells epoll and the timers what a connection waits for.
    fn settle(&mut self, epoll: &OwnedFd, number: usize) {
        let Some((generation, Some(client))) = self.slots.get_mut(number) else {
            return;
        };
        let wanted = client.wanted();
        if wanted != client.interest {
            client.interest = wanted;
            let data = EventData::new_u64(number as u64);
            // It cannot fail for a descriptor that was added; if it did, the connection's time would end it.
            let _ = epoll::modify(epoll, &client.socket, data, wanted);
        }
        if client.deadline < client.armed || client.armed <= self.now {
            client.armed = client.deadline;
            self.timers
                .arm(client.deadline, (number as u32, *generation));
        }
    }

    fn handle_timer(&mut self, epoll: &OwnedFd, (number, generation): Id) {
        let number = number as usize;
        let now = self.now;
        match self.slots.get_mut(number) {
            Some((current, Some(client))) if *current == generation => {
                if client.deadline > now {
                    if client.armed <= now {
                        client.armed = client.deadline;
                        self.timers
                            .arm(client.deadline, (number as u32, generation));
                    }
                    return;
                }
            }
            _ => return,
        }
        let Some((client, mut shared)) = self.client_and_shared(number) else {
            return;
        };
        let (wait, is_idle) = (client.wait, client.is_between_requests());
        let goes_on = match wait {
            Wait::Request if !is_idle => {
                if shared.server.wants_peer() {
                    shared.server.begin(client.peer, client.begun);
                }
                let mut out = Vec::new();
                let status = Status::RequestTimeout;
                shared.server.refuse(status, client.received(), &mut out);
                if let Some(log) = shared.server.log_mut() {
                    log.given(&mut client.unfinished);
                }
                client.finish(&mut out, &mut shared)
            }
            Wait::Request | Wait::Idle => client.finish(&mut Vec::new(), &mut shared),
            // Nothing is fetched or read by others.
            Wait::Fetching | Wait::Reading | Wait::Sending | Wait::Lingering => false,
        };
        self.ends.count(wait, is_idle);
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
        *generation = generation.wrapping_add(1);
        if let Some(log) = self.server.log_mut() {
            log.ended(&mut client.unfinished);
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
            if client.is_sending() || client.finish(&mut Vec::new(), &mut shared) {
                self.settle(epoll, number);
            } else {
                self.close(number);
            }
        }
    }

    /// True while responses are under way.
    pub fn is_busy(&self) -> bool {
        let mut clients = self.slots.iter().filter_map(|(_, client)| client.as_ref());
        clients.any(Client::is_sending)
    }
}
