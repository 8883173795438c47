//! The numbers of blocks and options, and how they are padded.

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
/// Block type: Decryption Secrets.
pub const DECRYPTION_SECRETS: u32 = 10;

/// Decryption Secrets: a key log of TLS ("TLSK").
pub const SECRETS_TLS_KEY_LOG: u32 = 0x544c_534b;

/// In the Section Header: read in the section's byte order it is this.
pub const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;

/// Bytes of a block beside its body.
pub(super) const BLOCK_FRAME: usize = 12;

/// Option: a comment.
pub(super) const OPT_COMMENT: u16 = 1;
/// Section Header: operating system.
pub(super) const SHB_OS: u16 = 3;
/// Section Header: the program that wrote it.
pub(super) const SHB_USERAPPL: u16 = 4;
/// Interface Description: name.
pub(super) const IF_NAME: u16 = 2;
/// Interface Description: what a unit of time is.
pub(super) const IF_TSRESOL: u16 = 9;
/// Interface Description: filter, as a byte of kind (0: text) and the text.
pub(super) const IF_FILTER: u16 = 11;
/// Interface Description: seconds to add to its packets' times.
pub(super) const IF_TSOFFSET: u16 = 14;
/// Enhanced Packet: flags, of which the lowest two are the direction.
pub(super) const EPB_FLAGS: u16 = 2;
/// Enhanced Packet: packets lost between the one before and this.
pub(super) const EPB_DROPCOUNT: u16 = 4;
/// Enhanced Packet: what was decided: a byte that says by whom, and the decision.
pub(super) const EPB_VERDICT: u16 = 7;
/// Interface Statistics: packets that matched.
pub(super) const ISB_FILTERACCEPT: u16 = 6;
/// Interface Statistics: packets lost for want of room.
pub(super) const ISB_OSDROP: u16 = 7;
/// Interface Statistics: packets delivered.
pub(super) const ISB_USRDELIV: u16 = 8;

/// `epb_verdict` by a Linux eBPF program at a traffic control hook: its return code.
pub(super) const VERDICT_BY_TC: u8 = 1;
/// `epb_verdict` by a Linux eBPF program at an XDP hook: its return code.
pub(super) const VERDICT_BY_XDP: u8 = 2;

/// Number of bytes to the next multiple of four.
pub(super) const fn padding(len: usize) -> usize {
    len.wrapping_neg() & 3
}
