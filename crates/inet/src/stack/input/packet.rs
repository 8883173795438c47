//! A received packet whose IP header has been read.

use std::net::IpAddr;

use exos_wire::Sum;
use exos_wire::offload::RxChecksum;

use crate::route::Delivery;
use crate::tcp::Ecn;

/// What the way in knows about a packet once its IP header is read.
#[derive(Copy, Clone)]
pub(in crate::stack) struct Packet<'a> {
    pub src: IpAddr,
    pub dst: IpAddr,
    pub how: Delivery,
    pub protocol: u8,
    /// What is above IP.
    pub payload: &'a [u8],
    /// The whole IP packet (or its beginning), for ICMP errors.
    pub quote: &'a [u8],
    /// Where the byte lies that names the protocol.
    pub protocol_field: usize,
    pub ecn: Ecn,
    pub arrival: Arrival,
}

/// How the frame of a packet came.
#[derive(Copy, Clone)]
pub(in crate::stack) struct Arrival {
    /// What is known of its sums.
    pub checksum: RxChecksum,
    /// It was for a group.
    pub group: bool,
    /// We have sent it: only then may it be from an address of ours.
    pub looped: bool,
}

impl Arrival {
    /// From ourselves.
    pub const LOOPED: Self = Self {
        checksum: RxChecksum::Verified,
        group: false,
        looped: true,
    };
}

impl Packet<'_> {
    /// What a transport's checksum covers beside its segment.
    pub fn pseudo(&self) -> Sum {
        let len = self.payload.len() as u32;
        Sum::pseudo(self.src, self.dst, self.protocol, len)
    }
}
