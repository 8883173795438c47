//! What the gate's programs keep on the stack.
//!
//! By distance from r10 (8 bytes each where nothing else is said):
//!
//! ```text
//! ETHERNET -78 (14) | IP -64 (40) | TRANSPORT -24 (24)        bytes as loaded
//! SOURCE -96 (16) | DESTINATION -112 (16)                     IPv4 mapped
//! KEY -152 (40) | FRAGMENT_KEY -488 (48)                      keys of maps
//! TARGET -192 (16)                                            of neighbour discovery
//! QUOTED_SOURCE -208 (16) | QUOTED_DESTINATION -224 (16)
//! then numbers, see below; what a batch keeps beside: QUEUE, and PLACE, which arrivals have too; what members are found by;
//! which handler a message is for: HANDLED and HANDLED_PLACE
//! ```

use super::Unlearned;

pub(in crate::gate) const ETHERNET: i16 = -78;
pub(in crate::gate) const IP: i16 = -64;
pub(in crate::gate) const TRANSPORT: i16 = -24;
pub(in crate::gate) const SOURCE: i16 = -96;
pub(in crate::gate) const DESTINATION: i16 = -112;
pub(in crate::gate) const KEY: i16 = -152;
pub(in crate::gate) const FRAGMENT_KEY: i16 = -488;
pub(in crate::gate) const TARGET: i16 = -192;
pub(in crate::gate) const QUOTED_SOURCE: i16 = -208;
pub(in crate::gate) const QUOTED_DESTINATION: i16 = -224;
/// Bytes of the frame.
pub(in crate::gate) const LENGTH: i16 = -232;
/// Bytes that it costs its slot and the link: more than its length if it is to be cut into segments.
pub(in crate::gate) const CHARGE: i16 = -392;
/// Where the IP packet ends, from the frame's first byte.
pub(in crate::gate) const END: i16 = -240;
/// The protocol that IP carries.
pub(in crate::gate) const PROTOCOL: Unlearned = Unlearned::half(-248);
/// Ports as they lie in memory.
pub(in crate::gate) const SOURCE_PORT: Unlearned = Unlearned::half(-256);
pub(in crate::gate) const DESTINATION_PORT: Unlearned = Unlearned::half(-264);
/// See [`fragment`](super::fragment).
pub(in crate::gate) const FRAGMENT: Unlearned = Unlearned::half(-272);
/// The identification of a fragment, as a number.
pub(in crate::gate) const IDENTIFIER: Unlearned = Unlearned::word(-280);
/// 1: IPv6.
pub(in crate::gate) const IS_V6: Unlearned = Unlearned::half(-288);
/// 1: IPv4 options or an IPv6 routing header.
pub(in crate::gate) const ODD: Unlearned = Unlearned::half(-296);
/// The ICMP type, or [`NO_TYPE`].
pub(in crate::gate) const ICMP_TYPE: Unlearned = Unlearned::half(-304);
/// The slot that things are done and counted for.
pub(in crate::gate) const SLOT: Unlearned = Unlearned::half(-312);
/// The slot that sends.
pub(in crate::gate) const SENDER: Unlearned = Unlearned::half(-320);
/// The slot that is sent to.
pub(in crate::gate) const PEER: Unlearned = Unlearned::half(-328);
/// From the configuration.
pub(in crate::gate) const SHAPES: i16 = -336;
pub(in crate::gate) const TAPS: i16 = -344;
/// What the program returns.
pub(in crate::gate) const RESULT: i16 = -352;
/// What became of the packet: [`Verdict`](crate::gate::Verdict).
pub(in crate::gate) const VERDICT: i16 = -360;
/// 1: the sender is the daemon.
pub(in crate::gate) const UNCHECKED: Unlearned = Unlearned::half(-368);
/// Whose it is when nobody claims it: a slot's number and 1 more; 0 is the host.
pub(in crate::gate) const STRAY: Unlearned = Unlearned::half(-376);
/// Four bytes: the index of a lookup, or a value to store.
pub(in crate::gate) const CELL: i16 = -384;

/// Pointers: the queue that a batch is taken from, and the word of the frame's descriptor, or the place of a frame that arrives.
pub(in crate::gate) const QUEUE: i16 = -496;
pub(in crate::gate) const PLACE: i16 = -504;
/// [`crate::gate::layout::Handled`], of the handler at this place of the slot's.
pub(in crate::gate) const HANDLED: i16 = -496;
pub(in crate::gate) const HANDLED_PLACE: Unlearned = Unlearned::half(-504);
/// Bytes of the frame that a handler has answered.
pub(in crate::gate) const ARRIVED: i16 = END;
/// Four bytes: the slot whose secret the sender of live frames knows.
pub(in crate::gate) const HOLDER: i16 = -512;
/// [`crate::gate::layout::FragmentValue`]: 48 bytes.
pub(in crate::gate) const FRAGMENT_VALUE: i16 = -440;

/// Fields that are zero until something is found.
pub(super) const ZERO: [i16; 2] = [SHAPES, CELL];
pub(super) const UNLEARNED_ZERO: [Unlearned; 11] = [
    PROTOCOL,
    SOURCE_PORT,
    DESTINATION_PORT,
    FRAGMENT,
    IDENTIFIER,
    IS_V6,
    ODD,
    SLOT,
    SENDER,
    UNCHECKED,
    STRAY,
];
