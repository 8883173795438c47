//! The limits of this crate, each with its reason.

/// Bytes between two entries of a buffer's table of prefix sums.
///
/// The sum of any slice is two table look-ups and at most half a block of summing at each end.
/// Smaller blocks cost memory (2 bytes each: 1.6 % of the data at 128), larger ones cost time for
/// every segment. Measured with the example `segment_sums`, for 1,448-byte segments: 11.5 ns at
/// 32, 12.5 at 64, 13.3 at 128, 16.3 at 256, 18.8 at 512, against 55 ns for reading the bytes.
/// Must be even, so that every block starts on the parity of the buffer.
pub const BLOCK_LEN: usize = 128;

/// The longest buffer: positions in a buffer are held in 32 bits, which halves the size of a
/// [`Slice`](crate::Slice). Anything longer is an aggregate of several buffers.
pub const BUFFER_LEN_MAX: usize = u32::MAX as usize;

/// Bytes of a buffer that is written again: from a request's head on, up to what a turn asks on a hundred streams.
pub const RECYCLED_LEN_MIN: usize = 64;
/// The longest of them: a connection keeps some.
pub const RECYCLED_LEN_MAX: usize = 16 * 1024;

/// Buffers that a connection writes in turn: one is acknowledged while the next is on its way.
pub const RECYCLED_MAX: usize = 3;

const _: () = assert!(
    BLOCK_LEN.is_multiple_of(2),
    "blocks keep the parity of the buffer"
);
