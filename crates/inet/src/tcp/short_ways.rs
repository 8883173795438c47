//! How many segments went each of the short ways, so that tests can tell what they have compared.

/// A short way.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub enum Way {
    /// Data that came as expected.
    Data,
    /// An acknowledgement of something new, with or without data.
    Acknowledgement,
    /// A segment that left for itself.
    Out,
    /// A segment that left in a run behind another.
    Run,
    /// An acknowledgement that completed a handshake.
    Opening,
    /// A SYN-ACK.
    SynAck,
    /// Data that needed room, a FIN, or a segment of a connection that one side or both have finished.
    Seldom,
}

impl Way {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Data,
        Self::Acknowledgement,
        Self::Out,
        Self::Run,
        Self::Opening,
        Self::SynAck,
        Self::Seldom,
    ];
}

/// Segments of each way: in debug builds only, else all is zero.
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq)]
pub struct ShortWays([u64; Way::ALL.len()]);

impl ShortWays {
    /// Segments that went this way.
    #[must_use]
    pub const fn of(&self, way: Way) -> u64 {
        self.0[way as usize]
    }

    /// Those of both.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        for (ours, theirs) in self.0.iter_mut().zip(other.0) {
            *ours += theirs;
        }
        self
    }

    /// One more.
    #[inline(always)]
    pub(super) fn count(&mut self, way: Way) {
        if cfg!(debug_assertions) {
            self.0[way as usize] += 1;
        }
    }
}
