//! What one thread has of the answers that are kept: those that all threads were told of, what it is asking for itself, and what it wants
//! done about them.
//!
//! Requests for a key that is being asked for wait for that one, for a time. When it turns out that its answer is none to be kept, they all
//! go to the upstream, and so do those that come soon after.

use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

use exos_inet::Instant;
use httparse::Header;

use super::counters::Counters;
use super::keeping::Errand;
use super::key::{key_of, push_values};
use super::record::{Answer, Record};
use super::rules::CacheRules;
use crate::limits::{ERRANDS_MAX, GATHERED_LEN_MAX, PASS_TIME, PASSES_MAX};
use crate::site::{Change, SitePath, Wanted};

/// The answers of a thread.
#[derive(Debug, Default)]
pub struct Answers {
    places: HashMap<Wanted, Place>,
    /// Keys that are passed, the oldest first.
    passes: VecDeque<(Instant, Wanted)>,
    errands: VecDeque<Errand>,
    /// Keys for which nobody has to wait any more.
    released: VecDeque<Wanted>,
    /// How many keys had been forgotten when this was heard last.
    forgotten: u64,
    /// How often all was taken away.
    generation: u64,
    /// Bytes of answers that are coming.
    gathered: usize,
    /// What was done.
    pub counters: Counters,
}

/// What there is of a key.
#[derive(Debug, Default)]
struct Place {
    answers: Vec<Rc<Answer>>,
    /// Requests that ask for it, whose answers may be kept.
    asking: usize,
    /// One is on its way to all threads.
    is_coming: bool,
    /// Answers are not kept: nobody waits for one, until then.
    passed_until: Option<Instant>,
}

impl Place {
    fn is_empty(&self) -> bool {
        let is_idle = self.asking == 0 && !self.is_coming;
        is_idle && self.answers.is_empty() && self.passed_until.is_none()
    }
}

/// What there is for a request.
#[derive(Debug, Default)]
pub struct Found {
    /// The answer to a request like it.
    pub answer: Option<Rc<Answer>>,
    /// There are answers to requests with other fields.
    pub has_others: bool,
    /// Its key is being asked for.
    pub is_asked_for: bool,
    /// Answers to it are not kept.
    pub is_passed: bool,
}

/// That a request asks for a key.
#[derive(Debug)]
pub struct Ticket {
    /// Of which site, and for what.
    pub wanted: Wanted,
    generation: u64,
    /// How many keys had been forgotten by then.
    pub forgotten: u64,
}

