//! The interface of a link.

use exos_wire::Mac;

use crate::meta::RxChecksum;

/// What the link needs to know of its interface.
#[derive(Clone, Debug)]
pub(super) struct Interface {
    pub(super) name: String,
    pub(super) index: u32,
    pub(super) mac: Mac,
    pub(super) mtu: usize,
    /// Those in use.
    pub(super) queues: u32,
    pub(super) rx_checksum: RxChecksum,
    /// A bond's master: its driver runs programs on packets of its members, which sockets of the bond do not get.
    pub(super) is_bond: bool,
}
