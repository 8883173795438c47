//! Where things wait on the stack of 512 bytes, below r10.
//!
//! ```text
//!   -8 START | -16 KEY | -24 UDP_LEN | -88 PART (64) | -96 SUM | -104 ADDRESSES | -112 ... variables 24 | intermediate words 12 | parts of a reply 12
//! ```

use crate::code::VariableId;
use crate::limits::{DEPTH_MAX, PARTS_MAX, VARIABLES_MAX};

/// Bytes of the packet before the message.
pub(super) const START: i16 = -8;
/// The key of a counter.
pub(super) const KEY: i16 = -16;
/// What the UDP header says, its own bytes and the message's, times 2^16: the verifier knows nothing of a part of a word.
pub(super) const UDP_LEN: i16 = -24;
/// A part of a packet that is moved.
pub(super) const PART: i16 = -88;

/// The message's checksum as it came, in memory order; 0 where a reply's has to be added up.
pub(super) const SUM: i16 = -96;

/// The sum of the packet's addresses, in memory order and not folded: the same whichever way round.
pub(super) const ADDRESSES: i16 = -104;

const SLOTS: i16 = -112;
const INTERMEDIATES: usize = DEPTH_MAX + 4;

const _: () = assert!(112 + 8 * (VARIABLES_MAX + INTERMEDIATES + PARTS_MAX - 1) <= 512);

const fn slot(number: usize) -> i16 {
    SLOTS - 8 * number as i16
}

/// A variable's word.
pub(super) const fn variable(variable: VariableId) -> i16 {
    slot(variable.0 as usize)
}

/// A word that waits for another; `depth` words wait already.
pub(super) fn intermediate(depth: usize) -> i16 {
    assert!(depth < INTERMEDIATES, "expressions are no deeper");
    slot(VARIABLES_MAX + depth)
}

/// The value of a number, or the length of a row, that a reply is to have.
pub(super) fn part(number: usize) -> i16 {
    slot(VARIABLES_MAX + INTERMEDIATES + number)
}
