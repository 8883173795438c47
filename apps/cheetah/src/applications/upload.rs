//! A request's body on its way to an application.
//!
//! One whose length is said is handed on as it comes. A chunked one is collected first, for CGI wants to know the length
//! (RFC 3875 §4.1.2), so it may be less long. To an upstream, which takes chunks, a longer one goes on in chunks of this server's.
//! Chunks are read to the letter of RFC 9112 §7.1: what leaves a doubt about where the request ends is refused.

use super::chunks::{BodyError, Chunks};
use super::trailers::chunk;

/// Reads a chunked body.
#[derive(Debug)]
pub struct Chunked {
    chunks: Chunks,
    /// What it holds.
    pub content: Vec<u8>,
}

impl Chunked {
    /// Nothing has come; there may be this much of it.
    pub fn new(content_max: u64) -> Chunked {
        Chunked {
            chunks: Chunks::new(content_max),
            content: Vec::new(),
        }
    }

    /// All of it is there.
    pub fn is_over(&self) -> bool {
        self.chunks.is_over()
    }

    /// The lines behind it, when it is whole.
    pub fn take_trailers(&mut self) -> Vec<u8> {
        self.chunks.take_trailers()
    }

    /// Takes bytes until it is whole, or holds `held_max` of content: how many.
    ///
    /// # Errors
    ///
    /// It cannot be had.
    pub fn take(&mut self, bytes: &[u8], held_max: usize) -> Result<usize, BodyError> {
        let mut taken = 0;
        loop {
            let room = held_max.saturating_sub(self.content.len());
            let rest = &bytes[taken..];
            let part = &rest[..rest.len().min(room)];
            if part.is_empty() || self.is_over() {
                return Ok(taken);
            }
            taken += self.chunks.take(part, &mut self.content)?;
        }
    }
}

/// A chunked body that is handed on as it comes, beginning with what was collected of it.
///
/// What is held stays where it is until all of it has been handed on; then its memory is given back.
#[derive(Debug)]
pub struct Flowing {
    body: Chunked,
    /// Bytes of the content that is held.
    handed_on: usize,
}

impl Flowing {
    /// Nothing of it has been handed on.
    pub fn of(body: Chunked) -> Flowing {
        Flowing { body, handed_on: 0 }
    }

    /// No content is held.
    pub fn is_empty(&self) -> bool {
        self.body.content.is_empty()
    }

    /// All of it has come.
    pub fn is_over(&self) -> bool {
        self.body.is_over()
    }

    /// The lines behind it, when all of it has come.
    pub fn take_trailers(&mut self) -> Vec<u8> {
        self.body.take_trailers()
    }

    /// Takes bytes of content that is to be held, at most `len_max`, where none is: how many bytes.
    ///
    /// # Errors
    ///
    /// It cannot be had.
    pub fn take(&mut self, bytes: &[u8], len_max: usize) -> Result<usize, BodyError> {
        match self.is_empty() {
            true => self.body.take(bytes, len_max),
            false => Ok(0),
        }
    }

    /// The next of the content that is held, at most `len_max` of it, in a chunk; nothing where none is held.
    pub fn next_chunk(&mut self, len_max: usize) -> Vec<u8> {
        let content = &mut self.body.content;
        let rest = &content[self.handed_on..];
        let part = &rest[..rest.len().min(len_max)];
        let chunk = chunk(part);
        self.handed_on += part.len();
        if self.handed_on == content.len() {
            // Nothing accounts for the memory of what was collected from here on.
            (*content, self.handed_on) = (Vec::new(), 0);
        }
        chunk
    }
}

/// How long a body is that goes to an application.
#[derive(Clone, Copy, Debug)]
pub struct Length {
    /// Its length, if there is one.
    pub known: Option<u64>,
    /// It goes there in chunks.
    pub is_chunked: bool,
}

