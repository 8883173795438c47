//! The chunked coding (RFC 9112 §7.1), as it comes: sizes, content, trailers.

use super::malformed::Malformed;

/// What of some bytes belonged to a body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// Bytes, those of framing included.
    pub bytes: usize,
    /// Bytes of content.
    pub content: u64,
}

impl Taken {
    pub(super) fn all(bytes: usize) -> Self {
        let content = bytes as u64;
        Self { bytes, content }
    }
}

/// Where in the coding we are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    /// In a chunk's size, of which this many digits have come.
    Size {
        digits: u8,
    },
    /// Behind the size, in an extension.
    Extension,
    /// Before the LF of a size line.
    SizeEnd,
    /// In content.
    Content,
    /// Before the CR and the LF behind content.
    ContentCr,
    ContentLf,
    /// At the begin of a line of the trailer.
    Trailer,
    /// In such a line.
    Field,
    /// Before the LF of the empty line.
    LastLf,
    Done,
}

/// A chunked body that comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunks {
    at: At,
    /// Of the chunk: its size as far as it was read, then the bytes of content that are to come.
    left: u64,
}

/// Digits of a size: more than any body has, and no overflow.
const DIGITS_MAX: u8 = 15;

impl Default for Chunks {
    fn default() -> Self {
        let at = At::Size { digits: 0 };
        Self { at, left: 0 }
    }
}

impl Chunks {
    pub(super) fn is_done(&self) -> bool {
        self.at == At::Done
    }

    pub(super) fn take(
        &mut self,
        bytes: &[u8],
        mut show: impl FnMut(&[u8]),
    ) -> Result<Taken, Malformed> {
        let mut taken = Taken::default();
        while let Some(&byte) = bytes.get(taken.bytes)
            && !self.is_done()
        {
            if self.at == At::Content {
                let there = (bytes.len() - taken.bytes) as u64;
                let count = there.min(self.left);
                self.left -= count;
                show(&bytes[taken.bytes..][..count as usize]);
                taken.content += count;
                taken.bytes += count as usize;
                if self.left == 0 {
                    self.at = At::ContentCr;
                }
            } else {
                self.at = self.step(byte).ok_or(Malformed::Chunk)?;
                taken.bytes += 1;
            }
        }
        Ok(taken)
    }

    /// Where a byte outside of content leads; `None` where it cannot be.
    fn step(&mut self, byte: u8) -> Option<At> {
        Some(match (self.at, byte) {
            (At::Size { digits }, _) if byte.is_ascii_hexdigit() && digits < DIGITS_MAX => {
                let digit = char::from(byte).to_digit(16).expect("it is one");
                self.left = self.left << 4 | u64::from(digit);
                At::Size { digits: digits + 1 }
            }
            (At::Size { digits: 1.. }, b'\r') => At::SizeEnd,
            (At::Size { digits: 1.. }, b';' | b' ' | b'\t') => At::Extension,
            (At::Size { .. }, _) => return None,
            (At::Extension, b'\r') => At::SizeEnd,
            (At::Extension, b'\n') => return None,
            (At::Extension, _) => At::Extension,
            (At::SizeEnd, b'\n') if self.left > 0 => At::Content,
            (At::SizeEnd, b'\n') => At::Trailer,
            (At::SizeEnd, _) => return None,
            (At::ContentCr, b'\r') => At::ContentLf,
            (At::ContentCr, _) => return None,
            (At::ContentLf, b'\n') => At::Size { digits: 0 },
            (At::ContentLf, _) => return None,
            (At::Trailer, b'\r') => At::LastLf,
            (At::Trailer | At::Field, b'\n') => At::Trailer,
            (At::Trailer | At::Field, _) => At::Field,
            (At::LastLf, b'\n') => At::Done,
            (At::LastLf, _) => return None,
            (At::Content | At::Done, _) => unreachable!("no byte of these is looked at"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How much content, how many bytes, and whether it ended.
    fn taken(bytes: &[u8], step: usize) -> Result<(u64, usize, bool), Malformed> {
        let mut chunks = Chunks::default();
        let (mut content, mut all) = (0, 0);
        for piece in bytes.chunks(step) {
            let mut shown = 0;
            let taken = chunks.take(piece, |part| shown += part.len() as u64)?;
            assert_eq!(shown, taken.content);
            content += taken.content;
            all += taken.bytes;
        }
        Ok((content, all, chunks.is_done()))
    }

    #[test]
    fn whole_bodies_however_they_are_cut() {
        let table: [(&[u8], u64); 5] = [
            (b"0\r\n\r\n", 0),
            (b"5\r\nhello\r\n0\r\n\r\n", 5),
            (b"a;x=\"1\"\r\n0123456789\r\n1 \r\n!\r\n0\r\n\r\n", 11),
            (b"00F\r\n0123456789abcde\r\n0\r\nA: b\r\nC: d\r\n\r\n", 15),
            (b"2\r\n\r\n\r\n000\r\n\r\n", 2),
        ];
        for (body, content) in table {
            for step in 1..=body.len() {
                assert_eq!(
                    taken(body, step),
                    Ok((content, body.len(), true)),
                    "{body:?}"
                );
            }
            let more = [body, b"HTTP/1.1 200"].concat();
            assert_eq!(taken(&more, more.len()), Ok((content, body.len(), true)));
            let less = &body[..body.len() - 1];
            assert_eq!(taken(less, 1), Ok((content, less.len(), false)));
        }
    }

    #[test]
    fn what_is_no_chunk() {
        let table: [&[u8]; 9] = [
            b"\r\n",
            b"x\r\n",
            b"-1\r\n",
            b"5\n",
            b"5\rx",
            b"1\r\nab",
            b"1\r\na\n",
            b"0\r\n\rx",
            b"0000000000000000\r\n",
        ];
        for body in table {
            for step in 1..=body.len() {
                assert_eq!(taken(body, step), Err(Malformed::Chunk), "{body:?}");
            }
        }
    }
}
