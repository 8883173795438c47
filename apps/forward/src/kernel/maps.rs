//! The maps that the program in the kernel reads, and what is written there: see [`layout`].

use exos::Error;
use exos_filter::handler::forward::layout::OneWay;
use exos_filter::handler::forward::{Shape, layout};
use exos_host::bpf::{Cursor, Map};

use super::hops::Addresses;
use super::tallies::Tally;
use crate::flow::Tick;
use crate::limits::{KERNEL_HOPS_MAX, KERNEL_PAIRS_MAX};
use exos_wire::Mac;

/// What the program reads and writes.
pub(super) struct Maps {
    /// Over IPv4, and over IPv6.
    flows: [Map; 2],
    pub(super) hops: Map,
    pub(super) tallies: Map,
    /// How far the sweep has come: in which table, and where.
    swept: (usize, Cursor),
}

impl Maps {
    /// For so many flows of these shapes.
    pub(super) fn new(capacity: u32, shapes: &[Shape]) -> Result<Self, Error> {
        let table = |ipv6: bool, (key, value)| {
            let is_used = shapes.iter().any(|shape| shape.ipv6 == ipv6);
            // Two entries for each flow.
            let entries = if is_used { 2 * capacity } else { 1 };
            Map::growing_hash("exos_flows", key, value, entries)
        };
        Ok(Self {
            flows: [
                table(false, layout::V4_LENS)?,
                table(true, layout::V6_LENS)?,
            ],
            hops: Map::array("exos_hops", layout::HOP_LEN, KERNEL_HOPS_MAX)?,
            tallies: Map::percpu_array("exos_tallies", layout::TALLY_LEN, 2 * KERNEL_PAIRS_MAX)?,
            swept: (0, Cursor::default()),
        })
    }

    pub(super) fn flow_fds(&self) -> [i32; 2] {
        [self.flows[0].raw_fd(), self.flows[1].raw_fd()]
    }

    fn of(&self, way: &OneWay) -> &Map {
        &self.flows[usize::from(way.from.src.is_ipv6())]
    }

    pub(super) fn insert(&self, way: &OneWay, seen_ns: u64) -> Result<(), Error> {
        self.of(way).update(&way.key(), &way.value(seen_ns))
    }

    /// Takes an entry away. That the kernel should refuse that there is no reason for.
    pub(super) fn remove(&self, way: &OneWay) {
        let _ = self.of(way).delete(&way.key());
    }

    pub(super) fn seen(&self, way: &OneWay) -> Option<Tick> {
        let value = self.of(way).lookup(&way.key()).ok()??;
        Some(tick_of(layout::seen(&value).0))
    }

    /// Gives the places and times of some entries, beginning where the last call ended; true when it has come to the end.
    pub(super) fn sweep(&mut self, entries: u32, mut take: impl FnMut(u32, Tick)) -> bool {
        let (table, cursor) = &mut self.swept;
        let take = |_: &[u8], value: &[u8]| {
            let (seen_ns, place) = layout::seen(value);
            take(place, tick_of(seen_ns));
        };
        // An error is one of the kernel's memory: the next step tries again.
        if self.flows[*table]
            .read_batch(cursor, entries, take)
            .unwrap_or(true)
        {
            return false;
        }
        *table = (*table + 1) % self.flows.len();
        *table == 0
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
    fn set(&self, hop: u32, mac: Option<Mac>) {
        // An array's entries are always there: it cannot fail.
        let _ = self.hops.update(&hop.to_ne_bytes(), &layout::hop(mac));
    }
}

fn tick_of(ns: u64) -> Tick {
    (ns / 1_000_000_000) as Tick
}
