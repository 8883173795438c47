//! The body of a segment: the program's own slices, in place, and their sum.

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

/// The data of a segment: slices of the send queue, or one copy where they are too many; and its sum, if that
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
        Some(piece) => {
            let sum = summing.sum(|| piece.sum(), || Sum::of(piece.as_bytes()));
            (Body::whole(piece.as_bytes()), sum)
        }
        None => {
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
        sum = sum.followed_by(len, Sum::of(piece.as_bytes()));
        len += piece.len();
    }
    sum
}

/// The bytes of a range that lies in more than one piece.
#[inline(never)]
fn gather_pieces<'a>(queue: &'a Aggregate, data: Range<usize>, copy: &'a mut Vec<u8>) -> Body<'a> {
    let mut pieces = queue.pieces(data.clone()).map(|piece| piece.as_bytes());
    let (first, second, third) = (pieces.next(), pieces.next(), pieces.next());
    match (first, second, third) {
        (None, ..) => Body::EMPTY,
        (Some(first), None, _) => Body::whole(first),
        (Some(first), Some(second), None) => Body(Parts::Two([first, second])),
        (Some(first), Some(second), Some(third)) => {
            let mut parts = vec![first, second, third];
            parts.extend(pieces.by_ref().take(GATHER_MAX + 1 - parts.len()));
            if parts.len() <= GATHER_MAX {
                return Body(Parts::Several(parts));
            }
            copy.clear();
            copy.resize(data.len(), 0);
            queue.copy_to(data.clone(), copy);
            Body::whole(copy)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use exos_buf::Buffer;

    /// Two buffers of odd lengths, long enough for their sums to be kept.
    fn queue() -> (Aggregate, [Buffer; 2]) {
        let bytes = |len: u32| (0..len).map(|n| (n * 7 % 251) as u8).collect::<Vec<u8>>();
        let buffers = [bytes(5001), bytes(4003)].map(Buffer::from);
        let mut queue = Aggregate::new();
        buffers.iter().for_each(|buffer| queue.push(buffer.whole()));
        (queue, buffers)
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
