//! The body of a segment: the program's own slices, in place, and their sum. What is in memory that another process can write is copied
//! first: to where the link copies it from into its frame, so it stays in the nearest cache between the two.

use std::ops::Range;

use exos_buf::Aggregate;
use exos_wire::Sum;

use crate::limits::GATHER_MAX;

/// Up to a handful of byte slices that follow the head of a frame.
pub struct Body<'a>(Parts<'a>);

/// Nearly all segments lie in one slice, or in two where a response's head meets its body: these are
/// kept small, because they are handed on with every frame.
enum Parts<'a> {
    None,
    One([&'a [u8]; 1]),
    Two([&'a [u8]; 2]),
    Several(Vec<&'a [u8]>),
}

impl<'a> Body<'a> {
    pub(in crate::stack) const EMPTY: Self = Self(Parts::None);

    pub(in crate::stack) fn whole(bytes: &'a [u8]) -> Self {
        Self(Parts::One([bytes]))
    }

    /// The slices, in order.
    #[inline]
    pub fn parts(&self) -> &[&'a [u8]] {
        match &self.0 {
            Parts::None => &[],
            Parts::One(parts) => parts,
            Parts::Two(parts) => parts,
            Parts::Several(parts) => parts,
        }
    }
}

/// How the sum of a segment's data is come by.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(in crate::stack) enum Summing {
    /// The link sees to it.
    Link,
    /// From the sums that buffers keep.
    Kept,
    /// Over the bytes.
    Afresh,
}

impl Summing {
    #[inline(always)]
    fn sum(self, kept: impl FnOnce() -> Sum, afresh: impl FnOnce() -> Sum) -> Option<Sum> {
        match self {
            Self::Link => None,
            Self::Kept => Some(kept()),
            Self::Afresh => Some(afresh()),
        }
    }
}

/// The data of a segment: slices of the send queue, or one copy where they are too many or not in place; and its sum, if that
/// is wanted. `near` is [`Aggregate::piece`]'s.
#[inline(always)]
pub(in crate::stack) fn gather<'a>(
    queue: &'a Aggregate,
    data: Range<usize>,
    near: &mut usize,
    copy: &'a mut Vec<u8>,
    summing: Summing,
) -> (Body<'a>, Option<Sum>) {
    if data.is_empty() {
        return (Body::EMPTY, summing.sum(|| Sum::ZERO, || Sum::ZERO));
    }
    match queue.piece(data.clone(), near) {
        Some(piece) if let Some(bytes) = piece.in_place() => {
            let sum = summing.sum(|| piece.sum(), || Sum::of(bytes));
            (Body::whole(bytes), sum)
        }
        _ => {
            let kept = || queue.sum(data.clone());
            let sum = summing.sum(kept, || sum_of_bytes(queue, data.clone()));
            (gather_pieces(queue, data, copy), sum)
        }
    }
}

/// The sum over the bytes, whatever is known of them.
fn sum_of_bytes(queue: &Aggregate, data: Range<usize>) -> Sum {
    let (mut sum, mut len) = (Sum::ZERO, 0);
    for piece in queue.pieces(data) {
        sum = sum.followed_by(len, piece.sum_of_bytes());
        len += piece.len();
    }
    sum
}

/// The bytes of a range that lies in more than one piece, or not in place.
#[inline(never)]
fn gather_pieces<'a>(queue: &'a Aggregate, data: Range<usize>, copy: &'a mut Vec<u8>) -> Body<'a> {
    if let Some(body) = in_place(queue, data.clone()) {
        return body;
    }
    copy.resize(data.len(), 0);
    queue.copy_to(data, copy);
    Body::whole(copy)
}

/// The bytes where they are, if they may be referred to there and the pieces are not too many.
fn in_place(queue: &Aggregate, data: Range<usize>) -> Option<Body<'_>> {
    let mut pieces = queue.pieces(data).map(|piece| piece.in_place());
    let (first, second, third) = (pieces.next(), pieces.next(), pieces.next());
    Some(match (first, second, third) {
        (None, ..) => Body::EMPTY,
        (Some(first), None, _) => Body::whole(first?),
        (Some(first), Some(second), None) => Body(Parts::Two([first?, second?])),
        (Some(first), Some(second), Some(third)) => {
            let mut parts = vec![first?, second?, third?];
            for piece in pieces {
                if parts.len() == GATHER_MAX {
                    return None;
                }
                parts.push(piece?);
            }
            Body(Parts::Several(parts))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use exos_buf::{Buffer, Foreign, SharedBytes};

    /// Two buffers of odd lengths, long enough for their sums to be kept.
    fn queue() -> (Aggregate, [Buffer; 2]) {
        let bytes = |len: u32| (0..len).map(|n| (n * 7 % 251) as u8).collect::<Vec<u8>>();
        let buffers = [bytes(5001), bytes(4003)].map(Buffer::from);
        let mut queue = Aggregate::new();
        buffers.iter().for_each(|buffer| queue.push(buffer.whole()));
        (queue, buffers)
    }

    /// What every segment carries is right wherever it lies, by the bytes that it is made of, and nothing is referred to in the other's memory.
    #[test]
    fn bytes_of_another_process_are_copied() {
        struct Theirs(Vec<u8>);
        impl Foreign for Theirs {
            fn len(&self) -> usize {
                self.0.len()
            }
            fn copy_to(&self, start: usize, out: &mut [u8]) {
                out.copy_from_slice(&self.0[start..start + out.len()]);
            }
            fn taken(&self) -> u64 {
                0
            }
        }
        let (own, [first, second]) = queue();
        let theirs = SharedBytes::foreign(Box::new(Theirs(second.as_slice().into())));
        let before = {
            theirs.prepare_sums();
            theirs.memory_len()
        };
        let mut mixed = Aggregate::new();
        mixed.push(first.whole());
        mixed.push(theirs.buffer().whole());
        for range in [0..1448, 3001..6001, 0..9004, 6001..9004, 6000..6030] {
            for summing in [Summing::Kept, Summing::Afresh, Summing::Link] {
                let (mut copies, mut near) = ((Vec::new(), Vec::new()), 0);
                let wanted = gather(&own, range.clone(), &mut 0, &mut copies.0, summing);
                let found = gather(&mixed, range.clone(), &mut near, &mut copies.1, summing);
                assert_eq!(found.0.parts().concat(), wanted.0.parts().concat());
                let value = |sum: Option<Sum>| sum.map(|sum| sum.value());
                assert_eq!(value(found.1), value(wanted.1), "{range:?} {summing:?}");
            }
        }
        assert_eq!(theirs.memory_len(), before, "no copy of all is kept");
    }

    #[test]
    fn sums_over_the_bytes_are_those_that_are_kept_and_need_no_table() {
        for range in [0..1448, 3001..6001, 0..9004, 6000..9004] {
            let sum = |summing| {
                let (queue, buffers) = queue();
                let (_, sum) = gather(&queue, range.clone(), &mut 0, &mut Vec::new(), summing);
                let has_table = buffers.iter().any(Buffer::has_sums);
                (sum.map(|sum| sum.value()), has_table)
            };
            let (kept, afresh) = (sum(Summing::Kept), sum(Summing::Afresh));
            assert_eq!(kept.0, afresh.0, "{range:?}");
            assert!(kept.1 && !afresh.1, "{range:?}");
            assert_eq!(sum(Summing::Link).0, None);
        }
    }
}
