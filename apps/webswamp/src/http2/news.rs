//! What the frames that came say of requests under way.

use exos_http2::ErrorCode;

/// What came.
#[derive(Debug, PartialEq)]
pub enum News<'a> {
    /// Nothing that a slot would have to know.
    Nothing,
    /// A part of a response.
    Part(Part<'a>),
    /// A slot's request is over without a whole response.
    Lost {
        /// Whose it was.
        slot: u32,
        /// Why.
        why: Loss,
    },
    /// The server takes no more requests on this connection (§6.8).
    GoingAway {
        /// Why.
        code: ErrorCode,
        /// It says so for the first time: servers that leave in good order say it again.
        is_first: bool,
        /// It has looked at requests on this connection.
        has_taken: bool,
        /// The slots of requests that it has done nothing about, oldest first: they may be asked again.
        unasked: Vec<u32>,
    },
}

/// A part of a response.
#[derive(Debug, PartialEq)]
pub struct Part<'a> {
    /// Whose it is.
    pub slot: u32,
    /// The status, with the head that has it.
    pub status: Option<u16>,
    /// Bytes of frames around content.
    pub framing: u64,
    /// Content.
    pub content: &'a [u8],
    /// The response is whole with this.
    pub is_end: bool,
}

/// Why a response does not come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// The server has reset the stream.
    Reset(ErrorCode),
    /// What came is no response.
    Malformed,
}
