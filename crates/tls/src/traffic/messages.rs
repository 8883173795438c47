//! Messages of the handshake that come behind it. They may be cut over records, or be several in one (RFC 8446 §5.1).

use rustls::HandshakeType;

use crate::TlsError;
use crate::limits::MESSAGE_LEN_MAX;

/// What a message has before its content: its type, and its length.
pub(super) const MESSAGE_HEADER_LEN: usize = 4;

/// One of them.
pub(super) struct Message<'a> {
    pub(super) kind: HandshakeType,
    pub(super) content: &'a [u8],
}

/// The message that bytes begin with, and what is behind it; nothing while it is not whole.
pub(super) fn split(bytes: &[u8]) -> Result<Option<(Message<'_>, &[u8])>, TlsError> {
    let Some((&[kind, a, b, c], rest)) = bytes.split_first_chunk::<MESSAGE_HEADER_LEN>() else {
        return Ok(None);
    };
    let len = u32::from_be_bytes([0, a, b, c]) as usize;
    if len > MESSAGE_LEN_MAX {
        return Err(TlsError::TooLong);
    }
    let kind = HandshakeType::from(kind);
    let message = |(content, rest)| (Message { kind, content }, rest);
    Ok(rest.split_at_checked(len).map(message))
}
