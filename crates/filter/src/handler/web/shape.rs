//! Where the program keeps what it knows of a segment: behind what the answer to a SYN keeps there.

use crate::ebpf::{Alu, Assembler, Emit, Reg, Size};

pub(super) use crate::handler::syn::shape::{
    CONTEXT, COUNTER, EPOCH, FRAME, LOCAL, MILLIS, PACKET, PORTS, REMOTE, SAID,
};

/// Both addresses on the stack, ours first: each the words of its upper half, and of its lower.
pub(super) const ADDRESSES: [i16; 4] = [LOCAL, LOCAL + 8, REMOTE, REMOTE + 8];

/// The connection's slot.
pub(super) const SLOT: Reg = Reg::R8;

/// Bytes of what TCP carries; more than fit where the headers are unusual.
pub(super) const LEN: i16 = -88;
/// Bytes of the TCP header: 20, 32 with timestamps, 0 where it or a flag is unusual.
pub(super) const HEADER: i16 = -96;
pub(super) const SEQ: i16 = -104;
pub(super) const ACK: i16 = -112;
pub(super) const FLAGS: i16 = -120;
/// The peer's timestamp and its echo, each in four bytes.
pub(super) const STAMPS: i16 = -128;
pub(super) const WINDOW: i16 = -136;
/// The place of the request's entry among all, and one more; 0 where there is none.
pub(super) const HIT: i16 = -144;
/// Index of the MSS and bits, of the cookie.
pub(super) const KEPT: i16 = -152;
pub(super) const OUT_SEQ: i16 = -160;
pub(super) const OUT_ACK: i16 = -168;
pub(super) const OUT_FLAGS: i16 = -176;
/// Bytes of what is sent.
pub(super) const OUT_LEN: i16 = -184;
/// The version of the response that is sent, whose lowest bit says which copy of the slot's entry it is.
pub(super) const OUT_VERSION: i16 = -192;
pub(super) const OUT_SUM: i16 = -200;
pub(super) const FRAME_LEN: i16 = -208;
/// The peer's link address.
pub(super) const PEER_MAC: i16 = -216;
pub(super) const HASH: i16 = -224;
pub(super) const SCRATCH: i16 = -232;
/// What is handed up: the next of the peer, of ours.
pub(super) const UP_RCV: i16 = -240;
pub(super) const UP_NXT: i16 = -248;
/// With it what was sent and is not acknowledged: its version, and above that its entry, 0 where all is acknowledged; and when its
/// request came, as in a slot.
pub(super) const UP_SENT: i16 = -344;
pub(super) const UP_BEGUN: i16 = -352;
/// The connection is the slot's.
pub(super) const IS_KNOWN: i16 = -256;
/// The timestamp that we send.
pub(super) const CLOCK: i16 = -264;
pub(super) const SPARE: i16 = -272;
/// 1 where the second stage makes the packet longer.
pub(super) const IS_SHORT: i16 = -280;
/// The sum of the pseudo header, and that with all of the segment: of 16 bits.
pub(super) const PSEUDO_SUM: i16 = -288;
pub(super) const SEGMENT_SUM: i16 = -296;
/// Where TCP's checksum is in the frame that leaves.
pub(super) const CHECKSUM_AT: i16 = -304;
/// Bytes of all headers; 0 where TCP's is unusual.
pub(super) const HEADERS: i16 = -312;
/// Of the segment that came, in the packet's order: the sum of its pseudo header, that of TCP's, and what is in the field for it.
pub(super) const CAME_PSEUDO: i16 = -320;
pub(super) const CAME_SUM: i16 = -328;
pub(super) const CAME_CHECKSUM: i16 = -336;
/// The server's core that the segment's queue belongs to, where there are several.
pub(super) const CORE: i16 = -360;
/// Rounds of a loop.
pub(super) const ROUND: i16 = -368;
/// Bytes of the request without noise, and of the lines of it that a log may want: 0 where it has an entry as it is.
pub(super) const REDUCED_LEN: i16 = -376;
pub(super) const LOGGED_BYTES: i16 = -384;
/// Where the connection's slot is, from the first on.
pub(super) const SLOT_AT: i16 = -392;

pub(super) const FIN: i32 = 0x01;
pub(super) const SYN: i32 = 0x02;
pub(super) const RST: i32 = 0x04;
pub(super) const PSH: i32 = 0x08;
pub(super) const ACK_FLAG: i32 = 0x10;
/// More than any segment has.
pub(super) const TOO_LONG: i32 = 1 << 20;

/// The addresses of the connection, and behind them its ports, into a slot or what is handed up. Loses r1.
pub(super) fn keep_ends(asm: &mut Assembler, to: Reg, at: u64) {
    for (from, at) in ADDRESSES.into_iter().zip((at..).step_by(8)) {
        asm.kept(Reg::R1, from);
        asm.store(Size::Double, to, at, Reg::R1);
    }
    asm.kept(Reg::R1, PORTS);
    asm.alu(Alu::ShiftRight, Reg::R1, 32);
    asm.store(Size::Word, to, at + 32, Reg::R1);
}
