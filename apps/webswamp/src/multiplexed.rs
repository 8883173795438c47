//! A connection on which many requests are under way, as the engine sees it whatever version of HTTP it speaks: what is asked of it, and
//! what comes.

use crate::request::Request;

/// A connection that stands.
pub trait Multiplexed {
    /// Requests under way.
    fn streams(&self) -> usize;

    /// How many requests more may be asked now, where the number under way has this bound: nobody is told of more than there is room for
    /// at least one.
    fn room(&mut self, most: u32) -> usize;

    /// Requests that the server allows at once; `None` before that is known.
    fn allowed(&self) -> Option<u32>;

    /// Nothing can be asked on it any more.
    fn is_used_up(&self) -> bool;

    /// Asks a slot's request. There is room for it.
    fn ask(&mut self, slot: u32, request: &Request);

    /// Gives up a slot's request, if it is under way here.
    fn cancel(&mut self, slot: u32);

    /// The slots of requests under way, oldest first. None is under way any more.
    fn take_slots(&mut self) -> Vec<u32>;
}

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
    /// The server takes no more requests on this connection (RFC 9113 §6.8, RFC 9114 §5.2).
    GoingAway {
        /// Why.
        code: Code,
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
    Reset(Code),
    /// What came is no response.
    Malformed,
}

/// An error code of a version of HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code {
    /// Its name; `None` of those that have none, of which there are many.
    pub name: Option<&'static str>,
    /// It stands for an error.
    pub is_error: bool,
}

impl From<exos_http2::ErrorCode> for Code {
    fn from(code: exos_http2::ErrorCode) -> Self {
        Self {
            name: code.name(),
            is_error: code != exos_http2::ErrorCode::NO_ERROR,
        }
    }
}

impl From<exos_http3::ErrorCode> for Code {
    fn from(code: exos_http3::ErrorCode) -> Self {
        Self {
            name: code.name(),
            is_error: code != exos_http3::ErrorCode::NO_ERROR,
        }
    }
}
