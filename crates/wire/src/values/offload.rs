//! What a link and a stack tell each other of transport checksums, of which one may leave the work to the other.
//!
//! A link to a kernel on the same machine may leave checksums unfinished, because nothing can corrupt them on the way.

/// What is known of the transport checksum of a received frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RxChecksum {
    /// Nothing: the receiver verifies it.
    #[default]
    Unknown,
    /// It is right: the link has verified it.
    Verified,
    /// The field holds the sum of the pseudo-header only; the sender is the kernel of this machine and left the rest to a
    /// device that there is not. The receiver trusts the data.
    Partial,
    /// It may be complete or hold the sum of the pseudo-header only, and the link cannot say which: frames of a kernel on
    /// this machine that come through a veth and AF_XDP, which has no word for it. The receiver accepts either.
    MaybePartial,
}

/// What is left for the link to do with the transport checksum of a frame that is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TxChecksum {
    /// Nothing: it is complete.
    #[default]
    Complete,
    /// The field holds the sum of the pseudo-header: sum from `start` to the end and put the complement into the field. Only
    /// on links that said they can.
    Partial {
        /// Where the checksummed bytes begin, from the start of the frame: those of the transport header.
        start: u16,
        /// Where the field is, from `start`.
        offset: u16,
    },
}
