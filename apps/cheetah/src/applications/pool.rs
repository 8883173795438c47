//! Connections to applications, over the kernel's sockets, requests over links of shared buffers, and those that wait for either.
//!
//! A connection carries one request at a time, a link any number; to those who wait a request under way on a link is as a connection. Of each application a loop has a bounded number; requests beyond wait in
//! order, a bounded number of them too. Of both each address has its share at most: while it uses that, those behind it come first. A
//! client waits in one place at most, and asks again when [`Applications::poll`] has
//! named it, not before: what else happens to it changes nothing. As many are named as there is room for, which is looked at
//! after each change and in each turn, so whatever becomes of a client that was named, those behind it follow. Where an
//! application's own queue is full, all wait for a moment. What is not needed any more is closed, or kept open for the next request where
//! that is configured: an application like PHP has a process for each open connection, whether it is asked or not.
//!
//! All of this wakes the loop by descriptors. In each turn [`Applications::turn`], then [`Applications::poll`] until there is none: whose
//! news it is. What has come is there to be read until the next call. Behind all that was asked in a turn `poll` again until there is none, and
//! [`Applications::flush`]: what was sent has left then.

mod carriers;
mod checks;
mod choice;
mod collected;
mod concurrency;
mod counters;
mod group;
mod groups;
mod keeping;
mod links;
mod permits;
mod refreshes;
mod session;
mod shares;
mod upstreams;

use std::collections::{HashMap, HashSet};
use std::hash::BuildHasherDefault;
use std::net::IpAddr;
use std::os::fd::BorrowedFd;

use exos_inet::tcp::ConnectionId;
use exos_inet::{Duration, Instant};
use rustix::io::Errno;

use super::application::{Address, Application};
use crate::limits::APPLICATION_RETRY_TIME;
use crate::site::hash::PathHasher;
pub use carriers::{Carriers, Upstream};
use checks::{Checks, Turned};
pub(crate) use collected::Collected;
use counters::Counters;
use group::{Group, Waiting};
use groups::{GroupId, Groups};
pub use links::RequestId;
pub use permits::AllPermits;
use refreshes::Refreshes;
pub use refreshes::{RefreshId, Refreshed};
use shares::counted;
use upstreams::News;

/// Where a client is to have a connection to.
#[derive(Clone, Copy, Debug)]
pub struct To<'a> {
    /// The application that is asked.
    pub application: &'a Application,
    /// Where it is asked.
    pub address: &'a Address,
    /// One that was kept will do, if it was used within this time: what cannot be asked again is not asked over one that the
    /// application may be about to close.
    pub kept_within: Option<Duration>,
    /// It may be asked once more where the connection ends without an answer.
    pub may_be_repeated: bool,
}

/// What became of a request for a connection.
#[derive(Debug)]
pub enum Opened {
    /// It is there, or comes to stand; or it was kept open.
    Connected {
        /// It.
        upstream: Upstream,
        /// Others were answered over it before, and the application may have closed it meanwhile.
        was_kept: bool,
        /// What is to be said on it.
        words: Vec<u8>,
    },
    /// There is none yet: the client is named when it may ask again.
    Waits,
}

/// Why there is no connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Too many wait already.
    Busy,
    /// What is asked cannot be said to it: nothing was sent.
    Unsaid,
    /// The kernel says so.
    Failed(Errno),
}

/// How many connections to each application are kept.
type Keeps = HashMap<Address, usize, BuildHasherDefault<PathHasher>>;

/// The connections of a loop to all applications.
#[derive(Default)]
pub struct Applications {
    carriers: Carriers,
    groups: Groups,
    /// Clients that wait, whether they may ask or not.
    queued: HashSet<ConnectionId, BuildHasherDefault<PathHasher>>,
    /// Chunked bodies that are not whole.
    collected: Collected,
    /// How many connections to each application the rules keep, since they were other rules for the first time.
    keeps: Option<Keeps>,
    /// Who is asked whether it is well.
    checks: Checks,
    /// Requests for which no client waits.
    refreshes: Refreshes,
    /// The time of this turn.
    now: Instant,
    /// All that has happened until this turn was heard; not known between turns.
    has_heard_all: bool,
    /// How often one of several addresses was chosen.
    chosen: usize,
    counters: Counters,
}

impl Applications {
    /// Other loops ask the same applications, which have as many requests at once from all of them as these permits say.
    pub fn share(&mut self, permits: AllPermits) {
        self.groups.permits = permits;
    }

    /// Gives a client at an address a connection, or has it wait; `has_waited` when it was told to wait. One that waits and was not named
    /// still does. What is to be said on the connection, if it can be said, is made when there is room for one, and before there is one: on
    /// a connection that stands nothing but a head is to come first.
    ///
    /// # Errors
    ///
    /// There is none to be had.
    pub fn open(
        &mut self,
        to: To<'_>,
        client: ConnectionId,
        ip: IpAddr,
        has_waited: bool,
        now: Instant,
        words: impl FnOnce() -> Option<Vec<u8>>,
    ) -> Result<Opened, Refusal> {
        // An empty table makes a hash of what it has not, too.
        if !self.queued.is_empty() && self.queued.contains(&client) {
            return Ok(Opened::Waits);
        }
        let asks = Waiting {
            client,
            peer: counted(ip),
            connections: to.application.connections,
        };
        let group = self.groups.of(to.address);
        let opened = self.open_now(to, group, asks, has_waited, now, words);
        // What it was named for and has not used is another's.
        self.wake(group);
        opened
    }

