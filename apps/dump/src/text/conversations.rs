//! The first sequence numbers of TCP connections, so that later ones can be shown relative to them.
//!
//! As in tcpdump, a connection's numbers begin with the first segment seen that acknowledges
//! something, and begin again with each SYN; that segment itself is shown with absolute numbers.

use exos_wire::SeqNumber;

use crate::decrypt::{Endpoint, Ends, Recent, either_way};
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

/// The connections seen so far.
#[derive(Debug, Default)]
pub(crate) struct Conversations(Recent<Ends, Firsts, CONVERSATIONS_MAX>);

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
        if !is_new && let Some(&mut firsts) = self.0.find(key) {
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
        self.0.keep(key, firsts);
        Bases {
            sack: peers,
            ..Bases::ABSOLUTE
        }
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
}
