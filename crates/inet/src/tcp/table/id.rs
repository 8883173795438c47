//! What names a connection.

/// A connection's identity. One that has been closed is never mistaken for a later one.
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq, Ord, PartialOrd, Hash)]
pub struct ConnectionId {
    pub(super) slot: u32,
    pub(super) generation: u32,
}

impl ConnectionId {
    /// The slot's number: small, dense, reused by later connections.
    pub const fn slot(self) -> u32 {
        self.slot
    }
}
