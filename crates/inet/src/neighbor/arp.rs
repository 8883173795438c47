//! ARP packets (RFC 826, with the answers of RFC 5227) as evidence for the cache.

use std::net::IpAddr;

use exos_wire::Mac;
use exos_wire::arp::{ArpPacket, REPLY, REQUEST};

use crate::neighbor::cache::NeighborCache;
use crate::neighbor::frames;
use crate::neighbor::heard::{Answer, Heard};
use crate::neighbor::state::Evidence;
use crate::route::Routes;
use crate::time::Instant;

/// Takes in a packet that came to the owner of `mac`; `None` when it is neither question nor answer.
pub(crate) fn handle(
    cache: &mut NeighborCache,
    now: Instant,
    (mac, routes): (Mac, &Routes),
    packet: &ArpPacket,
) -> Option<Heard> {
    if !matches!(packet.operation, REQUEST | REPLY) {
        return None;
    }
    let sender: IpAddr = packet.sender_ip.into();
    let is_for_us = routes.is_local(packet.target_ip.into());
    let is_gratuitous = packet.sender_ip == packet.target_ip;
    let evidence = match packet.operation {
        REQUEST if is_for_us && !is_gratuitous => Evidence::Request,
        REPLY if is_for_us && cache.awaits(sender) => Evidence::Solicited { overriding: true },
        _ => Evidence::Unsolicited { overriding: true },
    };
    let mut heard = Heard {
        for_every_stack: packet.operation == REPLY || is_gratuitous,
        ..Heard::default()
    };
    // Only who may be a next hop is worth remembering.
    if !routes.is_local(sender) && routes.next_hop(sender) == Some(sender) {
        heard.released = cache.handle_answer(now, sender, packet.sender_mac, evidence);
    }
    if is_for_us && packet.operation == REQUEST && packet.sender_mac.is_unicast() {
        heard.answer = Some(Answer::Frame(frames::arp_answer(mac, packet)));
    }
    Some(heard)
}
