//! A segment that was received, as far as a connection looks at it.

use exos_wire::SeqNumber;
use exos_wire::tcp::TcpFlags;

/// What a segment says.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment<'a> {
    pub seq: SeqNumber,
    pub ack: SeqNumber,
    pub flags: TcpFlags,
    pub timestamp: u32,
    pub data: &'a [u8],
}
