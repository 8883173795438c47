//! What can be wrong with what a peer sends, and the code that tells it (RFC 9114 §8.1, RFC 9204 §6).

use std::fmt;

/// Why a stream or a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorCode(pub u32);

impl ErrorCode {
    /// It ends in order.
    pub const NO_ERROR: ErrorCode = ErrorCode(0x100);
    /// The peer did what the protocol does not allow, and no other code says what.
    pub const GENERAL_PROTOCOL_ERROR: ErrorCode = ErrorCode(0x101);
    /// Something went wrong with us.
    pub const INTERNAL_ERROR: ErrorCode = ErrorCode(0x102);
    /// A stream that may not be opened, or not twice.
    pub const STREAM_CREATION_ERROR: ErrorCode = ErrorCode(0x103);
    /// A stream that the connection needs has ended.
    pub const CLOSED_CRITICAL_STREAM: ErrorCode = ErrorCode(0x104);
    /// A frame where it may not be.
    pub const FRAME_UNEXPECTED: ErrorCode = ErrorCode(0x105);
    /// A frame whose content is none.
    pub const FRAME_ERROR: ErrorCode = ErrorCode(0x106);
    /// The peer asks too much.
    pub const EXCESSIVE_LOAD: ErrorCode = ErrorCode(0x107);
    /// An identifier that is none.
    pub const ID_ERROR: ErrorCode = ErrorCode(0x108);
    /// Settings that are none.
    pub const SETTINGS_ERROR: ErrorCode = ErrorCode(0x109);
    /// The control stream begins with something else.
    pub const MISSING_SETTINGS: ErrorCode = ErrorCode(0x10a);
    /// Nothing was done of the request: it may be asked again.
    pub const REQUEST_REJECTED: ErrorCode = ErrorCode(0x10b);
    /// Nobody needs it any more.
    pub const REQUEST_CANCELLED: ErrorCode = ErrorCode(0x10c);
    /// The request's stream ended before the request did.
    pub const REQUEST_INCOMPLETE: ErrorCode = ErrorCode(0x10d);
    /// The request breaks the rules.
    pub const MESSAGE_ERROR: ErrorCode = ErrorCode(0x10e);
    /// What a tunnel leads to has failed.
    pub const CONNECT_ERROR: ErrorCode = ErrorCode(0x10f);
    /// The request is to be asked by HTTP/1.1.
    pub const VERSION_FALLBACK: ErrorCode = ErrorCode(0x110);
    /// A field section cannot be read.
    pub const DECOMPRESSION_FAILED: ErrorCode = ErrorCode(0x200);
    /// The peer's encoder does what it may not.
    pub const ENCODER_STREAM_ERROR: ErrorCode = ErrorCode(0x201);
    /// The peer's decoder does what it may not.
    pub const DECODER_STREAM_ERROR: ErrorCode = ErrorCode(0x202);

    /// Its name in RFC 9114 §8.1 and RFC 9204 §6, without what all have in common and in lower case; of one that has none, nothing.
    pub const fn name(self) -> Option<&'static str> {
        Some(match self {
            ErrorCode::NO_ERROR => "no_error",
            ErrorCode::GENERAL_PROTOCOL_ERROR => "general_protocol_error",
            ErrorCode::INTERNAL_ERROR => "internal_error",
            ErrorCode::STREAM_CREATION_ERROR => "stream_creation_error",
            ErrorCode::CLOSED_CRITICAL_STREAM => "closed_critical_stream",
            ErrorCode::FRAME_UNEXPECTED => "frame_unexpected",
            ErrorCode::FRAME_ERROR => "frame_error",
            ErrorCode::EXCESSIVE_LOAD => "excessive_load",
            ErrorCode::ID_ERROR => "id_error",
            ErrorCode::SETTINGS_ERROR => "settings_error",
            ErrorCode::MISSING_SETTINGS => "missing_settings",
            ErrorCode::REQUEST_REJECTED => "request_rejected",
            ErrorCode::REQUEST_CANCELLED => "request_cancelled",
            ErrorCode::REQUEST_INCOMPLETE => "request_incomplete",
            ErrorCode::MESSAGE_ERROR => "message_error",
            ErrorCode::CONNECT_ERROR => "connect_error",
            ErrorCode::VERSION_FALLBACK => "version_fallback",
            ErrorCode::DECOMPRESSION_FAILED => "decompression_failed",
            ErrorCode::ENCODER_STREAM_ERROR => "encoder_stream_error",
            ErrorCode::DECODER_STREAM_ERROR => "decoder_stream_error",
            ErrorCode(_) => return None,
        })
    }
}

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Fault {
    /// A frame that may not come on this stream, or not yet.
    FrameUnexpected,
    /// A frame of HTTP/2 that HTTP/3 has not (RFC 9114 §7.2.8).
    FrameOfHttp2,
    /// A frame that ends before its content does, or behind it.
    FrameLength,
    /// A stream ended within a frame.
    FrameTruncated,
    /// A control stream that does not begin with settings.
    SettingsMissing,
    /// Settings that HTTP/3 has not, or that come twice.
    Settings,
    /// An identifier that was given back, or names what cannot be.
    Identifier,
    /// A stream of a kind that there is already, or that only a server opens.
    StreamKind,
    /// A control stream, or one of QPACK's, has ended.
    CriticalStream,
    /// A field section that cannot be decoded.
    Compression,
    /// A field section that is too long to be looked at.
    SectionTooLong,
    /// The client's encoder fills a table that has no room.
    EncoderStream,
    /// The client's decoder speaks of what was never sent.
    DecoderStream,
    /// Fields that make no request.
    Malformed,
    /// A body that is longer or shorter than the request says.
    ContentLength,
    /// The client ended a request that is not whole.
    Incomplete,
    /// Too much that brings nothing.
    WasteFlood,
    /// Too many changes of priorities.
    PriorityFlood,
}