impl Answers {
    /// What there is for a request with these fields.
    pub fn find(
        &self,
        wanted: &Wanted,
        rules: &Arc<CacheRules>,
        fields: &[Header<'_>],
        now: Instant,
    ) -> Found {
        let Some(place) = self.places.get(wanted) else {
            return Found::default();
        };
        let mut values = Vec::new();
        let is_it = |answer: &&Rc<Answer>| {
            values.clear();
            let record = &answer.record;
            let is_key = push_values(&mut values, &record.names, fields);
            is_key && *values == *record.values && record.is_of(rules)
        };
        // The newest first (RFC 9111 §4.1).
        let answer = place.answers.iter().rev().find(is_it).cloned();
        Found {
            answer,
            has_others: !place.answers.is_empty(),
            is_asked_for: place.asking > 0 || place.is_coming,
            is_passed: place.passed_until.is_some_and(|until| now < until),
        }
    }

    /// A request asks for a key from now on.
    pub fn begin(&mut self, wanted: Wanted) -> Ticket {
        self.places.entry(wanted.clone()).or_default().asking += 1;
        Ticket {
            wanted,
            generation: self.generation,
            forgotten: self.forgotten,
        }
    }

    /// It does so no more. Those who wait for that go on, unless its answer is on its way to them.
    pub fn end(&mut self, ticket: &Ticket, is_coming: bool) {
        if ticket.generation != self.generation {
            return;
        }
        if let Some(place) = self.places.get_mut(&ticket.wanted) {
            place.asking = place.asking.saturating_sub(1);
            place.is_coming |= is_coming;
            self.tidy(&ticket.wanted);
        }
        if !is_coming {
            self.released.push_back(ticket.wanted.clone());
        }
    }

    /// The answer to a request is none that is kept: others do not wait for one like it, for a while.
    pub fn pass(&mut self, ticket: &Ticket, now: Instant) {
        if ticket.generation != self.generation {
            return;
        }
        let until = now + PASS_TIME;
        let place = self.places.entry(ticket.wanted.clone()).or_default();
        if place.passed_until.replace(until).is_none() {
            self.passes.push_back((until, ticket.wanted.clone()));
        }
        self.released.push_back(ticket.wanted.clone());
        let is_over = |until: Instant| until <= now;
        while let Some((until, _)) = self.passes.front()
            && (is_over(*until) || self.passes.len() > PASSES_MAX)
        {
            let Some((_, wanted)) = self.passes.pop_front() else {
                break;
            };
            if let Some(place) = self.places.get_mut(&wanted) {
                place.passed_until = None;
                self.tidy(&wanted);
            }
        }
    }

    fn tidy(&mut self, wanted: &Wanted) {
        if self.places.get(wanted).is_some_and(Place::is_empty) {
            self.places.remove(wanted);
        }
    }

    /// Has something done about what was asked for with a ticket. False where there is no room, or all was taken away since.
    pub fn send(&mut self, ticket: &Ticket, errand: Errand) -> bool {
        let has_room = self.errands.len() < ERRANDS_MAX;
        let is_sent = has_room && ticket.generation == self.generation;
        if is_sent {
            self.errands.push_back(errand);
        }
        is_sent
    }

    /// What is kept of a key is old: nobody gets it from here, and soon from nowhere.
    pub fn forget(&mut self, site: usize, key: SitePath) {
        let wanted = (site, key);
        if let Some(place) = self.places.get_mut(&wanted) {
            place.answers.clear();
            self.tidy(&wanted);
        }
        let is_known = self.errands.iter().any(|errand| {
            matches!(errand, Errand::Forget { site, key } if (*site, key) == (wanted.0, &wanted.1))
        });
        if !is_known {
            let (site, key) = wanted;
            self.errands.push_back(Errand::Forget { site, key });
        }
    }

    /// Something that is kept has changed.
    pub fn apply(&mut self, site: usize, change: &Change) {
        match change {
            Change::Answer(record) => self.put(site, record),
            Change::AnswerLost(key) => {
                let wanted = (site, key.clone());
                if let Some(place) = self.places.get_mut(&wanted) {
                    place.is_coming = false;
                    self.tidy(&wanted);
                }
            }
            Change::AnswerGone(name) => self.take_out(site, name),
            Change::Forgotten(key, count) => {
                self.forgotten = *count;
                let wanted = (site, key.clone());
                if let Some(place) = self.places.get_mut(&wanted) {
                    place.answers.clear();
                    self.tidy(&wanted);
                }
            }
            _ => {}
        }
    }

    fn put(&mut self, site: usize, record: &Arc<Record>) {
        let place = self.places.entry((site, record.key.clone())).or_default();
        (place.passed_until, place.is_coming) = (None, false);
        place
            .answers
            .retain(|known| known.record.name != record.name);
        place.answers.push(Rc::new(Answer::new(record.clone())));
    }

    fn take_out(&mut self, site: usize, name: &SitePath) {
        let wanted = (site, key_of(name));
        if let Some(place) = self.places.get_mut(&wanted) {
            place.answers.retain(|known| known.record.name != *name);
            self.tidy(&wanted);
        }
    }

    /// Everything is served again: nothing that was kept is of that.
    pub fn clear(&mut self) {
        self.places.clear();
        self.passes.clear();
        self.errands.clear();
        self.forgotten = 0;
        self.generation += 1;
        self.gathered = 0;
    }

    /// Bytes of an answer are to be gathered, those of a ticket. False where there is no room.
    pub fn gather(&mut self, ticket: &Ticket, len: usize) -> bool {
        let has_room =
            ticket.generation == self.generation && self.gathered + len <= GATHERED_LEN_MAX;
        if has_room {
            self.gathered += len;
        }
        has_room
    }

    /// So many are not gathered any more.
    pub fn ungather(&mut self, ticket: &Ticket, len: usize) {
        if ticket.generation == self.generation {
            self.gathered = self.gathered.saturating_sub(len);
        }
    }

    /// The next thing to be done by the thread that keeps account.
    pub fn poll_errand(&mut self) -> Option<Errand> {
        self.errands.pop_front()
    }

    /// The next key for which nobody has to wait any more.
    pub fn poll_released(&mut self) -> Option<Wanted> {
        self.released.pop_front()
    }
}
