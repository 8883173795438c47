//! What is measured together.

use crate::stage::request::{Connection, Size};
use exos_lab::WireKind;
use std::fmt;

/// All who forward, on one wire, with one kind of connection and one document.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Cell {
    pub(super) wire: WireKind,
    pub(super) connection: Connection,
    pub(super) size: Size,
    /// Requests a second; as many as go where there is none.
    pub(super) rate: Option<u32>,
    /// `exos forward` on one core and on two, of interfaces with two queues.
    pub(super) is_of_cores: bool,
}

impl Cell {
    /// As fast as it goes, on one core.
    pub(super) fn of(wire: WireKind, connection: Connection, size: Size) -> Self {
        Self {
            wire,
            connection,
            size,
            rate: None,
            is_of_cores: false,
        }
    }

    /// Client and server are wrk and a server on the kernel's sockets: the kernel spreads what they send over queues.
    pub(super) fn is_by_sockets(&self) -> bool {
        self.wire == WireKind::Offload
    }

    /// Queues of each interface.
    pub(super) fn queues(&self) -> u32 {
        if self.is_of_cores { 2 } else { 1 }
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let group = match (self.rate, self.is_of_cores) {
            (Some(_), _) => "latency/",
            (None, true) => "cores/",
            (None, false) => "",
        };
        let (wire, connection) = (self.wire, self.connection);
        write!(f, "{group}{wire}/{connection}/{}", self.size.name())
    }
}
