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
//! Decryption Secrets Blocks bring keys of TLS along, before the packets that they decrypt.
//!
//! What the daemon tells about a packet is kept where readers look for it: the direction in
//! `epb_flags`, what the kernel's program returned in `epb_verdict`. Program, slot and the verdict's
//! name have no option of their own; they stand in a comment ([`comment`]), which Wireshark shows and
//! our reader understands.

pub mod comment;
mod format;
mod options;
mod reader;
mod writer;

pub use format::{
    BYTE_ORDER_MAGIC, DECRYPTION_SECRETS, ENHANCED_PACKET, INTERFACE_DESCRIPTION,
    INTERFACE_STATISTICS, SECRETS_TLS_KEY_LOG, SECTION_HEADER, SIMPLE_PACKET,
};
pub(super) use reader::Sections;
pub use writer::{Interface, Writer};
