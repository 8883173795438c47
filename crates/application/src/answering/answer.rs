//! An answer: a head, and content that is made of slices.

use crate::limits::HEAD_LEN_MAX;
use exos_iolite::Aggregate;
use std::collections::VecDeque;
use std::io::Write as _;

/// The head of an answer: a status and header fields (RFC 3875 §6).
#[derive(Clone, Debug)]
pub struct Head {
    lines: Vec<u8>,
    /// Said beside them, so that heads of pages of other lengths are alike.
    length: Option<u32>,
}

impl Head {
    /// A head with this status, from 200 to 599.
    pub fn new(status: u16) -> Self {
        // Room for some fields.
        let (mut lines, length) = (Vec::with_capacity(128), None);
        let _ = write!(lines, "Status: {status}\r\n");
        Self { lines, length }
    }

    /// With a field more. Line ends in it become spaces.
    #[must_use]
    pub fn field(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        let plain = |byte: &u8| {
            if matches!(byte, b'\r' | b'\n') {
                b' '
            } else {
                *byte
            }
        };
        self.lines.extend(name.as_bytes().iter().map(plain));
        self.lines.extend_from_slice(b": ");
        self.lines.extend(value.as_ref().iter().map(plain));
        self.lines.extend_from_slice(b"\r\n");
        self
    }

    /// With the length of the content, where that is known before: else it is sent in chunks.
    #[must_use]
    pub fn length(mut self, length: u64) -> Self {
        self.length = u32::try_from(length).ok();
        match self.length {
            Some(_) => self,
            // Of which no record tells.
            None => self.field("Content-Length", length.to_string()),
        }
    }

    /// No server takes one of this length: it is sent as 500.
    pub fn is_too_long(&self) -> bool {
        self.lines.len() + 2 > HEAD_LEN_MAX
    }

    /// Its fields, without the empty line behind them.
    pub(super) fn lines(&self) -> &[u8] {
        &self.lines
    }

    /// The length of the content, where that is said beside the fields.
    pub(super) fn length_said(&self) -> Option<u32> {
        self.length
    }
}

/// An answer that is whole.
#[derive(Clone, Debug)]
pub struct Answer {
    pub(super) head: Head,
    /// Its content, and which parts of it are kept.
    pub(super) parts: VecDeque<(Aggregate, bool)>,
}

impl Answer {
    /// One without content. Its length is said in the head when it is sent.
    pub fn new(head: Head) -> Self {
        let parts = VecDeque::new();
        Self { head, parts }
    }

    /// With content behind what it has that was made for this answer.
    #[must_use]
    pub fn fresh(mut self, content: impl Into<Aggregate>) -> Self {
        self.parts.push_back((content.into(), false));
        self
    }

    /// With content behind what it has that the application keeps and will send again: servers remember it.
    #[must_use]
    pub fn kept(mut self, content: impl Into<Aggregate>) -> Self {
        self.parts.push_back((content.into(), true));
        self
    }

    /// Bytes of its content.
    pub fn len(&self) -> usize {
        self.parts.iter().map(|(part, _)| part.len()).sum()
    }

    /// It has no content.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
