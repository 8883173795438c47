//! What of a response is not in memory: the content of a [long file](crate::site::long), or parts of it.
//!
//! A response is slices as long as it can be. Where the content of a long file begins, the slices end, and what follows
//! them is a [`Tail`]: pieces in order, to be read and sent before anything else is.

use std::collections::VecDeque;
use std::ops::Range;
use std::rc::Rc;

use exos_buf::Slice;

use crate::site::long::OpenFile;

/// A piece of a response.
#[derive(Clone, Debug)]
pub enum Piece {
    /// Bytes in memory: fields, or the head of a part.
    Bytes(Slice),
    /// These bytes of the file; never none.
    File(Range<u64>),
}

impl Piece {
    /// Its length in bytes.
    pub(crate) fn len(&self) -> u64 {
        match self {
            Piece::Bytes(slice) => slice.len() as u64,
            Piece::File(range) => range.end - range.start,
        }
    }

    /// Its bytes, if they are in memory.
    pub(crate) fn into_slice(self) -> Option<Slice> {
        match self {
            Piece::Bytes(slice) => Some(slice),
            Piece::File(_) => None,
        }
    }
}

/// What follows the slices of a response.
#[derive(Debug)]
pub struct Tail {
    /// Where its bytes are.
    pub file: Rc<OpenFile>,
    /// What is to be sent, in order.
    pub pieces: VecDeque<Piece>,
}

impl Tail {
    /// Its length in bytes.
    pub(crate) fn len(&self) -> u64 {
        self.pieces.iter().map(Piece::len).sum()
    }
}
