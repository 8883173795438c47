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
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at_a_rate = if self.rate.is_some() { "latency/" } else { "" };
        let (wire, connection) = (self.wire, self.connection);
        write!(f, "{at_a_rate}{wire}/{connection}/{}", self.size.name())
    }
}
