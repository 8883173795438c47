//! Registrations of sockets with a [`Poll`](super::Poll), and which of them have become ready.

use std::collections::VecDeque;

use slab::Slab;

use super::table::Readiness;

/// The program's own number for a registration.
#[derive(Copy, Clone, Debug, Eq, PartialEq, Hash, PartialOrd, Ord)]
pub struct Token(pub usize);

/// What a registration waits for.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub struct Interest(pub(super) Readiness);

impl Interest {
    /// Something to read or to accept, or the end.
    pub const READABLE: Self = Self(Readiness {
        reading: true,
        writing: false,
    });
    /// That, or room to write, the handshake of a connection being opened, or its end.
    pub const BOTH: Self = Self(Readiness {
        reading: true,
        writing: true,
    });
}

/// How often a registration that is ready is told.
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq)]
pub enum Trigger {
    /// With each wait, for as long as it is.
    #[default]
    Level,
    /// When something new has come.
    Edge,
    /// Once, until it is registered again ([`Poll::reregister`](super::Poll::reregister)).
    OneShot,
}

/// A registration that is ready.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub struct PollEvent {
    /// The registration's number.
    pub token: Token,
    /// A call that reads or accepts returns at once.
    pub readable: bool,
    /// A call that writes returns at once.
    pub writable: bool,
}

/// A socket of a [`Net`](super::Net) that can be registered.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub struct Source(pub(super) SourceKey);

#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(super) enum SourceKey {
    Connection(usize),
    Listener(usize),
    Datagrams(usize),
}

/// One registration.
#[derive(Debug)]
struct Watch {
    poll: usize,
    source: Source,
    token: Token,
    interest: Readiness,
    trigger: Trigger,
    /// What has become ready since it was last told.
    news: Readiness,
    queued: bool,
}

/// All registrations, and those that have become ready, by set.
#[derive(Debug, Default)]
pub(super) struct Watches {
    all: Slab<Watch>,
    ready: Slab<VecDeque<usize>>,
}

impl Watches {
    /// There is news of the socket of this registration.
    pub fn tell(&mut self, key: usize, news: Readiness) {
        let watch = &mut self.all[key];
        let news = news.and(watch.interest);
        watch.news.reading |= news.reading;
        watch.news.writing |= news.writing;
        if !news.is_none() && !watch.queued {
            watch.queued = true;
            self.ready[watch.poll].push_back(key);
        }
    }

    /// Forgets a registration.
    pub fn remove(&mut self, key: usize) {
        let watch = self.all.remove(key);
        if watch.queued {
            self.ready[watch.poll].retain(|&other| other != key);
        }
    }

    /// Makes room for a set's registrations. Returns its number.
    pub fn open(&mut self) -> usize {
        self.ready.insert(VecDeque::new())
    }

    /// Forgets a set and its registrations. Returns the sockets that were registered.
    pub fn close(&mut self, poll: usize) -> Vec<Source> {
        self.ready.remove(poll);
        let mut closed = Vec::new();
        self.all.retain(|_, watch| {
            let stays = watch.poll != poll;
            if !stays {
                closed.push(watch.source);
            }
            stays
        });
        closed
    }

    /// Registers a socket. Returns the registration's number.
    pub fn add(
        &mut self,
        poll: usize,
        source: Source,
        (token, interest, trigger): (Token, Interest, Trigger),
    ) -> usize {
        self.all.insert(Watch {
            poll,
            source,
            token,
            interest: interest.0,
            trigger,
            news: Readiness::default(),
            queued: false,
        })
    }

    /// Whether there is something to tell a set; what is not to be told any more leaves the queue.
    pub fn has_ready(&mut self, poll: usize, readiness: impl Fn(Source) -> Readiness) -> bool {
        while let Some(&key) = self.ready[poll].front() {
            let watch = &mut self.all[key];
            if !watch.due(&readiness).is_none() {
                return true;
            }
            watch.queued = false;
            self.ready[poll].pop_front();
        }
        false
    }

    /// Tells a set what is ready.
    pub fn take_ready(
        &mut self,
        poll: usize,
        readiness: impl Fn(Source) -> Readiness,
        events: &mut Vec<PollEvent>,
    ) {
        for _ in 0..self.ready[poll].len() {
            let Some(key) = self.ready[poll].pop_front() else {
                break;
            };
            let watch = &mut self.all[key];
            let due = watch.due(&readiness);
            watch.news = Readiness::default();
            watch.queued = watch.trigger == Trigger::Level && !due.is_none();
            if due.is_none() {
                continue;
            }
            events.push(PollEvent {
                token: watch.token,
                readable: due.reading,
                writable: due.writing,
            });
            if watch.trigger == Trigger::OneShot {
                watch.interest = Readiness::default();
            }
            if watch.queued {
                self.ready[poll].push_back(key);
            }
        }
    }
}

impl Watch {
    /// What of it is to be told, of what its socket is ready for.
    fn due(&self, readiness: impl Fn(Source) -> Readiness) -> Readiness {
        let ready = readiness(self.source).and(self.interest);
        match self.trigger {
            Trigger::Level | Trigger::OneShot => ready,
            Trigger::Edge => ready.and(self.news),
        }
    }
}
