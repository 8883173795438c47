//! Frames: their heads taken apart, and those that we send put together (RFC 9113 §4, §6).
//!
//! ```text
//! length (24) | type (8) | flags (8) | reserved (1), stream (31) | payload
//! ```

pub mod payload;

use crate::error::ErrorCode;
use crate::limits::FRAME_HEAD_LEN;

/// The number of a stream; 0 is the connection.
pub type StreamId = u32;

/// What a client's connection begins with (§3.4).
pub const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Types of frames (§6, and RFC 9218 §7.1).
pub mod kind {
    #![allow(missing_docs)]
    pub const DATA: u8 = 0;
    pub const HEADERS: u8 = 1;
    pub const PRIORITY: u8 = 2;
    pub const RST_STREAM: u8 = 3;
    pub const SETTINGS: u8 = 4;
    pub const PUSH_PROMISE: u8 = 5;
    pub const PING: u8 = 6;
    pub const GOAWAY: u8 = 7;
    pub const WINDOW_UPDATE: u8 = 8;
    pub const CONTINUATION: u8 = 9;
    pub const PRIORITY_UPDATE: u8 = 16;
}

/// Flags of frames (§6).
pub mod flag {
    #![allow(missing_docs)]
    pub const ACK: u8 = 1;
    pub const END_STREAM: u8 = 1;
    pub const END_HEADERS: u8 = 4;
    pub const PADDED: u8 = 8;
    pub const PRIORITY: u8 = 32;
}

/// Identifiers of settings (§6.5.2, and RFC 9218 §2.1).
pub mod setting {
    #![allow(missing_docs)]
    pub const HEADER_TABLE_SIZE: u16 = 1;
    pub const ENABLE_PUSH: u16 = 2;
    pub const MAX_CONCURRENT_STREAMS: u16 = 3;
    pub const INITIAL_WINDOW_SIZE: u16 = 4;
    pub const MAX_FRAME_SIZE: u16 = 5;
    pub const MAX_HEADER_LIST_SIZE: u16 = 6;
    pub const ENABLE_CONNECT_PROTOCOL: u16 = 8;
    pub const NO_RFC7540_PRIORITIES: u16 = 9;
}

/// The head of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHead {
    /// Bytes of the payload.
    pub len: usize,
    /// One of [`kind`], or another.
    pub kind: u8,
    /// Of [`flag`], and others that mean nothing.
    pub flags: u8,
    /// The stream; 0 for the connection.
    pub stream: StreamId,
}

impl FrameHead {
    /// Reads the head at the start of `bytes`; nothing where it is not whole.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Option<FrameHead> {
        let &[a, b, c, kind, flags, s0, s1, s2, s3] = bytes.first_chunk::<FRAME_HEAD_LEN>()?;
        Some(FrameHead {
            len: u32::from_be_bytes([0, a, b, c]) as usize,
            kind,
            flags,
            stream: u32::from_be_bytes([s0 & 0x7f, s1, s2, s3]),
        })
    }

    /// The bytes of it.
    #[inline]
    pub fn bytes(&self) -> [u8; FRAME_HEAD_LEN] {
        let [_, a, b, c] = (self.len as u32).to_be_bytes();
        let [s0, s1, s2, s3] = self.stream.to_be_bytes();
        [a, b, c, self.kind, self.flags, s0, s1, s2, s3]
    }

    /// Whether a flag is set.
    #[inline]
    pub fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// Appends the head of a frame.
#[inline]
pub fn push_head(out: &mut Vec<u8>, len: usize, kind: u8, flags: u8, stream: StreamId) {
    let head = FrameHead {
        len,
        kind,
        flags,
        stream,
    };
    out.extend_from_slice(&head.bytes());
}

/// Appends a frame.
pub fn push(out: &mut Vec<u8>, kind: u8, flags: u8, stream: StreamId, payload: &[u8]) {
    push_head(out, payload.len(), kind, flags, stream);
    out.extend_from_slice(payload);
}

/// Appends SETTINGS of these values (§6.5).
pub fn push_settings(out: &mut Vec<u8>, values: &[(u16, u32)]) {
    push_head(out, 6 * values.len(), kind::SETTINGS, 0, 0);
    for (id, value) in values {
        out.extend_from_slice(&id.to_be_bytes());
        out.extend_from_slice(&value.to_be_bytes());
    }
}

