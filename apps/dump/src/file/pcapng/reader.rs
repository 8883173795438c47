//! Reading pcapng: sections, interfaces, packets, secrets. Other blocks are passed over.

use std::borrow::Cow;
use std::io::Read;
use std::rc::Rc;

use super::comment;
use super::format::{
    BLOCK_FRAME, BYTE_ORDER_MAGIC, DECRYPTION_SECRETS, ENHANCED_PACKET, EPB_DROPCOUNT, EPB_FLAGS,
    EPB_VERDICT, IF_NAME, IF_TSOFFSET, IF_TSRESOL, INTERFACE_DESCRIPTION, INTERFACE_STATISTICS,
    ISB_OSDROP, OPT_COMMENT, SECRETS_TLS_KEY_LOG, SECTION_HEADER, SIMPLE_PACKET, VERDICT_BY_TC,
    VERDICT_BY_XDP, padding,
};
use super::options::{Options, TooLong};
use crate::file::input::Input;
use crate::file::order::Order;
use crate::file::{FileError, Item, LINKTYPE_ETHERNET};
use crate::limits::{BLOCK_BYTES_MAX, FILE_INTERFACES_MAX};
use crate::packet::{Direction, Origin, Packet, Verdict};

const NS_PER_S: u128 = 1_000_000_000;

/// What has been read of the section under way.
pub(in crate::file) struct Sections {
    order: Order,
    interfaces: Vec<Described>,
    lost: u64,
}

/// An interface of the section.
#[derive(Clone, Debug)]
struct Described {
    link_type: u16,
    snaplen: usize,
    name: Option<Rc<str>>,
    /// Units in a second.
    units: u128,
    offset_s: i64,
    /// What its statistics said it lost; a later block replaces an earlier one.
    lost: u64,
}

impl Sections {
    /// Reads the first section's header, of which the type has been read.
    pub(in crate::file) fn begin<R: Read>(input: &mut Input<R>) -> Result<Self, FileError> {
        let mut sections = Self {
            order: Order::Little,
            interfaces: Vec::new(),
            lost: 0,
        };
        sections.section_header(input)?;
        Ok(sections)
    }

    pub(in crate::file) fn lost(&self) -> u64 {
        let of_each = self.interfaces.iter().map(|interface| interface.lost);
        of_each.fold(self.lost, u64::saturating_add)
    }

