//! Where the program keeps what it knows of a segment: behind what the answer to a SYN keeps there.

use crate::ebpf::Reg;

pub(super) use crate::handler::syn::shape::{
    CHECKSUM, CONTEXT, COUNTER, EPOCH, FRAME, MILLIS, OPTIONS, PACKET, PAIR, PORTS, SAID, SOURCE,
    TCP, keep, kept,
};

/// The connection's slot.
pub(super) const SLOT: Reg = Reg::R8;

/// Bytes of what TCP carries; more than fit where the headers are unusual.
pub(super) const LEN: i16 = -80;
/// Bytes of the TCP header: 20, 32 with timestamps, 0 where it or a flag is unusual.
pub(super) const HEADER: i16 = -88;
pub(super) const SEQ: i16 = -96;
pub(super) const ACK: i16 = -104;
pub(super) const FLAGS: i16 = -112;
/// The peer's timestamp and its echo, each in four bytes.
pub(super) const STAMPS: i16 = -120;
pub(super) const WINDOW: i16 = -128;
/// The place of the request's entry among all, and one more; 0 where there is none.
pub(super) const HIT: i16 = -136;
/// Index of the MSS and bits, of the cookie.
pub(super) const KEPT: i16 = -144;
pub(super) const OUT_SEQ: i16 = -152;
pub(super) const OUT_ACK: i16 = -160;
pub(super) const OUT_FLAGS: i16 = -168;
/// Bytes of what is sent.
pub(super) const OUT_LEN: i16 = -176;
/// Which copy of the slot's entry is sent; its lowest bit counts.
pub(super) const OUT_COPY: i16 = -184;
pub(super) const OUT_SUM: i16 = -192;
pub(super) const FRAME_LEN: i16 = -200;
/// The peer's link address.
pub(super) const PEER_MAC: i16 = -208;
pub(super) const HASH: i16 = -216;
pub(super) const SCRATCH: i16 = -224;
/// What is handed up: the next of the peer, of ours.
pub(super) const UP_RCV: i16 = -232;
pub(super) const UP_NXT: i16 = -240;
/// The connection is the slot's.
pub(super) const IS_KNOWN: i16 = -248;
pub(super) const MOVED: i16 = -256;
/// The timestamp that we send.
pub(super) const CLOCK: i16 = -264;
pub(super) const SPARE: i16 = -272;

pub(super) const FIN: i32 = 0x01;
pub(super) const RST: i32 = 0x04;
pub(super) const PSH: i32 = 0x08;
pub(super) const ACK_FLAG: i32 = 0x10;
/// Headers before TCP's.
pub(super) const BEFORE_TCP: i32 = 34;
/// More than any segment has.
pub(super) const TOO_LONG: i32 = 1 << 20;
