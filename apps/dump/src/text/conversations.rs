//! The first sequence numbers of TCP connections, so that later ones can be shown relative to them.
//!
//! As in tcpdump, a connection's numbers begin with the first segment seen that acknowledges
//! something, and begin again with each SYN; that segment itself is shown with absolute numbers.
//!
//! Memory is bounded: connections are kept in two generations, and when the younger one is full the
//! older one is forgotten. What is still spoken of moves to the younger one.

use std::collections::HashMap;

use exos_wire::SeqNumber;

use crate::decrypt::{Endpoint, Ends, either_way};
use crate::limits::CONVERSATIONS_MAX;

/// What is subtracted from the numbers of a segment before they are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bases {
    /// From its sequence number.
    pub(super) seq: u32,
    /// From its acknowledgement number.
    pub(super) ack: u32,
    /// From the numbers in its SACK option. The first segment's are relative already.
    pub(super) sack: u32,
}

impl Bases {
    pub(super) const ABSOLUTE: Self = Self {
        seq: 0,
        ack: 0,
        sack: 0,
    };
}

/// The first number of each side: of the one with the lower address and port first.
type Firsts = [u32; 2];

type Generation = HashMap<Ends, Firsts>;

/// The connections seen so far.
#[derive(Debug, Default)]
pub(crate) struct Conversations {
    young: Generation,
    old: Generation,
}

impl Conversations {
    /// The bases for a segment between these ends; `is_new` when it opens a connection.
    pub(super) fn bases(
        &mut self,
        from: Endpoint,
        to: Endpoint,
        is_new: bool,
        seq: SeqNumber,
        ack: SeqNumber,
    ) -> Bases {
        let (key, side) = (either_way((from, to)), usize::from(from > to));
        if !is_new && let Some(firsts) = self.find(key) {
            let (seq, ack) = (firsts[side], firsts[1 - side]);
            return Bases {
                seq,
                ack,
                sack: ack,
            };
        }
        // What is acknowledged follows at least a SYN.
        let (mine, peers) = (seq.0, ack.0.wrapping_sub(1));
        let mut firsts = [mine; 2];
        firsts[1 - side] = peers;
        self.keep(key, firsts);
        Bases {
            sack: peers,
            ..Bases::ABSOLUTE
        }
    }

    fn find(&mut self, key: Ends) -> Option<Firsts> {
        if let Some(firsts) = self.young.get(&key) {
            return Some(*firsts);
        }
        let firsts = self.old.remove(&key)?;
        self.keep(key, firsts);
        Some(firsts)
    }

    fn keep(&mut self, key: Ends, firsts: Firsts) {
        if self.young.len() >= CONVERSATIONS_MAX / 2 {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key, firsts);
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.young.len() + self.old.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn end(number: u32) -> Endpoint {
        let ip = Ipv4Addr::from(0x0a00_0000 | number >> 8);
        (ip.into(), number as u16 & 0xff)
    }

    #[test]
    fn both_directions_share_one_conversation_and_syn_begins_anew() {
        let mut all = Conversations::default();
        let (a, b) = (end(1), end(1000));
        let first = all.bases(a, b, false, SeqNumber(100), SeqNumber(51));
        assert_eq!((first.seq, first.ack, first.sack), (0, 0, 50));
        let back = all.bases(b, a, false, SeqNumber(51), SeqNumber(120));
        assert_eq!((back.seq, back.ack, back.sack), (50, 100, 100));
        let again = all.bases(b, a, true, SeqNumber(7), SeqNumber(9));
        assert_eq!((again.seq, again.ack), (0, 0));
        let there = all.bases(a, b, false, SeqNumber(9), SeqNumber(8));
        assert_eq!((there.seq, there.ack), (8, 7));
    }

    #[test]
    fn memory_is_bounded_and_the_busy_are_remembered() {
        let mut all = Conversations::default();
        let busy = (end(1), end(2));
        all.bases(busy.0, busy.1, true, SeqNumber(5), SeqNumber(6));
        for other in 0..3 * CONVERSATIONS_MAX as u32 {
            all.bases(end(3), end(other + 4), true, SeqNumber(1), SeqNumber(1));
            assert!(all.len() <= CONVERSATIONS_MAX);
            if other % 1000 == 0 {
                let bases = all.bases(busy.0, busy.1, false, SeqNumber(9), SeqNumber(9));
                assert_eq!((bases.seq, bases.ack), (5, 5));
            }
        }
    }
}
