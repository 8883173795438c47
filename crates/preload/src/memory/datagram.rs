//! Datagrams in a ring: each whole, behind a head that says how long it is, and between whom.

use super::{Address, RING};
use crate::ring::Ring;

/// What stands before a datagram: its length (4 bytes), hops and class (one each), two bytes of nothing, the peer's address and ours, each of 28 bytes and its
/// length.
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq)]
pub struct DatagramHead {
    /// Bytes of the datagram.
    pub len: u32,
    /// How many hops it has left, or may take.
    pub hops: u8,
    /// Its type-of-service byte, or traffic class.
    pub class: u8,
    /// Of one that came: who sent it. Of one that goes: where to.
    pub peer: Address,
    /// Of one that came: to which address of ours. Of one that goes: from which; of no length where the stack chooses.
    pub local: Address,
}

/// Bytes of a head.
pub const DATAGRAM_HEAD: usize = 72;

/// The longest datagram (RFC 768): 65,535 bytes with its header; the IPv4 header comes to that, but not IPv6's.
pub const DATAGRAM_MAX: usize = 65_527;

/// The most datagrams into which what one call writes is cut (`UDP_MAX_SEGMENTS` of the kernel).
pub const SEGMENTS_MAX: usize = 128;

/// Free bytes of a ring into which all that one call writes fits.
pub const DATAGRAM_ROOM: usize = SEGMENTS_MAX * DATAGRAM_HEAD + DATAGRAM_MAX;

const _: () = assert!(DATAGRAM_ROOM <= RING / 2);

impl DatagramHead {
    /// As bytes.
    pub fn to_bytes(self) -> [u8; DATAGRAM_HEAD] {
        let mut bytes = [0; DATAGRAM_HEAD];
        bytes[..4].copy_from_slice(&self.len.to_ne_bytes());
        bytes[4..6].copy_from_slice(&[self.hops, self.class]);
        for (at, address) in [(8, self.peer), (40, self.local)] {
            bytes[at..at + 28].copy_from_slice(&address.bytes);
            bytes[at + 28..at + 32].copy_from_slice(&address.len.to_ne_bytes());
        }
        bytes
    }

    /// From bytes that the other side may have made up.
    pub fn from_bytes(bytes: &[u8; DATAGRAM_HEAD]) -> Self {
        let number = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four"));
        let address = |at: usize| Address {
            bytes: bytes[at..at + 28].try_into().expect("28"),
            len: number(at + 28).min(28),
        };
        Self {
            len: number(0),
            hops: bytes[4],
            class: bytes[5],
            peer: address(8),
            local: address(40),
        }
    }
}

impl Ring<'_> {
    /// The head of the next datagram, all of which is there. A ring with nonsense in it is emptied.
    pub fn next_datagram(&self) -> Option<DatagramHead> {
        let len = self.len();
        if len == 0 {
            return None;
        }
        let mut bytes = [0; DATAGRAM_HEAD];
        let head = match self.peek(&mut bytes) {
            DATAGRAM_HEAD => DatagramHead::from_bytes(&bytes),
            _ => DatagramHead {
                len: u32::MAX,
                ..DatagramHead::default()
            },
        };
        let size = head.len as usize;
        if size > DATAGRAM_MAX || DATAGRAM_HEAD + size > len {
            self.consume(len);
            return None;
        }
        Some(head)
    }

    /// Writes a datagram; false where there is no room for it.
    pub fn push_datagram(&self, head: &DatagramHead, payload: &[u8]) -> bool {
        let head = head.to_bytes();
        let parts = [
            (head.as_ptr(), head.len()),
            (payload.as_ptr(), payload.len()),
        ];
        // SAFETY: both are as long as they say.
        unsafe { self.push_whole(&parts) }
    }

    /// Takes out the next datagram.
    pub fn take_datagram(&self) -> Option<(DatagramHead, Vec<u8>)> {
        let head = self.next_datagram()?;
        let mut payload = vec![0; head.len as usize];
        // SAFETY: it is as long as it says.
        let count = unsafe { self.peek_at(DATAGRAM_HEAD, payload.as_mut_ptr(), payload.len()) };
        payload.truncate(count);
        self.consume(DATAGRAM_HEAD + payload.len());
        Some((head, payload))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Shared;
    use super::*;

    fn head(len: usize) -> DatagramHead {
        let address = |first| Address {
            bytes: std::array::from_fn(|n| first + n as u8),
            len: 28,
        };
        DatagramHead {
            len: len as u32,
            hops: 2,
            class: 3,
            peer: address(1),
            local: address(100),
        }
    }

    /// Of every length, over the end of the memory, and none is cut when there is no room.
    #[test]
    fn datagrams_come_out_as_they_went_in() {
        let shared = Shared::create().expect("memory");
        let ring = shared.outward(0);
        // So that the origin does not move.
        assert!(ring.push_datagram(&head(1), &[7]));
        let mut sent = std::collections::VecDeque::from([vec![7]]);
        for round in 0..400_usize {
            let payload = vec![round as u8; round * 977 % (DATAGRAM_MAX + 1)];
            let free = ring.free();
            let pushed = ring.push_datagram(&head(payload.len()), &payload);
            assert_eq!(pushed, free >= DATAGRAM_HEAD + payload.len());
            if pushed {
                sent.push_back(payload);
            }
            if !pushed || round % 3 == 0 {
                let wanted = sent.pop_front().expect("there is one");
                let (got, bytes) = ring.take_datagram().expect("there is one");
                assert_eq!(got, head(wanted.len()));
                assert!(bytes == wanted, "round {round}");
            }
        }
        for wanted in sent {
            assert!(ring.take_datagram().expect("there is one").1 == wanted);
        }
        assert!(ring.take_datagram().is_none());
    }

    #[test]
    fn nonsense_of_the_other_side_is_thrown_away() {
        let shared = Shared::create().expect("memory");
        let ring = shared.inward(0);
        let long = head(DATAGRAM_MAX + 1).to_bytes();
        let unfinished = [&head(100).to_bytes()[..], &[1; 99]].concat();
        for nonsense in [&[1, 2, 3][..], &long, &unfinished, &[0xff; RING]] {
            ring.push(nonsense);
            assert!(ring.take_datagram().is_none());
            assert!(ring.is_empty());
        }
        assert!(ring.push_datagram(&head(0), &[]));
        assert_eq!(ring.take_datagram(), Some((head(0), Vec::new())));
    }
}
