//! What one thread has of the answers that are kept: those that all threads were told of, what it is asking for itself, and what it wants
//! done about them.
//!
//! Requests for a key that is being asked for wait for that one, for a time. When it turns out that its answer is none to be kept, they all
//! go to the upstream, and so do those that come soon after.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

use exos_inet::Instant;

use super::counters::Counters;
use super::keeping::Errand;
use super::key::{is_of, key_of, push_values};
use super::record::{Answer, Record};
use super::refreshing::Refreshing;
use super::rules::CacheRules;
use super::ticket::{Demand, Ends, Ticket};
use crate::applications::pool::Collected;
use crate::applications::proxy::request::Sent;
use crate::limits::{
    ANSWER_WAIT_TIME, ERRANDS_LEN_MAX, ERRANDS_MAX, GATHERED_LEN_MAX, GATHERED_PEER_LEN_MAX,
    PASS_TIME, PASSES_MAX,
};
use crate::site::{Change, SitePath, Wanted};

/// The answers of a thread.
#[derive(Debug)]
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
    /// Bytes of content among the errands.
    errands_len: usize,
    /// Bytes of answers that are coming.
    gathered: Collected,
    /// The time, as it was heard last.
    now: Instant,
    ends: Ends,
    /// What the server asks for by itself.
    refreshing: Refreshing,
    /// What was done.
    pub counters: Counters,
}

impl Default for Answers {
    fn default() -> Answers {
        Answers {
            places: HashMap::new(),
            passes: VecDeque::new(),
            errands: VecDeque::new(),
            released: VecDeque::new(),
            forgotten: 0,
            generation: 0,
            errands_len: 0,
            gathered: Collected::within(GATHERED_LEN_MAX, GATHERED_PEER_LEN_MAX),
            now: Instant::START,
            ends: Ends::default(),
            refreshing: Refreshing::default(),
            counters: Counters::default(),
        }
    }
}

/// What there is of a key.
#[derive(Debug, Default)]
struct Place {
    answers: Vec<Rc<Answer>>,
    /// Requests that ask for it, whose answers may be kept.
    asking: usize,
    /// One is on its way to all threads, and is waited for until then.
    coming_until: Option<Instant>,
    /// Answers are not kept: nobody waits for one, until then.
    passed_until: Option<Instant>,
}

impl Place {
    fn is_empty(&self) -> bool {
        let is_idle = self.asking == 0 && self.coming_until.is_none();
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
    /// This answer is being asked for, or nearly surely: the server does so by itself, or its key is asked for and has no other.
    pub is_answer_asked_for: bool,
    /// Answers to it are not kept.
    pub is_passed: bool,
}

impl Answers {
    /// What there is for a request with these fields.
    pub fn find(
        &mut self,
        wanted: &Wanted,
        rules: &Arc<CacheRules>,
        sent: Sent<'_, '_>,
        now: Instant,
    ) -> Found {
        self.now = now;
        let Some(place) = self.places.get(wanted) else {
            return Found::default();
        };
        let mut values = Vec::new();
        let is_it = |answer: &&Rc<Answer>| {
            values.clear();
            let record = &answer.record;
            let is_key = push_values(&mut values, &record.names, sent);
            is_key && *values == *record.values && record.is_of(rules)
        };
        // The newest first (RFC 9111 §4.1).
        let answer = place.answers.iter().rev().find(is_it).cloned();
        let is_asked_for = place.asking > 0 || place.coming_until.is_some_and(|until| now < until);
        let is_refreshed = |it: &Rc<Answer>| {
            let name = &it.record.name;
            self.refreshing.has(wanted.0, name, now)
        };
        let is_alone = place.answers.len() == 1;
        Found {
            is_answer_asked_for: is_asked_for && is_alone
                || answer.as_ref().is_some_and(is_refreshed),
            answer,
            has_others: !place.answers.is_empty(),
            is_asked_for,
            is_passed: place.passed_until.is_some_and(|until| now < until),
        }
    }

    /// A client's request asks for a key from now on; `is_for_others` where its answer may be theirs too, so that they may wait for it.
    pub fn begin(&mut self, wanted: Wanted, peer: IpAddr, is_for_others: bool) -> Ticket {
        if is_for_others {
            self.places.entry(wanted.clone()).or_default().asking += 1;
        }
        Ticket {
            forgotten: self.forgotten,
            demand: Demand {
                wanted,
                generation: self.generation,
                is_for_others,
                peer,
                gathered: 0,
                is_told: false,
                refreshes: None,
            },
            ends: self.ends.clone(),
        }
    }

