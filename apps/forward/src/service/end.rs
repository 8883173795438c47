//! What listeners and servers have in common: whether they are in use, and the hash that finds them.

use exos_inet::siphash::SipKey;

use crate::packets::endpoint::Endpoint;
use crate::packets::packet::Transport;

/// Whether a listener or a server is to have new flows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Standing {
    /// It is.
    #[default]
    InUse,
    /// It was taken away, and has flows yet.
    Leaving,
    /// It is gone: its place is free.
    Gone,
}

/// For the tables of listeners and servers, which nobody else fills: no secret.
#[inline]
pub(super) fn hash(transport: Transport, at: Endpoint) -> u64 {
    let rest = u32::from(at.port) << 8 | u32::from(transport.number());
    SipKey::from_seed(1).hash_and_half(at.address.words(), rest)
}
