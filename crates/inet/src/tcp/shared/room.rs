//! How many connections there may be at once.
//!
//! A stack has its own limit, or one that it has together with others ([`SharedRoom`]): then it has as much room as it has connections,
//! takes more for each that begins, and gives back once a turn what it has too much. So all of them may have the whole limit, and
//! together never more.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::tcp::values::flow::Flow;

/// Room for connections that several have together: stacks, and what answers for them.
pub trait SharedRoom: std::fmt::Debug {
    /// Takes the room of one connection, if there is any.
    fn take(&self) -> bool;

    /// That of this many is free again.
    fn give_back(&self, count: usize);

    /// A connection is over that others had first ([`Stack::take_on`](crate::Stack::take_on)). Its room is given back beside this.
    fn taken_on_is_over(&self, flow: &Flow);
}

/// Room of this many connections, for stacks alone.
///
/// It is one word that all of them share: a connection costs two writes of it, as it begins and, with others of its turn that are over,
/// when its room is given back. The cores of the stacks have the cache line from each other for that.
#[derive(Debug)]
pub struct FreeRoom(AtomicUsize);

impl FreeRoom {
    /// For this many.
    pub fn new(connections: usize) -> Self {
        Self(connections.into())
    }
}

impl SharedRoom for FreeRoom {
    fn take(&self) -> bool {
        let one = |free: usize| free.checked_sub(1);
        self.0.fetch_update(Relaxed, Relaxed, one).is_ok()
    }

    fn give_back(&self, count: usize) {
        self.0.fetch_add(count, Relaxed);
    }

    fn taken_on_is_over(&self, _: &Flow) {}
}

/// Room of one stack.
#[derive(Debug)]
pub(in crate::tcp) struct Room {
    held: usize,
    shared: Option<Arc<dyn SharedRoom>>,
}

impl Room {
    pub(in crate::tcp) fn new(connections: usize) -> Self {
        Self {
            held: connections,
            shared: None,
        }
    }

    pub(in crate::tcp) fn held(&self) -> usize {
        self.held
    }

    /// Of `open` connections, for which it was taken before.
    pub(in crate::tcp) fn shared(shared: Arc<dyn SharedRoom>, open: usize) -> Self {
        Self {
            held: open,
            shared: Some(shared),
        }
    }

    pub(in crate::tcp) fn add(&mut self) {
        self.held += 1;
    }

    pub(in crate::tcp) fn taken_on_is_over(&self, flow: &Flow) {
        if let Some(shared) = &self.shared {
            shared.taken_on_is_over(flow);
        }
    }

    /// Whether there is room for one more than `open`.
    #[inline]
    pub(in crate::tcp) fn has_room(&mut self, open: usize) -> bool {
        if open < self.held {
            return true;
        }
        let has_taken = self.shared.as_ref().is_some_and(|shared| shared.take());
        self.held += usize::from(has_taken);
        has_taken
    }

    /// Gives back what `open` connections do not need.
    pub(in crate::tcp) fn give_back(&mut self, open: usize) {
        let Some(shared) = &self.shared else {
            return;
        };
        if open < self.held {
            shared.give_back(self.held - open);
            self.held = open;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One may have all of it, another what that has given back, and a connection brings its own along.
    #[test]
    fn any_may_have_all_and_together_no_more() {
        let free = Arc::new(FreeRoom::new(3));
        let [mut one, mut other] = [1, 0].map(|open| Room::shared(free.clone(), open));
        for open in 1..4 {
            assert!(one.has_room(open));
        }
        assert!(!one.has_room(4) && !other.has_room(0));
        one.give_back(2);
        assert_eq!((one.held(), free.0.load(Relaxed)), (2, 2));
        assert!(other.has_room(0) && other.has_room(1) && !other.has_room(2));
        other.add();
        assert!(other.has_room(2) && !other.has_room(3));
    }
}
