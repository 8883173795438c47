//! In which direction a packet of a flow goes, and when.

use exos_inet::Instant;

use crate::flow::{End, Flow, Tick};
use crate::packets::traffic::Course;

/// In which direction a packet goes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    ToServer,
    ToClient,
}

impl Direction {
    /// Whose packets go in this direction.
    pub(super) const fn from(self) -> End {
        match self {
            Self::ToServer => End::Client,
            Self::ToClient => End::Server,
        }
    }
}

/// Whose a flow's packet is that goes in this direction.
#[inline]
pub(super) fn course(flow: &Flow, direction: Direction) -> Course {
    Course {
        listener: flow.key.listener,
        server: flow.server,
        to_server: direction == Direction::ToServer,
    }
}

/// A time in the table's seconds.
pub(super) fn tick_of(now: Instant) -> Tick {
    (now.millis() / 1000) as Tick
}
