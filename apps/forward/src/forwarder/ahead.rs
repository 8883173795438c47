//! Reading ahead: what the tables know of a batch of frames is read from memory at once, before the first is handled.
//!
//! With a million flows each packet is about another one, and each finds the index's entry and the flow where no cache
//! has them. One read after the other that is a tenth of a microsecond each. But reads that do not depend on one
//! another go on at the same time. So for all frames of a batch first the entries are read, and then the flows to which
//! these lead; nothing is done with either, and nothing depends on what was guessed. Then handling finds them in the cache.
//!
//! A table that the caches hold is not read ahead.

use std::hint::black_box;

use super::Forwarder;
use crate::flow::{FlowId, Key};
use crate::limits::READ_AHEAD_FROM;
use crate::packet::Packet;

/// Where a frame's flow is looked for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Ahead {
    /// By the hash of client and listener.
    Hash(u32),
    /// By server and port of ours.
    Port(u16, u16),
}

impl Forwarder {
    /// True when frames should be shown before they are handled.
    #[inline]
    pub fn reads_ahead(&self) -> bool {
        self.flows.len() >= READ_AHEAD_FROM
    }

    /// Shows a frame that is going to be handled.
    #[inline]
    pub fn look(&mut self, frame: &[u8]) {
        let packet = Packet::read(frame, self.mac);
        let Some((transport, src, dst)) = packet.and_then(|packet| packet.ends()) else {
            return;
        };
        let ahead = if let Some(listener) = self.services.listener(transport, dst) {
            let key = Key {
                client: src,
                listener,
            };
            Ahead::Hash(self.flows.hash_of(&key))
        } else if let Some(server) = self.services.server(transport, src, dst.address) {
            Ahead::Port(server as u16, dst.port)
        } else {
            return;
        };
        self.ahead.push(ahead);
    }

    /// Reads what handling the frames that were shown needs.
    pub fn read_ahead(&mut self) {
        // First the entries of all of them: no read waits for another.
        let place = |ahead: &Ahead| match *ahead {
            Ahead::Hash(hash) => self.flows.likely(hash),
            Ahead::Port(server, port) => self.services.servers[usize::from(server)].ports.get(port),
        };
        const BATCH: usize = 64;
        for batch in self.ahead.chunks(BATCH) {
            let mut places = [None::<FlowId>; BATCH];
            for (found, ahead) in places.iter_mut().zip(batch) {
                *found = place(ahead);
            }
            // And now the flows.
            let flows = places.iter().flatten();
            let seen = flows.map(|id| self.flows.get(*id).seen);
            black_box(seen.fold(0, |all, seen| all ^ seen));
        }
        self.ahead.clear();
    }
}
