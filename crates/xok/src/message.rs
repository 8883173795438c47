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

use crate::bytes::{DecodeError, InBytes, Numbered, Reader};
use crate::limits::SECRET_BYTES;

/// The version of this protocol.
pub const VERSION: u16 = 4;

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

impl InBytes for Secret {
    fn write(&self, bytes: &mut Vec<u8>) {
        self.0.write(bytes);
    }

    fn read(r: &mut Reader<'_>, field: &'static str) -> Result<Self, DecodeError> {
        Ok(Self(InBytes::read(r, field)?))
    }
}

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
        let (kind, tag) = read_head(&mut reader)?;
        let message = if kind < NOTICES {
            Answer::read_fields(kind, &mut reader)?.map(|answer| Self::Answer(tag, answer))
        } else if tag == 0 {
            Notice::read_fields(kind, &mut reader)?.map(Self::Notice)
        } else {
            return Err(DecodeError::BadField("tag of a notice"));
        };
        let message = message.ok_or(DecodeError::UnknownKind(kind))?;
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

/// Kind and tag of a message.
fn read_head(reader: &mut Reader<'_>) -> Result<(u16, u32), DecodeError> {
    InBytes::read(reader, "head")
}

fn encode(message: &impl Numbered, tag: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    (message.number(), tag).write(&mut bytes);
    message.write_fields(&mut bytes);
    bytes
}

#[cfg(test)]
mod tests;
