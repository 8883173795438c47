//! Where the rings of several cores lie.

use super::{COUNTS, RING_LEN};

/// A ring of connections handed up for each core of the server. Each of its interfaces has some of the cores, of which queue q belongs to
/// the one with the number q modulo how many there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rings {
    cores: u64,
    /// Of these the interface's: the first, and how many.
    first: u64,
    count: u64,
    /// Bytes of all that stands before the rings of the others than the first.
    before: u64,
}

impl Rings {
    /// For this many cores of one interface, one at least, behind an array's `before` bytes.
    ///
    /// # Panics
    ///
    /// Without a core.
    pub const fn new(cores: u32, before: u64) -> Self {
        assert!(cores > 0);
        Self {
            cores: cores as u64,
            first: 0,
            count: cores as u64,
            before,
        }
    }

    /// As one of several interfaces sees them, which has this many cores from `first` on.
    ///
    /// # Panics
    ///
    /// If it has none, or one that there is not.
    pub const fn of_interface(self, first: u32, count: u32) -> Self {
        let (first, count) = (first as u64, count as u64);
        assert!(count > 0 && first + count <= self.cores);
        Self {
            first,
            count,
            ..self
        }
    }

    /// How many cores there are, of all interfaces.
    pub const fn cores(self) -> u64 {
        self.cores
    }

    /// The interface's.
    pub const fn own(self) -> std::ops::Range<u64> {
        self.first..self.first + self.count
    }

    /// Where the ring of a core begins.
    pub const fn at(self, core: u64) -> u64 {
        match core {
            0 => 0,
            other => self.before + (other - 1) * RING_LEN,
        }
    }

    /// Where it is counted what the program of a core did that has a gate behind it: words in the order of [`Counter`]s.
    pub const fn counts(self, core: u64) -> u64 {
        self.at(core) + COUNTS
    }

    /// Bytes of the array with all rings.
    pub const fn memory_len(self) -> u64 {
        self.at(self.cores)
    }
}
