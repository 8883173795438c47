//! What was sent on a connection behind the request that is to be answered first.

use std::collections::VecDeque;

use exos_inet::Instant;

/// A request behind the first.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    /// By its place in the driver's table.
    pub(super) request: u32,
    pub(super) begun: Instant,
    /// Nothing follows it on the connection.
    pub(super) is_last: bool,
}

/// Those behind the first of a connection, in order. A client that sends one request at a time has no memory for them.
#[derive(Clone, Debug, Default)]
#[expect(
    clippy::box_collection,
    reason = "a slot without any is 24 bytes smaller"
)]
pub(super) struct Behind(Option<Box<VecDeque<Waiting>>>);

impl Behind {
    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |all| all.len())
    }

    pub(super) fn pop(&mut self) -> Option<Waiting> {
        self.0.as_mut()?.pop_front()
    }

    pub(super) fn push(&mut self, waiting: Waiting) {
        self.0.get_or_insert_default().push_back(waiting);
    }

    /// The one sent last.
    pub(super) fn newest(&self) -> Option<&Waiting> {
        self.0.as_ref()?.back()
    }
}
