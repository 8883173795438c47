//! Which way a packet of a flow goes, and when.

use exos_inet::Instant;

use crate::flow::{End, Flow, Tick};
use crate::packets::traffic::Course;

/// Which way a packet goes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    ToServer,
    ToClient,
}

impl Way {
    /// Whose packets go this way.
    pub(super) const fn from(self) -> End {
        match self {
            Self::ToServer => End::Client,
            Self::ToClient => End::Server,
        }
    }
}

/// Whose a flow's packet is that goes this way.
#[inline]
pub(super) fn course(flow: &Flow, way: Way) -> Course {
    Course {
        listener: flow.key.listener,
        server: flow.server,
        to_server: way == Way::ToServer,
    }
}

/// A time in the table's seconds.
pub(super) fn tick_of(now: Instant) -> Tick {
    (now.millis() / 1000) as Tick
}
