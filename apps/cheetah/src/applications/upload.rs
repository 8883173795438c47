//! A request's body on its way to an application.
//!
//! One whose length is said is handed on as it comes. A chunked one is collected first, for CGI wants to know the length
//! (RFC 3875 §4.1.2), so it may be less long. To an upstream, which takes chunks, a longer one goes on in chunks of this server's.
//! Chunks are read to the letter of RFC 9112 §7.1: what leaves a doubt about where the request ends is refused.

use super::chunks::{BodyError, Chunks};

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
