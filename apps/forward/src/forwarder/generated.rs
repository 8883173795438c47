//! Packets that are not those that came: packets around them, pieces of them, and answers that they do not go on.

use std::collections::VecDeque;
use std::net::IpAddr;

use exos_inet::Instant;
use exos_inet::icmp::TokenBucket;
use exos_inet::limits::{ICMP_ERRORS_BURST, ICMP_ERRORS_PER_SECOND};

use super::{Forwarder, Verdict};
use crate::endpoint::Address;
use crate::limits::LINK_MTU;
use crate::packet::Packet;
use crate::reach::Reach;
use crate::refusal::Refusal;
use crate::rewrite::{Sums, keep_ends};
use crate::too_big;
use crate::traffic::Course;
use crate::tunnel::{Paths, TooBig, Tunnel, overhead};

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
    fn next_ident(&mut self) -> u16 {
        self.ident = self.ident.wrapping_add(1);
        self.ident
    }
}

impl Generated {
    /// A frame goes to this host, after the others.
    pub fn push(&mut self, to: IpAddr, frame: Vec<u8>) {
        self.frames.push_back((to, frame));
    }
}

impl Forwarder {
    /// How long packets may be on the link, from the IP header on.
    pub fn set_mtu(&mut self, mtu: usize) {
        self.generated.paths = Paths::new(mtu);
    }

    /// Whether there are frames that were made.
    #[inline]
    pub fn has_made(&self) -> bool {
        !self.generated.frames.is_empty()
    }

    /// A frame that was made, without link addresses, and the host that it goes to. To be called until there is none, after
    /// each frame that was handled.
    pub fn poll_made(&mut self) -> Option<(IpAddr, Vec<u8>)> {
        self.generated.frames.pop_front()
    }

    /// Sends a packet on to its server within another.
    #[inline(never)]
    pub(super) fn wrap(
        &mut self,
        now: Instant,
        packet: &Packet,
        frame: &mut [u8],
        sums: Sums,
        course: Course,
    ) -> Verdict {
        let server = &self.services.servers[usize::from(course.server)];
        let tunnel = Tunnel {
            from: server.ours,
            to: server.at.address,
        };
        let room = self.generated.paths.mtu(now, tunnel.to) - overhead(tunnel.to.is_ipv6());
        let fits = packet.ip_len() <= room as u64;
        if !fits && !too_big::may_be_cut(packet, frame) {
            return self.answer(now, packet, frame, packet.dst, Refusal::TooBig(room));
        }
        keep_ends(packet, frame, sums);
        let whole = &frame[packet.ip_at.into()..packet.end.into()];
        if fits {
            self.push_wrapped(&tunnel, whole);
        } else {
            self.counters.forwarded_cut += 1;
            let pieces = too_big::cut(whole, room);
            pieces
                .iter()
                .for_each(|piece| self.push_wrapped(&tunnel, piece));
        }
        self.sent(packet, course);
        Verdict::Generated
    }

    fn push_wrapped(&mut self, tunnel: &Tunnel, packet: &[u8]) {
        let ident = self.generated.next_ident();
        let frame = tunnel.wrap(packet, ident);
        self.generated.frames.push_back((tunnel.to.into(), frame));
    }

    /// Tells a packet's sender why it does not go on, from this address of ours.
    #[cold]
    pub(super) fn answer(
        &mut self,
        now: Instant,
        packet: &Packet,
        frame: &[u8],
        from: Address,
        refusal: Refusal,
    ) -> Verdict {
        let counters = &mut self.counters;
        let (errors, answered, dropped) = match refusal {
            Refusal::TooBig(_) => (
                0,
                &mut counters.too_big_answered,
                &mut counters.drop_too_big,
            ),
            Refusal::HopsOver => (1, &mut counters.hops_answered, &mut counters.drop_hops),
        };
        let is_somebody = self.routes.1.may_send(packet.src.into());
        let answer = refusal.answer(packet, frame, from);
        // Last, so that what must not be sent anyway costs no token.
        match answer.filter(|_| is_somebody && self.generated.errors[errors].take(now)) {
            Some(answer) => {
                *answered += 1;
                self.generated.frames.push_back((packet.src.into(), answer));
                Verdict::Answered
            }
            None => {
                *dropped += 1;
                Verdict::Drop
            }
        }
    }

    /// True for a router's word that packets to one of our servers are too long for the way.
    pub(super) fn learn_path(&mut self, now: Instant, packet: &Packet, frame: &[u8]) -> bool {
        let Some(TooBig { tunnel, mtu }) = TooBig::read(packet, frame) else {
            return false;
        };
        let is_ours = self.has_tunnel(tunnel.from, tunnel.to);
        if is_ours {
            self.generated.paths.learn(now, tunnel.to, mtu);
            self.counters.path_mtus_learned += 1;
        }
        is_ours
    }

    fn has_tunnel(&self, from: Address, to: Address) -> bool {
        let mut servers = self.services.present();
        servers.any(|(_, s)| s.reach == Reach::Tunnel && s.ours == from && s.at.address == to)
    }
}
