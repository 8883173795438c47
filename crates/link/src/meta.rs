//! What is said about a frame beside its bytes.
//!
//! A frame is an Ethernet frame without preamble and frame check sequence. Most
//! links carry nothing else; a link to a kernel on the same machine may leave
//! checksums unfinished and segments uncut, because nothing can corrupt them on
//! the way. These types say which.

pub use exos_wire::offload::{RxChecksum, TxChecksum};

/// What a link says about a received frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RxMeta {
    /// What is known of the transport checksum.
    pub checksum: RxChecksum,
    /// Set for a frame that stands for several TCP segments of this much
    /// payload each (the last may be shorter); it is up to 64 KiB long.
    pub gso_size: Option<u16>,
    /// It stands for datagrams of UDP; read only with a `gso_size`. Only frames that are relayed come so: who receives gets
    /// each datagram by itself.
    pub datagrams: bool,
    /// When it came to the interface, in nanoseconds of the monotonic clock, where the link was asked to note it.
    pub arrived_ns: Option<u64>,
}

/// What becomes of a frame that was lent for writing ([`Link::relay`](crate::Link::relay)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relay {
    /// It is done with.
    Done,
    /// It leaves by this link as it is now. What the link has said is undone may still be so: a checksum, and the cutting.
    Onward,
}

/// What a frame needs from a link with offload. [`Default`] is a complete frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TxMeta {
    /// What is left to do about the transport checksum.
    pub checksum: TxChecksum,
    /// Set for a TCP segment to be cut into segments of this much payload each, or a datagram of UDP into
    /// datagrams. It needs a partial checksum too.
    pub segment_size: Option<u16>,
    /// The frame is IPv6; read only with a `segment_size`.
    pub ipv6: bool,
    /// It carries UDP; read only with a `segment_size`. [`Link::cuts_datagrams`](crate::Link::cuts_datagrams) says whether the link takes
    /// it.
    pub datagrams: bool,
    /// Bytes of all headers, Ethernet to TCP or UDP; read only with a `segment_size`.
    pub header_len: u16,
}

/// What a link can be asked to do for the frames that are sent, and may have
/// left undone in those received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offload {
    /// Frames may be sent with [`TxChecksum::Partial`].
    pub tx_checksum: bool,
    /// Frames may be sent with a `segment_size`, up to this many bytes.
    pub tx_segmentation: Option<usize>,
    /// Received frames may have [`RxChecksum::Partial`] or
    /// [`RxChecksum::MaybePartial`].
    pub rx_partial_checksum: bool,
}
