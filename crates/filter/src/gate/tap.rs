//! What is told about a copied packet: a header of 24 bytes before its bytes in the ring buffer, little-endian.
//!
//! ```text
//! time 8 | length 4 | captured 4 | slot 2 | direction 1 | verdict 1 | ifindex 4 | bytes of the packet …
//! ```
//!
//! A ring buffer's record is longer than header and captured bytes: its size is one of a few. What follows is old.

use super::counter::Counter;
use std::fmt;

/// Which way a packet went, seen from the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Direction {
    /// Came in from the wire.
    In = 0,
    /// Sent by a slot.
    Out = 1,
}

impl fmt::Display for Direction {
    /// `In` or `Out`, as tcpdump writes it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::In => "In",
            Self::Out => "Out",
        })
    }
}

/// What became of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// Given to the slot that the record names.
    Slot,
    /// Left to the host's stack, or sent to it.
    Host,
    /// For an address of ours that nobody claims: given to the daemon.
    Daemon,
    /// Sent to the wire.
    Wire,
    /// Dropped, and counted here.
    Dropped(Counter),
}

impl Verdict {
    const SLOT: u8 = 0;
    const HOST: u8 = 1;
    const DAEMON: u8 = 2;
    const WIRE: u8 = 3;
    /// Above: the number of a counter.
    const DROPPED: u8 = 0x80;

    /// As the record holds it.
    pub const fn to_byte(self) -> u8 {
        match self {
            Self::Slot => Self::SLOT,
            Self::Host => Self::HOST,
            Self::Daemon => Self::DAEMON,
            Self::Wire => Self::WIRE,
            Self::Dropped(counter) => Self::DROPPED | counter as u8,
        }
    }

    /// From a record; None for bytes that no gate writes.
    pub const fn from_byte(byte: u8) -> Option<Self> {
        Some(match byte {
            Self::SLOT => Self::Slot,
            Self::HOST => Self::Host,
            Self::DAEMON => Self::Daemon,
            Self::WIRE => Self::Wire,
            Self::DROPPED.. => match Counter::from_index((byte & !Self::DROPPED) as usize) {
                Some(counter) => Self::Dropped(counter),
                None => return None,
            },
            _ => return None,
        })
    }
}

/// The header of a copied packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TapRecord {
    /// When: nanoseconds of CLOCK_MONOTONIC.
    pub time_ns: u64,
    /// Bytes of the packet, Ethernet header included.
    pub length: u32,
    /// Bytes of it that follow the header.
    pub captured: u32,
    /// The slot that got or sent it; [`TapRecord::NO_SLOT`] for the host's.
    pub slot: u16,
    /// Which way.
    pub direction: Direction,
    /// What became of it.
    pub verdict: Verdict,
    /// The interface at which it was seen.
    pub ifindex: u32,
}

impl TapRecord {
    /// Bytes of the header.
    pub const LEN: usize = 24;
    /// No slot: the packet is the host's.
    pub const NO_SLOT: u16 = 0xffff;

    /// As it lies in the ring buffer.
    pub fn to_bytes(&self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        bytes[..8].copy_from_slice(&self.time_ns.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.length.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.captured.to_le_bytes());
        bytes[16..18].copy_from_slice(&self.slot.to_le_bytes());
        bytes[18] = self.direction as u8;
        bytes[19] = self.verdict.to_byte();
        bytes[20..].copy_from_slice(&self.ifindex.to_le_bytes());
        bytes
    }

    /// The header and the packet's captured bytes. None when the bytes are not a record: too short for the header or
    /// for what it says was captured, or of an unknown direction or verdict.
    pub fn parse(record: &[u8]) -> Option<(Self, &[u8])> {
        let (head, rest) = record.split_first_chunk::<{ Self::LEN }>()?;
        let word =
            |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let header = Self {
            time_ns: u64::from(word(4)) << 32 | u64::from(word(0)),
            length: word(8),
            captured: word(12),
            slot: word(16) as u16,
            direction: match head[18] {
                0 => Direction::In,
                1 => Direction::Out,
                _ => return None,
            },
            verdict: Verdict::from_byte(head[19])?,
            ifindex: word(20),
        };
        let packet = rest.get(..usize::try_from(header.captured).ok()?)?;
        Some((header, packet))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_byte_of_a_verdict_is_read_back_or_refused() {
        for byte in 0..=u8::MAX {
            if let Some(verdict) = Verdict::from_byte(byte) {
                assert_eq!(verdict.to_byte(), byte);
            }
        }
        for (counter, _) in Counter::ALL {
            let verdict = Verdict::Dropped(counter);
            assert_eq!(Verdict::from_byte(verdict.to_byte()), Some(verdict));
        }
    }

    proptest! {
        #[test]
        fn records_are_read_back(time_ns: u64, length: u32, slot: u16, out: bool, ifindex: u32, packet: Vec<u8>) {
            let record = TapRecord {
                time_ns,
                length,
                captured: packet.len() as u32,
                slot,
                direction: if out { Direction::Out } else { Direction::In },
                verdict: Verdict::Wire,
                ifindex,
            };
            let mut bytes = record.to_bytes().to_vec();
            bytes.extend(&packet);
            prop_assert_eq!(TapRecord::parse(&bytes), Some((record, &packet[..])));
            // The room behind the packet does not matter; a missing byte does.
            bytes.pop();
            prop_assert_eq!(TapRecord::parse(&bytes), None);
        }

        #[test]
        fn any_bytes_are_parsed_or_refused(bytes: Vec<u8>) {
            if let Some((record, packet)) = TapRecord::parse(&bytes) {
                prop_assert_eq!(record.captured as usize, packet.len());
            }
        }
    }
}
