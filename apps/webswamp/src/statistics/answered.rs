//! A request that was answered: its times, and how much came.

use exos_inet::Instant;

/// A request that was answered.
#[derive(Clone, Copy, Debug)]
pub struct Answered {
    /// When it was meant to begin.
    pub intended: Instant,
    /// When it did.
    pub begun: Instant,
    /// The first byte of its response.
    pub first: Instant,
    /// And the last.
    pub last: Instant,
    /// Status code.
    pub status: u16,
    /// Its bytes, heads and framing included.
    pub bytes: u64,
    /// Bytes of content.
    pub content: u64,
}
