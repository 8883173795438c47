//! Connections to applications, over the kernel's sockets, and requests that wait for one.
//!
//! A connection carries one request at a time. Of each application a loop has a bounded number; requests beyond wait in
//! order, a bounded number of them too. What is not needed any more is closed, or kept open for the next request where
//! that is configured: an application like PHP has a process for each open connection, whether it is asked or not.
//!
//! All of this wakes the loop by one descriptor. In each turn [`Applications::turn`], then [`Applications::poll`] until
//! there is none: whose news it is. What has come is there to be read until the next call.

use std::collections::{HashMap, VecDeque};
use std::os::fd::BorrowedFd;

use exos_buf::Buffer;
use exos_inet::tcp::{ConnectionId, EventSet, Reason};
use exos_inet::{Duration, Instant};
use exos_program::sockets::{Shortage, Sockets};
use rustix::io::Errno;

use super::application::{Address, Application};
use crate::limits::{
    APPLICATION_READ_LEN, APPLICATION_RETRY_TIME, APPLICATION_WAITING_MAX, COLLECTED_LEN_MAX,
};

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
    /// There is none yet: whoever asks hears of it, and asks again.
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

/// Those to one application.
#[derive(Debug, Default)]
struct Group {
    open: usize,
    idle: Vec<ConnectionId>,
    waiting: VecDeque<ConnectionId>,
    /// When it was last told that something is wrong with it.
    told_at: Option<Instant>,
}

/// What was asked of applications.
#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    opened: u64,
    kept: u64,
    waited: u64,
    refused: u64,
}

/// The connections of a loop to all applications.
#[derive(Default)]
pub struct Applications {
    sockets: Option<Sockets>,
    upstreams: HashMap<ConnectionId, Upstream>,
    groups: HashMap<Address, Group>,
    /// Who may ask again.
    ready: VecDeque<ConnectionId>,
    /// Who may ask again then, because the application's queue was full.
    later: Vec<ConnectionId>,
    later_at: Option<Instant>,
    /// Bytes of chunked bodies that are not whole.
    collected: usize,
    /// Something was asked of the sockets since the last turn.
    is_touched: bool,
    counters: Counters,
}

