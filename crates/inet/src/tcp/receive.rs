//! What was received and not yet taken by the program: bytes in order, and pieces beyond a gap.
//!
//! The in-order bytes are contiguous, so that the program can read a whole request in place. The
//! pieces are sorted, never overlap, and never touch one another (touching ones are merged).
//! Where a segment repeats bytes with another content, the first content stays. The caller trims
//! to the receive window first; so the window bounds the memory.

use std::collections::VecDeque;

use exos_wire::SeqNumber;

use crate::limits::OUT_OF_ORDER_PIECES_MAX;

/// Bytes beyond a gap. They grow at both ends, so that segments in reverse order cost their sender as
/// much as us.
struct Piece {
    start: SeqNumber,
    bytes: VecDeque<u8>,
}

impl Piece {
    fn end(&self) -> SeqNumber {
        self.start + self.bytes.len() as u32
    }

    fn prepend(&mut self, bytes: &[u8]) {
        bytes.iter().rev().for_each(|&b| self.bytes.push_front(b));
        self.start = self.start - bytes.len() as u32;
    }

    /// Both in one, where `next` begins at our end. The shorter one is copied: whoever splits and
    /// joins the same bytes again and again has to send as many.
    fn joined(mut self, mut next: Self) -> Self {
        if self.bytes.len() < next.bytes.len() {
            next.prepend(self.bytes.make_contiguous());
            return next;
        }
        self.bytes.append(&mut next.bytes);
        self
    }
}

/// The receiving side's data of one connection.
#[derive(Default)]
pub struct ReceiveQueue {
    ready: Vec<u8>,
    /// How much of `ready` the program has taken.
    taken: usize,
    pieces: Vec<Piece>,
}

/// What became of a segment's data.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub enum Placed {
    /// In order: so many bytes are new and readable, pieces that waited behind them included.
    InOrder {
        /// By how much the next expected sequence number moves on.
        advanced: u32,
        /// A gap was filled, in whole or in part.
        filled_gap: bool,
    },
    /// Kept beyond a gap.
    OutOfOrder,
    /// Nothing new.
    Duplicate,
    /// Beyond a gap, and too many pieces are kept already.
    Refused,
}

impl ReceiveQueue {
    /// The bytes in order that the program has not taken.
    pub fn readable(&self) -> &[u8] {
        &self.ready[self.taken..]
    }

    /// The program has taken `count` bytes. Panics when there are not so many.
    pub fn consume(&mut self, count: usize) {
        assert!(
            count <= self.ready.len() - self.taken,
            "consumed more than was readable"
        );
        self.taken += count;
        if self.taken == self.ready.len() {
            // An idle connection holds no memory.
            self.ready = Vec::new();
            self.taken = 0;
        }
    }

    /// True while pieces wait beyond a gap.
    pub fn has_gap(&self) -> bool {
        !self.pieces.is_empty()
    }

    /// Place `bytes`, which begin at `seq`, where `next` is the sequence number expected next.
    pub fn place(&mut self, next: SeqNumber, seq: SeqNumber, bytes: &[u8]) -> Placed {
        let end = seq + bytes.len() as u32;
        if end.le(next) {
            return Placed::Duplicate;
        }
        if seq.gt(next) {
            return self.keep(next, seq, bytes);
        }
        let filled_gap = self.has_gap();
        let mut reached = next;
        loop {
            let piece_start = self.pieces.first().map(|p| p.start);
            if piece_start.is_some_and(|start| start.le(reached)) {
                let piece = self.pieces.remove(0);
                if piece.end().gt(reached) {
                    let from = (reached - piece.start) as usize;
                    let (front, back) = piece.bytes.as_slices();
                    self.append(&front[from.min(front.len())..]);
                    self.append(&back[from.saturating_sub(front.len())..]);
                    reached = piece.end();
                }
            } else if reached.lt(end) {
                let until = piece_start.map_or(end, |start| start.min(end));
                self.append(&bytes[(reached - seq) as usize..(until - seq) as usize]);
                reached = until;
            } else {
                break;
            }
        }
        Placed::InOrder {
            advanced: (reached - next) as u32,
            filled_gap,
        }
    }

    /// Add to the readable bytes, taking back the room of those already taken.
    fn append(&mut self, bytes: &[u8]) {
        if self.taken > self.ready.len() / 2 {
            self.ready.drain(..self.taken);
            self.taken = 0;
        }
        self.ready.extend_from_slice(bytes);
    }

    /// Keep bytes that lie beyond a gap; what is there already is left as it is.
    fn keep(&mut self, next: SeqNumber, seq: SeqNumber, bytes: &[u8]) -> Placed {
        // Distances from `next` order what sequence numbers alone cannot.
        let (start, end) = (
            (seq - next) as u32,
            (seq - next) as u32 + bytes.len() as u32,
        );
        let (mut cursor, mut at, mut kept) = (start, 0, false);
        while cursor < end {
            while at < self.pieces.len() && (self.pieces[at].end() - next) as u32 <= cursor {
                at += 1;
            }
            let (hole_end, skip_to) = match self.pieces.get(at) {
                Some(p) => (((p.start - next) as u32).min(end), (p.end() - next) as u32),
                None => (end, end),
            };
            if hole_end > cursor {
                let part = &bytes[(cursor - start) as usize..(hole_end - start) as usize];
                if !self.fill(at, next + cursor, part) {
                    return if kept {
                        Placed::OutOfOrder
                    } else {
                        Placed::Refused
                    };
                }
                kept = true;
                // The pieces may have merged: look again from the one that now holds the part.
                at = at.saturating_sub(1);
            }
            cursor = skip_to.max(hole_end);
        }
        if kept {
            Placed::OutOfOrder
        } else {
            Placed::Duplicate
        }
    }

