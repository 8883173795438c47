//! Sockets that are looked at again in a while: what comes of them is no event, for it has come, and we had no descriptor for it; or a call
//! that waits for one has waited long enough.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use crate::limits::LATER;

#[derive(Default)]
pub(crate) struct Later {
    /// When, and at which, by its token; each once.
    due: RefCell<Vec<(Instant, usize)>>,
}

impl Later {
    /// Has a socket be looked at again.
    pub fn add(&self, token: usize) {
        self.add_at(token, Instant::now() + LATER);
    }

    /// Has a socket be looked at again at this time, or before.
    pub fn add_at(&self, token: usize, at: Instant) {
        let mut due = self.due.borrow_mut();
        match due.iter_mut().find(|(_, of)| *of == token) {
            Some((known, _)) => *known = at.min(*known),
            None => due.push((at, token)),
        }
    }

    /// How long to wait, where it would be this long.
    pub fn wait(&self, left: Option<Duration>) -> Option<Duration> {
        let next = self.due.borrow().iter().map(|(at, _)| *at).min();
        let next = next.map(|at| at.saturating_duration_since(Instant::now()));
        left.into_iter().chain(next).min()
    }

    /// Those whose time has come.
    pub fn take(&self) -> Vec<usize> {
        let mut due = self.due.borrow_mut();
        if due.is_empty() {
            return Vec::new();
        }
        let now = Instant::now();
        let those = due.extract_if(.., |(at, _)| *at <= now);
        those.map(|(_, token)| token).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_looked_at_once_when_its_time_has_come() {
        let later = Later::default();
        let now = Instant::now();
        let hour = Duration::from_secs(3600);
        assert!(later.take().is_empty() && later.wait(None).is_none());
        later.add_at(1, now + hour);
        later.add_at(2, now + 2 * hour);
        later.add_at(1, now + 3 * hour);
        assert!(later.take().is_empty());
        assert!(later.wait(None).is_some_and(|left| left <= hour));
        assert_eq!(later.wait(Some(LATER)), Some(LATER));
        later.add_at(2, now);
        assert_eq!(later.wait(Some(LATER)), Some(Duration::ZERO));
        assert_eq!(later.take(), [2]);
        assert!(later.take().is_empty());
        later.add(3);
        assert!(later.wait(None).is_some_and(|left| left <= LATER));
    }
}
