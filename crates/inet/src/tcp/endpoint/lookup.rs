//! From a segment to its connection, and what stands between the two: connections enter the table here, and leave it.
//!
//! One hash is made of a four-tuple when its segment arrives, and serves everything that is asked about it: the
//! index of connections, that of TIME-WAIT, and the index again when a connection is made. It stays with the
//! control block, so nothing is hashed when the connection ends or a table grows.
//!
//! Segments come in runs of one connection: the one that had the last segment, or was begun by it, is looked
//! at first, without any hash.

use crate::tcp::connection::{Connection, Opening};
use crate::tcp::endpoint::tcp::Tcp;
use crate::tcp::values::flow::{Flow, FlowKey};
use crate::tcp::values::id::ConnectionId;
use crate::tcp::values::local::Local;
use crate::time::Instant;
use exos_wire::SeqNumber;
use std::net::SocketAddr;

/// Salt of the keyed hash that sequence numbers begin with.
pub(in crate::tcp) const SALT_SEQUENCE: u32 = 1;

impl Tcp {
    /// The connection to which segments with that key belong.
    #[inline]
    pub(crate) fn find_key(&self, key: &FlowKey) -> Option<ConnectionId> {
        if let Some(id) = self.found.filter(|&id| self.slab.is_open(id, key)) {
            return Some(id);
        }
        let hash = key.table_hash(&self.key);
        let slot = self
            .index
            .find(hash, |slot| self.slab.holds_key(slot, key))?;
        self.slab.id_at(slot)
    }

    /// The connection of a flow with that hash.
    #[inline]
    pub(super) fn find(&self, flow: &Flow, hash: u32) -> Option<ConnectionId> {
        let slot = self.index.find(hash, |slot| self.slab.holds(slot, flow))?;
        self.slab.id_at(slot)
    }

    /// The connection between `local`, which is ours, and `remote`.
    pub fn connection_between(
        &self,
        local: SocketAddr,
        remote: SocketAddr,
    ) -> Option<ConnectionId> {
        let flow = Flow::new(local, remote);
        self.find(&flow, flow.table_hash(&self.key))
    }

    /// There is a connection of that flow, or was one lately.
    pub fn is_taken(&self, flow: &Flow) -> bool {
        let hash = flow.table_hash(&self.key);
        self.find(flow, hash).is_some() || self.time_wait.get(hash, flow).is_some()
    }

    /// Keep a new connection. The next segment is most likely its.
    #[inline(always)]
    pub(super) fn insert(&mut self, connection: Connection, hash: u32) -> ConnectionId {
        let id = self.slab.insert(connection, hash);
        let slab = &self.slab;
        self.index
            .insert(hash, id.slot(), |slot| slab.hash_at(slot));
        self.found = Some(id);
        id
    }

    /// Initial sequence number (RFC 6528 §3) and timestamp offset (RFC 7323 §5.4) of a new flow.
    pub(super) fn opening(&self, now: Instant, flow: Flow, local: Local) -> Opening {
        // A 4-microsecond clock, and a secret function of the four-tuple.
        let clock = (now.micros() / 4) as u32;
        // One hash, of which each takes a half.
        let secret = flow.hash(&self.key, SALT_SEQUENCE);
        let iss = SeqNumber(clock.wrapping_add(secret as u32));
        let ts_offset = (secret >> 32) as u32;
        Opening {
            flow,
            iss,
            ts_offset,
            mss_announced: local.mss,
            now,
        }
    }

    /// The connection changed: put it into the queues where it belongs.
    pub(super) fn settle(&mut self, id: ConnectionId) {
        if let Some(entry) = self.slab.entry_mut(id) {
            self.queues.settle(id, entry);
        }
    }
}
