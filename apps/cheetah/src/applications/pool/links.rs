//! Links to applications that share their buffers: one to each, which carries all requests of a loop.
//!
//! A link that has failed, or whose application stops, stays until its last request was left, for what comes of it. An application
//! that failed, or stopped, without an answer is not connected to at once, but after a rest that doubles each time; and there is no third link while two
//! are stopping.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use exos_application::asking::{Link, Part};
use exos_inet::tcp::{ConnectionId, Reason};
use exos_inet::{Duration, Instant};
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;

use super::group::{Left, Waiting};
use super::groups::GroupId;
use crate::applications::application::{Address, SocketPath};
use crate::limits::{
    APPLICATION_RETRY_TIME, LINK_REST_TIME, LINK_REST_TIME_MAX, STOPPING_LINKS_MAX,
};
use crate::site::hash::PathHasher;
use crate::site::rules::access::peer::Peer;

/// Links that are heard to have rung in one look; of more the next tells.
const EVENTS_MAX: usize = 64;

/// A request, among all of a loop's links.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RequestId {
    link: u64,
    number: u32,
}

/// Who asks: a client, and whom that is counted as.
#[derive(Clone, Copy, Debug)]
struct Asker {
    client: ConnectionId,
    peer: Option<Peer>,
}

/// A link, and to which application.
#[derive(Debug)]
struct Linked {
    id: u64,
    link: Link<Asker>,
    path: SocketPath,
    group: GroupId,
    /// It carries no new requests, and that was seen to.
    is_ending: bool,
    /// Its failure was told.
    is_failed: bool,
    /// No rule names its application any more.
    is_left: bool,
    /// How long it may take nothing: as long as the last request may wait.
    timeout: Duration,
    /// How much it had taken when it began to take nothing, and since when.
    stuck: Option<(u64, Instant)>,
}

impl Linked {
    /// It has not failed, and its application does not stop.
    fn takes_requests(&self) -> bool {
        self.link.failure().is_none() && !self.link.is_stopping()
    }

    /// Gives it up where it takes nothing.
    fn see_whether_it_takes(&mut self, now: Instant) {
        let written = self.link.written();
        self.stuck = match self.stuck {
            _ if self.link.unsent_len() == 0 => None,
            Some((before, since)) if before == written => Some((before, since)),
            _ => Some((written, now)),
        };
        if self
            .stuck
            .is_some_and(|(_, since)| now >= since + self.timeout)
        {
            self.link.give_up();
        }
    }

    /// When to look at it, whatever happens.
    fn until(&self, now: Instant) -> Option<Instant> {
        let retry = self.link.is_short().then_some(now + APPLICATION_RETRY_TIME);
        let given_up = self.stuck.map(|(_, since)| since + self.timeout);
        retry.into_iter().chain(given_up).min()
    }
}

/// All links of a loop.
#[derive(Debug, Default)]
pub(super) struct Links {
    epoll: Option<OwnedFd>,
    /// There are few: one for each application, and some that end.
    all: Vec<Linked>,
    next: u64,
    /// Of applications that failed without an answer: how long they rest, and until when.
    rests: HashMap<SocketPath, (Duration, Instant), BuildHasherDefault<PathHasher>>,
    /// Something was asked or taken since all was sent, or there is more to hear.
    is_touched: bool,
    /// When to look at links that are held up.
    until: Option<Instant>,
    /// Where to look for news next.
    order: Vec<u64>,
    /// Those whose descriptors are readable.
    rung: Vec<u64>,
    /// What applications did against the rules, to be told.
    faults: Vec<(Address, String)>,
}

