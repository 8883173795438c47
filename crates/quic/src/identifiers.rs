//! Connection identifiers that say to which of several loops a connection belongs.
//!
//! A client whose address changes (RFC 9000 §9) may send to another core than before, for interfaces spread datagrams by addresses and
//! ports. The core to which its datagrams come finds in them whose the connection is. To all others an identifier is random, and does not
//! tell of another one of the connection (§5.1):
//!
//! ```text
//!  0                        6        8
//!  | pseudo-random number   | loop + keyed hash of the number
//! ```

use std::hash::{BuildHasher as _, RandomState};

use quinn_proto::{ConnectionId, ConnectionIdGenerator};

/// Bytes of an identifier.
const LEN: usize = 8;
/// Bytes of the number in it.
const NUMBER_LEN: usize = 6;

/// Several loops that share a port: each has a clone, and a number.
#[derive(Clone, Debug, Default)]
pub struct Loops {
    keys: RandomState,
}

/// The identifiers of one of them.
#[derive(Clone, Debug)]
pub struct Identifiers {
    loops: Loops,
    number: u16,
    /// Of the random numbers, which nobody has to read.
    random: RandomState,
    count: u64,
}

impl Loops {
    /// The identifiers of the loop of this number.
    pub fn identifiers(&self, number: u16) -> Identifiers {
        Identifiers {
            loops: self.clone(),
            number,
            random: RandomState::new(),
            count: 0,
        }
    }

    /// The loop whose connection a datagram is of. None where it does not say: a connection's first packets have an identifier of its
    /// client's (RFC 9000 §7.2).
    pub fn number_in(&self, datagram: &[u8]) -> Option<u16> {
        let (first, rest) = datagram.split_first()?;
        let identifier = match first >> 4 & 0b1011 {
            // §17.3.1: the first bit of a short header is not set.
            0..8 => rest,
            // §17.2.4: a handshake packet. Its version comes before, and the identifier's length.
            0b1010 => rest.get(5..)?,
            _ => return None,
        };
        identifier.first_chunk().map(|it| self.number_of(it))
    }

    fn number_of(&self, identifier: &[u8; LEN]) -> u16 {
        let [.., high, low] = *identifier;
        let masked = u16::from_be_bytes([high, low]);
        masked.wrapping_sub(self.mask(&identifier[..NUMBER_LEN]))
    }

    fn mask(&self, number: &[u8]) -> u16 {
        self.keys.hash_one(number) as u16
    }
}

impl ConnectionIdGenerator for Identifiers {
    fn generate_cid(&mut self) -> ConnectionId {
        self.count += 1;
        let mut bytes = self.random.hash_one(self.count).to_ne_bytes();
        let masked = self
            .number
            .wrapping_add(self.loops.mask(&bytes[..NUMBER_LEN]));
        bytes[NUMBER_LEN..].copy_from_slice(&masked.to_be_bytes());
        ConnectionId::new(&bytes)
    }

    fn cid_len(&self) -> usize {
        LEN
    }

    fn cid_lifetime(&self) -> Option<std::time::Duration> {
        None
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// A datagram with a short header.
    fn datagram(identifier: &[u8]) -> Vec<u8> {
        [&[0x41], identifier, &[9; 20]].concat()
    }

    #[test]
    fn each_says_whose_it_is_and_is_another() {
        let loops = Loops::default();
        let mut seen = HashSet::new();
        for number in [0, 1, 7, 4095] {
            let mut identifiers = loops.identifiers(number);
            for _ in 0..300 {
                let identifier = identifiers.generate_cid();
                assert_eq!(loops.number_in(&datagram(&identifier)), Some(number));
                assert!(seen.insert(identifier.to_vec()));
            }
        }
        // The last bytes of one loop's are spread as those of all.
        let last: HashSet<u8> = seen.iter().map(|bytes| bytes[LEN - 1]).collect();
        assert!(last.len() > 200, "{}", last.len());
    }

    #[test]
    fn packets_of_a_handshake_say_so_too() {
        let loops = Loops::default();
        let identifier = loops.identifiers(9).generate_cid();
        for (first, wanted) in [(0xc3, None), (0xd3, None), (0xe3, Some(9)), (0xf3, None)] {
            let packet = [&[first, 0, 0, 0, 1, 8], &identifier[..], &[0; 9]].concat();
            assert_eq!(loops.number_in(&packet), wanted, "{first:#x}");
            assert_eq!(loops.number_in(&packet[..13]), None);
        }
    }

    #[test]
    fn what_does_not_say_is_nobodys() {
        let loops = Loops::default();
        let identifier = loops.identifiers(3).generate_cid();
        let mut long = datagram(&identifier);
        long[0] |= 0x80;
        assert_eq!(loops.number_in(&long), None);
        for len in 0..=LEN {
            assert_eq!(loops.number_in(&datagram(&identifier)[..len]), None);
        }
    }
}
