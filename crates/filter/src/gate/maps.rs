//! Which maps a gate has: what to ask the kernel for, and the descriptors that its programs are made with.

use super::counter::Counter;
use super::group::{Group, MemberFlow};
use super::layout::{
    Bucket, Config, FlowKey, FlowValue, FragmentKey, FragmentValue, Handling, OwnerKey, Slot,
};
use super::limits::{
    ADDRESSES_MAX, BATCH_PLACES, FLOWS_MAX, FRAGMENTS_MAX, GENERALS_MAX, GROUPS_MAX, HANDLERS_MAX,
    MEMBER_FLOWS_MAX, OWNERS_MAX, QUEUES_MAX, SLOTS, TAPS_MAX,
};
use super::outcome::OUTCOMES;
use crate::arrivals::{VALUE_LEN, VALUES};
use crate::transmit::QUEUE_WORDS;

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
    ArrayOfMaps = 12,
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

/// Declares the maps: the kind of each, the bytes of a key and of a value, and how many entries at most.
macro_rules! maps {
    ($($(#[$doc:meta])* $name:ident: $kind:ident, $key:expr => $value:expr; $entries:expr,)*) => {
        /// One of each of the gate's maps: specifications, descriptors, or whatever an owner keeps of them.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct Maps<T> { $($(#[$doc])* pub $name: T,)* }

        /// What to create for a gate.
        pub const SPECS: Maps<MapSpec> = Maps {
            $($name: MapSpec {
                name: stringify!($name),
                kind: MapType::$kind,
                key_size: $key,
                value_size: $value,
                entries: $entries,
            },)*
        };

        $(const _: () = assert!(stringify!($name).len() <= 15);)*

        impl<T> Maps<T> {
            /// Makes something of each map: descriptors from specifications, numbers from descriptors. Stops at the first error.
            pub fn try_map<U, E>(&self, mut f: impl FnMut(&T) -> Result<U, E>) -> Result<Maps<U>, E> {
                Ok(Maps { $($name: f(&self.$name)?,)* })
            }
        }
    };
}

maps! {
    /// Array of one [`Config`].
    config: Array, 4 => Config::LEN; 1,
    /// Hash table of grants: [`FlowKey`] to [`FlowValue`].
    flows: Hash, FlowKey::LEN => FlowValue::LEN; FLOWS_MAX,
    /// Array of [`Group`].
    groups: Array, 4 => Group::LEN; GROUPS_MAX,
    /// LRU hash table of connections of groups: [`FlowKey`], of one connection, to [`MemberFlow`].
    member_flows: LruHash, FlowKey::LEN => MemberFlow::LEN; MEMBER_FLOWS_MAX,
    /// Hash table of slots that alone have ports of an address: [`OwnerKey`] to the slot's number.
    sole_owners: Hash, OwnerKey::LEN => 4; OWNERS_MAX,
    /// Hash table of addresses: 16 bytes to [`super::AddressFlags`].
    addresses: Hash, 16 => 4; ADDRESSES_MAX,
    /// Array of [`Slot`].
    slots: Array, 4 => Slot::LEN; SLOTS,
    /// Hash table: the index of a slot's interface `xokN` to the slot's number.
    by_ifindex: Hash, 4 => 4; SLOTS,
    /// Device map: slot to `xokN`.
    ports: Devmap, 4 => 4; SLOTS,
    /// Device map: the device, as long as it takes what is redirected to it.
    wire: Devmap, 4 => 4; 1,
    /// Array: slot to the secret of who sends live frames for it, two u64, 0 where nobody does; and the bytes of the longest, a u64.
    secrets: Array, 4 => SECRET_LEN + 8; SLOTS,
    /// Array of maps: slot to the queue of the live frames that it sends ([`QUEUE`]).
    queues: ArrayOfMaps, 4 => 4; SLOTS,
    /// Array of maps: slot to the memory of the live frames that it sends ([`FRAMES`]).
    frames: ArrayOfMaps, 4 => 4; SLOTS,
    /// Array of maps: slot to the memory that its frames arrive in, an array like that of [`ARRIVALS`]; empty where it has none.
    arrivals: ArrayOfMaps, 4 => 4; SLOTS,
    /// Socket map: queue of the device to the socket of its owner.
    sockets: Xskmap, 4 => 4; QUEUES_MAX,
    /// Array: queue of the device to the slot that it belongs to; 0 is nobody.
    queue_owner: Array, 4 => 4; QUEUES_MAX,
    /// Array of two [`Bucket`]: [`super::layout::LINK_RX`], [`super::layout::LINK_TX`].
    link_buckets: Array, 4 => Bucket::LEN; 2,
    /// Per-CPU array: slot to [`Counter::COUNT`] u64.
    counters: PercpuArray, 4 => Counter::COUNT * 8; SLOTS,
    /// LRU hash table: [`FragmentKey`] to [`FragmentValue`].
    fragments: LruHash, FragmentKey::LEN => FragmentValue::LEN; FRAGMENTS_MAX,
    /// Per-CPU array: what a program leaves to those that it calls.
    scratch: PercpuArray, 4 => SCRATCH_LEN; 2,
    /// XDP programs: a slot's place ([`Handling::index`]) to its handler there ([`super::handling`]).
    handlers: ProgArray, 4 => 4; SLOTS * HANDLERS_MAX as u32,
    /// Programs of traffic control: slot to what completes its handler's answers ([`super::handling::ingress`]).
    second_stages: ProgArray, 4 => 4; SLOTS,
    /// Array: slot to its [`Handling`].
    handling: Array, 4 => Handling::LEN; SLOTS,
    /// Array: slot to the [`Bucket`] of steps, in place of bytes, that its handlers have together.
    handler_budgets: Array, 4 => Bucket::LEN; SLOTS,
    /// XDP programs of the gate that handlers go on in: [`super::outcome::Outcome`].
    outcomes: ProgArray, 4 => 4; OUTCOMES,
    /// XDP programs of general filters.
    generals: ProgArray, 4 => 4; GENERALS_MAX,
    /// XDP programs that copy what comes in.
    taps_in: ProgArray, 4 => 4; TAPS_MAX,
    /// Traffic control programs that copy what goes out.
    taps_out: ProgArray, 4 => 4; TAPS_MAX,
    /// Per-CPU array: tap to two u64: copies made, copies lost because the client was too slow.
    tap_counts: PercpuArray, 4 => 16; TAPS_MAX,
}

/// What each map in `arrivals` is made like; it can be mapped.
pub const ARRIVALS: MapSpec = MapSpec {
    name: "exos_arrivals",
    kind: MapType::Array,
    key_size: 4,
    value_size: VALUE_LEN,
    entries: VALUES,
};

/// What each map in `queues` is made like.
pub const QUEUE: MapSpec = MapSpec {
    name: "exos_tx",
    kind: MapType::Array,
    key_size: 4,
    value_size: 8 * QUEUE_WORDS,
    entries: 1,
};

/// What each map in `frames` is made like: frames of an MTU of 1,500 bytes.
pub const FRAMES: MapSpec = MapSpec {
    name: "exos_frames",
    kind: MapType::Array,
    key_size: 4,
    value_size: 2048,
    entries: BATCH_PLACES,
};

/// Bytes of a secret.
pub const SECRET_LEN: usize = 16;

impl Maps<MapSpec> {
    /// What the maps in a map of this name are made like.
    pub fn inner(name: &str) -> Option<&'static MapSpec> {
        let [arrivals, queues, frames] =
            [SPECS.arrivals, SPECS.queues, SPECS.frames].map(|m| m.name);
        match name {
            name if name == arrivals => Some(&ARRIVALS),
            name if name == queues => Some(&QUEUE),
            name if name == frames => Some(&FRAMES),
            _ => None,
        }
    }
}

/// Descriptors of the maps, as the instructions name them.
pub type MapFds = Maps<i32>;

/// Bytes of a value of `scratch`.
pub const SCRATCH_LEN: usize = 32;

impl<T> Maps<T> {
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
        assert_eq!((names.len(), count), (29, 29));
        assert_eq!(SPECS.try_map(|_| Err::<(), _>("full")), Err("full"));
    }
}