    /// Put `bytes` into the hole before piece `at`, merging with what they touch.
    fn fill(&mut self, at: usize, start: SeqNumber, bytes: &[u8]) -> bool {
        let end = start + bytes.len() as u32;
        let touches_next = self.pieces.get(at).is_some_and(|p| p.start == end);
        if at > 0 && self.pieces[at - 1].end() == start {
            self.pieces[at - 1].bytes.extend(bytes);
            if touches_next {
                let next = self.pieces.remove(at);
                let piece = self.pieces.remove(at - 1);
                self.pieces.insert(at - 1, piece.joined(next));
            }
        } else if touches_next {
            self.pieces[at].prepend(bytes);
        } else if self.pieces.len() < OUT_OF_ORDER_PIECES_MAX {
            self.pieces.insert(
                at,
                Piece {
                    start,
                    bytes: bytes.to_vec().into(),
                },
            );
        } else {
            return false;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn content(seq: u32) -> u8 {
        (seq.wrapping_mul(2_654_435_761) >> 24) as u8
    }

    fn bytes(from: u32, len: u32) -> Vec<u8> {
        (0..len).map(|n| content(from.wrapping_add(n))).collect()
    }

    #[test]
    fn a_gap_holds_back_what_follows_it() {
        let mut q = ReceiveQueue::default();
        let s = SeqNumber(100);
        assert_eq!(q.place(s, s + 10, &bytes(10, 5)), Placed::OutOfOrder);
        assert_eq!(q.place(s, s + 10, &bytes(10, 5)), Placed::Duplicate);
        assert_eq!(
            q.place(s, s, &bytes(0, 12)),
            Placed::InOrder {
                advanced: 15,
                filled_gap: true
            }
        );
        assert_eq!(q.readable(), bytes(0, 15));
        assert!(!q.has_gap());
    }

    #[test]
    fn the_first_content_of_repeated_bytes_stays() {
        let mut q = ReceiveQueue::default();
        let s = SeqNumber(u32::MAX - 3);
        assert_eq!(q.place(s, s + 4, b"EFGH"), Placed::OutOfOrder);
        assert_eq!(q.place(s, s + 2, b"xxxxxxxx"), Placed::OutOfOrder);
        assert_eq!(
            q.place(s, s, b"AByyyy"),
            Placed::InOrder {
                advanced: 10,
                filled_gap: true
            }
        );
        assert_eq!(q.readable(), b"ABxxEFGHxx");
    }

    /// A quarter of a mebibyte, byte by byte from behind: copying what is there for each would be
    /// 16 GiB of copies.
    #[test]
    fn bytes_in_reverse_order_give_the_stream() {
        let mut q = ReceiveQueue::default();
        let (s, len) = (SeqNumber(u32::MAX - 1000), 1 << 18);
        for n in (1..len).rev() {
            // Every other one first, and then the gap that it left.
            let at = if n % 2 == 0 { n - 1 } else { n + 1 };
            if at < len {
                assert_eq!(q.place(s, s + at, &bytes(at, 1)), Placed::OutOfOrder);
            }
        }
        q.place(s, s + (len - 1), &bytes(len - 1, 1));
        q.place(s, s, &bytes(0, 1));
        assert!(q.readable() == bytes(0, len), "another content");
    }

    #[test]
    fn pieces_are_bounded() {
        let mut q = ReceiveQueue::default();
        let s = SeqNumber(0);
        for n in 0..OUT_OF_ORDER_PIECES_MAX as u32 {
            assert_eq!(q.place(s, s + (2 + 2 * n), b"x"), Placed::OutOfOrder);
        }
        let far = 2 + 2 * OUT_OF_ORDER_PIECES_MAX as u32;
        assert_eq!(q.place(s, s + far, b"x"), Placed::Refused);
        // What touches a piece still fits.
        assert_eq!(q.place(s, s + 3, b"x"), Placed::OutOfOrder);
    }

    proptest! {
        /// Segments of one stream in any order, overlapping in any way, around the wrap.
        #[test]
        fn any_order_gives_the_stream(
            start in prop_oneof![Just(0u32), Just(u32::MAX - 40), any::<u32>()],
            cuts in prop::collection::vec((0u32..100, 1u32..30), 1..60),
            take in 0usize..20,
        ) {
            let mut q = ReceiveQueue::default();
            let mut next = SeqNumber(start);
            let mut have = [false; 130];
            let mut read = Vec::new();
            for (from, len) in cuts {
                let base = (next - SeqNumber(start)) as u32;
                let placed = q.place(next, SeqNumber(start) + from, &bytes(from, len));
                (from..from + len).for_each(|n| have[n as usize] = true);
                let reach = have.iter().position(|h| !h).unwrap() as u32;
                match placed {
                    Placed::InOrder { advanced, .. } => {
                        prop_assert_eq!(base + advanced, reach);
                        next += advanced;
                    }
                    _ => prop_assert_eq!(base, reach),
                }
                for pair in q.pieces.windows(2) {
                    prop_assert!(pair[0].end().lt(pair[1].start), "pieces touch or overlap");
                }
                prop_assert!(q.pieces.iter().all(|p| p.start.gt(next)));
                let n = take.min(q.readable().len());
                read.extend_from_slice(&q.readable()[..n]);
                q.consume(n);
            }
            read.extend_from_slice(q.readable());
            prop_assert_eq!(read, bytes(0, (next - SeqNumber(start)) as u32));
        }
    }
}
