//! Heads of frames (RFC 9114 §7.1), and what either side says of itself (§7.2.4).
//!
//! ```text
//! type (variable) | length (variable) | content
//! ```

use crate::limits::SECTION_LEN_MAX;
use crate::varint;

/// Types of frames (§7.2; RFC 9218 §7.2).
pub mod kind {
    /// A part of a body.
    pub const DATA: u64 = 0;
    /// A field section.
    pub const HEADERS: u64 = 1;
    /// A push that is not wanted.
    pub const CANCEL_PUSH: u64 = 3;
    /// Settings.
    pub const SETTINGS: u64 = 4;
    /// A push, which servers send.
    pub const PUSH_PROMISE: u64 = 5;
    /// What follows is not handled.
    pub const GOAWAY: u64 = 7;
    /// How much may be pushed.
    pub const MAX_PUSH_ID: u64 = 0xd;
    /// The priority of a request.
    pub const PRIORITY_UPDATE: u64 = 0xf0700;
    /// The priority of a push.
    pub const PRIORITY_UPDATE_PUSH: u64 = 0xf0701;

    /// Frames that HTTP/2 has under these numbers (§7.2.8).
    pub const fn is_of_http2(kind: u64) -> bool {
        matches!(kind, 2 | 6 | 8 | 9)
    }
}

/// Identifiers of settings (§7.2.4.1; RFC 9204 §5).
pub mod setting {
    /// Bytes of the table that the peer's encoder may fill.
    pub const QPACK_MAX_TABLE_CAPACITY: u64 = 1;
    /// What the fields of a message may come to.
    pub const MAX_FIELD_SECTION_SIZE: u64 = 6;
    /// Streams that may wait for the table.
    pub const QPACK_BLOCKED_STREAMS: u64 = 7;
    /// CONNECT may name a protocol (RFC 9220 §3).
    pub const ENABLE_CONNECT_PROTOCOL: u64 = 8;

    /// Settings that HTTP/2 has under these numbers.
    pub const fn is_of_http2(setting: u64) -> bool {
        matches!(setting, 2..=5)
    }
}

/// Types of streams in one direction (§6.2; RFC 9204 §4.2).
pub mod stream {
    /// The control stream.
    pub const CONTROL: u64 = 0;
    /// A push, which servers open.
    pub const PUSH: u64 = 1;
    /// What an encoder says.
    pub const QPACK_ENCODER: u64 = 2;
    /// What a decoder says.
    pub const QPACK_DECODER: u64 = 3;
}

/// A type and a length take as much at most.
pub const HEAD_LEN_MAX: usize = 16;

/// Takes the head of a frame: type and length of the content. Nothing, and nothing taken, where it is not whole.
#[inline]
pub fn take_head(bytes: &mut &[u8]) -> Option<(u64, u64)> {
    let mut rest = *bytes;
    let head = (varint::take(&mut rest)?, varint::take(&mut rest)?);
    *bytes = rest;
    Some(head)
}

/// Appends the head of a frame.
#[inline]
pub fn push_head(out: &mut Vec<u8>, kind: u64, len: u64) {
    varint::push(out, kind);
    varint::push(out, len);
}

/// Appends a frame.
pub fn push(out: &mut Vec<u8>, kind: u64, content: &[u8]) {
    push_head(out, kind, content.len() as u64);
    out.extend_from_slice(content);
}

/// What our control stream begins with: its type, and settings that leave the peer no table to fill.
pub fn settings() -> Vec<u8> {
    let mut content = Vec::new();
    for (setting, value) in [
        (setting::QPACK_MAX_TABLE_CAPACITY, 0),
        (setting::QPACK_BLOCKED_STREAMS, 0),
        (setting::MAX_FIELD_SECTION_SIZE, SECTION_LEN_MAX as u64 / 2),
        (setting::ENABLE_CONNECT_PROTOCOL, 1),
    ] {
        varint::push(&mut content, setting);
        varint::push(&mut content, value);
    }
    let mut out = Vec::new();
    varint::push(&mut out, stream::CONTROL);
    push(&mut out, kind::SETTINGS, &content);
    out
}

/// That no requests are handled from this stream on (§5.2).
pub fn go_away(stream: u64) -> Vec<u8> {
    let (mut content, mut out) = (Vec::new(), Vec::new());
    varint::push(&mut content, stream);
    push(&mut out, kind::GOAWAY, &content);
    out
}
