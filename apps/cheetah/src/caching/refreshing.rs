//! Which answers a thread asks for by itself while clients are given them stale: each once, and some of them at a time.
//!
//! They are told apart by their names, for of a target with Vary there may be several, each with a time of its own. One that was
//! asked for in vain is left alone for a while.

use std::collections::HashMap;

use exos_inet::Instant;

use super::key::key_of;
use crate::limits::{ANSWER_WAIT_TIME, PASS_TIME, PASSES_MAX, REFRESHES_MAX};
use crate::site::SitePath;

/// What is being asked for, by site and name.
#[derive(Debug, Default)]
pub(super) struct Refreshing {
    all: HashMap<(usize, SitePath), State>,
    under_way: usize,
}

#[derive(Debug)]
enum State {
    /// It is asked for.
    UnderWay,
    /// Its answer is on its way to all threads, or there was none: it is not asked for again until then.
    Until(Instant),
}

impl Refreshing {
    /// One is asked for, or was a moment ago.
    pub(super) fn has(&self, site: usize, name: &SitePath, now: Instant) -> bool {
        match self.all.get(&(site, name.clone())) {
            Some(State::UnderWay) => true,
            Some(State::Until(until)) => now < *until,
            None => false,
        }
    }

    /// One is to be asked for. False where that is one too many.
    pub(super) fn begin(&mut self, of: (usize, SitePath), now: Instant) -> bool {
        let is_under_way = matches!(self.all.get(&of), Some(State::UnderWay));
        if is_under_way || self.under_way >= REFRESHES_MAX {
            return false;
        }
        if self.all.len() >= PASSES_MAX {
            let is_over = |it: &State| matches!(it, State::Until(until) if *until <= now);
            self.all.retain(|_, it| !is_over(it));
        }
        self.under_way += 1;
        self.all.insert(of, State::UnderWay);
        true
    }

    /// One is asked for no more; `is_told` where its answer is on its way to all threads.
    pub(super) fn end(&mut self, of: (usize, SitePath), is_told: bool, now: Instant) {
        self.under_way = self.under_way.saturating_sub(1);
        // What has come to all may be here before its request is over.
        let Some(state) = self.all.get_mut(&of) else {
            return;
        };
        let time = match is_told {
            true => ANSWER_WAIT_TIME,
            false => PASS_TIME,
        };
        *state = State::Until(now + time);
    }

    /// Another answer of this name has come to all threads, or none is left.
    pub(super) fn hear(&mut self, site: usize, name: &SitePath) {
        self.all.remove(&(site, name.clone()));
    }

    /// All with a key are to be asked for again when somebody wants them.
    pub(super) fn forget(&mut self, site: usize, key: &SitePath) {
        self.all
            .retain(|(of, name), _| *of != site || key_of(name) != *key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> (usize, SitePath) {
        (0, SitePath::from(text.as_bytes()))
    }

    #[test]
    fn each_is_asked_for_once_and_not_at_once_again() {
        let mut all = Refreshing::default();
        let now = Instant::START;
        let has = |all: &Refreshing, text: &str, now| all.has(0, &name(text).1, now);
        assert!(all.begin(name("a"), now) && !all.begin(name("a"), now));
        assert!(all.begin(name("b"), now), "another variant");
        assert!(has(&all, "a", now) && !has(&all, "c", now));
        // In vain: it rests for a while.
        all.end(name("a"), false, now);
        assert!(has(&all, "a", now) && !has(&all, "a", now + PASS_TIME));
        // Its answer comes to all.
        all.end(name("b"), true, now);
        assert!(has(&all, "b", now + PASS_TIME));
        all.hear(0, &name("b").1);
        assert!(!has(&all, "b", now) && all.begin(name("b"), now));
        // Before its request is over.
        all.hear(0, &name("b").1);
        all.end(name("b"), true, now);
        assert!(!has(&all, "b", now) && all.under_way == 0);
    }

    #[test]
    fn they_are_bounded() {
        let mut all = Refreshing::default();
        let now = Instant::START;
        for n in 0..REFRESHES_MAX {
            assert!(all.begin(name(&n.to_string()), now));
        }
        assert!(!all.begin(name("one more"), now));
        all.end(name("0"), false, now);
        assert!(all.begin(name("one more"), now));
    }
}
