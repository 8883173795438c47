//! The sessions of a loop, by their connections, and which of them are to be seen to.

use std::collections::VecDeque;
use std::sync::Arc;

use exos_inet::tcp::{ConnectionId, Event, EventSet, Reason};
use exos_tls::{Session, TlsError};

use super::acceptor::Acceptor;
use super::counters::Counters;
use super::link::{Link, Received};
use super::signing;
use crate::connections::{Abort, Transport};
use crate::limits::{HANDSHAKES_AT_ONCE, SIGNING_WEIGHT_AT_ONCE};

/// The sessions of a loop.
pub struct Sessions {
    acceptor: Arc<Acceptor>,
    /// By the slots of their connections.
    links: Vec<Option<Box<Link>>>,
    /// Those that were given something, each once.
    listed: Vec<ConnectionId>,
    /// Those whose received bytes are to be looked at again, as plaintext was consumed.
    resumed: VecDeque<ConnectionId>,
    /// Those whose handshakes wait for another turn.
    deferred: VecDeque<ConnectionId>,
    /// Handshakes that may still be gone on with in this turn.
    handshakes_left: usize,
    /// What signing in this turn may still take.
    signing_left: u32,
    news: VecDeque<Event>,
    counters: Counters,
}

impl Sessions {
    /// None yet; all of a server's loops share what accepts them.
    pub fn new(acceptor: Arc<Acceptor>) -> Sessions {
        Sessions {
            acceptor,
            links: Vec::new(),
            listed: Vec::new(),
            resumed: VecDeque::new(),
            deferred: VecDeque::new(),
            handshakes_left: HANDSHAKES_AT_ONCE,
            signing_left: SIGNING_WEIGHT_AT_ONCE,
            news: VecDeque::new(),
            counters: Counters::default(),
        }
    }

    /// Handshakes, and why they failed, by name.
    pub fn counters(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.counters.list()
    }

    /// When the first certificate ends, in seconds since 1970.
    pub fn expires(&self) -> Option<i64> {
        self.acceptor.expires()
    }

    /// Something is to be done at once.
    pub fn is_waiting(&self) -> bool {
        !self.deferred.is_empty() || !self.resumed.is_empty() || !self.news.is_empty()
    }

    /// Another turn begins.
    pub fn begin_turn(&mut self) {
        self.handshakes_left = HANDSHAKES_AT_ONCE;
        self.signing_left = SIGNING_WEIGHT_AT_ONCE;
    }

    /// There is time in this turn to go on with a handshake.
    fn has_time(&self) -> bool {
        self.handshakes_left > 0 && self.signing_left > 0
    }

    pub(super) fn find(&self, id: ConnectionId) -> Option<&Link> {
        let link = self.links.get(id.slot() as usize)?.as_deref();
        link.filter(|link| link.id() == id)
    }

    /// One of them, to be given something: it is seen to before the next event.
    pub(super) fn find_to_give(&mut self, id: ConnectionId) -> Option<&mut Link> {
        let link = self.links.get_mut(id.slot() as usize)?.as_deref_mut();
        let link = link.filter(|link| link.id() == id)?;
        if !std::mem::replace(&mut link.is_listed, true) {
            self.listed.push(id);
        }
        Some(link)
    }

    fn find_mut(&mut self, id: ConnectionId) -> Option<&mut Link> {
        let link = self.links.get_mut(id.slot() as usize)?.as_deref_mut();
        link.filter(|link| link.id() == id)
    }

    pub(super) fn remove(&mut self, id: ConnectionId) {
        let Some(link) = self.find(id) else {
            return;
        };
        let is_left = link.session().is_handshaking();
        let is_early = link.session().about().early == Some(true);
        self.counters.left += u64::from(is_left);
        self.counters.early_left += u64::from(is_left && is_early);
        self.links[id.slot() as usize] = None;
    }

    /// Plaintext is consumed: there may be room for more.
    pub(super) fn consume(&mut self, id: ConnectionId, count: usize, transport: &impl Transport) {
        let Some(link) = self.find_mut(id) else {
            return;
        };
        link.consume(count);
        if count > 0 && !transport.readable(id).is_empty() {
            self.resumed.push_back(id);
        }
    }

    // Events.

    /// An event that does not come from the transport: of what was consumed or put off.
    pub(super) fn poll_own(&mut self, transport: &mut impl Transport) -> Option<Event> {
        loop {
            if let Some(event) = self.news.pop_front() {
                return Some(event);
            }
            let id = match self.resumed.pop_front() {
                Some(id) => id,
                None if self.has_time() => self.deferred.pop_front()?,
                None => return None,
            };
            let Some(link) = self.find_mut(id) else {
                continue;
            };
            link.is_deferred = false;
            let set = self.receive(id, transport);
            let set = set.with(self.take_end(id, transport));
            if !set.is_empty() {
                return Some(event_of(id, set));
            }
        }
    }

