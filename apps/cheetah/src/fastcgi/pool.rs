//! Connections to applications, over the kernel's sockets, and requests that wait for one.
//!
//! A connection carries one request at a time. Of each application a loop has a bounded number; requests beyond wait in
//! order, a bounded number of them too. A client waits in one place at most, and asks again when [`Applications::poll`] has
//! named it, not before: what else happens to it changes nothing. As many are named as there is room for, which is looked at
//! after each change and in each turn, so whatever becomes of a client that was named, those behind it follow. Where an
//! application's own queue is full, all wait for a moment. What is not needed any more is closed, or kept open for the next request where
//! that is configured: an application like PHP has a process for each open connection, whether it is asked or not.
//!
//! All of this wakes the loop by one descriptor. In each turn [`Applications::turn`], then [`Applications::poll`] until
//! there is none: whose news it is. What has come is there to be read until the next call.

mod counters;
mod group;

use std::collections::{HashMap, HashSet};
use std::os::fd::BorrowedFd;

use exos_buf::Buffer;
use exos_inet::Instant;
use exos_inet::tcp::{ConnectionId, EventSet, Reason};
use exos_program::sockets::{Shortage, Sockets};
use rustix::io::Errno;

use super::application::{Address, Application};
use crate::limits::{
    APPLICATION_READ_LEN, APPLICATION_RETRY_TIME, APPLICATION_WAITING_MAX, COLLECTED_LEN_MAX,
};
use counters::Counters;
use group::{Group, Waiting};

/// What became of a request for a connection.
#[derive(Debug)]
pub enum Opened {
    /// It is there, or comes to stand; or it was kept open.
    Connected {
        /// It.
        upstream: ConnectionId,
        /// Others were answered over it before, and the application may have closed it meanwhile.
        was_kept: bool,
    },
    /// There is none yet: the client is named when it may ask again.
    Waits,
}

/// Why there is no connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Too many wait already.
    Busy,
    /// The kernel says so.
    Failed(Errno),
}

/// A connection.
#[derive(Debug)]
struct Upstream {
    address: Address,
    /// For whom; nobody where it is kept open.
    client: Option<ConnectionId>,
    end: Option<Reason>,
}

/// The connections of a loop to all applications.
#[derive(Default)]
pub struct Applications {
    sockets: Option<Sockets>,
    upstreams: HashMap<ConnectionId, Upstream>,
    groups: HashMap<Address, Group>,
    /// Clients that wait, whether they may ask or not.
    queued: HashSet<ConnectionId>,
    /// Bytes of chunked bodies that are not whole.
    collected: usize,
    /// Something was asked of the sockets since the last turn.
    is_touched: bool,
    counters: Counters,
}

impl Applications {
    /// Gives a client a connection, or has it wait. `may_be_kept` where what is asked can be asked again if the application has
    /// closed a connection that was kept; `has_waited` when it was told to wait. One that waits and was not named still does.
    ///
    /// # Errors
    ///
    /// There is none to be had.
    pub fn open(
        &mut self,
        application: &Application,
        client: ConnectionId,
        may_be_kept: bool,
        has_waited: bool,
        now: Instant,
    ) -> Result<Opened, Refusal> {
        if self.queued.contains(&client) {
            return Ok(Opened::Waits);
        }
        let opened = self.open_now(application, client, may_be_kept, has_waited, now);
        // What it was named for and has not used is another's.
        self.wake(&application.address);
        opened
    }

    fn open_now(
        &mut self,
        application: &Application,
        client: ConnectionId,
        may_be_kept: bool,
        has_waited: bool,
        now: Instant,
    ) -> Result<Opened, Refusal> {
        let waiting = Waiting {
            client,
            connections: application.connections,
        };
        let group = self.groups.entry(application.address.clone()).or_default();
        if !has_waited {
            // Those who wait come first.
            group.wake();
        }
        if group.full_until.is_some() || group.busy() >= application.connections {
            return self.queue(&application.address, waiting, has_waited);
        }
        if let Some(upstream) = self.take_idle(&application.address) {
            if may_be_kept && self.is_silent(upstream) {
                self.counters.kept += 1;
                let kept = self.upstreams.get_mut(&upstream);
                kept.into_iter().for_each(|kept| kept.client = Some(client));
                return Ok(Opened::Connected {
                    upstream,
                    was_kept: true,
                });
            }
            self.leave(upstream);
        }
        match self.connect(&application.address) {
            Ok(upstream) => {
                self.counters.opened += 1;
                let made = Upstream {
                    address: application.address.clone(),
                    client: Some(client),
                    end: None,
                };
                self.upstreams.insert(upstream, made);
                let group = self.groups.entry(application.address.clone()).or_default();
                group.open += 1;
                Ok(Opened::Connected {
                    upstream,
                    was_kept: false,
                })
            }
            // As many as may wait to be accepted do so.
            Err(Errno::AGAIN) if matches!(application.address, Address::Unix(_)) => {
                let group = self.groups.entry(application.address.clone()).or_default();
                group.pause(now + APPLICATION_RETRY_TIME);
                self.queue(&application.address, waiting, has_waited)
            }
            Err(errno) => Err(Refusal::Failed(errno)),
        }
    }

