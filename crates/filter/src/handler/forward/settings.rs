//! What is known when the program is made.

use super::flows::HashKey;
use super::shape::Shape;
use exos_wire::Mac;

/// What is forwarded, and where the program finds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForwardHandler {
    /// The interface's link address.
    pub mac: Mac,
    /// The shapes of packets that there are flows of; no code is made for others.
    pub shapes: Vec<Shape>,
    /// An array of buckets.
    pub index_fd: i32,
    /// How many there are.
    pub buckets: u32,
    /// What flows are found with.
    pub key: HashKey,
    /// An array of records.
    pub records_fd: i32,
    /// An array of next hops.
    pub hops_fd: i32,
    /// An array, for each CPU, of packets and bytes.
    pub tallies_fd: i32,
    /// How packets leave.
    pub way_out: WayOut,
    /// Frames may come with the checksum left to a device: only the pseudo header's sum is in its field.
    pub may_be_partial: bool,
    /// The order of what is read of shared memory has to be asked for: [`NEEDS_FENCES`](Self::NEEDS_FENCES).
    pub fences: bool,
}

/// How a packet leaves by the interface that it came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WayOut {
    /// `XDP_TX`.
    Transmit,
    /// A redirection to this interface, itself. On a veth, what is redirected arrives where the other end has an XDP
    /// program or GRO; what leaves by `XDP_TX` only where it has a program.
    Redirect(u32),
    /// A redirection of socket buffers to this interface, itself: the program runs in traffic control, where packets may be up to
    /// 64 KiB long, and leaves checksums as unfinished as they come.
    Buffers(u32),
}

impl WayOut {
    pub(super) const fn is_of_buffers(self) -> bool {
        matches!(self, Self::Buffers(_))
    }
}
