//! The check of what the kernel is still to write into a packet: its checksum.

use super::{Code, FRAGMENT, PROTOCOL, fragment};
use crate::ebpf::{Alu, Condition, Emit, Insn, Reg, Size};
use crate::gate::counter::Counter;
use exos_wire::protocol::{TCP, UDP};

/// Where the running kernel keeps what it still has to do about a packet's checksum: offsets in `struct sk_buff`,
/// from its type information, and the number of the function that gives access to them.
///
/// Anyone who writes to a packet socket with a virtio-net header names the place where the kernel is to write a checksum
/// later, behind the check here: that must not be a port or an address. Without this the program does not look, and
/// no packet socket may be given to a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checksum {
    /// The kernel's number of `bpf_cast_to_kern_ctx`.
    pub cast_function: i32,
    /// Offset of the byte with the bits `ip_summed`.
    pub ip_summed: i16,
    /// The bits in that byte.
    pub ip_summed_mask: u8,
    /// Their value for a checksum that is to be written (`CHECKSUM_PARTIAL`), within the mask.
    pub partial: u8,
    /// Offset of `csum_start`, from the buffer's begin to where summing begins.
    pub csum_start: i16,
    /// Offset of `csum_offset`, from there to the field.
    pub csum_offset: i16,
    /// Offset of `mac_header`, from the buffer's begin to the frame.
    pub mac_header: i16,
}

impl Checksum {
    /// From the number of the function `bpf_cast_to_kern_ctx` and the members of `struct sk_buff`, by name: offset and
    /// bit-field width in bits. None when a member is missing.
    pub fn from_layout(
        cast_function: i32,
        member: impl Fn(&str) -> Option<(u32, u32)>,
    ) -> Option<Self> {
        let whole = |name| i16::try_from(member(name)?.0 / 8).ok();
        let (offset, width) = member("ip_summed")?;
        let (byte, bit) = (offset / 8, offset % 8);
        let shift = if cfg!(target_endian = "little") {
            bit
        } else {
            8u32.checked_sub(bit + width)?
        };
        // include/linux/skbuff.h: CHECKSUM_PARTIAL is 3, all bits of the field.
        let mask = u8::try_from(((1u32 << width.min(8)) - 1) << shift).ok()?;
        Some(Self {
            cast_function,
            ip_summed: i16::try_from(byte).ok()?,
            ip_summed_mask: mask,
            partial: mask,
            csum_start: whole("csum_start")?,
            csum_offset: whole("csum_offset")?,
            mac_header: whole("mac_header")?,
        })
    }
}

impl Code<'_> {
    /// The kernel's outstanding work, see [`Checksum`]. r7 is where the transport header begins.
    pub(in crate::gate) fn checksum(&mut self, fields: &Checksum) {
        let [fine, tcp] = [(); 2].map(|()| self.label());
        let bad = self.refuse(Counter::TxBadChecksum);
        self.if_unchecked(fine);
        self.set(Reg::R1, Reg::R6);
        self.push(Insn::call_kernel_function(fields.cast_function));
        self.load(Size::Byte, Reg::R1, Reg::R0, fields.ip_summed);
        self.alu(Alu::And, Reg::R1, i32::from(fields.ip_summed_mask));
        self.jump_if(
            Reg::R1,
            Condition::NotEqual,
            i32::from(fields.partial),
            fine,
        );
        // One sum for a whole packet, from its transport header on.
        self.get(Reg::R1, FRAGMENT);
        self.jump_if(Reg::R1, Condition::NotEqual, fragment::WHOLE, bad);
        self.load(Size::Half, Reg::R1, Reg::R0, fields.csum_start);
        self.load(Size::Half, Reg::R2, Reg::R0, fields.mac_header);
        self.alu(Alu::Sub, Reg::R1, Reg::R2);
        self.jump_if(Reg::R1, Condition::NotEqual, Reg::R7, bad);
        self.load(Size::Half, Reg::R2, Reg::R0, fields.csum_offset);
        self.get(Reg::R1, PROTOCOL);
        self.jump_if(Reg::R1, Condition::Equal, i32::from(TCP), tcp);
        self.jump_if(Reg::R1, Condition::NotEqual, i32::from(UDP), bad);
        self.jump_if(Reg::R2, Condition::NotEqual, 6, bad);
        self.jump(fine);
        self.bind(tcp);
        self.jump_if(Reg::R2, Condition::NotEqual, 16, bad);
        self.bind(fine);
    }
}