impl Fault {
    /// All, in the order of their numbers.
    pub const ALL: [Fault; 18] = [
        Fault::FrameUnexpected,
        Fault::FrameOfHttp2,
        Fault::FrameLength,
        Fault::FrameTruncated,
        Fault::SettingsMissing,
        Fault::Settings,
        Fault::Identifier,
        Fault::StreamKind,
        Fault::CriticalStream,
        Fault::Compression,
        Fault::SectionTooLong,
        Fault::EncoderStream,
        Fault::DecoderStream,
        Fault::Malformed,
        Fault::ContentLength,
        Fault::Incomplete,
        Fault::WasteFlood,
        Fault::PriorityFlood,
    ];

    /// The code that tells the client.
    pub const fn code(self) -> ErrorCode {
        match self {
            Fault::FrameUnexpected | Fault::FrameOfHttp2 => ErrorCode::FRAME_UNEXPECTED,
            Fault::FrameLength | Fault::FrameTruncated => ErrorCode::FRAME_ERROR,
            Fault::SettingsMissing => ErrorCode::MISSING_SETTINGS,
            Fault::Settings => ErrorCode::SETTINGS_ERROR,
            Fault::Identifier => ErrorCode::ID_ERROR,
            Fault::StreamKind => ErrorCode::STREAM_CREATION_ERROR,
            Fault::CriticalStream => ErrorCode::CLOSED_CRITICAL_STREAM,
            Fault::Compression => ErrorCode::DECOMPRESSION_FAILED,
            Fault::EncoderStream => ErrorCode::ENCODER_STREAM_ERROR,
            Fault::DecoderStream => ErrorCode::DECODER_STREAM_ERROR,
            Fault::Malformed | Fault::ContentLength => ErrorCode::MESSAGE_ERROR,
            Fault::Incomplete => ErrorCode::REQUEST_INCOMPLETE,
            Fault::SectionTooLong | Fault::WasteFlood | Fault::PriorityFlood => {
                ErrorCode::EXCESSIVE_LOAD
            }
        }
    }

    /// The fault is of one request: others go on.
    pub const fn is_of_stream(self) -> bool {
        matches!(
            self,
            Fault::Malformed | Fault::ContentLength | Fault::Incomplete | Fault::SectionTooLong
        )
    }

    /// A short name, for counters.
    pub const fn reason(self) -> &'static str {
        match self {
            Fault::FrameUnexpected => "frame_unexpected",
            Fault::FrameOfHttp2 => "frame_of_http2",
            Fault::FrameLength => "frame_length",
            Fault::FrameTruncated => "frame_truncated",
            Fault::SettingsMissing => "settings_missing",
            Fault::Settings => "settings",
            Fault::Identifier => "identifier",
            Fault::StreamKind => "stream_kind",
            Fault::CriticalStream => "critical_stream",
            Fault::Compression => "compression",
            Fault::SectionTooLong => "section_too_long",
            Fault::EncoderStream => "encoder_stream",
            Fault::DecoderStream => "decoder_stream",
            Fault::Malformed => "malformed",
            Fault::ContentLength => "content_length",
            Fault::Incomplete => "incomplete",
            Fault::WasteFlood => "waste_flood",
            Fault::PriorityFlood => "priority_flood",
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (0x{:x})", self.reason(), self.code().0)
    }
}

impl std::error::Error for Fault {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_stand_at_their_numbers() {
        for (at, fault) in Fault::ALL.into_iter().enumerate() {
            assert_eq!(at, fault as usize);
        }
    }
}
