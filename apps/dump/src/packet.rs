//! One captured packet, wherever it comes from: a file, or the daemon's tap.

use std::borrow::Cow;
use std::rc::Rc;

pub use exos_filter::gate::Direction;

/// What was decided about a packet, by the one that decided it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The decision's name: for drops, the name of the counter that counted it.
    pub name: Cow<'static, str>,
    /// The packet went no further.
    pub is_drop: bool,
}

/// Where a packet comes from, as far as that is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// The interface's name.
    pub interface: Option<Rc<str>>,
    /// Which way it went.
    pub direction: Option<Direction>,
    /// The program that it came from or was for.
    pub program: Option<Rc<str>>,
    /// That program's slot with the daemon.
    pub slot: Option<u16>,
    /// What was decided.
    pub verdict: Option<Verdict>,
}

/// One captured packet.
#[derive(Clone, Debug)]
pub struct Packet<'a> {
    /// Nanoseconds since 1970-01-01 00:00 UTC.
    pub time_ns: u64,
    /// The captured bytes, from the Ethernet header on.
    pub bytes: &'a [u8],
    /// Bytes that the packet had; at least as many as were captured.
    pub len: usize,
    /// Where it comes from.
    pub origin: Origin,
}
