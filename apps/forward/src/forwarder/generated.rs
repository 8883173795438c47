//! Frames that are not those that came, until they leave, and what it takes to make them.

use std::collections::VecDeque;
use std::net::IpAddr;

use exos_inet::Instant;
use exos_inet::icmp::TokenBucket;
use exos_inet::limits::{ICMP_ERRORS_BURST, ICMP_ERRORS_PER_SECOND};

use crate::limits::LINK_MTU;
use crate::packets::endpoint::Address;
use crate::packets::refusal::Refusal;
use crate::packets::rewrite::put16;
use crate::packets::tunnel::{Paths, Tunnel, overhead};

/// Where the identification is in an IPv4 header.
const IDENT_AT: usize = 4;

/// Frames that were made, and what that takes.
pub(super) struct Generated {
    /// Frames without link addresses, and where they go.
    frames: VecDeque<(IpAddr, Vec<u8>)>,
    paths: Paths,
    /// For answers that packets do not fit, and for those that they had gone too far: who makes us give many of the one does not
    /// keep others from the other.
    errors: [TokenBucket; 2],
    /// The last identification that was given.
    ident: u16,
}

impl Default for Generated {
    fn default() -> Self {
        let start = Instant::START;
        Self {
            frames: VecDeque::new(),
            paths: Paths::new(LINK_MTU),
            errors: [(); 2]
                .map(|()| TokenBucket::new(ICMP_ERRORS_PER_SECOND, ICMP_ERRORS_BURST, start)),
            ident: 0,
        }
    }
}

impl Generated {
    /// Packets may be this long on any link, from the IP header on.
    pub(super) fn set_mtu(&mut self, mtu: usize) {
        self.paths = Paths::new(mtu);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    pub(super) fn pop(&mut self) -> Option<(IpAddr, Vec<u8>)> {
        self.frames.pop_front()
    }

    /// A frame goes to this host, after the others.
    pub(super) fn push(&mut self, to: IpAddr, frame: Vec<u8>) {
        self.frames.push_back((to, frame));
    }

    /// Gives a packet of IPv4 that is going to be cut an identification of its own; its header's checksum is made with the pieces.
    pub(super) fn renumber(&mut self, packet: &mut [u8]) {
        self.ident = self.ident.wrapping_add(1);
        put16(packet, IDENT_AT, self.ident);
    }

    /// A packet goes to a server within another.
    pub(super) fn push_wrapped(&mut self, tunnel: &Tunnel, packet: &[u8]) {
        self.ident = self.ident.wrapping_add(1);
        self.push(tunnel.to.into(), tunnel.wrap(packet, self.ident));
    }

    /// How long a packet may be that goes within another, and leaves by a link with this MTU.
    pub(super) fn room(&mut self, now: Instant, tunnel: &Tunnel, mtu: usize) -> usize {
        self.paths.mtu(now, tunnel.to).min(mtu) - overhead(tunnel.to.is_ipv6())
    }

    /// A router has said how long packets may be to this server.
    pub(super) fn learn(&mut self, now: Instant, to: Address, mtu: usize) {
        self.paths.learn(now, to, mtu);
    }

    /// Whether an answer of this kind may be sent now; one that is counts.
    pub(super) fn may_answer(&mut self, now: Instant, refusal: &Refusal) -> bool {
        let kind = match refusal {
            Refusal::TooBig(_) => 0,
            Refusal::HopsOver => 1,
        };
        self.errors[kind].take(now)
    }
}