    /// Has a client wait, behind those who do; one that has waited keeps its place before them.
    fn queue(
        &mut self,
        address: &Address,
        waiting: Waiting,
        has_waited: bool,
    ) -> Result<Opened, Refusal> {
        let group = self.groups.entry(address.clone()).or_default();
        if has_waited {
            group.waiting.push_front(waiting);
        } else if group.waiting.len() + group.ready.len() >= APPLICATION_WAITING_MAX {
            self.counters.refused += 1;
            return Err(Refusal::Busy);
        } else {
            self.counters.waited += 1;
            group.waiting.push_back(waiting);
        }
        self.queued.insert(waiting.client);
        Ok(Opened::Waits)
    }

    /// A connection that was kept, which is kept no longer.
    fn take_idle(&mut self, address: &Address) -> Option<ConnectionId> {
        self.groups.get_mut(address)?.idle.pop()
    }

    /// Nothing was said on a connection that nobody asked for, and it is open.
    fn is_silent(&self, upstream: ConnectionId) -> bool {
        let is_open = self.end_of(upstream).is_none() && self.readable(upstream).is_empty();
        let sockets = self.sockets.as_ref();
        is_open && sockets.is_some_and(|sockets| sockets.is_silent(upstream))
    }

    fn connect(&mut self, address: &Address) -> Result<ConnectionId, Errno> {
        self.is_touched = true;
        let sockets = match &mut self.sockets {
            Some(sockets) => sockets,
            none => {
                let mut sockets = Sockets::new(APPLICATION_READ_LEN)?;
                sockets.tell_of_taken();
                sockets.read_to_the_end();
                none.insert(sockets)
            }
        };
        match address {
            Address::Unix(path) => sockets.connect_unix(path, 0),
            Address::Tcp(to) => sockets.connect(to, 0).map_err(|shortage| match shortage {
                Shortage::Room(errno) | Shortage::Ports(errno) => errno,
            }),
        }
    }

    /// Bytes of a chunked body are to be kept; false when there is no room for them.
    pub fn collect(&mut self, len: usize) -> bool {
        let has_room = len <= COLLECTED_LEN_MAX - self.collected;
        self.collected += if has_room { len } else { 0 };
        has_room
    }

    /// So many are not kept any more.
    pub fn uncollect(&mut self, len: usize) {
        self.collected -= len;
    }

    // The connection of a client.

    /// Sends this.
    pub fn send(&mut self, upstream: ConnectionId, bytes: Vec<u8>) {
        self.is_touched = true;
        if let Some(sockets) = &mut self.sockets {
            sockets.send(upstream, Buffer::from(bytes).into());
        }
    }

    /// Bytes that the kernel has not taken.
    pub fn unsent(&self, upstream: ConnectionId) -> usize {
        self.sockets
            .as_ref()
            .map_or(0, |sockets| sockets.unsent(upstream))
    }

    /// What has come and was not taken.
    pub fn readable(&self, upstream: ConnectionId) -> &[u8] {
        self.sockets
            .as_ref()
            .map_or(&[], |sockets| sockets.readable(upstream))
    }

    /// Takes this many bytes of that.
    pub fn consume(&mut self, upstream: ConnectionId, count: usize) {
        self.is_touched = true;
        if let Some(sockets) = &mut self.sockets {
            sockets.consume(upstream, count);
        }
    }

    /// Why nothing more comes than what is there, if so.
    pub fn end_of(&self, upstream: ConnectionId) -> Option<Reason> {
        match self.upstreams.get(&upstream) {
            Some(upstream) => upstream.end,
            None => Some(Reason::Reset),
        }
    }

    /// A request is over and was answered whole, to the end of a record: its connection is kept, if there is room and the
    /// application leaves it open.
    pub fn release(&mut self, upstream: ConnectionId, application: &Application) {
        let is_clean = self.readable(upstream).is_empty() && self.unsent(upstream) == 0;
        let is_open = self.end_of(upstream).is_none();
        let group = self.groups.entry(application.address.clone()).or_default();
        if !(is_clean && is_open && group.idle.len() < application.keep) {
            return self.close(upstream);
        }
        group.idle.push(upstream);
        if let Some(upstream) = self.upstreams.get_mut(&upstream) {
            upstream.client = None;
        }
        self.wake(&application.address);
    }

