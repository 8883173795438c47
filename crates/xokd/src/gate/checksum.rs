//! Where this kernel keeps what it still has to do about a packet's checksum.

use exos_filter::gate::Checksum;
use exos_host::Error;
use exos_host::bpf::KernelTypes;
use exos_host::error::Result;

/// `CHECKSUM_PARTIAL` (linux/skbuff.h).
const PARTIAL: u8 = 3;

/// By the running kernel's own description of its types.
pub(super) fn of_this_kernel() -> Result<Checksum> {
    let types = KernelTypes::load()?;
    find(&types).ok_or_else(|| {
        Error::new("this kernel does not say where it keeps a packet's checksum state")
            .mend("use Linux 6.6 or newer with CONFIG_DEBUG_INFO_BTF")
    })
}

fn find(types: &KernelTypes) -> Option<Checksum> {
    let member = |name| types.member("sk_buff", name);
    let bytes = |name| i16::try_from(member(name)?.offset_bits / 8).ok();
    let summed = member("ip_summed")?;
    let shift = summed.offset_bits % 8;
    let mask = 1_u8.checked_shl(summed.width_bits)?.checked_sub(1)?;
    Some(Checksum {
        cast_function: types.function("bpf_cast_to_kern_ctx")?,
        ip_summed: bytes("ip_summed")?,
        ip_summed_mask: mask.checked_shl(shift)?,
        partial: PARTIAL.checked_shl(shift)?,
        csum_start: bytes("csum_start")?,
        csum_offset: bytes("csum_offset")?,
        mac_header: bytes("mac_header")?,
    })
}
