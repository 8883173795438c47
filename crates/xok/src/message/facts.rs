//! What a program must know of the ring that it is given, to use it.

use crate::bytes::{DecodeError, Reader, in_bytes};

/// Bytes in which the link describes itself.
pub const LINK_BYTES: usize = 64;

/// The ring and the link behind it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Facts {
    /// The real interface's index, in the host's namespace: that of claims and tables.
    pub interface: u32,
    /// True for a queue of the real interface, false for a virtual interface of the slot's own.
    pub direct: bool,
    /// The ring's numbers, as `exos_link` writes them: sizes, Ethernet address, MTU, offloads. They pass through
    /// here unread, because who adopts a link believes none of them before it has held them against the
    /// descriptors.
    pub link: [u8; LINK_BYTES],
}

in_bytes!(Facts {
    interface,
    direct,
    link,
});