    /// The server itself asks for an answer of this name from now on, if it asks for no more than it may. As [`begin`](Self::begin).
    pub fn begin_refresh(&mut self, answer: &Answer, site: usize, peer: IpAddr) -> Option<Ticket> {
        let record = &answer.record;
        let of = (site, record.name.clone());
        if !self.refreshing.begin(of, self.now) {
            return None;
        }
        let mut ticket = self.begin((site, record.key.clone()), peer, true);
        ticket.refreshes = Some(record.name.clone());
        Some(ticket)
    }

    /// Hears which requests ask no more. Those who wait for one go on, unless its answer is on its way to them.
    fn hear_ends(&mut self) {
        let ends = std::mem::take(&mut *self.ends.borrow_mut());
        for end in ends {
            if end.generation != self.generation {
                continue;
            }
            self.gathered.remove(end.peer, end.gathered);
            if let Some(name) = end.refreshes {
                let of = (end.wanted.0, name);
                self.refreshing.end(of, end.is_told, self.now);
            }
            if !end.is_for_others {
                continue;
            }
            if let Some(place) = self.places.get_mut(&end.wanted) {
                place.asking = place.asking.saturating_sub(1);
                self.tidy(&end.wanted);
            }
            if !end.is_told {
                self.released.push_back(end.wanted);
            }
        }
    }

    /// The answer to a request is none that others can be given, for whatever reason: they do not wait for one like it, for a while.
    pub fn pass(&mut self, ticket: &Ticket, now: Instant) {
        self.now = now;
        if ticket.generation == self.generation && ticket.is_for_others {
            self.pass_key(&ticket.wanted);
        }
    }

