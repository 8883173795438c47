//! A request's stream, as it comes (RFC 9114 §4.1): a field section, the body in frames, perhaps another section.

use exos_http2::fields::Fields;
use exos_http2::message::{self, Layout, RequestHead};

use crate::error::Fault;
use crate::message::{Frames, Piece, Stage};
use crate::qpack::decoder;

/// The fields of a request, which keep to the rules (§4.2, §4.3: those of HTTP/2).
#[derive(Clone, Copy, Debug)]
pub struct Head<'a> {
    fields: &'a Fields,
    layout: Layout,
}

impl<'a> Head<'a> {
    /// The request.
    pub fn request(&self) -> RequestHead<'a> {
        RequestHead::new(self.fields, self.layout)
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
    Head(Head<'a>),
    /// A part of its body.
    Data(&'a [u8]),
    /// Fields behind that (§4.1): not all of them where they are too long.
    Trailers(&'a Fields),
}

/// What reads a request.
#[derive(Debug, Default)]
pub struct Reader {
    frames: Frames,
}

impl Reader {
    /// Takes bytes, up to the next part: how many, and the part. All are taken where there is none. What a part says lies in the bytes,
    /// or in `fields`, which many readers may use in turn.
    ///
    /// # Errors
    ///
    /// The fault of the stream, or of its connection; nothing more is to be given.
    pub fn receive<'a>(
        &mut self,
        bytes: &'a [u8],
        fields: &'a mut Fields,
    ) -> Result<(usize, Option<Part<'a>>), Fault> {
        let mut rest = bytes;
        let part = match self.frames.receive(&mut rest)? {
            None => None,
            Some(Piece::Data(data)) => Some(Part::Data(data)),
            Some(Piece::Section(section)) => Some(self.section(&section, fields)?),
        };
        Ok((bytes.len() - rest.len(), part))
    }

    /// The client has finished.
    ///
    /// # Errors
    ///
    /// Not with what it began.
    pub fn end(&self) -> Result<(), Fault> {
        self.frames.end()
    }

    fn section<'a>(&mut self, section: &[u8], fields: &'a mut Fields) -> Result<Part<'a>, Fault> {
        fields.clear();
        decoder::decode(section, |name, value| fields.push(name, value))?;
        let fields = &*fields;
        if self.frames.stage == Stage::Body {
            self.frames.stage = Stage::Trailers;
            return match message::trailers(fields) {
                Ok(()) => Ok(Part::Trailers(fields)),
                Err(_) => Err(Fault::Malformed),
            };
        }
        let layout = message::request(fields).map_err(|_| Fault::Malformed)?;
        self.frames.stage = match layout.is_tunnel() {
            true => Stage::Tunnel,
            false => Stage::Body,
        };
        // What is too long may have said it behind what was kept.
        self.frames.length = layout.length.filter(|_| !fields.is_too_long());
        Ok(Part::Head(Head { fields, layout }))
    }
}
