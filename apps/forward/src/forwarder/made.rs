//! Packets that are not those that came: packets around them, pieces of them, and answers that they do not go on.

use std::net::IpAddr;

use exos_inet::Instant;

use super::frames::Forwarder;
use super::verdict::Verdict;
use crate::packets::endpoint::Address;
use crate::packets::fragments::Onward;
use crate::packets::packet::Packet;
use crate::packets::reach::Reach;
use crate::packets::refusal::Refusal;
use crate::packets::rewrite::{Sums, keep_ends};
use crate::packets::too_big;
use crate::packets::traffic::Course;
use crate::packets::tunnel::{TooBig, Tunnel};

impl Forwarder {
    /// Whether there are frames that were made.
    #[inline]
    pub fn has_made(&self) -> bool {
        !self.generated.is_empty()
    }

    /// A frame that was made, without link addresses, and the host that it goes to. To be called until there is none, after
    /// each frame that was handled.
    pub fn poll_made(&mut self) -> Option<(IpAddr, Vec<u8>)> {
        self.generated.pop()
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
        let mtu = self.links.mtu_to(tunnel.to.into());
        let room = self.generated.room(now, &tunnel, mtu);
        let fits = packet.ip_len() <= room as u64;
        if !fits && !too_big::may_be_cut(packet, frame) {
            return self.answer(now, packet, frame, packet.dst, Refusal::TooBig(room));
        }
        keep_ends(packet, frame, sums.of_copy());
        let whole = &frame[packet.ip_at.into()..packet.end.into()];
        if fits {
            self.generated.push_wrapped(&tunnel, whole);
        } else {
            self.counters.forwarded_cut += 1;
            let pieces = too_big::cut(whole, room);
            pieces
                .iter()
                .for_each(|piece| self.generated.push_wrapped(&tunnel, piece));
        }
        self.sent(packet, course);
        Verdict::Generated
    }

    /// Sends a packet on that is too long for the link by which it leaves: in pieces, where it may be cut.
    #[cold]
    pub(super) fn send_long(
        &mut self,
        now: Instant,
        packet: &Packet,
        frame: &mut [u8],
        sums: Sums,
        onward: &Onward,
        mtu: usize,
    ) -> Verdict {
        if !too_big::may_be_cut(packet, frame) {
            let from = self.known_to(packet, onward);
            return self.answer(now, packet, frame, from, Refusal::TooBig(mtu));
        }
        match onward.reach {
            Reach::Direct => keep_ends(packet, frame, sums.of_copy()),
            _ => onward.rewrite.apply(packet, frame, sums.of_copy()),
        }
        if packet.fragment.is_none() {
            // What two clients send to a server may have one number.
            self.generated
                .renumber(&mut frame[usize::from(packet.ip_at)..]);
        }
        let to = onward.rewrite.dst.address.into();
        for piece in too_big::cut(&frame[packet.ip_at.into()..packet.end.into()], mtu) {
            self.generated.push(to, too_big::framed(&piece));
        }
        self.counters.forwarded_cut += 1;
        self.sent(packet, onward.course);
        Verdict::Generated
    }

    /// The address of ours that a packet's sender knows of.
    fn known_to(&self, packet: &Packet, onward: &Onward) -> Address {
        // What servers send to clients whom they see is for these.
        if onward.reach.hears_servers() && onward.reach != Reach::Nat && !onward.course.to_server {
            return self.services.listeners[usize::from(onward.course.listener)]
                .at
                .address;
        }
        packet.dst
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
        let (answered, dropped) = match refusal {
            Refusal::TooBig(_) => (&mut counters.too_big_answered, &mut counters.drop_too_big),
            Refusal::HopsOver => (&mut counters.hops_answered, &mut counters.drop_hops),
        };
        let is_somebody = self.links.may_send(packet.src.into());
        let answer = refusal.answer(packet, frame, from);
        // Last, so that what must not be sent anyway costs no token.
        match answer.filter(|_| is_somebody && self.generated.may_answer(now, &refusal)) {
            Some(answer) => {
                *answered += 1;
                self.generated.push(packet.src.into(), answer);
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
            self.generated.learn(now, tunnel.to, mtu);
            self.counters.path_mtus_learned += 1;
        }
        is_ours
    }

    fn has_tunnel(&self, from: Address, to: Address) -> bool {
        let mut servers = self.services.present();
        servers.any(|(_, s)| s.reach == Reach::Tunnel && s.ours == from && s.at.address == to)
    }
}