impl Links {
    /// Reserves a number for a client's request to an application of this group, on a link that stands or is made.
    pub(super) fn begin(
        &mut self,
        path: &SocketPath,
        group: GroupId,
        asks: &Waiting,
        timeout: Duration,
        now: Instant,
    ) -> Result<(RequestId, bool), Errno> {
        let asker = Asker {
            client: asks.client,
            peer: asks.peer,
        };
        // One that has failed, or stops, is no place for a request, also before that is seen to.
        let is_current = |it: &Linked| it.group == group && it.takes_requests();
        let known = self.all.iter().position(is_current);
        let at = match known {
            Some(at) => at,
            None => {
                let rests = self.rests.get(path).is_some_and(|(_, until)| now < *until);
                if rests || self.stopping(path) >= STOPPING_LINKS_MAX {
                    return Err(Errno::AGAIN);
                }
                self.connect(path, group)?
            }
        };
        let linked = &mut self.all[at];
        linked.timeout = timeout;
        let number = linked.link.reserve(asker).ok_or(Errno::AGAIN)?;
        self.is_touched = true;
        let link = linked.id;
        Ok((RequestId { link, number }, known.is_none()))
    }

    fn get(&self, id: u64) -> Option<&Linked> {
        self.all.iter().find(|linked| linked.id == id)
    }

    /// Links to an application that stops, and has requests to answer still.
    fn stopping(&self, path: &SocketPath) -> usize {
        let is_stopping = |it: &&Linked| it.link.is_stopping() && it.link.failure().is_none();
        let links = self.all.iter().filter(is_stopping);
        links.filter(|linked| linked.path == *path).count()
    }

    /// Makes a link: where it is.
    fn connect(&mut self, path: &SocketPath, group: GroupId) -> Result<usize, Errno> {
        let link = Link::connect(path)?;
        let epoll = match &mut self.epoll {
            Some(epoll) => epoll,
            none => none.insert(epoll::create(epoll::CreateFlags::CLOEXEC)?),
        };
        let id = self.next;
        let data = epoll::EventData::new_u64(id);
        epoll::add(&*epoll, link.as_fd(), data, epoll::EventFlags::IN)?;
        self.next += 1;
        self.all.push(Linked {
            id,
            link,
            path: path.clone(),
            group,
            is_ending: false,
            is_failed: false,
            is_left: false,
            timeout: Duration::ZERO,
            stuck: None,
        });
        Ok(self.all.len() - 1)
    }

    /// Until when an application rests that has failed.
    pub(super) fn rests_until(&self, address: &Address) -> Option<Instant> {
        match address {
            Address::Shared(path) => self.rests.get(path).map(|(_, until)| *until),
            Address::Fastcgi(_) | Address::Http(_) | Address::Https(..) => None,
        }
    }

    // A request.

    pub(super) fn ask(&mut self, request: RequestId, variables: &[u8], has_body: bool) {
        if let Some(link) = self.touch(request) {
            link.ask(request.number, variables, has_body);
        }
    }

    pub(super) fn send_body(&mut self, request: RequestId, bytes: &[u8], is_last: bool) {
        if let Some(link) = self.touch(request) {
            link.send_body(request.number, bytes, is_last);
        }
    }

    pub(super) fn body_room(&self, request: RequestId) -> usize {
        let linked = self.get(request.link);
        linked.map_or(0, |linked| linked.link.body_room(request.number))
    }

    pub(super) fn take(&mut self, request: RequestId) -> Option<Part> {
        self.touch(request)?.take(request.number)
    }

    /// Why nothing more comes than what is there, if so.
    pub(super) fn end_of(&self, request: RequestId) -> Option<Reason> {
        match self.get(request.link) {
            Some(Linked { link, .. }) => {
                let is_over = link.failure().is_some() || link.is_broken(request.number);
                is_over.then_some(Reason::Reset)
            }
            None => Some(Reason::Reset),
        }
    }

    /// Nobody wants its answer, or it was taken whole; gives what it had of its group.
    pub(super) fn leave(&mut self, request: RequestId) -> Option<Left> {
        self.is_touched = true;
        let at = self.all.iter().position(|it| it.id == request.link)?;
        let linked = &mut self.all[at];
        let asker = linked.link.leave(request.number)?;
        let left = Left {
            group: linked.group,
            peer: asker.peer,
            is_tunnel: false,
        };
        if linked.link.requests() == 0 && (linked.is_left || !linked.takes_requests()) {
            self.all.remove(at);
        }
        Some(left)
    }

    fn touch(&mut self, request: RequestId) -> Option<&mut Link<Asker>> {
        self.is_touched = true;
        let linked = self.all.iter_mut().find(|it| it.id == request.link)?;
        Some(&mut linked.link)
    }

