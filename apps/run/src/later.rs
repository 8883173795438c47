//! Sockets that are looked at again in a while: what comes of them is no event, for it has come, and we had no descriptor for it.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use crate::limits::LATER;

#[derive(Default)]
pub(crate) struct Later {
    /// When, and at which, by their tokens.
    due: RefCell<Option<(Instant, Vec<usize>)>>,
}

impl Later {
    /// Has a socket be looked at again.
    pub fn add(&self, token: usize) {
        let mut due = self.due.borrow_mut();
        let (_, tokens) = due.get_or_insert_with(|| (Instant::now() + LATER, Vec::new()));
        if !tokens.contains(&token) {
            tokens.push(token);
        }
    }

    /// How long to wait, where it would be this long.
    pub fn wait(&self, left: Option<Duration>) -> Option<Duration> {
        let due = self.due.borrow();
        let due = due
            .as_ref()
            .map(|(at, _)| at.saturating_duration_since(Instant::now()));
        left.into_iter().chain(due).min()
    }

    /// Those whose time has come.
    pub fn take(&self) -> Vec<usize> {
        let is_due = |(at, _): &mut (Instant, Vec<usize>)| *at <= Instant::now();
        let due = self.due.borrow_mut().take_if(is_due);
        due.map_or_else(Vec::new, |(_, tokens)| tokens)
    }
}
