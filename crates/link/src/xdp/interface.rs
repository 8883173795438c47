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
}
