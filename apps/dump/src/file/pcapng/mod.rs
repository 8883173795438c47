//! pcapng, the "PCAP Now Generic" capture format (draft-ietf-opsawg-pcapng).
//!
//! ```text
//! block:  type 4 | total length 4 | body, padded to 4 | total length 4
//! option: code 2 | length 2 | value, padded to 4        (the list ends with code 0, or with the body)
//! ```
//!
//! A section begins with a Section Header Block, whose byte-order magic holds for all that follows;
//! interfaces are numbered in the order of their Interface Description Blocks; a packet is an Enhanced
//! Packet Block. At the end an Interface Statistics Block says what was lost.
//!
//! What the daemon tells about a packet is kept where readers look for it: the direction in
//! `epb_flags`, what the kernel's program returned in `epb_verdict`. Program, slot and the verdict's
//! name have no option of their own; they stand in a comment ([`comment`]), which Wireshark shows and
//! our reader understands.

pub mod comment;
mod options;
mod reader;
mod writer;

pub(super) use reader::Sections;
pub use writer::{Interface, Writer};

/// Block type: Section Header. Reads the same in both byte orders.
pub const SECTION_HEADER: u32 = 0x0a0d_0d0a;
/// Block type: Interface Description.
pub const INTERFACE_DESCRIPTION: u32 = 1;
/// Block type: Simple Packet.
pub const SIMPLE_PACKET: u32 = 3;
/// Block type: Interface Statistics.
pub const INTERFACE_STATISTICS: u32 = 5;
/// Block type: Enhanced Packet.
pub const ENHANCED_PACKET: u32 = 6;

/// In the Section Header: read in the section's byte order it is this.
pub const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;

/// Bytes of a block beside its body.
const BLOCK_FRAME: usize = 12;

/// Option: a comment.
const OPT_COMMENT: u16 = 1;
/// Section Header: operating system.
const SHB_OS: u16 = 3;
/// Section Header: the program that wrote it.
const SHB_USERAPPL: u16 = 4;
/// Interface Description: name.
const IF_NAME: u16 = 2;
/// Interface Description: what a unit of time is.
const IF_TSRESOL: u16 = 9;
/// Interface Description: filter, as a byte of kind (0: text) and the text.
const IF_FILTER: u16 = 11;
/// Interface Description: seconds to add to its packets' times.
const IF_TSOFFSET: u16 = 14;
/// Enhanced Packet: flags, of which the lowest two are the direction.
const EPB_FLAGS: u16 = 2;
/// Enhanced Packet: packets lost between the one before and this.
const EPB_DROPCOUNT: u16 = 4;
/// Enhanced Packet: what was decided: a byte that says by whom, and the decision.
const EPB_VERDICT: u16 = 7;
/// Interface Statistics: packets that matched.
const ISB_FILTERACCEPT: u16 = 6;
/// Interface Statistics: packets lost for want of room.
const ISB_OSDROP: u16 = 7;
/// Interface Statistics: packets delivered.
const ISB_USRDELIV: u16 = 8;

/// `epb_verdict` by a Linux eBPF program at a traffic control hook: its return code.
const VERDICT_BY_TC: u8 = 1;
/// `epb_verdict` by a Linux eBPF program at an XDP hook: its return code.
const VERDICT_BY_XDP: u8 = 2;

/// Number of bytes to the next multiple of four.
const fn padding(len: usize) -> usize {
    len.wrapping_neg() & 3
}
