//! The end of a ring that writes entries.
//!
//! `committed <= written <= consumed + capacity`, all modulo 2^32: entries in
//! `committed..written` are in place but the peer does not know of them yet.

use crate::fault::PeerFault;
use crate::memory::{Plain, RingMemory};

/// The writing end of a ring.
#[derive(Debug)]
pub struct Producer<T: Plain> {
    ring: RingMemory<T>,
    written: u32,
    committed: u32,
    /// The peer's counter when last looked at.
    consumed: u32,
}

impl<T: Plain> Producer<T> {
    /// Takes the writing end, which goes on where the counters stand.
    ///
    /// # Errors
    ///
    /// The counters contradict each other.
    pub fn new(ring: RingMemory<T>) -> Result<Self, PeerFault> {
        let written = ring.load_produced();
        let mut end = Self {
            ring,
            written,
            committed: written,
            consumed: written,
        };
        // Nothing is known of the peer yet: accept any position that a ring can be in.
        end.consumed = end.written.wrapping_sub(end.capacity());
        end.look_at_peer()?;
        Ok(end)
    }

    /// Entries in the ring, free or not.
    pub fn capacity(&self) -> u32 {
        self.ring.capacity()
    }

    /// How many of `want` entries may be written now.
    ///
    /// # Errors
    ///
    /// The consumer's counter is impossible.
    pub fn reserve(&mut self, want: u32) -> Result<u32, PeerFault> {
        if self.known_free() < want {
            self.look_at_peer()?;
        }
        Ok(self.known_free().min(want))
    }

    /// Writes the next entry. The peer learns of it by [`commit`](Self::commit).
    ///
    /// # Panics
    ///
    /// If it was not reserved.
    #[inline]
    pub fn write(&mut self, entry: T) {
        assert!(
            self.known_free() > 0,
            "an entry is written that was not reserved"
        );
        self.ring.write(self.written, entry);
        self.written = self.written.wrapping_add(1);
    }

    /// Shows the peer everything written so far.
    pub fn commit(&mut self) {
        if self.committed != self.written {
            self.ring.store_produced(self.written);
            self.committed = self.written;
        }
    }

    /// Entries written and not yet committed.
    pub fn uncommitted(&self) -> u32 {
        self.written.wrapping_sub(self.committed)
    }

    /// Entries committed that the peer has not consumed yet. Costs no look at
    /// shared memory when there were none before.
    ///
    /// # Errors
    ///
    /// The consumer's counter is impossible.
    pub fn pending(&mut self) -> Result<u32, PeerFault> {
        if self.committed != self.consumed {
            self.look_at_peer()?;
        }
        Ok(self.committed.wrapping_sub(self.consumed))
    }

    /// The peer's word of flags, 0 where the ring has none.
    pub fn flags(&self) -> u32 {
        self.ring.load_flags()
    }

    /// Free entries by what is known of the peer; there may be more by now.
    fn known_free(&self) -> u32 {
        self.capacity() - self.written.wrapping_sub(self.consumed)
    }

    fn look_at_peer(&mut self) -> Result<(), PeerFault> {
        let consumed = self.ring.load_consumed();
        let unconsumed = self.committed.wrapping_sub(consumed);
        // It moves forward only, and not past what was committed.
        if unconsumed > self.committed.wrapping_sub(self.consumed) {
            let capacity = self.capacity();
            return Err(PeerFault {
                produced: self.committed,
                consumed,
                capacity,
            });
        }
        self.consumed = consumed;
        Ok(())
    }
}
