//! A response on a request's stream, as its client reads it (RFC 9114 §4.1): interim responses, which are passed over, the head, the
//! content in frames, perhaps trailers.

use exos_http2::response::Answer;

use crate::error::Fault;
use crate::message::{Frames, Piece, Stage};
use crate::qpack::decoder;

/// The longest field section that is remembered: longer ones are rare, and take memory in each connection.
const KEPT_LEN_MAX: usize = 1024;

/// Reads the field sections of a connection's responses. Servers answer the requests of a load with sections that are often the same to
/// the byte, and without a dynamic table such a section says what it said the last time.
#[derive(Debug, Default)]
pub struct Sections {
    section: Vec<u8>,
    answer: Answer,
}

impl Sections {
    /// What a section says.
    fn read(&mut self, section: &[u8]) -> Result<Answer, Fault> {
        if !section.is_empty() && self.section == section {
            return Ok(self.answer);
        }
        let mut answer = Answer::default();
        decoder::decode(section, |name, value| answer.field(name, value))?;
        if section.len() <= KEPT_LEN_MAX {
            self.section.clear();
            self.section.extend_from_slice(section);
            self.answer = answer;
        }
        Ok(answer)
    }
}

/// A part of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part<'a> {
    /// It begins, with this status.
    Head(u16),
    /// A part of its content.
    Data(&'a [u8]),
}

/// What reads a response.
#[derive(Debug, Default)]
pub struct Reader {
    frames: Frames,
    /// It has no content, whatever its head says of it (RFC 9110 §9.3.2).
    has_no_content: bool,
}

impl Reader {
    /// One to a request of this kind: the response to a HEAD has no content.
    pub fn new(is_head: bool) -> Reader {
        Reader {
            frames: Frames::default(),
            has_no_content: is_head,
        }
    }

    /// The head has come.
    pub fn has_begun(&self) -> bool {
        self.frames.stage != Stage::Head
    }

    /// Takes bytes from the beginning of `rest`, up to the next part; all where there is none.
    ///
    /// # Errors
    ///
    /// The fault of the stream, or of its connection; nothing more is to be given.
    pub fn receive<'a>(
        &mut self,
        rest: &mut &'a [u8],
        sections: &mut Sections,
    ) -> Result<Option<Part<'a>>, Fault> {
        while let Some(piece) = self.frames.receive(rest)? {
            match piece {
                Piece::Data(data) => return Ok(Some(Part::Data(data))),
                Piece::Section(section) => {
                    if let Some(status) = self.section(sections.read(&section)?)? {
                        return Ok(Some(Part::Head(status)));
                    }
                }
            }
        }
        Ok(None)
    }

    /// The server has finished.
    ///
    /// # Errors
    ///
    /// Not with what it began.
    pub fn end(&self) -> Result<(), Fault> {
        self.frames.end()
    }

    fn section(&mut self, answer: Answer) -> Result<Option<u16>, Fault> {
        match (answer.status, &self.frames.stage) {
            _ if answer.is_wrong => Err(Fault::Malformed),
            (None, Stage::Body) => {
                self.frames.stage = Stage::Trailers;
                Ok(None)
            }
            // RFC 9114 §4.1: another head follows an interim one; 101 there is none (§4.5).
            (Some(100 | 102..200), Stage::Head) => Ok(None),
            (Some(status @ 200..), Stage::Head) => {
                self.frames.stage = Stage::Body;
                let has_none = self.has_no_content || matches!(status, 204 | 304);
                self.frames.length = match has_none {
                    true => Some(0),
                    false => answer.length,
                };
                Ok(Some(status))
            }
            _ => Err(Fault::Malformed),
        }
    }
}
