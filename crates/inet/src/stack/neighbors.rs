//! What is heard of neighbours, and what the program says of them.

use std::net::IpAddr;

use exos_wire::arp::ArpView;
use exos_wire::{Mac, protocol};

use crate::neighbor::{Answer, Heard, arp};
use crate::stack::config::Neighbors;
use crate::stack::state::Stack;
use crate::time::Instant;
use crate::udp::HeaderFields;

impl Stack {
    /// Somebody else says what the link address of a neighbour is.
    pub fn set_neighbor(&mut self, now: Instant, ip: IpAddr, mac: Mac) {
        let waiting = self.neighbors.learn(now, ip, mac);
        self.queue_frames(waiting);
    }

    /// Find out the link address of a neighbour, or make sure of it; `neighbors` knows it then. Nothing is
    /// done for addresses that are not on the link.
    pub fn resolve(&mut self, now: Instant, ip: IpAddr) {
        let is_ours = self.routes.is_local(ip);
        if self.routes.next_hop(ip) == Some(ip) && !ip.is_multicast() && !is_ours {
            let _ = self.neighbors.lookup(now, ip);
        }
    }

    /// A packet of ARP.
    pub(super) fn handle_arp(&mut self, now: Instant, payload: &[u8]) {
        let Ok(view) = ArpView::parse(payload) else {
            self.counters.drop_arp_malformed += 1;
            return;
        };
        if self.config.neighbors == Neighbors::External {
            return;
        }
        let us = (self.config.mac, self.routes.as_ref());
        match arp::handle(&mut self.neighbors, now, us, &view.packet()) {
            Some(heard) => self.act_on(now, heard),
            None => self.counters.drop_arp_ignored += 1,
        }
    }

    /// What a message about neighbours leads to.
    pub(super) fn act_on(&mut self, now: Instant, heard: Heard) {
        self.for_every_stack |= heard.for_every_stack;
        self.queue_frames(heard.released);
        match heard.answer {
            Some(Answer::Frame(frame)) => self.queue_frame(frame),
            Some(Answer::Message { from, to, bytes }) => {
                let (from, to) = (from.into(), to.into());
                // RFC 4861 §7.1: what came through a router is not believed.
                let fields = HeaderFields {
                    hop_limit: 255,
                    ..HeaderFields::default()
                };
                self.send_ip_with(now, (from, to), protocol::ICMPV6, &bytes, fields);
            }
            None => {}
        }
    }

    /// A route leads back to who sent this.
    #[inline]
    pub(super) fn can_answer(&self, src: IpAddr) -> bool {
        self.paths.get(src, self.path_generation()).is_some() || self.routes.next_hop(src).is_some()
    }

    /// The neighbour on the way to a peer is there: the peer hears us.
    pub(super) fn confirm_neighbor(&mut self, now: Instant, peer: IpAddr) {
        if let Some(hop) = self.routes.next_hop(peer) {
            self.neighbors.confirm(now, hop);
        }
    }
}
