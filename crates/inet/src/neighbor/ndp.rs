//! Messages of Neighbor Discovery (RFC 4861) as evidence for the cache.
//!
//! The caller has seen to it that no router passed them on: their hop limit is 255 (§7.1).

use std::net::Ipv6Addr;

use exos_wire::Mac;
use exos_wire::ndp::{NeighborAdvertisement, NeighborSolicitation};

use crate::neighbor::cache::NeighborCache;
use crate::neighbor::frames;
use crate::neighbor::heard::{Answer, Heard};
use crate::neighbor::state::Evidence;
use crate::route::{Delivery, Routes};
use crate::time::Instant;

/// Takes in a question by `asker` that came to the owner of `mac` (RFC 4861 §7.2.3).
pub(crate) fn handle_solicitation(
    cache: &mut NeighborCache,
    now: Instant,
    (mac, routes): (Mac, &Routes),
    asker: Ipv6Addr,
    question: &NeighborSolicitation,
) -> Heard {
    let mut heard = Heard::default();
    if !routes.is_local(question.target.into()) {
        return heard;
    }
    let may_be_next_hop = routes.next_hop(asker.into()) == Some(asker.into());
    if let Some(theirs) = question.source_mac.filter(|_| may_be_next_hop) {
        heard.released = cache.handle_answer(now, asker.into(), theirs, Evidence::Request);
    }
    let to_mac = question.source_mac.filter(|m| m.is_unicast());
    let target = question.target;
    let frame = frames::advertise(mac, target, asker, to_mac);
    heard.answer = Some(frame.map_or_else(
        || Answer::Message {
            from: target,
            to: asker,
            bytes: frames::advertisement(mac, target, &asker, true),
        },
        Answer::Frame,
    ));
    heard
}

/// Takes in an answer, or news that nobody asked for (RFC 4861 §7.2.5).
pub(crate) fn handle_advertisement(
    cache: &mut NeighborCache,
    now: Instant,
    routes: &Routes,
    how: Delivery,
    answer: &NeighborAdvertisement,
) -> Heard {
    let (ip, overriding) = (answer.target.into(), answer.override_);
    let Some(mac) = answer.target_mac.filter(|_| !routes.is_local(ip)) else {
        return Heard::default();
    };
    // A forged answer that nobody waits for is verified like any news, and not believed for as
    // long as one that was asked for.
    let is_asked_for = answer.solicited && cache.awaits(ip) && how == Delivery::Unicast;
    let evidence = match is_asked_for {
        true => Evidence::Solicited { overriding },
        false => Evidence::Unsolicited { overriding },
    };
    Heard {
        released: cache.handle_answer(now, ip, mac, evidence),
        answer: None,
        for_every_stack: true,
    }
}
