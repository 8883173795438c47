//! What is to leave of a response: frames and content, in pieces, as far as QUIC has not taken them.

use std::collections::VecDeque;

use bytes::{Buf as _, Bytes};
use exos_buf::Slice;
use exos_http3::frame::{self, kind};
use quinn_proto::{SendStream, WriteError};

use crate::limits::{QUIC_COPIED_LEN_MAX, QUIC_PIECE_LEN, QUIC_SPARE_LEN_MAX};

/// Room for frames that leave together: a head and a short body.
const FRAMES_LEN: usize = 512;
/// Pieces for which there is room in queues that are cleared.
const PIECES: usize = 8;

/// What is queued of a response.
#[derive(Debug, Default)]
pub(super) struct Queue {
    pieces: VecDeque<Piece>,
    /// Memory for frames.
    spare: Vec<u8>,
    /// Bytes of the response, as the server counts them, that QUIC has not taken.
    len: usize,
}

/// Something to be sent.
#[derive(Debug)]
enum Piece {
    /// Frames, with content where that is short, and how much of them the server counts; to which others can be added.
    Frames(Vec<u8>, usize),
    Body(Slice),
    /// Of what another process can write: copied when QUIC takes it.
    Lent(Slice),
    /// Some of a document, in the memory in which all threads have it.
    Document(Bytes),
}

impl Queue {
    /// There is nothing in it but some memory.
    pub(super) fn clear(&mut self) {
        if !self.pieces.is_empty() {
            self.pieces.clear();
        }
        if self.pieces.capacity() > PIECES {
            self.pieces.shrink_to(PIECES);
        }
        self.len = 0;
    }

    /// Queues a field section, which the server counts as this many bytes.
    pub(super) fn push_section(&mut self, section: &[u8], counted: usize) {
        frame::push(self.frames(counted), kind::HEADERS, section);
    }

    /// Queues a part of the body. A short one leaves with what is before it.
    pub(super) fn push_body(&mut self, slice: Slice) {
        if slice.is_empty() {
            return;
        }
        let is_short = slice.len() <= QUIC_COPIED_LEN_MAX;
        let frames = self.frames(if is_short { slice.len() } else { 0 });
        frame::push_head(frames, kind::DATA, slice.len() as u64);
        if is_short {
            slice.append_to(frames);
        } else {
            self.len += slice.len();
            self.pieces.push_back(match slice.buffer().shared() {
                Some(shared) => {
                    Piece::Document(Bytes::from_owner(shared.clone()).slice(slice.range()))
                }
                None if slice.in_place().is_none() => Piece::Lent(slice),
                None => Piece::Body(slice),
            });
        }
    }

    /// The frames that leave last, to which something is added that the server counts so.
    fn frames(&mut self, counted: usize) -> &mut Vec<u8> {
        self.len += counted;
        let last = self.pieces.back();
        if !matches!(last, Some(Piece::Frames(frames, _)) if frames.len() < QUIC_PIECE_LEN) {
            let mut frames = std::mem::take(&mut self.spare);
            frames.reserve(FRAMES_LEN);
            self.pieces.push_back(Piece::Frames(frames, 0));
        }
        match self.pieces.back_mut() {
            Some(Piece::Frames(frames, all)) => {
                *all += counted;
                frames
            }
            _ => unreachable!("they were queued last"),
        }
    }

    /// Gives QUIC some of it; false where there is nothing.
    ///
    /// # Errors
    ///
    /// It takes no more, for now or for good.
    pub(super) fn write(&mut self, out: &mut SendStream<'_>) -> Result<bool, WriteError> {
        let Some(piece) = self.pieces.front() else {
            return Ok(false);
        };
        let len = match piece {
            Piece::Document(bytes) => {
                let next = bytes.slice_ref(piece.next());
                out.write_chunks(&mut [next])?.bytes
            }
            Piece::Lent(slice) => {
                let mut next = Vec::with_capacity(QUIC_PIECE_LEN);
                slice
                    .sub(0..slice.len().min(QUIC_PIECE_LEN))
                    .append_to(&mut next);
                out.write_chunks(&mut [next.into()])?.bytes
            }
            Piece::Frames(..) | Piece::Body(_) => out.write(piece.next())?,
        };
        self.taken(len);
        Ok(true)
    }

    /// QUIC has taken so much of the first piece.
    pub(super) fn taken(&mut self, len: usize) {
        let Some(piece) = self.pieces.front_mut() else {
            return;
        };
        self.len -= piece.advance(len);
        if piece.is_empty()
            && let Some(Piece::Frames(frames, _)) = self.pieces.pop_front()
        {
            self.spare = emptied(frames);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Bytes, as the server counts them, that QUIC has not taken.
    pub(super) fn len(&self) -> usize {
        self.len
    }
}

impl Piece {
    /// All of it has left.
    fn is_empty(&self) -> bool {
        match self {
            Piece::Lent(slice) => slice.is_empty(),
            _ => self.next().is_empty(),
        }
    }

    /// What QUIC is given next, where that is in place.
    fn next(&self) -> &[u8] {
        let all = match self {
            Piece::Frames(frames, _) => frames,
            Piece::Body(slice) => slice.as_bytes(),
            Piece::Lent(_) => &[],
            Piece::Document(bytes) => &bytes[..],
        };
        &all[..all.len().min(QUIC_PIECE_LEN)]
    }

    /// So much of it has left: how much of that the server counts.
    fn advance(&mut self, len: usize) -> usize {
        match self {
            Piece::Frames(frames, counted) => {
                frames.drain(..len);
                // A head may be longer as the server counts it, and is shorter with the heads of frames.
                let has_left = match frames.is_empty() {
                    true => *counted,
                    false => len.min(*counted),
                };
                *counted -= has_left;
                has_left
            }
            Piece::Body(slice) | Piece::Lent(slice) => {
                *slice = slice.sub(len..slice.len());
                len
            }
            Piece::Document(bytes) => {
                bytes.advance(len);
                len
            }
        }
    }
}

/// Memory for other bytes, unless there is much of it.
pub(super) fn emptied(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.clear();
    bytes.shrink_to(QUIC_SPARE_LEN_MAX);
    bytes
}

#[cfg(test)]
mod tests {
    use exos_buf::Buffer;

    use super::*;

    /// Of short parts that are queued faster than QUIC takes them, all leaves in order, and each time that something does the server hears
    /// of it.
    #[test]
    fn short_parts_leave_as_they_are_taken() {
        let (mut queue, mut wanted, mut left) = (Queue::default(), Vec::new(), Vec::new());
        let mut take = |queue: &mut Queue, most: usize| {
            let ((before, pieces), next) =
                ((queue.len(), queue.pieces.len()), queue.pieces[0].next());
            assert!(next.len() <= QUIC_PIECE_LEN);
            let next = &next[..next.len().min(most)];
            left.extend_from_slice(next);
            let len = next.len();
            queue.taken(len);
            // The last bytes of a piece may be as many as its frames have heads, which the server does not count.
            assert!(queue.len() < before || queue.pieces.len() < pieces);
        };
        queue.push_section(b"section", 100);
        frame::push(&mut wanted, kind::HEADERS, b"section");
        for number in 0..300 {
            let part = vec![number as u8; 1 + number * 7 % QUIC_COPIED_LEN_MAX];
            frame::push(&mut wanted, kind::DATA, &part);
            queue.push_body(Buffer::from(part).whole());
            if number % 3 == 0 {
                take(&mut queue, 700);
            }
        }
        while !queue.is_empty() {
            take(&mut queue, usize::MAX);
        }
        assert_eq!(queue.len(), 0);
        assert!(left == wanted);
    }
}