    fn open_now(
        &mut self,
        to: To<'_>,
        id: GroupId,
        asks: Waiting,
        has_waited: bool,
        now: Instant,
        words: impl FnOnce() -> Option<Vec<u8>>,
    ) -> Result<Opened, Refusal> {
        let address = to.address;
        let group = self.groups.get_mut(id).ok_or(Refusal::Busy)?;
        if !has_waited {
            // Those who wait come first.
            group.wake(now);
        }
        if group.full_until.is_some() || !group.has_room_for(&asks) {
            return self.queue(to, id, asks, has_waited);
        }
        let words = words().ok_or(Refusal::Unsaid)?;
        if let Some(upstream) = self.take_kept(&to, id, &asks, now) {
            self.counters.of(address).kept += 1;
            return Ok(Opened::Connected {
                upstream,
                was_kept: true,
                words,
            });
        }
        let connected = (self.carriers).connect(to.application, address, id, &asks, now);
        let group = self.groups.get_mut(id).ok_or(Refusal::Busy)?;
        match connected {
            Ok((upstream, is_new)) => {
                self.counters.of(address).opened += u64::from(is_new);
                group.open += 1;
                group.shares.begin(asks.peer);
                // A link may have ended before what is asked is read, as a connection that was kept.
                let was_kept = to.kept_within.is_some() && !is_new;
                Ok(Opened::Connected {
                    upstream,
                    was_kept,
                    words,
                })
            }
            // As many as may wait to be accepted do so; or this host has no descriptor, port or memory left, and no upstream is to
            // blame for that.
            Err(Errno::AGAIN | Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => {
                let until = self.carriers.links.rests_until(address);
                let until = until.filter(|until| *until > now);
                group.pause(until.unwrap_or(now + APPLICATION_RETRY_TIME));
                self.queue(to, id, asks, has_waited)
            }
            Err(errno) => Err(Refusal::Failed(errno)),
        }
    }

    /// What there is of one application.
    fn group(&mut self, address: &Address) -> &mut Group {
        let id = self.groups.of(address);
        self.groups
            .get_mut(id)
            .expect("it is in the table of addresses")
    }

    /// Has a client wait, behind those who do; one that has waited keeps its place before them.
    fn queue(
        &mut self,
        to: To<'_>,
        id: GroupId,
        waiting: Waiting,
        has_waited: bool,
    ) -> Result<Opened, Refusal> {
        let group = self.groups.get_mut(id).ok_or(Refusal::Busy)?;
        let counters = self.counters.of(to.address);
        if has_waited {
            group.waiting.push_front(waiting);
        } else if !group.has_place_for(&waiting) {
            counters.refused += 1;
            return Err(Refusal::Busy);
        } else {
            counters.waited += 1;
            group.waiting.push_back(waiting);
        }
        self.queued.insert(waiting.client);
        Ok(Opened::Waits)
    }

    /// Bytes of a client's chunked body are to be kept; false when there is no room for them.
    pub fn collect(&mut self, ip: IpAddr, len: usize) -> bool {
        self.collected.add(ip, len)
    }

    /// So many are not kept any more.
    pub fn uncollect(&mut self, ip: IpAddr, len: usize) {
        self.collected.remove(ip, len);
    }

    /// What carries requests, for one of which there is a client.
    pub fn carriers(&mut self) -> &mut Carriers {
        &mut self.carriers
    }

    /// How much of a request's body is taken now.
    pub fn body_room(&self, upstream: Upstream) -> usize {
        self.carriers.body_room(upstream)
    }

    /// Whether what carries a request came to stand.
    pub fn has_stood(&self, upstream: Upstream) -> bool {
        self.carriers.has_stood(upstream)
    }

    /// Nobody wants a connection any more, or an answer on a link. What was sent on a connection still goes, as far as the kernel takes it at
    /// once.
    pub fn close(&mut self, upstream: Upstream) {
        if let Some(group) = self.leave(upstream) {
            self.wake(group);
        }
    }

    /// Closes a connection, or leaves a request, and gives what there is of its application.
    fn leave(&mut self, upstream: Upstream) -> Option<GroupId> {
        let left = self.carriers.leave(upstream)?;
        let group = self.groups.get_mut(left.group)?;
        group.end(&left, upstream.connection(), self.now);
        Some(left.group)
    }

    /// A connection that carries a client's request changes to another protocol: it makes room for requests.
    pub fn begin_tunnel(&mut self, upstream: Upstream, address: &Address, ip: IpAddr) {
        let Some(connection) = upstream.connection() else {
            return;
        };
        let id = self.groups.of(address);
        let group = self.groups.get_mut(id);
        if group.is_some_and(|group| group.begin_tunnel(counted(ip))) {
            self.carriers.upstreams.begin_tunnel(connection);
        }
        self.wake(id);
    }

    /// Lets those ask an application for whom there is room.
    fn wake(&mut self, id: GroupId) {
        if let Some(group) = self.groups.get_mut(id) {
            group.wake(self.now);
            if !group.ready.is_empty() {
                self.carriers.upstreams.touch();
            }
        }
    }

    /// A client that waits is gone: its place is another's.
    pub fn forget(&mut self, client: ConnectionId, address: &Address) {
        if !self.queued.remove(&client) {
            return;
        }
        let Some(id) = self.groups.find(address) else {
            return;
        };
        if let Some(group) = self.groups.get_mut(id) {
            group.ready.retain(|ready| ready.client != client);
            group.waiting.retain(|waiting| waiting.client != client);
        }
        self.wake(id);
    }

    /// Whether to tell that something is wrong with an application: once a second at most.
    pub fn may_tell(&mut self, address: &Address, now: Instant) -> bool {
        self.group(address).may_tell(now)
    }

    /// Whether to tell a line of an application's: as many in a second as of one request.
    pub fn may_warn(&mut self, address: &Address, now: Instant) -> bool {
        self.group(address).may_warn(now)
    }

    // The loop.

    /// Readable when there is news, each of them; none before the first connection, or link.
    pub fn fds(&self) -> [Option<BorrowedFd<'_>>; 2] {
        [self.carriers.upstreams.fd(), self.carriers.links.fd()]
    }

    /// When there is something to do, whatever happens.
    pub fn poll_timeout(&self) -> Option<Instant> {
        match self.carriers.is_pressing() {
            true => Some(Instant::START),
            false => {
                let groups = self.groups.iter();
                let untils = groups
                    .flat_map(|(_, group)| group.untils())
                    .chain(self.checks.poll_timeout())
                    .chain(self.refreshes.poll_timeout());
                untils.chain(self.carriers.links.poll_timeout()).min()
            }
        }
    }

    /// Hears what has happened: [`poll`](Applications::poll) tells of it.
    pub fn turn(&mut self, now: Instant) {
        self.now = now;
        self.end_idle(now);
        let turned = self.checks.turn(&mut self.carriers.upstreams, now);
        turned.iter().for_each(tell_of);
        self.refreshes.turn(&mut self.carriers.upstreams, now);
        for group in self.groups.iter_mut() {
            group.turn(now);
        }
        self.has_heard_all = self.carriers.upstreams.look();
        self.carriers.links.look(now);
        for (address, what) in self.carriers.links.take_faults() {
            if self.may_tell(&address, now) {
                exos_program::warn!("exos serve: {address}: its link ends: {what}");
            }
        }
    }

    /// An application of this host has a request, and may want the core of this loop for it.
    pub fn is_asked_here(&self) -> bool {
        let mut groups = self.groups.iter();
        groups.any(|(address, group)| address.is_here() && group.carrying() > 0)
    }

    /// The next client with news, or that may ask. What connections say comes first: that one that is kept has ended is known
    /// before it is given to anybody.
    pub fn poll(&mut self) -> Option<ConnectionId> {
        while let Some(news) = self.carriers.upstreams.poll() {
            match news {
                News::Of(client) => return Some(client),
                News::Check(connection) => {
                    let upstreams = &mut self.carriers.upstreams;
                    if self.refreshes.hear(connection, upstreams) {
                        continue;
                    }
                    let turned = self.checks.hear(connection, upstreams, self.now);
                    turned.iter().for_each(tell_of);
                }
                News::Useless(kept) => self.close(kept),
            }
        }
        if let Some(client) = self.carriers.links.poll() {
            return Some(client);
        }
        let (mut groups, now) = (self.groups.iter_mut(), self.now);
        let next: Option<Waiting> = groups.find_map(|group| {
            // One that was named before may not have come.
            group.wake(now);
            group.ready.pop_front()
        });
        let named = next?.client;
        self.queued.remove(&named);
        Some(named)
    }

    /// Sends what was asked and said on links: behind the last of a turn.
    pub fn flush(&mut self) {
        self.has_heard_all = false;
        self.carriers.links.flush();
    }

    /// What was done, by name.
    pub fn counters(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let checks = [
            ("proxy_checks", self.checks.asked),
            ("proxy_check_failures", self.checks.failed),
        ];
        self.counters.list().chain(checks)
    }

    /// Connections that have changed to another protocol and stand.
    pub fn open_tunnels(&self) -> usize {
        self.groups
            .iter()
            .map(|(_, group)| group.open_tunnels())
            .sum()
    }

    /// Upstreams that are out because they have failed checks.
    pub fn upstreams_out(&self) -> usize {
        self.checks.out()
    }
}

/// Tells the operator that an upstream is in or out.
fn tell_of(turned: &Turned) {
    let address = &turned.address;
    match turned.is_out {
        true => exos_program::warn!("exos serve: {address} fails its checks, and is out"),
        false => exos_program::info!("exos serve: {address} passes its checks, and is in again"),
    }
}

#[cfg(test)]
mod tests;
