//! A request's stream, as it comes (RFC 9114 §4.1): a field section, the body in frames, perhaps another section.

use exos_http2::fields::Fields;

use crate::error::Fault;
use crate::heads::{Head, Heads};
use crate::message::{Frames, Piece, Stage};

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
    /// or in `heads`, which many readers may use in turn.
    ///
    /// # Errors
    ///
    /// The fault of the stream, or of its connection; nothing more is to be given.
    pub fn receive<'a>(
        &mut self,
        bytes: &'a [u8],
        heads: &'a mut Heads,
    ) -> Result<(usize, Option<Part<'a>>), Fault> {
        let mut rest = bytes;
        let part = match self.frames.receive(&mut rest)? {
            None => None,
            Some(Piece::Data(data)) => Some(Part::Data(data)),
            Some(Piece::Section(section)) => Some(self.section(&section, heads)?),
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

    fn section<'a>(&mut self, section: &[u8], heads: &'a mut Heads) -> Result<Part<'a>, Fault> {
        if self.frames.stage == Stage::Body {
            self.frames.stage = Stage::Trailers;
            return heads.trailers(section).map(Part::Trailers);
        }
        let head = heads.head(section)?;
        let layout = head.layout();
        self.frames.stage = match layout.is_tunnel() {
            true => Stage::Tunnel,
            false => Stage::Body,
        };
        // What is too long may have said it behind what was kept.
        self.frames.length = layout.length.filter(|_| !head.is_too_long());
        Ok(Part::Head(head))
    }
}
