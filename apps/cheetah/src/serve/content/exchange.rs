//! A core's part of a reload: new tables are filled beside the old ones, exchanged, and the old ones taken apart.
//!
//! Buffers belong to the thread that serves them, so each core makes its own tables, of the same bytes. It does so in
//! slices between turns, of no more than [`SLICE_TIME`] and a few documents.

use std::time::Instant;

use super::sites::{Filling, Fresh};
use crate::http::Server;
use crate::limits::{CHANGES_AT_ONCE, SLICE_TIME};
use crate::site::Entry;

/// The exchange that is under way, if one is.
#[derive(Default)]
pub struct Exchange {
    state: State,
    /// What comes after it.
    next: Option<Fresh>,
}

/// What a turn has brought to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The new sites are served.
    Exchanged,
    /// Nothing is left of the old ones, but what responses under way hold.
    Emptied,
}

#[derive(Default)]
enum State {
    #[default]
    Idle,
    Filling(Box<Filling>),
    Emptying(Box<dyn Iterator<Item = Entry>>),
}

impl Exchange {
    /// Serve this soon, instead of what is served, and of what was to be served before it.
    pub fn begin(&mut self, fresh: Fresh) {
        self.next = Some(fresh);
    }

    /// True when the next turn has something to do.
    pub fn is_busy(&self) -> bool {
        !matches!(self.state, State::Idle) || self.next.is_some()
    }

    /// Does what there is to do between two turns, a comparison when there is nothing.
    #[inline]
    pub fn turn(&mut self, server: &mut Server) -> Option<Step> {
        if self.is_busy() {
            self.work(server)
        } else {
            None
        }
    }

    fn work(&mut self, server: &mut Server) -> Option<Step> {
        match std::mem::take(&mut self.state) {
            State::Idle => {
                let filling = self.next.take().map(|fresh| Box::new(Filling::new(fresh)));
                self.state = filling.map_or(State::Idle, State::Filling);
                None
            }
            State::Filling(filling) => self.fill(filling, server),
            State::Emptying(mut rest) => {
                if in_a_slice(|| rest.by_ref().take(CHANGES_AT_ONCE).count() < CHANGES_AT_ONCE) {
                    return Some(Step::Emptied);
                }
                self.state = State::Emptying(rest);
                None
            }
        }
    }

    fn fill(&mut self, mut filling: Box<Filling>, server: &mut Server) -> Option<Step> {
        if !in_a_slice(|| filling.step(CHANGES_AT_ONCE)) {
            self.state = State::Filling(filling);
            return None;
        }
        let old = server.set_sites(filling.finish());
        self.state = State::Emptying(Box::new(old.take_apart()));
        Some(Step::Exchanged)
    }
}

/// Repeats a step until it says that it was the last one, or a slice of time is over; true after the last.
fn in_a_slice(mut step: impl FnMut() -> bool) -> bool {
    let begun = Instant::now();
    while !step() {
        if begun.elapsed() >= SLICE_TIME {
            return false;
        }
    }
    true
}
