//! A packet that came, while the forwarder handles it.

use exos_inet::Instant;

use crate::packets::packet::Packet;
use crate::packets::rewrite::Sums;

/// A packet that came.
pub(super) struct Arrival<'a> {
    pub(super) now: Instant,
    pub(super) packet: Packet,
    /// The frame that it is in.
    pub(super) frame: &'a mut [u8],
    pub(super) sums: Sums,
}

impl Arrival<'_> {
    /// What follows the IP header.
    #[inline]
    pub(super) fn upper(&self) -> &[u8] {
        &self.frame[self.packet.upper_range()]
    }

    /// The packet, from the IP header on.
    pub(super) fn ip(&self) -> &[u8] {
        &self.frame[self.packet.ip_at.into()..self.packet.end.into()]
    }
}