    /// What an event of the transport means for who knows nothing of TLS; nothing where it means nothing.
    pub(super) fn translate(
        &mut self,
        event: Event,
        transport: &mut impl Transport,
    ) -> Option<Event> {
        let (id, set) = (event.connection, event.set);
        if set.contains(EventSet::ACCEPTED) {
            self.accept(id, transport);
        }
        if self.find(id).is_none() {
            return Some(event);
        }
        if set.contains(EventSet::ACCEPTED) && !set.contains(EventSet::CLOSED) {
            return Some(self.tell_accepted(event));
        }
        if set.contains(EventSet::CLOSED) {
            self.remove(id);
            return Some(event);
        }
        let mut told = match set.contains(EventSet::ACKNOWLEDGED) {
            true => EventSet::ACKNOWLEDGED,
            false => EventSet::NONE,
        };
        if set.contains(EventSet::FINISHED)
            && let Some(link) = self.find_mut(id)
        {
            link.owes_end = true;
        }
        if set.contains(EventSet::READABLE) {
            told = told.with(self.receive(id, transport));
        }
        told = told.with(self.take_end(id, transport));
        if set.contains(EventSet::ACKNOWLEDGED) {
            // There may be room for more records.
            self.find_to_give(id);
        }
        (!told.is_empty()).then_some(Event { set: told, ..event })
    }

    /// That a connection came, by itself: what came with it is looked at when it was not refused, for that takes a signature.
    fn tell_accepted(&mut self, event: Event) -> Event {
        let (id, set) = (event.connection, event.set);
        if let Some(link) = self.find_mut(id) {
            link.owes_end = set.contains(EventSet::FINISHED);
        }
        self.resumed.push_back(id);
        Event {
            set: EventSet::ACCEPTED,
            ..event
        }
    }

    /// A connection that came to a port of TLS gets a session.
    fn accept(&mut self, id: ConnectionId, transport: &mut impl Transport) {
        let ours = transport.ends(id).map(|(ours, _)| ours);
        if ours.is_none_or(|ours| ours.port() != self.acceptor.port()) {
            return;
        }
        match Session::server(self.acceptor.config()) {
            Ok(session) => {
                let slot = id.slot() as usize;
                if slot >= self.links.len() {
                    self.links.resize_with(slot + 1, || None);
                }
                self.links[slot] = Some(Box::new(Link::new(id, session)));
            }
            Err(error) => {
                self.counters.count_failure(&error);
                transport.abort(id, Abort::Failed);
            }
        }
    }

    /// Takes in what was received; gives what that means.
    fn receive(&mut self, id: ConnectionId, transport: &mut impl Transport) -> EventSet {
        let Some(link) = self.find_mut(id) else {
            return EventSet::NONE;
        };
        if link.session().is_handshaking() && !self.may_go_on(id) {
            return EventSet::NONE;
        }
        let Some(link) = self.find_mut(id) else {
            return EventSet::NONE;
        };
        let received = link.receive(transport);
        self.signing_left = self.signing_left.saturating_sub(signing::take_spent());
        if received.is_established {
            self.count_handshake(id);
            // Its end may have waited for that.
            self.find_to_give(id);
        }
        self.told(received)
    }

    fn take_end(&mut self, id: ConnectionId, transport: &impl Transport) -> EventSet {
        if !self.find_mut(id).is_some_and(|it| it.take_end(transport)) {
            return EventSet::NONE;
        }
        // Ours may have waited for that.
        self.find_to_give(id);
        EventSet::FINISHED
    }

    fn told(&mut self, received: Received) -> EventSet {
        let mut set = EventSet::NONE;
        if received.is_readable {
            set = set.with(EventSet::READABLE);
        }
        if received.is_finished || received.failed.is_some() {
            set = set.with(EventSet::FINISHED);
        }
        if let Some(error) = received.failed {
            self.counters.count_failure(&error);
        }
        set
    }

    /// Whether a handshake may be gone on with in this turn; else it waits for another.
    fn may_go_on(&mut self, id: ConnectionId) -> bool {
        if self.has_time() {
            self.handshakes_left -= 1;
            return true;
        }
        if let Some(link) = self.find_mut(id)
            && !std::mem::replace(&mut link.is_deferred, true)
        {
            let is_first = !std::mem::replace(&mut link.was_deferred, true);
            self.deferred.push_back(id);
            self.counters.deferred += u64::from(is_first);
        }
        false
    }

    fn count_handshake(&mut self, id: ConnectionId) {
        let Some(about) = self.find(id).map(|link| link.session().about()) else {
            return;
        };
        let (is_resumed, is_12) = (about.is_resumed, about.version_name() == "TLSv1.2");
        let early = about.early;
        let counters = &mut self.counters;
        match early {
            Some(true) => counters.early_taken += 1,
            Some(false) => counters.early_refused += 1,
            None => {}
        }
        match is_resumed {
            true => counters.resumed += 1,
            false => counters.full += 1,
        }
        counters.version_12 += u64::from(is_12);
    }

    // What leaves.

    /// Encrypts what was given to sessions, as far as their connections have room.
    pub(super) fn flush(&mut self, transport: &mut impl Transport) {
        while let Some(id) = self.listed.pop() {
            let Some(link) = self.find_mut(id) else {
                continue;
            };
            link.is_listed = false;
            if let Err(error) = link.flush(transport) {
                self.end(id, &error);
            }
        }
    }

    /// A session that cannot be sent by any more.
    fn end(&mut self, id: ConnectionId, error: &TlsError) {
        self.counters.count_failure(error);
        self.news.push_back(event_of(id, EventSet::FINISHED));
    }
}

fn event_of(connection: ConnectionId, set: EventSet) -> Event {
    Event {
        connection,
        token: 0,
        set,
        reason: Reason::Done,
    }
}
