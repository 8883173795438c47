//! What can be wrong with what a peer sends, the code that tells it (RFC 9113 §7), and the counter that remembers.

use std::fmt;

/// Why a stream or a connection ends (§7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorCode(pub u32);

impl ErrorCode {
    /// It ends in order.
    pub const NO_ERROR: ErrorCode = ErrorCode(0);
    /// The peer did what the protocol does not allow.
    pub const PROTOCOL_ERROR: ErrorCode = ErrorCode(1);
    /// Something went wrong with us.
    pub const INTERNAL_ERROR: ErrorCode = ErrorCode(2);
    /// It sent more than there was room for.
    pub const FLOW_CONTROL_ERROR: ErrorCode = ErrorCode(3);
    /// It did not acknowledge settings.
    pub const SETTINGS_TIMEOUT: ErrorCode = ErrorCode(4);
    /// It sent something on a stream that is closed.
    pub const STREAM_CLOSED: ErrorCode = ErrorCode(5);
    /// A frame is longer or shorter than it may be.
    pub const FRAME_SIZE_ERROR: ErrorCode = ErrorCode(6);
    /// Nothing was done of the request: it may be asked again.
    pub const REFUSED_STREAM: ErrorCode = ErrorCode(7);
    /// Nobody needs it any more.
    pub const CANCEL: ErrorCode = ErrorCode(8);
    /// Header compression has lost its state.
    pub const COMPRESSION_ERROR: ErrorCode = ErrorCode(9);
    /// A tunnel broke.
    pub const CONNECT_ERROR: ErrorCode = ErrorCode(10);
    /// The peer asks too much.
    pub const ENHANCE_YOUR_CALM: ErrorCode = ErrorCode(11);
    /// The session of TLS is not good enough.
    pub const INADEQUATE_SECURITY: ErrorCode = ErrorCode(12);
    /// HTTP/1.1 is to be used.
    pub const HTTP_1_1_REQUIRED: ErrorCode = ErrorCode(13);

    /// Its name in RFC 9113, or nothing for a code that has none.
    pub fn name(self) -> Option<&'static str> {
        const NAMES: [&str; 14] = [
            "NO_ERROR",
            "PROTOCOL_ERROR",
            "INTERNAL_ERROR",
            "FLOW_CONTROL_ERROR",
            "SETTINGS_TIMEOUT",
            "STREAM_CLOSED",
            "FRAME_SIZE_ERROR",
            "REFUSED_STREAM",
            "CANCEL",
            "COMPRESSION_ERROR",
            "CONNECT_ERROR",
            "ENHANCE_YOUR_CALM",
            "INADEQUATE_SECURITY",
            "HTTP_1_1_REQUIRED",
        ];
        NAMES.get(self.0 as usize).copied()
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "code {}", self.0),
        }
    }
}

/// Declares the faults, a row for each: name, the code that tells the peer, the end of its counter's name, and what a person reads.
macro_rules! faults {
    ($($name:ident, $code:ident, $counter:literal, $text:literal;)*) => {
        /// What a peer did wrong. Whether a stream or the whole connection ends by it, says where it is given.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Fault {
            $(#[doc = $text] $name,)*
        }

        const ABOUT: [(ErrorCode, &str, &str); [$($counter,)*].len()] =
            [$((ErrorCode::$code, $counter, $text),)*];

        impl Fault {
            /// Every fault; `Fault::ALL[f as usize] == f`.
            pub const ALL: [Fault; ABOUT.len()] = [$(Fault::$name,)*];
        }
    };
}

faults! {
    Preface, PROTOCOL_ERROR, "preface", "the connection does not begin as one of HTTP/2";
    FrameLength, FRAME_SIZE_ERROR, "frame_length", "a frame has a length that its type does not allow";
    StreamNumber, PROTOCOL_ERROR, "stream_number", "a frame is on a stream on which its type may not be";
    IdleStream, PROTOCOL_ERROR, "idle_stream", "a frame is on a stream that nobody has opened";
    ClosedStream, STREAM_CLOSED, "closed_stream", "a frame is on a stream that is closed, or whose peer has ended it";
    HeadersOrder, PROTOCOL_ERROR, "headers_order", "a header block is interrupted, or goes on where none has begun";
    Padding, PROTOCOL_ERROR, "padding", "a frame has more padding than content";
    Settings, PROTOCOL_ERROR, "settings", "a setting has a value that it may not have";
    SettingsWindow, FLOW_CONTROL_ERROR, "settings_window", "settings make a window larger than there is";
    WindowZero, PROTOCOL_ERROR, "window_zero", "a window is opened by nothing";
    WindowOverflow, FLOW_CONTROL_ERROR, "window_overflow", "a window is opened beyond what there is";
    BeyondWindow, FLOW_CONTROL_ERROR, "beyond_window", "more data has come than there was room for";
    Compression, COMPRESSION_ERROR, "compression", "a header block cannot be decompressed";
    Push, PROTOCOL_ERROR, "push", "the peer pushes, which it may not";
    Malformed, PROTOCOL_ERROR, "malformed", "a message breaks the rules of header fields";
    ContentLength, PROTOCOL_ERROR, "content_length", "a body is not as long as its content-length says";
    SelfDependency, PROTOCOL_ERROR, "self_dependency", "a stream depends on itself";
    TooManyStreams, REFUSED_STREAM, "too_many_streams", "more streams are open than may be";
    HeaderBlockTooLong, ENHANCE_YOUR_CALM, "header_block_too_long", "a header block is longer than may be kept";
    HeaderBomb, ENHANCE_YOUR_CALM, "header_bomb", "a header block comes to far more than may be kept";
    ContinuationFlood, ENHANCE_YOUR_CALM, "continuation_flood", "a header block is cut into too many frames";
    ResetFlood, ENHANCE_YOUR_CALM, "reset_flood", "too many streams are opened and given up";
    SettingsFlood, ENHANCE_YOUR_CALM, "settings_flood", "settings come too often";
    PingFlood, ENHANCE_YOUR_CALM, "ping_flood", "pings come too often";
    EmptyFlood, ENHANCE_YOUR_CALM, "empty_flood", "too many frames bring nothing";
    PriorityFlood, ENHANCE_YOUR_CALM, "priority_flood", "priorities change too often";
    WindowFlood, ENHANCE_YOUR_CALM, "window_flood", "windows are opened too often, by too little";
    FaultFlood, ENHANCE_YOUR_CALM, "fault_flood", "too many streams end by faults";
}

impl Fault {
    /// The code that tells the peer.
    pub const fn code(self) -> ErrorCode {
        ABOUT[self as usize].0
    }

    /// A word for it, for counters.
    pub const fn reason(self) -> &'static str {
        ABOUT[self as usize].1
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(ABOUT[*self as usize].2)
    }
}

impl std::error::Error for Fault {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_is_in_order_and_reasons_differ() {
        for (index, fault) in Fault::ALL.into_iter().enumerate() {
            assert_eq!(fault as usize, index);
            let same = Fault::ALL.iter().filter(|it| it.reason() == fault.reason());
            assert_eq!(same.count(), 1, "{fault:?}");
        }
    }

    #[test]
    fn codes_have_the_names_of_the_rfc() {
        assert_eq!(Fault::ResetFlood.code().to_string(), "ENHANCE_YOUR_CALM");
        assert_eq!(
            ErrorCode::HTTP_1_1_REQUIRED.name(),
            Some("HTTP_1_1_REQUIRED")
        );
        assert_eq!(ErrorCode(99).to_string(), "code 99");
    }
}
