//! How streams are cut into messages, and what is kept for a handler of these.

use std::collections::HashSet;

use crate::limits::HANDLED_BYTES_MAX;
use crate::stack::handler::MessageHandler;
use crate::tcp::ConnectionId;

/// Where a message of a stream ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// With its first line feed.
    Line,
    /// A number in it says how long it is.
    Length {
        /// The number's first byte.
        at: u16,
        /// Its bytes, in the network's order: 1, 2, 4 or 8.
        bytes: u8,
        /// What is added to it to be the length of the whole message.
        more: u16,
    },
}

/// What a stream begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// A message of this many bytes.
    Whole(usize),
    /// A part of one.
    Part,
    /// None that a handler is given: longer, or shorter than what says its length.
    Other,
}

/// A handler, and its port.
pub(in crate::stack) struct StreamHandling {
    pub(super) port: u16,
    pub(super) framing: Framing,
    pub(super) handler: Box<dyn MessageHandler>,
    /// Connections on which a message was given up.
    pub(super) given_up: HashSet<ConnectionId>,
    /// Where replies are written.
    pub(super) reply: [u8; HANDLED_BYTES_MAX],
}

impl Framing {
    /// What these bytes begin with.
    pub(super) fn next(self, bytes: &[u8]) -> Next {
        match self {
            Self::Line => {
                let seen = &bytes[..bytes.len().min(HANDLED_BYTES_MAX)];
                match seen.iter().position(|byte| *byte == b'\n') {
                    Some(end) => Next::Whole(end + 1),
                    None if seen.len() == HANDLED_BYTES_MAX => Next::Other,
                    None => Next::Part,
                }
            }
            Self::Length {
                at,
                bytes: size,
                more,
            } => {
                let end = usize::from(at) + usize::from(size);
                let Some(number) = bytes.get(usize::from(at)..end) else {
                    return Next::Part;
                };
                let number = number.iter().fold(0, |n, byte| n << 8 | u64::from(*byte));
                match number.saturating_add(more.into()) {
                    length if length < end as u64 || length > HANDLED_BYTES_MAX as u64 => {
                        Next::Other
                    }
                    length if length as usize > bytes.len() => Next::Part,
                    length => Next::Whole(length as usize),
                }
            }
        }
    }
}
