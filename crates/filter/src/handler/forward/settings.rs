//! What is known when the program is made.

use super::flows::HashKey;
use super::shape::Shape;
use exos_wire::Mac;

/// What is forwarded, and where the program finds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForwardHandler {
    /// Which of the links it runs on.
    pub link: u8,
    /// How packets leave by each link.
    pub exits: Vec<Exit>,
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
    /// Frames may come with the checksum left to a device: only the pseudo header's sum is in its field.
    pub may_be_partial: bool,
    /// The order of what is read of shared memory has to be asked for: [`NEEDS_FENCES`](Self::NEEDS_FENCES).
    pub fences: bool,
}

/// A link that packets leave by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exit {
    /// The interface's link address, which they come from.
    pub mac: Mac,
    /// How long packets may be there, from the IP header on. Asked only in XDP, and where there are several links: what came by one
    /// fits it, and a socket buffer may stand for several packets.
    pub mtu: u32,
    /// How they leave.
    pub way_out: WayOut,
}

/// How a packet leaves by an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WayOut {
    /// `XDP_TX`, by the interface that it came from.
    Transmit,
    /// A redirection to this interface. On a veth, what is redirected arrives where the other end has an XDP
    /// program or GRO; what leaves by `XDP_TX` only where it has a program.
    Redirect(u32),
    /// A redirection of socket buffers to this interface: the program runs in traffic control, where packets may be up to
    /// 64 KiB long, and leaves checksums as unfinished as they come.
    Buffers(u32),
}

impl ForwardHandler {
    /// The link that it runs on.
    pub(super) fn own(&self) -> &Exit {
        &self.exits[usize::from(self.link)]
    }

    /// Whether it runs in traffic control.
    pub(super) fn is_of_buffers(&self) -> bool {
        matches!(self.own().way_out, WayOut::Buffers(_))
    }

    /// There is a choice of links.
    pub(super) const fn has_several_links(&self) -> bool {
        self.exits.len() > 1
    }
}
