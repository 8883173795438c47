//! What leaves, as far as the sender says: which numbers, and where in the send queue they lie.

use core::ops::Range;

use exos_wire::SeqNumber;

/// What leaves next.
#[derive(Clone, Debug)]
pub(in crate::tcp) struct Piece {
    pub seq: SeqNumber,
    /// A range of the send queue.
    pub data: Range<usize>,
    /// PSH, FIN, CWR.
    pub flags: u8,
    /// All of it was sent before.
    pub again: bool,
    /// None of it was, and it is no probe.
    pub new_data: bool,
    /// Its largest payload, where that is not what the path is known to carry.
    pub mss: Option<u16>,
}
