//! What a server is told.

use crate::error::{ErrorCode, Fault};
use crate::fields::Fields;
use crate::frame::StreamId;
use crate::message::RequestHead;
use crate::priority::Priority;

/// What has come.
#[derive(Debug)]
pub enum Event<'a> {
    /// A request begins; with `is_end` it is all there.
    Request {
        /// Its stream.
        stream: StreamId,
        /// Its fields, until the next call.
        head: RequestHead<'a>,
        /// It has no body.
        is_end: bool,
    },
    /// A request begins whose fields are longer than is kept: it is to be refused (431).
    FieldsTooLong {
        /// Its stream.
        stream: StreamId,
    },
    /// A part of a request's body, or its end.
    Data {
        /// Its stream.
        stream: StreamId,
        /// The part, perhaps nothing.
        bytes: &'a [u8],
        /// No more follows.
        is_end: bool,
    },
    /// The end of a request's body, and fields behind it (RFC 9113 §8.1).
    Trailers {
        /// Its stream.
        stream: StreamId,
        /// The fields, until the next call: not all of them where they are too long.
        fields: &'a Fields,
    },
    /// The peer has given a request up.
    Reset {
        /// Its stream, which is no more.
        stream: StreamId,
        /// Why.
        code: ErrorCode,
    },
    /// A stream has come to its end by a fault, which its peer is told.
    Fault {
        /// Its stream, which is no more; it may never have been one.
        stream: StreamId,
        /// What was wrong.
        fault: Fault,
    },
    /// A stream has another priority.
    Priority {
        /// Its stream.
        stream: StreamId,
        /// Which.
        priority: Priority,
    },
    /// There may be more room to send.
    Room,
    /// The client has heard that the connection ends, and was told which request is the last.
    Gone,
    /// The peer says that it will not ask for anything more.
    GoAway {
        /// Why.
        code: ErrorCode,
    },
}
