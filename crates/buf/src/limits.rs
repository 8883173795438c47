//! The limits of this crate, each with its reason.

/// Bytes between two entries of a buffer's table of prefix sums.
///
/// The sum of any slice is two table look-ups and at most half a block of summing at each end.
/// Smaller blocks cost memory (2 bytes each: 1.6 % of the data at 128), larger ones cost time
/// for every segment that does not begin on a block. Must be even, so that every block starts
/// on the parity of the buffer. The example `block_size` of this crate measures the choice.
pub const BLOCK_LEN: usize = 128;

/// The longest buffer: positions in a buffer are held in 32 bits, which halves the size of a
/// [`Slice`](crate::Slice). Anything longer is an aggregate of several buffers.
pub const BUFFER_LEN_MAX: usize = u32::MAX as usize;

const _: () = assert!(
    BLOCK_LEN.is_multiple_of(2),
    "blocks keep the parity of the buffer"
);
