//! The end of a ring that reads entries.
//!
//! `consumed <= produced <= consumed + capacity`, all modulo 2^32. Entries in
//! `consumed..produced` are ours until released; the peer's counter may by now
//! be further than the `produced` that was last looked at, never less.

use crate::fault::PeerFault;
use crate::memory::{Plain, RingMemory};

/// The reading end of a ring.
#[derive(Debug)]
pub struct Consumer<T: Plain> {
    ring: RingMemory<T>,
    consumed: u32,
    /// The peer's counter when last looked at.
    produced: u32,
}

impl<T: Plain> Consumer<T> {
    /// Takes the reading end, which goes on where the counters stand.
    ///
    /// # Errors
    ///
    /// The counters contradict each other.
    pub fn new(ring: RingMemory<T>) -> Result<Self, PeerFault> {
        let consumed = ring.load_consumed();
        let mut end = Self {
            ring,
            consumed,
            produced: consumed,
        };
        end.look_at_peer()?;
        Ok(end)
    }

    /// Entries in the ring, ready or not.
    pub fn capacity(&self) -> u32 {
        self.ring.capacity()
    }

    /// How many of `want` entries can be read now.
    ///
    /// # Errors
    ///
    /// The producer's counter is impossible.
    pub fn peek(&mut self, want: u32) -> Result<u32, PeerFault> {
        if self.known_ready() < want {
            self.look_at_peer()?;
        }
        Ok(self.known_ready().min(want))
    }

    /// The entry `offset` places after the first unreleased one.
    ///
    /// # Panics
    ///
    /// If a preceding [`peek`](Self::peek) did not report this many.
    #[inline]
    pub fn read(&self, offset: u32) -> T {
        assert!(
            offset < self.known_ready(),
            "an entry is read that is not ready"
        );
        self.ring.read(self.consumed.wrapping_add(offset))
    }

    /// Gives the first `count` entries back to the peer.
    ///
    /// # Panics
    ///
    /// If this many were not ready.
    pub fn release(&mut self, count: u32) {
        assert!(
            count <= self.known_ready(),
            "entries are released that were not ready"
        );
        if count > 0 {
            self.consumed = self.consumed.wrapping_add(count);
            self.ring.store_consumed(self.consumed);
        }
    }

    /// The peer's word of flags, 0 where the ring has none.
    pub fn flags(&self) -> u32 {
        self.ring.load_flags()
    }

    /// Ready entries by what is known of the peer; there may be more by now.
    fn known_ready(&self) -> u32 {
        self.produced.wrapping_sub(self.consumed)
    }

    fn look_at_peer(&mut self) -> Result<(), PeerFault> {
        let produced = self.ring.load_produced();
        let ready = produced.wrapping_sub(self.consumed);
        // It moves forward only, and not past what the ring holds.
        if ready > self.capacity() || ready < self.known_ready() {
            return Err(PeerFault {
                produced,
                consumed: self.consumed,
                capacity: self.capacity(),
            });
        }
        self.produced = produced;
        Ok(())
    }
}
