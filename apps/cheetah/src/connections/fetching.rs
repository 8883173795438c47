//! Documents that requests wait for, and the connections whose requests they are.
//!
//! A document is asked for once however many wait for it. Of a connection nothing is kept but its identity:
//! one that has gone or was given up is passed over when the document comes, and forgotten before that when
//! there are many like it.

use std::collections::{HashMap, VecDeque};

use exos_inet::tcp::ConnectionId;

use crate::site::Wanted;

/// What is being fetched, and for whom.
#[derive(Default)]
pub(super) struct Fetching {
    waiting: HashMap<Wanted, Vec<ConnectionId>>,
    wanted: VecDeque<Wanted>,
}

impl Fetching {
    /// A connection waits for a document; `is_waiting` tells which of the others still do. True when it is the first.
    pub(super) fn add(
        &mut self,
        path: Wanted,
        id: ConnectionId,
        is_waiting: impl FnMut(&ConnectionId) -> bool,
    ) -> bool {
        let ids = self.waiting.entry(path).or_default();
        let is_first = ids.is_empty();
        if !is_first && ids.len() == ids.capacity() {
            ids.retain(is_waiting);
        }
        ids.push(id);
        is_first
    }

    /// Has a document fetched by the store.
    pub(super) fn want(&mut self, path: Wanted) {
        self.wanted.push_back(path);
    }

    /// The next document to be fetched.
    pub(super) fn poll_wanted(&mut self) -> Option<Wanted> {
        self.wanted.pop_front()
    }

    /// Gives all who wait.
    pub(super) fn take_all(&mut self) -> Vec<ConnectionId> {
        self.wanted.clear();
        let waiting = self.waiting.drain();
        waiting.flat_map(|(_, ids)| ids).collect()
    }

    /// Requests that wait; those whose clients have gone meanwhile may be among them.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.values().map(Vec::len).sum()
    }

    /// Something has become of a document: gives who waited for it.
    pub(super) fn take(&mut self, path: &Wanted) -> Vec<ConnectionId> {
        if self.waiting.is_empty() {
            return Vec::new(); // As nearly always.
        }
        self.waiting.remove(path).unwrap_or_default()
    }
}
