//! What is known of an acknowledgement: before it is taken in, and after.

use exos_wire::SeqNumber;

/// What is known of an acknowledgement before its data are looked at.
#[derive(Copy, Clone)]
pub(in crate::tcp) struct Acknowledgement {
    /// `snd_una` before it.
    pub una: SeqNumber,
    /// Bytes in flight before it.
    pub in_flight: u32,
    /// It repeats the last number and window and carries nothing (RFC 5681 §2).
    pub duplicate: bool,
}

/// What an acknowledgement was of.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(in crate::tcp) struct Acked {
    /// Data that the program had queued.
    pub data: bool,
    /// Our FIN.
    pub fin: bool,
}

impl Acked {
    pub const NOTHING: Self = Self {
        data: false,
        fin: false,
    };
}
