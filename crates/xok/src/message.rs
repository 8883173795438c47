//! What is said over the daemon's socket.
//!
//! A Unix socket of type SEQPACKET; each message is one datagram of at most [`MESSAGE_BYTES_MAX`] bytes, with
//! descriptors beside it where its documentation says so. A program sends [`Request`]s, each with a tag of its
//! choosing; the daemon answers every one with an [`Answer`] of the same tag, in order, and sends [`Notice`]s
//! unasked, at any time. One connection is one program and at most one slot; when it closes, what the slot holds
//! goes, unless it closed because the daemon went ([`Request::Reattach`]).
//!
//! Bytes, little-endian: kind u16, tag u32, then the fields in the order in which they are declared. Kinds of
//! requests begin at 1, of answers at 64, of notices at 128. Numbers have their own width; options and booleans
//! are one byte 0 or 1; an address is its family (4 or 6) in one byte and its bytes in network order; texts, byte
//! strings and lists begin with their length in 16 bits. What is left over behind the last field makes the message
//! bad. A new version ([`VERSION`]) may change anything but [`Request::Hello`] and [`Answer::Refused`].
//!
//! [`MESSAGE_BYTES_MAX`]: crate::limits::MESSAGE_BYTES_MAX

mod answer;
mod facts;
mod notice;
mod request;

pub use answer::{Answer, InterfaceInfo, LocalAddress, Refusal};
pub use facts::{Facts, LINK_BYTES};
pub use notice::{Farewell, Notice, Revoked};
pub use request::{Mode, PortWish, Request};

use crate::bytes::{DecodeError, Reader, Writer};
use crate::limits::SECRET_BYTES;

/// The version of this protocol.
pub const VERSION: u16 = 2;

/// A number that names a grant as long as the daemon knows it, also over a restart.
pub type GrantId = u32;

/// What proves that a slot or a grant is one's own: random, told to its holder alone.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Secret(pub [u8; SECRET_BYTES]);

impl std::fmt::Debug for Secret {
    /// Secrets do not belong into logs.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// Kinds of answers begin here.
const ANSWERS: u16 = 64;
/// Kinds of notices begin here.
const NOTICES: u16 = 128;

/// What the daemon sends: an answer with the tag of its request, or a notice.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FromDaemon {
    /// The answer to the request with this tag.
    Answer(u32, Answer),
    /// Unasked.
    Notice(Notice),
}

impl FromDaemon {
    /// Reads a datagram from the daemon.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        let (kind, tag) = (reader.u16()?, reader.u32()?);
        let message = if kind >= NOTICES {
            if tag != 0 {
                return Err(DecodeError::BadField("tag of a notice"));
            }
            Self::Notice(Notice::read(kind, &mut reader)?)
        } else {
            Self::Answer(tag, Answer::read(kind, &mut reader)?)
        };
        reader.finish()?;
        Ok(message)
    }

    /// The datagram.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Self::Answer(tag, answer) => answer.encode(*tag),
            Self::Notice(notice) => notice.encode(),
        }
    }
}

fn header(kind: u16, tag: u32) -> Writer {
    let mut writer = Writer::default();
    writer.u16(kind);
    writer.u32(tag);
    writer
}

#[cfg(test)]
mod tests;
