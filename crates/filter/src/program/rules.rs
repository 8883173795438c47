//! What a program is made for: rules, and the maps that it uses.

use crate::filter::Filter;

/// What to do with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Action {
    /// Leave it to the kernel's own stack.
    Pass,
    /// Drop it.
    Drop,
    /// Give it to the AF_XDP socket of the queue that it came in on. When that queue has no socket, the program's
    /// `otherwise` action is taken (`Pass` if that is `RedirectToSocket` as well).
    RedirectToSocket,
}

/// A filter and what to do with packets that match it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Which packets.
    pub filter: Filter,
    /// What to do with them.
    pub action: Action,
}

/// Descriptors of the maps that a program uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgramMaps {
    /// An XSKMAP, indexed by receive queue. Not looked at when no action is [`Action::RedirectToSocket`].
    pub xskmap_fd: i32,
    /// A per-CPU array of [`Counter::COUNT`] values of 8 bytes, indexed by [`Counter`]. None: nothing is counted.
    pub counters_fd: Option<i32>,
    /// With it, packets that can be spared are dropped before a socket's ring is full. None: they are not.
    pub early_drop: Option<EarlyDrop>,
}

/// What early drop needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EarlyDrop {
    /// Where to look.
    pub ring: ReceiveRing,
    /// Where to count. None: among the program's verdicts.
    pub count: Option<SlotCounters>,
}

/// A slot's counters in a map of the gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotCounters {
    /// The descriptor of the gate's `counters`.
    pub map_fd: i32,
    /// The slot.
    pub slot: u32,
}

/// Where the running kernel keeps how full the receive ring of an AF_XDP socket is: numbers and offsets from its type
/// information.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiveRing {
    /// The kernel's number of `bpf_rdonly_cast`.
    pub cast_function: i32,
    /// The number of `struct xdp_sock`.
    pub socket_type: i32,
    /// Offset of `rx` in it: a pointer to `struct xsk_queue`.
    pub rx: i16,
    /// Offset of `nentries` there.
    pub entries: i16,
    /// Offset of `cached_prod` there: what the kernel has put into the ring.
    pub produced: i16,
    /// Offset of `ring` there: a pointer to `struct xdp_ring`.
    pub ring: i16,
    /// Offset of `consumer` there: what the program has taken.
    pub consumed: i16,
}

impl ReceiveRing {
    /// From the numbers of the function and of the structure, and the offset of a structure's member in bits. None when one
    /// is missing.
    pub fn from_layout(
        cast_function: i32,
        socket_type: i32,
        member: impl Fn(&str, &str) -> Option<u32>,
    ) -> Option<Self> {
        let at = |structure, name| i16::try_from(member(structure, name)? / 8).ok();
        Some(Self {
            cast_function,
            socket_type,
            rx: at("xdp_sock", "rx")?,
            entries: at("xsk_queue", "nentries")?,
            produced: at("xsk_queue", "cached_prod")?,
            ring: at("xsk_queue", "ring")?,
            consumed: at("xdp_ring", "consumer")?,
        })
    }
}
