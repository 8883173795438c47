//! The frames of a request's stream (RFC 9114 §4.1), in either direction: a field section or several, content, perhaps another section.
//! What a section says is its reader's to know.

use std::borrow::Cow;

use crate::error::Fault;
use crate::frame::{self, kind};
use crate::limits::{SECTION_LEN_MAX, WASTE_LEN_MAX};

/// Where a message is.
#[derive(Debug, Default, PartialEq)]
pub(crate) enum Stage {
    /// A section comes.
    #[default]
    Head,
    /// Content may come, or the last section.
    Body,
    /// Content may come, and no section (RFC 9114 §4.4).
    Tunnel,
    /// Nothing that counts may follow.
    Trailers,
}

/// A piece of a message.
pub(crate) enum Piece<'a> {
    /// A whole field section, as it was encoded.
    Section(Cow<'a, [u8]>),
    /// Content.
    Data(&'a [u8]),
}

/// A frame that has begun, and bytes of it that are still to come.
#[derive(Clone, Copy, Debug)]
enum Open {
    Section(u64),
    Data(u64),
    Skipped(u64),
}

/// What reads them.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    pub(crate) stage: Stage,
    /// What the content comes to, where the head says it.
    pub(crate) length: Option<u64>,
    open: Option<Open>,
    /// Of a frame's head, or of a field section, what has come.
    partial: Vec<u8>,
    body_len: u64,
    waste: u64,
}

impl Frames {
    /// Takes bytes from the beginning of `rest`, up to the next piece; all where there is none.
    ///
    /// # Errors
    ///
    /// The fault of the stream, or of its connection; nothing more is to be given.
    pub(crate) fn receive<'a>(&mut self, rest: &mut &'a [u8]) -> Result<Option<Piece<'a>>, Fault> {
        while !rest.is_empty() {
            let piece = match self.open.take() {
                None => {
                    if let Some((kind, len)) = self.take_head(rest) {
                        self.open = self.begin(kind, len)?;
                        // A section without a byte is whole.
                        if let Some(Open::Section(0)) = self.open {
                            return Err(Fault::Compression);
                        }
                    }
                    None
                }
                Some(Open::Data(left)) => {
                    let (data, left) = split(rest, left);
                    self.open = left.map(Open::Data);
                    self.body_len += data.len() as u64;
                    if self.length.is_some_and(|length| self.body_len > length) {
                        return Err(Fault::ContentLength);
                    }
                    Some(Piece::Data(data))
                }
                Some(Open::Skipped(left)) => {
                    self.open = split(rest, left).1.map(Open::Skipped);
                    None
                }
                Some(Open::Section(left)) => self.take_section(rest, left),
            };
            if piece.is_some() {
                return Ok(piece);
            }
        }
        Ok(None)
    }

    /// The sender has finished.
    ///
    /// # Errors
    ///
    /// Not with what it began.
    pub(crate) fn end(&self) -> Result<(), Fault> {
        if self.open.is_some() || !self.partial.is_empty() {
            return Err(Fault::FrameTruncated); // RFC 9114 §7.1
        }
        if self.stage == Stage::Head {
            return Err(Fault::Incomplete);
        }
        match self.length {
            Some(length) if length != self.body_len => Err(Fault::ContentLength),
            _ => Ok(()),
        }
    }

    /// A section: the bytes as they lie where all of it is here, a copy where it came in pieces.
    fn take_section<'a>(&mut self, rest: &mut &'a [u8], left: u64) -> Option<Piece<'a>> {
        let (section, left) = split(rest, left);
        if left.is_none() && self.partial.is_empty() {
            return Some(Piece::Section(Cow::Borrowed(section)));
        }
        self.partial.extend_from_slice(section);
        self.open = left.map(Open::Section);
        let is_whole = self.open.is_none();
        is_whole.then(|| Piece::Section(Cow::Owned(std::mem::take(&mut self.partial))))
    }

    /// A frame's head, which may come in pieces.
    fn take_head(&mut self, rest: &mut &[u8]) -> Option<(u64, u64)> {
        if self.partial.is_empty()
            && let Some(head) = frame::take_head(rest)
        {
            return Some(head);
        }
        while let Some((&byte, behind)) = rest.split_first() {
            *rest = behind;
            self.partial.push(byte);
            if let Some(head) = frame::take_head(&mut &self.partial[..]) {
                self.partial.clear();
                return Some(head);
            }
        }
        None
    }

    fn begin(&mut self, kind: u64, len: u64) -> Result<Option<Open>, Fault> {
        match (kind, &self.stage) {
            (kind::DATA, Stage::Body | Stage::Tunnel) => {
                self.waste(u64::from(len == 0))?;
                Ok((len > 0).then_some(Open::Data(len)))
            }
            (kind::HEADERS, Stage::Head | Stage::Body) => match len <= SECTION_LEN_MAX as u64 {
                true => Ok(Some(Open::Section(len))),
                false => Err(Fault::SectionTooLong),
            },
            (
                kind::DATA
                | kind::HEADERS
                | kind::CANCEL_PUSH
                | kind::SETTINGS
                | kind::PUSH_PROMISE
                | kind::GOAWAY
                | kind::MAX_PUSH_ID
                | kind::PRIORITY_UPDATE
                | kind::PRIORITY_UPDATE_PUSH,
                _,
            ) => Err(Fault::FrameUnexpected),
            (kind, _) if kind::is_of_http2(kind) => Err(Fault::FrameOfHttp2),
            // §9: what is not known is passed over.
            _ => {
                self.waste(len.saturating_add(1))?;
                Ok((len > 0).then_some(Open::Skipped(len)))
            }
        }
    }

    fn waste(&mut self, len: u64) -> Result<(), Fault> {
        self.waste = self.waste.saturating_add(len);
        match self.waste > WASTE_LEN_MAX {
            true => Err(Fault::WasteFlood),
            false => Ok(()),
        }
    }
}

/// As much of `rest` as belongs to a frame of which `left` bytes are to come; and what is to come then, if anything.
fn split<'a>(rest: &mut &'a [u8], left: u64) -> (&'a [u8], Option<u64>) {
    let len = usize::try_from(left).unwrap_or(usize::MAX).min(rest.len());
    let (part, behind) = rest.split_at(len);
    *rest = behind;
    let left = left - len as u64;
    (part, (left > 0).then_some(left))
}
