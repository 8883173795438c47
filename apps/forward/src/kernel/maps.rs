//! The memory that the program in the kernel reads, and what is written there: see [`layout`].

use std::sync::atomic::Ordering;

use exos::Error;
use exos_filter::handler::forward::flows::{Flows, HashKey, buckets_for};
use exos_filter::handler::forward::{Shape, layout};
use exos_host::bpf::{Map, MappedArray};
use exos_wire::Mac;

use super::hops::Addresses;
use crate::limits::{KERNEL_HOPS_MAX, KERNEL_PAIRS_MAX};

/// What the program reads and writes.
pub(super) struct Maps {
    pub(super) index: MappedArray,
    pub(super) records: MappedArray,
    pub(super) hops: MappedArray,
    pub(super) tallies: Map,
    /// How many there are in the index.
    pub(super) buckets: u32,
    record_len: usize,
    pub(super) key: HashKey,
}

/// What one way of a pair of listener and server has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) packets: u64,
    /// From the IP header on.
    pub(super) bytes: u64,
}

impl Maps {
    /// For this many flows of these shapes.
    pub(super) fn new(capacity: u32, shapes: &[Shape], key: HashKey) -> Result<Self, Error> {
        let record_len = layout::record_len(shapes.iter().any(|shape| shape.ipv6));
        let buckets = buckets_for(capacity);
        Ok(Self {
            index: MappedArray::new("exos_index", layout::BUCKET_LEN, buckets)?,
            records: MappedArray::new("exos_flows", record_len, capacity)?,
            hops: MappedArray::new("exos_hops", layout::HOP_LEN, KERNEL_HOPS_MAX)?,
            tallies: Map::percpu_array("exos_tallies", layout::TALLY_LEN, 2 * KERNEL_PAIRS_MAX)?,
            buckets,
            record_len,
            key,
        })
    }

    /// The flows, by their places in the forwarder's table.
    pub(super) fn flows(&self) -> Flows<'_> {
        let (index, records) = (self.index.words(), self.records.words());
        Flows::new(index, records, self.record_len, self.key)
    }

    /// What a tally has counted on all processors; `None` where the kernel does not tell.
    pub(super) fn tally(&self, tally: u32) -> Option<Tally> {
        let sums = self.tallies.sum_percpu_u64(tally).ok()?;
        let &[packets, bytes] = sums.as_slice() else {
            return None;
        };
        Some(Tally { packets, bytes })
    }
}

impl Addresses for Maps {
    fn set(&self, hop: u32, link: u8, mac: Option<Mac>) {
        // Nothing else goes with it: one word, at once.
        self.hops.words()[hop as usize].store(layout::hop(link, mac), Ordering::Release);
    }
}
