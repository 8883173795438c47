//! Reading ahead: what the tables know of a batch of frames is read from memory at once, before the first is handled.
//!
//! With a million flows each packet is about another one, and each finds the index's entry and the flow where no cache
//! has them. One read after the other that is a tenth of a microsecond each. But memory fetches several places at the same
//! time, and while the processor does something else. So each frame that is shown has its entry fetched; when all were
//! shown, also the flows to which these lead, and what is beside those in lists, where that will change. Nothing depends on
//! what was guessed. Then handling finds all in the cache.
//!
//! What a frame was found to be is kept until it is handled, so that it is parsed and hashed once. Frames are handled in the
//! order in which they were shown, and one that was shown stays as it is until then, at its place in memory: that place tells
//! it from one that was not shown.
//!
//! A table that the caches hold is not read ahead.

use exos_inet::Instant;

use super::direction::tick_of;
use super::frames::Forwarder;
use super::shown::{Shown, Whose, place_of};
use crate::flow::{FlowId, Key};
use crate::limits::READ_AHEAD_FROM;
use crate::packets::endpoint::Endpoint;
use crate::packets::packet::Packet;
use crate::packets::reach::Reach;

impl Forwarder {
    /// True when frames should be shown before they are handled.
    #[inline]
    pub fn reads_ahead(&self) -> bool {
        self.flows.len() >= READ_AHEAD_FROM
    }

    /// Shows a frame that is going to be handled, in the order of handling, and does not change until then.
    #[inline]
    pub fn look(&mut self, frame: &[u8]) {
        let Some(packet) = Packet::read(frame, self.mac) else {
            return;
        };
        let whose = self.whose(&packet);
        self.prefetch_likely(whose);
        let at = place_of(frame);
        self.prefetch.show(Shown { at, packet, whose });
    }

    /// Has fetched what handling the frames needs that were shown since the last time. To be called before any are handled,
    /// also when none were shown: what was known of others is forgotten.
    pub fn read_ahead(&mut self, now: Instant) {
        self.prefetch.begin();
        let tick = tick_of(now);
        const BATCH: usize = 64;
        for batch in self.prefetch.shown.chunks(BATCH) {
            let mut places = [None::<FlowId>; BATCH];
            for (found, shown) in places.iter_mut().zip(batch) {
                *found = self.likely(shown.whose);
                found.iter().for_each(|id| self.flows.prefetch(*id));
            }
            for id in places.iter().flatten() {
                self.flows.prefetch_neighbours(tick, *id);
            }
        }
    }

    /// Has fetched what [`likely`](Self::likely) will read.
    #[inline]
    fn prefetch_likely(&self, whose: Whose) {
        match whose {
            Whose::Listener(_, hash) => self.flows.prefetch_likely(hash),
            Whose::Server(server, to) => {
                let there = &self.services.servers[server];
                match there.reach {
                    Reach::Nat => there.ports.prefetch(to.port),
                    Reach::Transparent | Reach::Direct | Reach::Tunnel => {
                        let hash = self.flows.hash_back(to, server as u16);
                        self.flows.prefetch_likely_back(hash);
                    }
                }
            }
            Whose::Nobody => {}
        }
    }

    /// Where a packet's flow is, or one of few others. Reads no flow.
    #[inline]
    fn likely(&self, whose: Whose) -> Option<FlowId> {
        match whose {
            Whose::Listener(_, hash) => self.flows.likely(hash),
            Whose::Server(server, to) => self.likely_back(server, to),
            Whose::Nobody => None,
        }
    }

    /// Where the flow of a server's packet to this end is, or one of few others. Reads no flow.
    #[inline]
    fn likely_back(&self, server: usize, to: Endpoint) -> Option<FlowId> {
        let there = &self.services.servers[server];
        match there.reach {
            Reach::Nat => there.ports.get(to.port),
            Reach::Transparent | Reach::Direct | Reach::Tunnel => {
                let hash = self.flows.hash_back(to, server as u16);
                self.flows.likely_back(hash)
            }
        }
    }

    /// What a frame is, and whose; `None` for what is not forwarded.
    #[inline]
    pub(super) fn read(&mut self, frame: &[u8]) -> Option<(Packet, Whose)> {
        if let Some(known) = self.prefetch.take(frame) {
            return Some(known);
        }
        let packet = Packet::read(frame, self.mac)?;
        Some((packet, self.whose(&packet)))
    }

    #[inline]
    fn whose(&self, packet: &Packet) -> Whose {
        let Some((transport, src, dst)) = packet.ends() else {
            return Whose::Nobody;
        };
        if let Some(listener) = self.services.listener(transport, dst) {
            let client = src;
            let key = Key { client, listener };
            return Whose::Listener(key, self.flows.hash_of(&key));
        }
        match self.services.sender(transport, src, dst.address) {
            Some(server) => Whose::Server(server, dst),
            None => Whose::Nobody,
        }
    }
}
