//! What names a connection.

/// A connection's identity. One that has been closed is never mistaken for a later one.
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq, Ord, PartialOrd, Hash)]
pub struct ConnectionId {
    pub(in crate::tcp) slot: u32,
    pub(in crate::tcp) generation: u32,
}

impl ConnectionId {
    /// The slot's number: small, dense, reused by later connections.
    pub const fn slot(self) -> u32 {
        self.slot
    }

    /// As a number: the slot in the low half, how often it was used before in the high one. Never [`u64::MAX`] for a
    /// connection.
    pub const fn to_bits(self) -> u64 {
        (self.generation as u64) << 32 | self.slot as u64
    }

    /// From that number: a stack's, or that of a program which numbers connections of the kernel's in the same way.
    pub const fn from_bits(bits: u64) -> Self {
        Self {
            slot: bits as u32,
            generation: (bits >> 32) as u32,
        }
    }
}
