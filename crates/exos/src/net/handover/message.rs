//! What two processes say to each other over the Unix socket that a connection goes by.
//!
//! ```text
//! giver ──> taker    0   "EXHO"
//!                    4   what is set, 1 byte: a ticket comes with it (1), the program still reads (2), still writes (4), has
//!                        heard of the peer's end (8), does not have small segments wait (16)
//!                    5   the ticket, 16 bytes; zeros where there is none
//!                    21  the length of what follows, 4 bytes, little-endian: the connection, as `exos_inet` encodes it
//! taker ──> giver    'T': it has the connection; or 'R', a length (1 byte) and why not
//! giver ──> taker    'G': its packets go to the taker
//! ```

use std::io::{self, ErrorKind};

use exos_xok::message::Secret;

use crate::limits::HANDED_OVER_BYTES_MAX;

/// The taker has it.
pub const TAKEN: u8 = b'T';
/// The taker has it not; a sentence follows.
pub const REFUSED: u8 = b'R';
/// The giver has let go of its packets.
pub const GONE: u8 = b'G';

const MAGIC: [u8; 4] = *b"EXHO";

/// What stands before a connection's bytes.
#[derive(Debug, Eq, PartialEq)]
pub struct Head {
    /// For its packets, where a daemon lends the link.
    pub ticket: Option<Secret>,
    pub settings: Settings,
    /// Of the connection's bytes.
    pub length: u32,
}

/// What a socket knows of its connection, beside the stack.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub struct Settings {
    /// The program still awaits bytes.
    pub reads: bool,
    /// The program may still write.
    pub writes: bool,
    /// The program has heard that the peer has finished.
    pub finished: bool,
    pub nodelay: bool,
}

impl Head {
    pub const BYTES: usize = 25;

    pub fn encode(&self) -> [u8; Self::BYTES] {
        let Settings {
            reads,
            writes,
            finished,
            nodelay,
        } = self.settings;
        let bits = [self.ticket.is_some(), reads, writes, finished, nodelay];
        let flags = (0..).zip(bits).map(|(at, bit)| u8::from(bit) << at).sum();
        let mut bytes = [0; Self::BYTES];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4] = flags;
        if let Some(Secret(ticket)) = &self.ticket {
            bytes[5..21].copy_from_slice(ticket);
        }
        bytes[21..].copy_from_slice(&self.length.to_le_bytes());
        bytes
    }

    /// # Errors
    ///
    /// `InvalidData`: no process that hands a connection over begins so.
    pub fn decode(bytes: &[u8; Self::BYTES]) -> io::Result<Self> {
        let (flags, mut length, mut ticket) = (bytes[4], [0; 4], [0; 16]);
        length.copy_from_slice(&bytes[21..]);
        ticket.copy_from_slice(&bytes[5..21]);
        let length = u32::from_le_bytes(length);
        let has = |at: u8| flags & (1 << at) != 0;
        if bytes[..4] != MAGIC || flags >= 1 << 5 || (!has(0) && ticket != [0; 16]) {
            let why = "what came is no connection; have the other process send nothing but what `hand_over` sends";
            return Err(io::Error::new(ErrorKind::InvalidData, why));
        }
        if length as usize > HANDED_OVER_BYTES_MAX {
            let why = format!(
                "a connection of {length} bytes; at most {HANDED_OVER_BYTES_MAX} are taken"
            );
            return Err(io::Error::new(ErrorKind::InvalidData, why));
        }
        Ok(Self {
            ticket: has(0).then_some(Secret(ticket)),
            settings: Settings {
                reads: has(1),
                writes: has(2),
                finished: has(3),
                nodelay: has(4),
            },
            length,
        })
    }
}

/// A refusal, with as much of the sentence as fits.
pub fn refusal(why: &str) -> Vec<u8> {
    let text = &why.as_bytes()[..why.len().min(usize::from(u8::MAX))];
    [&[REFUSED, text.len() as u8], text].concat()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded(ticket: Option<[u8; 16]>, bits: [bool; 4], length in 0..=HANDED_OVER_BYTES_MAX as u32) {
            let [reads, writes, finished, nodelay] = bits;
            let settings = Settings { reads, writes, finished, nodelay };
            let head = Head { ticket: ticket.map(Secret), settings, length };
            prop_assert_eq!(Head::decode(&head.encode()).unwrap(), head);
        }

        #[test]
        fn whatever_is_taken_is_written_so(bytes: [u8; Head::BYTES], begins_well: bool) {
            let mut bytes = bytes;
            if begins_well {
                bytes[..4].copy_from_slice(&MAGIC);
                bytes[4] &= 0x1f;
                bytes[24] &= 0x03;
            }
            match Head::decode(&bytes) {
                Ok(head) => prop_assert_eq!(head.encode(), bytes),
                Err(error) => prop_assert_eq!(error.kind(), ErrorKind::InvalidData),
            }
        }
    }

    #[test]
    fn a_refusal_is_cut_where_it_is_too_long() {
        assert_eq!(refusal("no"), b"R\x02no");
        assert_eq!(refusal(&"ä".repeat(300)).len(), 2 + 255);
    }
}
