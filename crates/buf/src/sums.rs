//! The table of sums that [`crate::buffer`] describes.

use exos_wire::checksum::Sum;

use crate::limits::BLOCK_LEN;

/// Makes it for these bytes.
pub(crate) fn prefix_sums(bytes: &[u8]) -> Box<[u16]> {
    let mut sum = Sum::ZERO;
    let rest = bytes.chunks(BLOCK_LEN).map(|block| {
        sum = sum.plus(Sum::of(block)); // Every block but the last is whole, hence even.
        sum.value()
    });
    std::iter::once(0).chain(rest).collect()
}