    fn pass_key(&mut self, wanted: &Wanted) {
        let until = self.now + PASS_TIME;
        let place = self.places.entry(wanted.clone()).or_default();
        if place.passed_until.replace(until) != Some(until) {
            self.passes.push_back((until, wanted.clone()));
        }
        self.released.push_back(wanted.clone());
        while let Some((until, _)) = self.passes.front()
            && (*until <= self.now || self.passes.len() > PASSES_MAX)
        {
            let Some((until, wanted)) = self.passes.pop_front() else {
                break;
            };
            // It may have been passed again since.
            if let Some(place) = self.places.get_mut(&wanted)
                && place.passed_until == Some(until)
            {
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

    /// Has the thread that keeps account keep or renew what was asked for with a ticket. False where there is no room, or all was taken
    /// away since.
    pub fn send(&mut self, ticket: &mut Ticket, errand: Errand) -> bool {
        let len = errand.content_len();
        let has_room =
            self.errands.len() < ERRANDS_MAX && self.errands_len + len <= ERRANDS_LEN_MAX;
        if !has_room || ticket.generation != self.generation {
            return false;
        }
        let place = self.places.entry(ticket.wanted.clone()).or_default();
        place.coming_until = Some(self.now + ANSWER_WAIT_TIME);
        ticket.is_told = true;
        self.errands_len += len;
        self.errands.push_back(errand);
        true
    }

    /// How often all was taken away, for what is to be forgotten of now.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// What is kept of a ticket's key is old, as was found by the request that has it.
    pub fn forget_of(&mut self, ticket: &Ticket) {
        let (site, key) = ticket.wanted.clone();
        self.forget(site, key, ticket.generation);
    }

    /// What is kept of a key is old, as was found in this generation: nobody gets it from here, and soon from nowhere.
    pub fn forget(&mut self, site: usize, key: SitePath, generation: u64) {
        if generation != self.generation {
            return;
        }
        let wanted = (site, key);
        if let Some(place) = self.places.get_mut(&wanted) {
            place.answers.clear();
            self.tidy(&wanted);
        }
        let is_known = self.errands.iter().any(|errand| {
            matches!(errand, Errand::Forget { site, key } if (*site, key) == (wanted.0, &wanted.1))
        });
        if is_known {
            return;
        }
        let (site, key) = wanted;
        self.want_forgotten(Errand::Forget { site, key });
    }

    /// What is kept of a key is to be taken for old, or all whose keys begin with it.
    pub fn purge(&mut self, site: usize, key: SitePath, means_below: bool) {
        self.counters.purged += 1;
        for ((of, known), place) in &mut self.places {
            if *of == site && is_of(known, &key, means_below) {
                place.answers.clear();
            }
        }
        self.places.retain(|_, place| !place.is_empty());
        self.want_forgotten(Errand::Purge {
            site,
            key,
            means_below,
        });
    }

    fn want_forgotten(&mut self, errand: Errand) {
        if self.errands.len() >= 2 * ERRANDS_MAX {
            // The thread that has the account does nothing for now, and keys would pile up.
            self.errands.clear();
            self.errands_len = 0;
            self.errands.push_back(Errand::ForgetAll);
            return self.forget_here();
        }
        self.errands.push_back(errand);
    }

    /// Nothing that is kept is given out from here any more.
    fn forget_here(&mut self) {
        self.places.retain(|wanted, place| {
            place.answers.clear();
            // What was to come of it is not to be waited for.
            if place.coming_until.take().is_some() {
                self.released.push_back(wanted.clone());
            }
            !place.is_empty()
        });
    }

    /// Something that is kept has changed.
    pub fn apply(&mut self, site: usize, change: &Change) {
        match change {
            Change::Answer(record) => self.put(site, record),
            Change::AnswerLost(key) => {
                self.refreshing.forget(site, key);
                let wanted = (site, key.clone());
                if let Some(place) = self.places.get_mut(&wanted) {
                    place.coming_until = None;
                }
                // The next one would most likely be lost too.
                self.pass_key(&wanted);
            }
            Change::AnswerGone(name) => self.take_out(site, name),
            Change::Forgotten(key, count) => {
                self.forgotten = *count;
                if key.is_empty() {
                    return self.forget_here();
                }
                self.refreshing.forget(site, key);
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
        self.refreshing.hear(site, &record.name);
        let place = self.places.entry((site, record.key.clone())).or_default();
        place.coming_until = None;
        place
            .answers
            .retain(|known| known.record.name != record.name);
        place.answers.push(Rc::new(Answer::new(record.clone())));
    }

    fn take_out(&mut self, site: usize, name: &SitePath) {
        self.refreshing.hear(site, name);
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
        self.refreshing = Refreshing::default();
        self.errands_len = 0;
        self.gathered = Collected::within(GATHERED_LEN_MAX, GATHERED_PEER_LEN_MAX);
    }

    /// Bytes of an answer are to be gathered, those of a ticket. False where there is no room.
    pub fn gather(&mut self, ticket: &mut Ticket, len: usize) -> bool {
        let is_now = ticket.generation == self.generation;
        let has_room = is_now && self.gathered.add(ticket.peer, len);
        if has_room {
            ticket.gathered += len;
        }
        has_room
    }

    /// What was gathered of an answer is given back.
    pub fn ungather(&mut self, ticket: &mut Ticket) {
        let len = std::mem::take(&mut ticket.gathered);
        if ticket.generation == self.generation {
            self.gathered.remove(ticket.peer, len);
        }
    }

    /// The next thing to be done by the thread that keeps account.
    pub fn poll_errand(&mut self) -> Option<Errand> {
        let errand = self.errands.pop_front()?;
        self.errands_len -= errand.content_len();
        Some(errand)
    }

    /// The next key for which nobody has to wait any more.
    pub fn poll_released(&mut self) -> Option<Wanted> {
        self.hear_ends();
        self.released.pop_front()
    }

    /// What is given out of a key that has one answer, for tests.
    #[cfg(test)]
    pub(super) fn record(&self, key: &str) -> Option<Record> {
        let place = self.places.get(&(0, key.as_bytes().into()))?;
        place
            .answers
            .first()
            .map(|answer| Record::clone(&answer.record))
    }

    /// How many keys had been forgotten by what was heard, for tests.
    #[cfg(test)]
    pub(super) fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// The names of all that is given out, for tests.
    #[cfg(test)]
    pub(super) fn names(&self) -> Vec<(usize, SitePath)> {
        let all = self.places.iter();
        let names = all.flat_map(|(wanted, place)| {
            let answers = place.answers.iter();
            answers.map(|answer| (wanted.0, answer.record.name.clone()))
        });
        names.collect()
    }
}