    /// The next packet, or what decrypts those behind.
    pub(in crate::file) fn next<'a, R: Read>(
        &mut self,
        input: &'a mut Input<R>,
    ) -> Result<Option<Item<'a>>, FileError> {
        loop {
            let Some(kind) = input.array_or_end::<4>("a block")? else {
                return Ok(None);
            };
            let kind = self.order.u32(kind);
            if kind == SECTION_HEADER {
                self.section_header(input)?;
                continue;
            }
            let len = input.array::<4>("a block's length")?;
            self.read_body(input, self.order.u32(len))?;
            match kind {
                INTERFACE_DESCRIPTION => self.interface(input)?,
                INTERFACE_STATISTICS => self.statistics(input),
                ENHANCED_PACKET => {
                    return self.enhanced(input).map(|it| Some(Item::Packet(it)));
                }
                SIMPLE_PACKET => return self.simple(input).map(|it| Some(Item::Packet(it))),
                DECRYPTION_SECRETS if self.has_key_log(input) => {
                    return self.secrets(input).map(|it| Some(Item::Secrets(it)));
                }
                _ => {}
            }
        }
    }

    /// A block's body, and the length behind it, which must be that before it.
    fn read_body<R: Read>(&self, input: &mut Input<R>, total: u32) -> Result<(), FileError> {
        let len = total as usize;
        if len < BLOCK_FRAME || !len.is_multiple_of(4) || len > BLOCK_BYTES_MAX {
            return Err(input.bad(format!(
                "a block of {len} bytes: lengths are multiples of 4 from {BLOCK_FRAME} to {BLOCK_BYTES_MAX}"
            )));
        }
        input.read_item(len - BLOCK_FRAME, "a block")?;
        let again = input.array::<4>("a block's end")?;
        if self.order.u32(again) != total {
            return Err(input.bad("a block's two lengths differ"));
        }
        Ok(())
    }

    /// The draft's section 4.1. Its length can be read only when its byte order is known.
    fn section_header<R: Read>(&mut self, input: &mut Input<R>) -> Result<(), FileError> {
        let len = input.array::<4>("a section's header")?;
        let magic = input.array::<4>("a section's header")?;
        let order = match BYTE_ORDER_MAGIC {
            value if u32::from_le_bytes(magic) == value => Order::Little,
            value if u32::from_be_bytes(magic) == value => Order::Big,
            _ => return Err(input.bad("no byte order mark where a section begins")),
        };
        let total = order.u32(len) as usize;
        // The frame, the magic number, versions and the section's length.
        if total < BLOCK_FRAME + 16 || !total.is_multiple_of(4) || total > BLOCK_BYTES_MAX {
            return Err(input.bad(format!("a section header of {total} bytes")));
        }
        input.read_item(total - BLOCK_FRAME - 4, "a section's header")?;
        let major = order.u16([input.item()[0], input.item()[1]]);
        if major != 1 {
            return Err(input.bad(format!("pcapng version {major}: only 1 is known")));
        }
        let again = input.array::<4>("a section header's end")?;
        if order.u32(again) as usize != total {
            return Err(input.bad("a section header's two lengths differ"));
        }
        self.lost = self.lost();
        self.order = order;
        self.interfaces.clear();
        Ok(())
    }

    /// The draft's section 4.2.
    fn interface<R: Read>(&mut self, input: &Input<R>) -> Result<(), FileError> {
        if self.interfaces.len() == FILE_INTERFACES_MAX {
            return Err(input.bad(format!("more than {FILE_INTERFACES_MAX} interfaces")));
        }
        let body = input.item();
        let Some(([a, b, _, _, snaplen @ ..], options)) = body.split_first_chunk::<8>() else {
            return Err(input.bad("an interface description that is too short"));
        };
        let mut described = Described {
            link_type: self.order.u16([*a, *b]),
            snaplen: self.order.u32(*snaplen) as usize,
            name: None,
            units: 1_000_000,
            offset_s: 0,
            lost: 0,
        };
        for option in Options::new(options, self.order) {
            let (code, value) = option.map_err(|error| too_long(input, &error))?;
            match (code, value) {
                (IF_NAME, name) => described.name = Some(String::from_utf8_lossy(name).into()),
                (IF_TSRESOL, [resolution, ..]) => described.units = units(*resolution),
                (IF_TSOFFSET, value) => {
                    let bytes = value.first_chunk().copied().unwrap_or_default();
                    described.offset_s = self.order.u64(bytes).cast_signed();
                }
                _ => {}
            }
        }
        self.interfaces.push(described);
        Ok(())
    }

    /// The draft's section 4.6. Only what was lost is of interest.
    fn statistics<R: Read>(&mut self, input: &Input<R>) {
        let order = self.order;
        let Some((head, options)) = input.item().split_first_chunk::<12>() else {
            return;
        };
        let number = order.word(head, 0) as usize;
        let Some(interface) = self.interfaces.get_mut(number) else {
            return;
        };
        for (code, value) in Options::new(options, order).flatten() {
            if let (ISB_OSDROP, Some(bytes)) = (code, value.first_chunk()) {
                interface.lost = order.u64(*bytes);
            }
        }
    }

    /// The draft's section 4.3.
    fn enhanced<'a, R: Read>(&mut self, input: &'a Input<R>) -> Result<Packet<'a>, FileError> {
        let body = input.item();
        let Some((head, rest)) = body.split_first_chunk::<20>() else {
            return Err(input.bad("a packet block that is too short"));
        };
        let word = |i: usize| self.order.word(head, 4 * i);
        let (number, captured, len) = (word(0), word(3) as usize, word(4) as usize);
        let interface = self.ethernet(input, number)?;
        let Some((bytes, after)) = rest.split_at_checked(captured) else {
            return Err(input.bad(format!(
                "{captured} bytes captured in a block of {}",
                body.len()
            )));
        };
        let options = after.get(padding(captured)..).unwrap_or_default();
        let time = u64::from(word(1)) << 32 | u64::from(word(2));
        let mut packet = Packet {
            time_ns: interface.time_ns(time),
            bytes,
            len: len.max(captured),
            origin: Origin {
                interface: interface.name.clone(),
                ..Origin::default()
            },
        };
        let mut lost = 0;
        for option in Options::new(options, self.order) {
            let (code, value) = option.map_err(|error| too_long(input, &error))?;
            lost += self.packet_option(code, value, &mut packet.origin);
        }
        self.lost = self.lost.saturating_add(lost);
        Ok(packet)
    }

    /// What an option says of a packet; returns the packets lost before it.
    fn packet_option(&self, code: u16, value: &[u8], origin: &mut Origin) -> u64 {
        match code {
            OPT_COMMENT => comment::read(&String::from_utf8_lossy(value), origin),
            EPB_FLAGS => {
                let flags = value
                    .first_chunk()
                    .map_or(0, |bytes| self.order.u32(*bytes));
                origin.direction = match flags & 3 {
                    1 => Some(Direction::In),
                    2 => Some(Direction::Out),
                    _ => None,
                };
            }
            EPB_DROPCOUNT => {
                return value
                    .first_chunk()
                    .map_or(0, |bytes| self.order.u64(*bytes));
            }
            // A comment of ours says more, wherever it stands.
            EPB_VERDICT if origin.verdict.is_none() => origin.verdict = self.verdict(value),
            _ => {}
        }
        0
    }

    /// The return codes of `linux/bpf.h` and `linux/pkt_cls.h`.
    fn verdict(&self, value: &[u8]) -> Option<Verdict> {
        let (&by, rest) = value.split_first()?;
        let code = self.order.u64(*rest.first_chunk()?);
        let (name, is_drop) = match (by, code) {
            (VERDICT_BY_XDP, 0) => ("xdp_aborted", true),
            (VERDICT_BY_XDP, 1) => ("xdp_drop", true),
            (VERDICT_BY_XDP, 2) => ("xdp_pass", false),
            (VERDICT_BY_XDP, 3) => ("xdp_tx", false),
            (VERDICT_BY_XDP, 4) => ("xdp_redirect", false),
            (VERDICT_BY_TC, 0) => ("tc_ok", false),
            (VERDICT_BY_TC, 2) => ("tc_shot", true),
            (VERDICT_BY_TC, 7) => ("tc_redirect", false),
            _ => return None,
        };
        Some(Verdict {
            name: Cow::Borrowed(name),
            is_drop,
        })
    }

    /// The draft's section 4.4: of the first interface, without a time, cut to its snap length.
    fn simple<'a, R: Read>(&self, input: &'a Input<R>) -> Result<Packet<'a>, FileError> {
        let interface = self.ethernet(input, 0)?;
        let Some((len, rest)) = input.item().split_first_chunk::<4>() else {
            return Err(input.bad("a packet block that is too short"));
        };
        let len = self.order.u32(*len) as usize;
        let snaplen = match interface.snaplen {
            0 => usize::MAX,
            snaplen => snaplen,
        };
        let captured = len.min(snaplen).min(rest.len());
        Ok(Packet {
            time_ns: 0,
            bytes: &rest[..captured],
            len,
            origin: Origin {
                interface: interface.name.clone(),
                ..Origin::default()
            },
        })
    }

    /// A block of secrets is a key log of TLS. Others are passed over.
    fn has_key_log<R: Read>(&self, input: &Input<R>) -> bool {
        let kind = input.item().first_chunk();
        kind.is_some_and(|kind| self.order.u32(*kind) == SECRETS_TLS_KEY_LOG)
    }

    /// The draft's section 4.7: a key log of TLS.
    fn secrets<'a, R: Read>(&self, input: &'a Input<R>) -> Result<&'a [u8], FileError> {
        let Some(([_, _, _, _, len @ ..], rest)) = input.item().split_first_chunk::<8>() else {
            return Err(input.bad("a block of secrets that is too short"));
        };
        match rest.get(..self.order.u32(*len) as usize) {
            Some(text) => Ok(text),
            None => Err(input.bad("a block of secrets that is shorter than it says")),
        }
    }

    fn ethernet<R: Read>(&self, input: &Input<R>, number: u32) -> Result<&Described, FileError> {
        let Some(interface) = self.interfaces.get(number as usize) else {
            return Err(input.bad(format!(
                "a packet of interface {number}, which was not described"
            )));
        };
        match interface.link_type {
            LINKTYPE_ETHERNET => Ok(interface),
            other => Err(input.bad(format!("link type {other}: only Ethernet (1) is read"))),
        }
    }
}

impl Described {
    fn time_ns(&self, units: u64) -> u64 {
        let ns = u128::from(units) * NS_PER_S / self.units;
        let offset = i128::from(self.offset_s) * NS_PER_S.cast_signed();
        let ns = ns.cast_signed().saturating_add(offset);
        u64::try_from(ns.max(0)).unwrap_or(u64::MAX)
    }
}

/// `if_tsresol`: a power of ten, or with the highest bit a power of two. Finer units than 2^-100 of a
/// second are read as that.
fn units(resolution: u8) -> u128 {
    let exponent = u32::from(resolution & 0x7f);
    if resolution & 0x80 != 0 {
        1 << exponent.min(100)
    } else {
        10_u128.pow(exponent.min(30))
    }
}

fn too_long<R: Read>(input: &Input<R>, TooLong(code): &TooLong) -> FileError {
    input.bad(format!("option {code} is longer than its block"))
}
