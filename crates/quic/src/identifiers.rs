//! Connection identifiers that say to which of several loops a connection belongs.
//!
//! A client whose address changes (RFC 9000 §9) may send to another core than before, for interfaces spread datagrams by addresses and
//! ports. The core to which its datagrams come finds in them whose the connection is. To all others an identifier is random, and does not
//! tell of another one of the connection (§5.1); nobody else can make one, so that forged ones are not handed about:
//!
//! ```text
//!  0                        8                              10                            12
//!  | pseudo-random number   | loop, masked by a keyed hash | keyed hash of number and loop
//! ```

use std::hash::{BuildHasher as _, RandomState};

use quinn_proto::{ConnectionId, ConnectionIdGenerator, InvalidCid};

/// Bytes of an identifier.
const LEN: usize = 12;
/// Bytes of the number in it.
const NUMBER_LEN: usize = 8;

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
    /// client's (RFC 9000 §7.2), and others may be forged.
    pub fn number_in(&self, datagram: &[u8]) -> Option<u16> {
        let (first, rest) = datagram.split_first()?;
        let identifier = match first >> 4 & 0b1011 {
            // §17.3.1: the first bit of a short header is not set.
            0..8 => rest,
            // §17.2.4: a handshake packet. Its version comes before, and the identifier's length.
            0b1010 if rest.get(4) == Some(&(LEN as u8)) => &rest[5..],
            _ => return None,
        };
        self.number_of(identifier.first_chunk()?)
    }

    fn number_of(&self, identifier: &[u8; LEN]) -> Option<u16> {
        let (random, rest) = identifier.split_first_chunk()?;
        let word = |at: usize| u16::from_be_bytes([rest[at], rest[at + 1]]);
        let random = u64::from_be_bytes(*random);
        let number = word(0) ^ self.mask(random);
        (word(2) == self.tag(random, number)).then_some(number)
    }

    fn mask(&self, random: u64) -> u16 {
        self.keys.hash_one(random) as u16
    }

    fn tag(&self, random: u64, number: u16) -> u16 {
        self.keys.hash_one((random, number)) as u16
    }
}

impl ConnectionIdGenerator for Identifiers {
    fn generate_cid(&mut self) -> ConnectionId {
        self.count += 1;
        let random = self.random.hash_one(self.count);
        let masked = self.number ^ self.loops.mask(random);
        let tag = self.loops.tag(random, self.number);
        let mut bytes = [0; LEN];
        bytes[..NUMBER_LEN].copy_from_slice(&random.to_be_bytes());
        bytes[NUMBER_LEN..][..2].copy_from_slice(&masked.to_be_bytes());
        bytes[NUMBER_LEN + 2..].copy_from_slice(&tag.to_be_bytes());
        ConnectionId::new(&bytes)
    }

    fn validate(&self, identifier: &ConnectionId) -> Result<(), InvalidCid> {
        let identifier = identifier.first_chunk().ok_or(InvalidCid)?;
        match self.loops.number_of(identifier) {
            Some(_) => Ok(()),
            None => Err(InvalidCid),
        }
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
            let packet = [&[first, 0, 0, 0, 1, LEN as u8], &identifier[..], &[0; 9]].concat();
            assert_eq!(loops.number_in(&packet), wanted, "{first:#x}");
            assert_eq!(loops.number_in(&packet[..5 + LEN]), None);
            let other_len = [&packet[..5], &[LEN as u8 + 1], &packet[6..]].concat();
            assert_eq!(loops.number_in(&other_len), None);
        }
    }

    #[test]
    fn what_does_not_say_is_nobodys() {
        let loops = Loops::default();
        let identifier = loops.identifiers(3).generate_cid();
        let mut long = datagram(&identifier);
        long[0] = 0xc0;
        assert_eq!(loops.number_in(&long), None);
        for len in 0..=LEN {
            assert_eq!(loops.number_in(&datagram(&identifier)[..len]), None);
        }
    }

    /// A core has no more to do for what is forged than for what comes to it alone: of all that can be made up, next to nothing is handed on.
    #[test]
    fn forged_ones_are_nobodys() {
        let (loops, others) = (Loops::default(), Loops::default());
        let mut theirs = others.identifiers(1);
        let taken = (0..20_000).filter(|_| {
            let forged = theirs.generate_cid();
            let is_valid = loops.identifiers(0).validate(&forged).is_ok();
            let number = loops.number_in(&datagram(&forged));
            assert_eq!(number.is_some(), is_valid);
            is_valid
        });
        assert!(taken.count() < 10);
        let own = loops.identifiers(1).generate_cid();
        assert!(loops.identifiers(0).validate(&own).is_ok());
        for at in 0..LEN {
            let mut changed = own.to_vec();
            changed[at] ^= 1;
            assert_ne!(loops.number_in(&datagram(&changed)), Some(1));
        }
    }
}
