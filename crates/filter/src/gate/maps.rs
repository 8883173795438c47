//! Which maps a gate has: what to ask the kernel for, and the descriptors that its programs are made with.

use super::counter::Counter;
use super::layout::{
    Bucket, Config, FlowKey, FlowValue, FragmentKey, FragmentValue, OwnerKey, Slot,
};
use super::limits::{
    ADDRESSES_MAX, FLOWS_MAX, FRAGMENTS_MAX, GENERALS_MAX, OWNERS_MAX, QUEUES_MAX, SLOTS, TAPS_MAX,
};

/// Kinds of maps by the kernel's numbers (`enum bpf_map_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
#[expect(missing_docs, reason = "named as in bpf(2)")]
pub enum MapType {
    Hash = 1,
    Array = 2,
    ProgArray = 3,
    PercpuArray = 6,
    LruHash = 9,
    Devmap = 14,
    Xskmap = 17,
}

/// One map to create.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapSpec {
    /// Its name, at most 15 bytes: in the kernel and where it is pinned.
    pub name: &'static str,
    /// Its kind.
    pub kind: MapType,
    /// Bytes of a key.
    pub key_size: usize,
    /// Bytes of a value (for one CPU).
    pub value_size: usize,
    /// Entries at most.
    pub entries: u32,
}

/// One of each of the gate's maps: specifications, descriptors, or whatever an owner keeps of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Maps<T> {
    /// Array of one [`Config`].
    pub config: T,
    /// Hash table of grants: [`FlowKey`] to [`FlowValue`].
    pub flows: T,
    /// Hash table of slots that alone have ports of an address: [`OwnerKey`] to the slot's number.
    pub sole_owners: T,
    /// Hash table of addresses: 16 bytes to [`super::AddressFlags`].
    pub addresses: T,
    /// Array of [`Slot`].
    pub slots: T,
    /// Hash table: the index of a slot's interface `xokN` to the slot's number.
    pub by_ifindex: T,
    /// Device map: slot to `xokN`.
    pub ports: T,
    /// Socket map: queue of the device to the socket of its owner.
    pub sockets: T,
    /// Array: queue of the device to the slot that it belongs to; 0 is nobody.
    pub queue_owner: T,
    /// Array of two [`Bucket`]: [`super::layout::LINK_RX`], [`super::layout::LINK_TX`].
    pub link_buckets: T,
    /// Per-CPU array: slot to [`Counter::COUNT`] u64.
    pub counters: T,
    /// LRU hash table: [`FragmentKey`] to [`FragmentValue`].
    pub fragments: T,
    /// Per-CPU array: what a program leaves to those that it calls.
    pub scratch: T,
    /// XDP programs of general filters.
    pub generals: T,
    /// XDP programs that copy what comes in.
    pub taps_in: T,
    /// Traffic control programs that copy what goes out.
    pub taps_out: T,
    /// Per-CPU array: tap to two u64: copies made, copies lost because the client was too slow.
    pub tap_counts: T,
}

/// Descriptors of the maps, as the instructions name them.
pub type MapFds = Maps<i32>;

const fn spec(
    name: &'static str,
    kind: MapType,
    key_size: usize,
    value_size: usize,
    entries: u32,
) -> MapSpec {
    assert!(name.len() <= 15);
    MapSpec {
        name,
        kind,
        key_size,
        value_size,
        entries,
    }
}

/// Bytes of a value of `scratch`.
pub const SCRATCH_LEN: usize = 32;

/// What to create for a gate.
pub const SPECS: Maps<MapSpec> = Maps {
    config: spec("config", MapType::Array, 4, Config::LEN, 1),
    flows: spec(
        "flows",
        MapType::Hash,
        FlowKey::LEN,
        FlowValue::LEN,
        FLOWS_MAX,
    ),
    sole_owners: spec("sole_owners", MapType::Hash, OwnerKey::LEN, 4, OWNERS_MAX),
    addresses: spec("addresses", MapType::Hash, 16, 4, ADDRESSES_MAX),
    slots: spec("slots", MapType::Array, 4, Slot::LEN, SLOTS),
    by_ifindex: spec("by_ifindex", MapType::Hash, 4, 4, SLOTS),
    ports: spec("ports", MapType::Devmap, 4, 4, SLOTS),
    sockets: spec("sockets", MapType::Xskmap, 4, 4, QUEUES_MAX),
    queue_owner: spec("queue_owner", MapType::Array, 4, 4, QUEUES_MAX),
    link_buckets: spec("link_buckets", MapType::Array, 4, Bucket::LEN, 2),
    counters: spec(
        "counters",
        MapType::PercpuArray,
        4,
        Counter::COUNT * 8,
        SLOTS,
    ),
    fragments: spec(
        "fragments",
        MapType::LruHash,
        FragmentKey::LEN,
        FragmentValue::LEN,
        FRAGMENTS_MAX,
    ),
    scratch: spec("scratch", MapType::PercpuArray, 4, SCRATCH_LEN, 2),
    generals: spec("generals", MapType::ProgArray, 4, 4, GENERALS_MAX),
    taps_in: spec("taps_in", MapType::ProgArray, 4, 4, TAPS_MAX),
    taps_out: spec("taps_out", MapType::ProgArray, 4, 4, TAPS_MAX),
    tap_counts: spec("tap_counts", MapType::PercpuArray, 4, 16, TAPS_MAX),
};

impl<T> Maps<T> {
    /// Makes something of each map: descriptors from specifications, numbers from descriptors. Stops at the first error.
    pub fn try_map<U, E>(&self, mut f: impl FnMut(&T) -> Result<U, E>) -> Result<Maps<U>, E> {
        Ok(Maps {
            config: f(&self.config)?,
            flows: f(&self.flows)?,
            sole_owners: f(&self.sole_owners)?,
            addresses: f(&self.addresses)?,
            slots: f(&self.slots)?,
            by_ifindex: f(&self.by_ifindex)?,
            ports: f(&self.ports)?,
            sockets: f(&self.sockets)?,
            queue_owner: f(&self.queue_owner)?,
            link_buckets: f(&self.link_buckets)?,
            counters: f(&self.counters)?,
            fragments: f(&self.fragments)?,
            scratch: f(&self.scratch)?,
            generals: f(&self.generals)?,
            taps_in: f(&self.taps_in)?,
            taps_out: f(&self.taps_out)?,
            tap_counts: f(&self.tap_counts)?,
        })
    }

    /// As [`Self::try_map`], where nothing fails.
    pub fn map<U>(&self, mut f: impl FnMut(&T) -> U) -> Maps<U> {
        match self.try_map(|one| Ok::<_, std::convert::Infallible>(f(one))) {
            Ok(maps) => maps,
            Err(never) => match never {},
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_map_is_visited_once_and_names_differ() {
        let mut names = Vec::new();
        let copy = SPECS.map(|spec| {
            names.push(spec.name);
            *spec
        });
        assert_eq!(copy, SPECS);
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!((names.len(), count), (17, 17));
        assert_eq!(SPECS.try_map(|_| Err::<(), _>("full")), Err("full"));
    }
}