    /// Nobody wants a connection any more. What was sent on it still goes, as far as the kernel takes it at once.
    pub fn close(&mut self, upstream: ConnectionId) {
        if let Some(address) = self.leave(upstream) {
            self.wake(&address);
        }
    }

    /// Closes a connection, and gives its application's address.
    fn leave(&mut self, upstream: ConnectionId) -> Option<Address> {
        self.is_touched = true;
        if let Some(sockets) = &mut self.sockets {
            sockets.leave(upstream);
        }
        let Upstream { address, .. } = self.upstreams.remove(&upstream)?;
        if let Some(group) = self.groups.get_mut(&address) {
            group.open -= 1;
            group.idle.retain(|idle| *idle != upstream);
        }
        Some(address)
    }

    /// Lets those ask an application for whom there is room.
    fn wake(&mut self, address: &Address) {
        if let Some(group) = self.groups.get_mut(address) {
            group.wake();
            self.is_touched |= !group.ready.is_empty();
        }
    }

    /// A client that waits is gone: its place is another's.
    pub fn forget(&mut self, client: ConnectionId, address: &Address) {
        if !self.queued.remove(&client) {
            return;
        }
        if let Some(group) = self.groups.get_mut(address) {
            group.ready.retain(|ready| ready.client != client);
            group.waiting.retain(|waiting| waiting.client != client);
        }
        self.wake(address);
    }

    /// Whether to tell that something is wrong with an application: once a second at most.
    pub fn may_tell(&mut self, address: &Address, now: Instant) -> bool {
        let group = self.groups.entry(address.clone()).or_default();
        group.may_tell(now)
    }

    /// Whether to tell a line of an application's: as many in a second as of one request.
    pub fn may_warn(&mut self, address: &Address, now: Instant) -> bool {
        let group = self.groups.entry(address.clone()).or_default();
        group.may_warn(now)
    }

    // The loop.

    /// Readable when there is news; nothing before the first connection.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.sockets.as_ref().map(Sockets::fd)
    }

    /// When there is something to do, whatever happens.
    pub fn poll_timeout(&self) -> Option<Instant> {
        match self.is_touched {
            true => Some(Instant::START),
            false => {
                let groups = self.groups.values();
                groups.filter_map(|group| group.full_until).min()
            }
        }
    }

    /// Hears what has happened: [`poll`](Applications::poll) tells of it. False when there is nothing.
    pub fn turn(&mut self, now: Instant) -> bool {
        let mut may_ask = false;
        for group in self.groups.values_mut() {
            group.full_until.take_if(|until| *until <= now);
            group.wake();
            may_ask |= !group.ready.is_empty();
        }
        if self.upstreams.is_empty() && !may_ask && !self.is_touched {
            return false;
        }
        self.is_touched = false;
        if let Some(sockets) = &mut self.sockets {
            // For no time: a kernel that refuses that has nothing to tell.
            let _ = sockets.wait(Some(Instant::START));
        }
        may_ask || self.sockets.is_some()
    }

    /// There may be more: the next turn is at once.
    pub fn look_again(&mut self) {
        self.is_touched = true;
    }

    /// The next client with news, or that may ask. What connections say comes first: that one that is kept has ended is known
    /// before it is given to anybody.
    pub fn poll(&mut self) -> Option<ConnectionId> {
        while let Some(event) = self.sockets.as_mut().and_then(Sockets::poll_event) {
            let (id, set) = (event.connection, event.set);
            let Some(upstream) = self.upstreams.get_mut(&id) else {
                continue;
            };
            if set.contains(EventSet::FINISHED) {
                upstream.end.get_or_insert(Reason::Done);
            }
            if set.contains(EventSet::CLOSED) {
                upstream.end = Some(event.reason);
            }
            match upstream.client {
                Some(client) => return Some(client),
                // Nothing is to come on one that is kept but its end.
                None if upstream.end.is_some() || set.contains(EventSet::READABLE) => {
                    self.close(id);
                }
                None => {}
            }
        }
        let mut groups = self.groups.values_mut();
        let named = groups.find_map(|group| group.ready.pop_front())?.client;
        // Whatever it does, there is another look at who may ask.
        self.is_touched = true;
        self.queued.remove(&named);
        Some(named)
    }

    /// What was done, by name.
    pub fn counters(&self) -> [(&'static str, u64); 4] {
        self.counters.list()
    }
}

#[cfg(test)]
#[path = "pool/tests.rs"]
mod tests;