    /// Links to other applications are given up, where somebody is asking when the last has been answered.
    pub(super) fn keep_only(&mut self, is_kept: impl Fn(&Address) -> bool) {
        self.all.retain_mut(|linked| {
            linked.is_left = !is_kept(&Address::Shared(linked.path.clone()));
            !linked.is_left || linked.link.requests() > 0
        });
        self.rests
            .retain(|path, _| is_kept(&Address::Shared(path.clone())));
    }

    // The loop.

    /// Readable when there is something to hear; nothing before the first link.
    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.epoll.as_ref().map(|epoll| epoll.as_fd())
    }

    /// Whether there is something to do at once.
    pub(super) fn is_pressing(&self) -> bool {
        self.is_touched
    }

    /// When to look, whatever happens.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.until
    }

    /// Hears what has come, which [`Links::poll`] tells then.
    pub(super) fn look(&mut self, now: Instant) {
        self.is_touched = false;
        let Some(epoll) = self.epoll.as_ref().filter(|_| !self.all.is_empty()) else {
            return;
        };
        let mut events = [const { MaybeUninit::uninit() }; EVENTS_MAX];
        // For no time.
        let ready = epoll::wait(epoll, &mut events, Some(&Timespec::default()));
        let ready = ready.as_ref().map_or(&[][..], |(ready, _)| ready);
        self.rung.clear();
        self.rung.extend(ready.iter().map(|event| event.data.u64()));
        for linked in &mut self.all {
            linked.link.look(self.rung.contains(&linked.id));
            linked.see_whether_it_takes(now);
        }
        self.see_to_ends(now);
        self.until = self.all.iter().filter_map(|it| it.until(now)).min();
        self.order.clear();
        self.order.extend(self.all.iter().map(|linked| linked.id));
    }

    /// What applications did against the rules, for which their links ended.
    pub(super) fn take_faults(&mut self) -> Vec<(Address, String)> {
        std::mem::take(&mut self.faults)
    }

    /// The next client with news.
    pub(super) fn poll(&mut self) -> Option<ConnectionId> {
        while let Some(id) = self.order.last() {
            let linked = self.all.iter_mut().find(|linked| linked.id == *id);
            if let Some(asker) = linked.and_then(|linked| linked.link.poll()) {
                return Some(asker.client);
            }
            self.order.pop();
        }
        None
    }

    /// Sends what there is to be sent.
    pub(super) fn flush(&mut self) {
        let mut has_more = false;
        for linked in self.all.iter_mut().filter(|linked| !linked.is_failed) {
            has_more |= linked.link.flush();
            // It is seen to in the next turn.
            has_more |= linked.link.failure().is_some();
        }
        self.is_touched = has_more;
    }

    /// Links that have failed, or whose application stops, carry no new requests; those that carry none are no more.
    fn see_to_ends(&mut self, now: Instant) {
        let rests = &mut self.rests;
        for linked in &mut self.all {
            if !linked.is_ending && !linked.takes_requests() {
                linked.is_ending = true;
                if linked.link.answered() == 0 {
                    let before = rests.get(&linked.path).map(|(time, _)| *time);
                    let time =
                        before.map_or(LINK_REST_TIME, |time| (time * 2).min(LINK_REST_TIME_MAX));
                    rests.insert(linked.path.clone(), (time, now + time));
                } else {
                    rests.remove(&linked.path);
                }
            }
            let Some(failure) = linked.link.failure().filter(|_| !linked.is_failed) else {
                continue;
            };
            if !matches!(failure, exos_iolite::Error::PeerGone) {
                let address = Address::Shared(linked.path.clone());
                self.faults.push((address, failure.to_string()));
            }
            if let Some(epoll) = &self.epoll {
                let _ = epoll::delete(epoll, linked.link.as_fd());
            }
            linked.is_failed = true;
        }
        self.all
            .retain(|linked| linked.takes_requests() || linked.link.requests() > 0);
    }
}

#[cfg(test)]
#[path = "links/tests.rs"]
mod tests;