impl Length {
    /// Of no body.
    pub const NONE: Length = Length {
        known: None,
        is_chunked: false,
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::{CHUNK_LINE_LEN_MAX, TRAILER_LEN_MAX};

    fn read(bytes: &[u8], step: usize, most: usize) -> Result<(Vec<u8>, usize, bool), BodyError> {
        let mut body = Chunked::new(most as u64);
        let mut taken = 0;
        for part in bytes.chunks(step) {
            taken += body.take(part, usize::MAX)?;
            assert!(body.content.len() <= most);
        }
        let is_over = body.is_over();
        Ok((body.content, taken, is_over))
    }

    #[test]
    fn chunks_are_joined() {
        let text = b"3\r\nabc\r\n0A;name=\"value\"\r\n0123456789\r\n0\r\nX: y\r\n\r\nGET / ";
        let end = text.len() - b"GET / ".len();
        for step in 1..text.len() + 1 {
            let (content, taken, is_over) = read(text, step, 13).unwrap();
            assert_eq!(
                (&*content, taken, is_over),
                (&b"abc0123456789"[..], end, true)
            );
        }
        for cut in 0..end {
            assert!(!read(&text[..cut], 5, 13).unwrap().2, "{cut}");
        }
        assert_eq!(read(text, 4, 12), Err(BodyError::TooLong));
    }

    #[test]
    fn no_more_is_held_than_there_is_room_for() {
        let text = b"3\r\nabc\r\nA\r\n0123456789\r\n0\r\nX: y\r\n\r\nGET / ";
        let end = text.len() - b"GET / ".len();
        for held_max in 1..20 {
            let mut body = Chunked::new(13);
            let (mut taken, mut content) = (0, Vec::new());
            while !body.is_over() {
                let count = body.take(&text[taken..], held_max).unwrap();
                assert!(count > 0 && body.content.len() <= held_max);
                taken += count;
                content.append(&mut body.content);
            }
            assert_eq!((&*content, taken), (&b"abc0123456789"[..], end));
        }
    }

    /// What was collected is not moved for each part that leaves, and none of its memory is kept behind the last.
    #[test]
    fn memory_of_what_was_collected_is_given_back() {
        let content: Vec<u8> = (0..100_000_u32).map(|at| at as u8).collect();
        let text = [b"186a0\r\n", &content[..], b"\r\n4\r\nlast\r\n0\r\n\r\n"].concat();
        let mut collected = Chunked::new(1 << 20);
        let taken = collected.take(&text, content.len()).unwrap();
        let at = collected.content.as_ptr();
        let (mut flowing, mut came) = (Flowing::of(collected), Chunked::new(1 << 20));
        while !flowing.is_empty() {
            assert_eq!(flowing.take(&text[taken..], 1000), Ok(0));
            assert!(flowing.body.content.as_ptr() == at);
            let part = flowing.next_chunk(30_000);
            assert_eq!(came.take(&part, usize::MAX), Ok(part.len()));
        }
        assert!(came.content == content);
        assert_eq!(flowing.body.content.capacity(), 0);
        assert!(flowing.next_chunk(30_000).is_empty());
        assert_eq!(flowing.take(&text[taken..], 1000), Ok(text.len() - taken));
        assert!(flowing.is_over());
        assert_eq!(flowing.next_chunk(30_000), b"4\r\nlast\r\n");
        assert!(flowing.is_empty());
    }

    #[test]
    fn what_leaves_a_doubt_is_refused() {
        let long_line = [&b"1;"[..], &[b'x'; CHUNK_LINE_LEN_MAX], b"\r\n"].concat();
        let long_trailer = [&b"0\r\n"[..], &b"A: b\r\n".repeat(TRAILER_LEN_MAX)].concat();
        for (text, wanted) in [
            (&b"3\nabc\r\n"[..], BodyError::Syntax),
            (b"3\r\nabcd\r\n", BodyError::Syntax),
            (b"3\r\nabc\n", BodyError::Syntax),
            (b"\r\n", BodyError::Syntax),
            (b"0x3\r\n", BodyError::Syntax),
            (b" 3\r\n", BodyError::Syntax),
            (b"+3\r\n", BodyError::Syntax),
            (b"-1\r\n", BodyError::Syntax),
            (b"3\rabc", BodyError::Syntax),
            (b"0\r\n\n", BodyError::Syntax),
            (b"ffffffffffffffff\r\n", BodyError::TooLong),
            (b"10000000000000000\r\n", BodyError::TooLong),
            (&long_line, BodyError::TooLong),
            (&long_trailer, BodyError::TooLong),
        ] {
            for step in [1, 2, 7, 100_000] {
                assert_eq!(
                    read(text, step, 1000),
                    Err(wanted),
                    "{}",
                    text.escape_ascii()
                );
            }
        }
    }
}
