//! Plaintext that is given in pieces, and cut into records without being copied together.

/// Pieces that are cut into records.
pub(super) struct Pieces<'a> {
    pieces: &'a [&'a [u8]],
    /// Where the first one goes on.
    at: usize,
}

/// As much of them as one record has.
pub(super) struct Part<'a, 'b> {
    pieces: &'b mut Pieces<'a>,
    left: usize,
}

impl<'a> Pieces<'a> {
    pub(super) fn new(pieces: &'a [&'a [u8]]) -> Pieces<'a> {
        Pieces { pieces, at: 0 }
    }

    /// The next ones, with this many bytes.
    pub(super) fn part(&mut self, len: usize) -> Part<'a, '_> {
        Part {
            pieces: self,
            left: len,
        }
    }
}

impl<'a> Iterator for Part<'a, '_> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let (first, others) = self.pieces.pieces.split_first()?;
        if self.left == 0 {
            return None;
        }
        let rest = &first[self.pieces.at..];
        let piece = &rest[..rest.len().min(self.left)];
        self.left -= piece.len();
        if piece.len() == rest.len() {
            (self.pieces.pieces, self.pieces.at) = (others, 0);
        } else {
            self.pieces.at += piece.len();
        }
        Some(piece)
    }
}