impl Applications {
    /// Gives a client a connection, or has it wait. `may_be_kept` where what is asked can be asked again if the application has
    /// closed a connection that was kept; `has_waited` when it was told that it may ask again.
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
        let group = self.groups.entry(application.address.clone()).or_default();
        if !has_waited && !group.waiting.is_empty() {
            return self.queue(application, client);
        }
        if let Some(upstream) = group.idle.pop() {
            if may_be_kept {
                self.counters.kept += 1;
                let kept = self.upstreams.get_mut(&upstream);
                kept.into_iter().for_each(|kept| kept.client = Some(client));
                return Ok(Opened::Connected {
                    upstream,
                    was_kept: true,
                });
            }
            self.close(upstream);
        }
        let group = self.groups.entry(application.address.clone()).or_default();
        if group.open >= application.connections {
            return self.queue(application, client);
        }
        match self.connect(&application.address) {
            Ok(upstream) => {
                self.counters.opened += 1;
                let (address, client) = (application.address.clone(), Some(client));
                self.upstreams.insert(
                    upstream,
                    Upstream {
                        address,
                        client,
                        end: None,
                    },
                );
                self.groups
                    .entry(application.address.clone())
                    .or_default()
                    .open += 1;
                Ok(Opened::Connected {
                    upstream,
                    was_kept: false,
                })
            }
            // As many as may wait to be accepted do so.
            Err(Errno::AGAIN) if matches!(application.address, Address::Unix(_)) => {
                self.later.push(client);
                self.later_at.get_or_insert(now + APPLICATION_RETRY_TIME);
                Ok(Opened::Waits)
            }
            Err(errno) => Err(Refusal::Failed(errno)),
        }
    }

    fn queue(
        &mut self,
        application: &Application,
        client: ConnectionId,
    ) -> Result<Opened, Refusal> {
        let group = self.groups.entry(application.address.clone()).or_default();
        if group.waiting.len() >= APPLICATION_WAITING_MAX {
            self.counters.refused += 1;
            return Err(Refusal::Busy);
        }
        self.counters.waited += 1;
        group.waiting.push_back(client);
        Ok(Opened::Waits)
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

    /// A request is over and was answered whole: its connection is kept, if there is room and the application leaves it open.
    pub fn release(&mut self, upstream: ConnectionId, application: &Application) {
        let is_clean = self.readable(upstream).is_empty() && self.unsent(upstream) == 0;
        let is_open = self.end_of(upstream).is_none();
        let group = self.groups.entry(application.address.clone()).or_default();
        if !(is_clean && is_open && group.idle.len() < application.keep) {
            return self.close(upstream);
        }
        group.idle.push(upstream);
        self.wake_next(&application.address);
        if let Some(upstream) = self.upstreams.get_mut(&upstream) {
            upstream.client = None;
        }
    }

    /// Nobody wants a connection any more. What was sent on it still goes, as far as the kernel takes it at once.
    pub fn close(&mut self, upstream: ConnectionId) {
        self.is_touched = true;
        if let Some(sockets) = &mut self.sockets {
            sockets.leave(upstream);
        }
        self.forget_upstream(upstream);
    }

    fn forget_upstream(&mut self, upstream: ConnectionId) {
        let Some(Upstream { address, .. }) = self.upstreams.remove(&upstream) else {
            return;
        };
        if let Some(group) = self.groups.get_mut(&address) {
            group.open -= 1;
            group.idle.retain(|idle| *idle != upstream);
        }
        self.wake_next(&address);
    }

    /// There is room for one more.
    fn wake_next(&mut self, address: &Address) {
        if let Some(client) = self
            .groups
            .get_mut(address)
            .and_then(|group| group.waiting.pop_front())
        {
            self.is_touched = true;
            self.ready.push_back(client);
        }
    }

    /// A client that waits is gone: its place is another's.
    pub fn forget(&mut self, client: ConnectionId, address: &Address) {
        let before = self.ready.len();
        self.ready.retain(|ready| *ready != client);
        self.later.retain(|later| *later != client);
        match self.ready.len() < before {
            true => self.wake_next(address),
            false => {
                if let Some(group) = self.groups.get_mut(address) {
                    group.waiting.retain(|waiting| *waiting != client);
                }
            }
        }
    }

    /// Whether to tell that something is wrong with an application: once a second at most.
    pub fn may_tell(&mut self, address: &Address, now: Instant) -> bool {
        let group = self.groups.entry(address.clone()).or_default();
        let is_new = group
            .told_at
            .is_none_or(|at| now >= at + Duration::from_secs(1));
        if is_new {
            group.told_at = Some(now);
        }
        is_new
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
            false => self.later_at,
        }
    }

    /// Hears what has happened: [`poll`](Applications::poll) tells of it. False when there is nothing.
    pub fn turn(&mut self, now: Instant) -> bool {
        if self.later_at.is_some_and(|at| at <= now) {
            self.later_at = None;
            self.ready.extend(self.later.drain(..));
        }
        let is_idle = self.upstreams.is_empty() && self.ready.is_empty() && !self.is_touched;
        let Some(sockets) = self.sockets.as_mut().filter(|_| !is_idle) else {
            return false;
        };
        self.is_touched = false;
        // For no time: a kernel that refuses that has nothing to tell.
        let _ = sockets.wait(Some(Instant::START));
        true
    }

    /// There may be more: the next turn is at once.
    pub fn look_again(&mut self) {
        self.is_touched = true;
    }

    /// The next client with news.
    pub fn poll(&mut self) -> Option<ConnectionId> {
        if let Some(client) = self.ready.pop_front() {
            return Some(client);
        }
        loop {
            let event = self.sockets.as_mut()?.poll_event()?;
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
    }

    /// What was done, by name.
    pub fn counters(&self) -> [(&'static str, u64); 4] {
        let Counters {
            opened,
            kept,
            waited,
            refused,
        } = self.counters;
        [
            ("fastcgi_connections", opened),
            ("fastcgi_connections_reused", kept),
            ("fastcgi_waits", waited),
            ("fastcgi_refused_busy", refused),
        ]
    }
}

#[cfg(test)]
#[path = "pool/tests.rs"]
mod tests;
