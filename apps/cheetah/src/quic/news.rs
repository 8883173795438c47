//! What the server is to hear of requests.

use std::collections::VecDeque;

use exos_inet::tcp::{ConnectionId, Event, EventSet, Reason};

/// What the server is to hear of requests.
#[derive(Default)]
pub(super) struct News(VecDeque<Event>);

impl News {
    pub(super) fn tell(&mut self, connection: ConnectionId, set: EventSet, reason: Reason) {
        self.0.push_back(Event {
            connection,
            token: 0,
            set,
            reason,
        });
    }

    pub(super) fn pop(&mut self) -> Option<Event> {
        self.0.pop_front()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
