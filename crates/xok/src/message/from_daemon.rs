//! Messages of the daemon, of whichever kind.

use crate::bytes::{DecodeError, Numbered, Reader};
use crate::message::answer::Answer;
use crate::message::head::read_head;
use crate::message::notice::Notice;

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
