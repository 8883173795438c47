//! A request's stream, as it comes (RFC 9114 §4.1): a field section, the body in frames, perhaps another section.

use exos_http2::fields::Fields;
use exos_http2::message::{self, Layout, RequestHead};

use crate::error::Fault;
use crate::frame::{self, kind};
use crate::limits::{SECTION_LEN_MAX, WASTE_LEN_MAX};
use crate::qpack::decoder;

/// The fields of a request, which keep to the rules (§4.2, §4.3: those of HTTP/2).
#[derive(Debug)]
pub struct Head {
    fields: Fields,
    layout: Layout,
}

impl Head {
    /// The request.
    pub fn request(&self) -> RequestHead<'_> {
        RequestHead::new(&self.fields, self.layout)
    }

    /// There were more fields than may be kept: those that are here are the first of them.
    pub fn is_too_long(&self) -> bool {
        self.fields.is_too_long()
    }

    /// The urgency that the request asks for (RFC 9218 §4.1), from 0, before all others, to 7.
    pub fn urgency(&self) -> u8 {
        self.layout.priority.unwrap_or_default().urgency
    }
}

/// A part of a request.
#[derive(Debug)]
pub enum Part<'a> {
    /// It begins.
    Head(Box<Head>),
    /// A part of its body.
    Data(&'a [u8]),
}

#[derive(Debug, Default, PartialEq)]
enum Stage {
    #[default]
    Head,
    Body,
    /// Nothing that counts may follow.
    Trailers,
}

/// A frame that has begun, and bytes of it that are still to come.
#[derive(Clone, Copy, Debug)]
enum Open {
    Section(u64),
    Data(u64),
    Skipped(u64),
}

/// What reads a request.
#[derive(Debug, Default)]
pub struct Reader {
    stage: Stage,
    open: Option<Open>,
    /// Of a frame's head, or of a field section, what has come.
    partial: Vec<u8>,
    /// What the body comes to, where the request says it.
    length: Option<u64>,
    body_len: u64,
    waste: u64,
}

impl Reader {
    /// Takes bytes, up to the next part: how many, and the part. All are taken where there is none.
    ///
    /// # Errors
    ///
    /// The fault of the stream, or of its connection; nothing more is to be given.
    pub fn receive<'a>(&mut self, bytes: &'a [u8]) -> Result<(usize, Option<Part<'a>>), Fault> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let part = match self.open.take() {
                None => {
                    if let Some((kind, len)) = self.take_head(&mut rest) {
                        self.open = self.begin(kind, len)?;
                        // A section without a byte is whole.
                        if let Some(Open::Section(0)) = self.open {
                            return Err(Fault::Compression);
                        }
                    }
                    None
                }
                Some(Open::Data(left)) => {
                    let (data, left) = split(&mut rest, left);
                    self.open = left.map(Open::Data);
                    self.body_len += data.len() as u64;
                    if self.length.is_some_and(|length| self.body_len > length) {
                        return Err(Fault::ContentLength);
                    }
                    Some(Part::Data(data))
                }
                Some(Open::Skipped(left)) => {
                    self.open = split(&mut rest, left).1.map(Open::Skipped);
                    None
                }
                Some(Open::Section(left)) => {
                    let (section, left) = split(&mut rest, left);
                    self.partial.extend_from_slice(section);
                    self.open = left.map(Open::Section);
                    match self.open {
                        Some(_) => None,
                        None => self.end_section()?.map(Part::Head),
                    }
                }
            };
            if part.is_some() {
                return Ok((bytes.len() - rest.len(), part));
            }
        }
        Ok((bytes.len(), None))
    }

    /// The client has finished.
    ///
    /// # Errors
    ///
    /// Not with what it began.
    pub fn end(&self) -> Result<(), Fault> {
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
            (kind::DATA, Stage::Body) => {
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

    fn end_section(&mut self) -> Result<Option<Box<Head>>, Fault> {
        let section = std::mem::take(&mut self.partial);
        let mut fields = Fields::new();
        decoder::decode(&section, &mut fields)?;
        if self.stage == Stage::Body {
            self.stage = Stage::Trailers;
            return match message::trailers(&fields) {
                Ok(()) => Ok(None),
                Err(_) => Err(Fault::Malformed),
            };
        }
        let layout = message::request(&fields).map_err(|_| Fault::Malformed)?;
        self.stage = Stage::Body;
        // What is too long may have said it behind what was kept.
        self.length = layout.length.filter(|_| !fields.is_too_long());
        Ok(Some(Box::new(Head { fields, layout })))
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
