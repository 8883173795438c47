//! How far a connection has been read.

use exos_http2::{StreamId, limits};

/// What is being read.
#[derive(Debug)]
pub(super) enum Reading {
    /// The server's first frame, which is its settings (§3.4).
    Start,
    /// The head of a frame.
    Frame,
    /// The payload of a frame of data.
    Data(Data),
    /// A header block that goes on in the next frame.
    Block(Unfinished),
}

/// The payload of a frame of data, or what is left of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Data {
    pub(super) id: StreamId,
    pub(super) content: usize,
    pub(super) padding: usize,
    pub(super) is_end: bool,
}

/// A header block whose end has yet to come.
#[derive(Debug)]
pub(super) struct Unfinished {
    pub(super) id: StreamId,
    pub(super) is_end: bool,
    pub(super) framing: u64,
    pub(super) bytes: Vec<u8>,
}

pub(super) const FRAME_HEAD_LEN: usize = limits::FRAME_HEAD_LEN;
