//! What all messages have: the protocol's version, how they begin, and the names and secrets of grants.

use crate::bytes::{DecodeError, InBytes, Numbered, Reader};
use crate::limits::SECRET_BYTES;

/// The version of this protocol.
pub const VERSION: u16 = 12;

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

/// Kind and tag of a message.
pub(super) fn read_head(reader: &mut Reader<'_>) -> Result<(u16, u32), DecodeError> {
    InBytes::read(reader, "head")
}

/// A message of either side.
pub(super) fn encode(message: &impl Numbered, tag: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    (message.number(), tag).write(&mut bytes);
    message.write_fields(&mut bytes);
    bytes
}
