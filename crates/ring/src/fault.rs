//! What a peer has done wrong.

/// The other side's counter has a value that it cannot have reached: more
/// entries ready than the ring holds, or less than was there before.
///
/// The ring must not be used further; there is no telling which entries are
/// whose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerFault {
    /// The producer's counter as seen when the fault was found.
    pub produced: u32,
    /// The consumer's counter as seen when the fault was found.
    pub consumed: u32,
    /// Entries in the ring.
    pub capacity: u32,
}

impl std::fmt::Display for PeerFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "the other side of a shared ring of {} entries claims an impossible position \
             (produced {}, consumed {}); the ring cannot be used further",
            self.capacity, self.produced, self.consumed
        )
    }
}

impl std::error::Error for PeerFault {}
