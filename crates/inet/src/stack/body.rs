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
    pub(super) const EMPTY: Self = Self(Parts::None);

    pub(super) fn whole(bytes: &'a [u8]) -> Self {
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

/// The data of a segment: slices of the send queue, or one copy where they are too many; and its sum, if that
/// is wanted. `near` is [`Aggregate::piece`]'s.
#[inline(always)]
pub(super) fn gather<'a>(
    queue: &'a Aggregate,
    data: Range<usize>,
    near: &mut usize,
    copy: &'a mut Vec<u8>,
    summed: bool,
) -> (Body<'a>, Option<Sum>) {
    if data.is_empty() {
        return (Body::EMPTY, summed.then_some(Sum::ZERO));
    }
    match queue.piece(data.clone(), near) {
        Some(piece) => {
            let sum = summed.then(|| piece.sum());
            (Body::whole(piece.as_bytes()), sum)
        }
        None => {
            let sum = summed.then(|| queue.sum(data.clone()));
            (gather_pieces(queue, data, copy), sum)
        }
    }
}

/// The same where they are more than one.
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