/// Appends the acknowledgement of settings.
pub fn push_settings_ack(out: &mut Vec<u8>) {
    push(out, kind::SETTINGS, flag::ACK, 0, &[]);
}

/// Appends PING (§6.7).
pub fn push_ping(out: &mut Vec<u8>, is_ack: bool, opaque: [u8; 8]) {
    push(out, kind::PING, u8::from(is_ack) * flag::ACK, 0, &opaque);
}

/// Appends RST_STREAM (§6.4).
pub fn push_reset(out: &mut Vec<u8>, stream: StreamId, code: ErrorCode) {
    push(out, kind::RST_STREAM, 0, stream, &code.0.to_be_bytes());
}

/// Appends GOAWAY (§6.8).
pub fn push_go_away(out: &mut Vec<u8>, last: StreamId, code: ErrorCode, why: &[u8]) {
    push_head(out, 8 + why.len(), kind::GOAWAY, 0, 0);
    out.extend_from_slice(&last.to_be_bytes());
    out.extend_from_slice(&code.0.to_be_bytes());
    out.extend_from_slice(why);
}

/// Appends WINDOW_UPDATE (§6.9).
pub fn push_window_update(out: &mut Vec<u8>, stream: StreamId, by: u32) {
    push(out, kind::WINDOW_UPDATE, 0, stream, &by.to_be_bytes());
}

/// Appends a header block in as many frames as it takes (§6.2, §6.10).
pub fn push_headers(
    out: &mut Vec<u8>,
    stream: StreamId,
    block: &[&[u8]],
    is_end: bool,
    frame_len_max: usize,
) {
    let end_stream = u8::from(is_end) * flag::END_STREAM;
    let len: usize = block.iter().map(|part| part.len()).sum();
    if len <= frame_len_max {
        push_head(
            out,
            len,
            kind::HEADERS,
            end_stream | flag::END_HEADERS,
            stream,
        );
        block.iter().for_each(|part| out.extend_from_slice(part));
        return;
    }
    let whole = block.concat();
    let count = whole.len().div_ceil(frame_len_max);
    for (at, part) in whole.chunks(frame_len_max).enumerate() {
        let end_headers = u8::from(at + 1 == count) * flag::END_HEADERS;
        let (kind, flags) = match at {
            0 => (kind::HEADERS, end_stream | end_headers),
            _ => (kind::CONTINUATION, end_headers),
        };
        push_head(out, part.len(), kind, flags, stream);
        out.extend_from_slice(part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_nine_bytes() {
        let head = FrameHead {
            len: 0x01_02_03,
            kind: kind::DATA,
            flags: flag::END_STREAM,
            stream: 0x7fff_fffe,
        };
        let bytes = head.bytes();
        assert_eq!(bytes, [1, 2, 3, 0, 1, 0x7f, 0xff, 0xff, 0xfe]);
        assert_eq!(FrameHead::parse(&bytes), Some(head));
        assert_eq!(FrameHead::parse(&bytes[..8]), None);
        // The reserved bit means nothing (§4.1).
        let reserved = [1, 2, 3, 0, 1, 0xff, 0xff, 0xff, 0xfe];
        assert_eq!(FrameHead::parse(&reserved), Some(head));
    }

    #[test]
    fn a_long_header_block_is_continued() {
        for len in [0, 1, 15, 16, 17, 32, 33] {
            let block: Vec<u8> = (0..len).collect();
            let (one, other) = block.split_at(block.len() / 2);
            let mut out = Vec::new();
            push_headers(&mut out, 5, &[one, other], true, 16);
            let (mut rest, mut whole, mut kinds) = (&out[..], Vec::new(), Vec::new());
            while let Some(head) = FrameHead::parse(rest) {
                assert!(head.len <= 16 && head.stream == 5);
                whole.extend_from_slice(&rest[9..][..head.len]);
                rest = &rest[9 + head.len..];
                assert_eq!(head.has(flag::END_HEADERS), rest.is_empty());
                kinds.push(head.kind);
            }
            assert_eq!(whole, block);
            assert_eq!(kinds[0], kind::HEADERS);
            assert!(kinds[1..].iter().all(|it| *it == kind::CONTINUATION));
        }
    }
}
