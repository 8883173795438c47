//! Packets of connections that nobody knows: those that were begun before the capture, or were forgotten.

use std::collections::HashSet;

use super::Endpoint;
use crate::limits::QUIC_STRANGERS_MAX;

/// Between which ends there are such packets.
#[derive(Debug, Default)]
pub(super) struct Strangers(HashSet<(Endpoint, Endpoint)>);

impl Strangers {
    /// Remembers them; true when they were not known.
    pub(super) fn meet(&mut self, path: (Endpoint, Endpoint)) -> bool {
        if self.0.len() >= QUIC_STRANGERS_MAX {
            self.0.clear();
        }
        self.0.insert(either_way(path))
    }

    /// There were such packets between these.
    pub(super) fn are(&self, path: (Endpoint, Endpoint)) -> bool {
        self.0.contains(&either_way(path))
    }
}

fn either_way((from, to): (Endpoint, Endpoint)) -> (Endpoint, Endpoint) {
    (from.min(to), from.max(to))
}
