//! Classic pcap files, read only.
//!
//! ```text
//! file:   magic 4 | major 2 | minor 2 | 0 4 | 0 4 | snaplen 4 | link type 4 (upper bits: FCS)
//! packet: seconds 4 | micro- or nanoseconds 4 | captured 4 | length 4 | bytes
//! ```
//!
//! The magic number says the byte order and whether the fractions are micro- or nanoseconds.

use std::io::Read;

use super::error::FileError;
use super::input::Input;
use super::order::Order;
use crate::limits::CAPTURED_BYTES_MAX;
use crate::packet::{Origin, Packet};

/// The link type of Ethernet, the only one that is read and written.
pub const LINKTYPE_ETHERNET: u16 = 1;

const MAGIC_MICROSECONDS: u32 = 0xa1b2_c3d4;
const MAGIC_NANOSECONDS: u32 = 0xa1b2_3c4d;

/// What the file's header says.
pub(super) struct Classic {
    order: Order,
    fraction_ns: u64,
}

impl Classic {
    /// Reads the header behind its magic number.
    pub(super) fn begin<R: Read>(magic: [u8; 4], input: &mut Input<R>) -> Result<Self, FileError> {
        let order = match u32::from_be_bytes(magic) {
            MAGIC_MICROSECONDS | MAGIC_NANOSECONDS => Order::Big,
            _ => Order::Little,
        };
        let fraction_ns = match order.u32(magic) {
            MAGIC_MICROSECONDS => 1000,
            MAGIC_NANOSECONDS => 1,
            _ => return Err(input.bad("neither a pcapng nor a pcap file")),
        };
        let rest = input.array::<20>("the header")?;
        let link_type = order.word(&rest, 16) & 0xffff;
        if link_type != u32::from(LINKTYPE_ETHERNET) {
            return Err(input.bad(format!("link type {link_type}: only Ethernet (1) is read")));
        }
        Ok(Self { order, fraction_ns })
    }

    pub(super) fn next_packet<'a, R: Read>(
        &self,
        input: &'a mut Input<R>,
    ) -> Result<Option<Packet<'a>>, FileError> {
        let Some(header) = input.array_or_end::<16>("a packet's header")? else {
            return Ok(None);
        };
        let word = |at| self.order.word(&header, at);
        let (captured, len) = (word(8) as usize, word(12) as usize);
        if captured > CAPTURED_BYTES_MAX {
            return Err(input.bad(format!(
                "a packet of {captured} bytes, more than {CAPTURED_BYTES_MAX}"
            )));
        }
        input.read_item(captured, "a packet")?;
        Ok(Some(Packet {
            time_ns: u64::from(word(0)) * 1_000_000_000 + u64::from(word(4)) * self.fraction_ns,
            bytes: input.item(),
            len: len.max(captured),
            origin: Origin::default(),
        }))
    }
}
