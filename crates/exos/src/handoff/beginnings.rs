//! Connections that a core asks the others about, to begin them if none has them.
//!
//! A client says its first words again, by another queue, or in fragments, which come to every core: copies may come to several cores before
//! any of them has begun the connection. Each would hear that no other has it. So of cores that ask at the same time the first, by its
//! number, begins it. A question goes from each core to the next, the first behind the last, until it is back:
//!
//! ```text
//! a later core's question comes to a core that asks:    it waits there, and is taken in behind that core's own
//! an earlier core's question comes to a core that asks: it goes on, and what has waited goes behind it
//! ```
//!
//! What a core hands to the next stays in order. So where an earlier core's question meets a core that asks, that core's own has yet to pass the
//! earlier one, and waits there, or finds the connection. A core that asks goes on asking about copies that come to it: they are behind the first.
//!
//! A question may be lost where a core has no room for it: then the core that asked gives up after [`GIVEN_UP`], and the client says it again.

use std::collections::HashMap;

use exos_inet::tcp::Flow;
use exos_inet::{Duration, Instant};

/// Connections that a core asks about at once, and copies of other cores' that wait for one.
const BEGINNINGS_MAX: usize = 256;
const COPIES_MAX: usize = 4;
/// How long an answer may take: a turn of each core.
const GIVEN_UP: Duration = Duration::from_secs(1);

/// Of one core. Copies are of a type of the caller's.
pub(super) struct Beginnings<C> {
    core: usize,
    cores: usize,
    asked: HashMap<Flow, Beginning<C>>,
}

struct Beginning<C> {
    since: Instant,
    copies: Vec<C>,
}

impl<C> Beginnings<C> {
    pub(super) fn of_core(core: usize, cores: usize) -> Self {
        let asked = HashMap::new();
        Self { core, cores, asked }
    }

    /// Whether this core is asking about a connection.
    pub(super) fn is_asked(&self, flow: &Flow) -> bool {
        self.asked.contains_key(flow)
    }

    /// This core asks about a connection from now on, or once more. False where there is no room.
    pub(super) fn begin(&mut self, now: Instant, flow: Flow) -> bool {
        if self.asked.len() == BEGINNINGS_MAX && !self.is_asked(&flow) {
            return false;
        }
        let (since, copies) = (now, Vec::new());
        let new = Beginning { since, copies };
        self.asked.entry(flow).or_insert(new).since = now;
        true
    }

    /// Has a copy wait. False where there is no room.
    pub(super) fn keep(&mut self, flow: &Flow, copy: C) -> bool {
        let beginning = self.asked.get_mut(flow);
        let room = beginning.filter(|beginning| beginning.copies.len() < COPIES_MAX);
        room.map(|beginning| beginning.copies.push(copy)).is_some()
    }

    /// Whether a question that has as many cores to ask after this one came from a core before this one.
    pub(super) fn is_of_an_earlier_core(&self, left: usize) -> bool {
        (self.core + left) % self.cores < self.core
    }

    /// The question is over: what has waited.
    pub(super) fn end(&mut self, flow: &Flow) -> Vec<C> {
        let beginning = self.asked.remove(flow);
        beginning.map_or_else(Vec::new, |beginning| beginning.copies)
    }

    /// Gives up what was not answered in time: how many copies are lost.
    pub(super) fn give_up(&mut self, now: Instant) -> u64 {
        let given_up = self
            .asked
            .extract_if(|_, beginning| now - beginning.since >= GIVEN_UP);
        given_up.map(|(_, one)| one.copies.len() as u64).sum()
    }
}
