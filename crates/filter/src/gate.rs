//! The gate of a shared interface: which program a packet belongs to, and what a program may send.
//!
//! Many programs share one device D. Each has a slot: a virtual interface of its own (`xokN` on the host's side), or
//! queues of D. The gate is three programs and the tables that they decide from:
//!
//! ```text
//! wire ──> D, XDP "in"  ── flows ──> slot N: xokN, or its queue's socket ──> the program's ring
//!                       └─ nobody's: the daemon's slot 0 (addresses that are ours alone), else the host's stack
//! wire <── D <── "out", at tcx ingress of xokN: is this packet the slot's to send? ── or to another slot, or the host
//! host ──> D, "host", at tcx egress: what the host sends to programs on its own machine goes to their slots
//! ```
//!
//! Exact grants (address, protocol, port, down to one connection) are entries of one hash table: a packet costs the
//! same with one grant and with ten thousand, and a grant is one update of a map. General filters are programs behind
//! a tail call, copies for `exos dump` are programs behind another.
//! A slot may have handlers, which are programs of their own, too, and each get the datagrams of one port first ([`handling`]).
//! A slot's holder may be given a program of its own that sends many frames at once, after the checks of "out" ([`batch()`]),
//! and one that all holders share and that does the same with live frames ([`live()`]).
//!
//! Here are the layouts of the tables ([`layout`]), what is counted ([`Counter`]), which maps there are ([`maps`]),
//! and what is told about copied packets ([`tap`]). Nothing here opens, loads or attaches: instructions and bytes
//! come out, descriptors go in.
//!
//! Runs on Linux 6.1: `bpf_xdp_load_bytes` is of 5.18, atomic instructions of 5.12, ring buffers of 5.8. The look at
//! unfinished checksums ([`Checksum`]) takes 6.2; without it no packet socket may be given to a program.

mod code;
mod copies;
mod counter;
mod general;
pub mod group;
pub mod handling;
mod incoming;
pub mod layout;
mod lent;
pub mod limits;
pub mod maps;
pub mod outcome;
mod outgoing;
mod record;
pub mod steps;
pub mod tap;

pub use code::checksum::Checksum;
pub use copies::{SlotSet, Tap, tap};
pub use counter::Counter;
pub use general::{NoClaim, sending};
pub use group::{Group, Member, MemberFlow};
pub use incoming::{from_host, general, incoming};
pub use layout::{
    AddressFlags, Bucket, Config, FlowKey, FlowValue, FragmentKey, FragmentValue, Handled,
    Handling, OwnerKey, Shape, Share, Slot, SlotKind,
};
pub use lent::{Batch, CALL_LEN, METADATA_LEN, Namespace, Origin, batch, live, metadata};
pub use maps::{MapFds, MapSpec, MapType, Maps};
pub use outgoing::{outgoing, outgoing_general};
pub use tap::{Direction, TapRecord, Verdict};
