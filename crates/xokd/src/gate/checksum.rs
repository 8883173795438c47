//! Where this kernel keeps what it still has to do about a packet's checksum.

use exos_filter::gate::Checksum;
use exos_host::Error;
use exos_host::bpf::KernelTypes;
use exos_host::error::Result;

/// By the running kernel's own description of its types.
pub(super) fn of_this_kernel() -> Result<Checksum> {
    let types = KernelTypes::load()?;
    find(&types).ok_or_else(|| {
        Error::new("this kernel does not say where it keeps a packet's checksum state")
            .mend("use Linux 6.6 or newer with CONFIG_DEBUG_INFO_BTF")
    })
}

fn find(types: &KernelTypes) -> Option<Checksum> {
    let member = |name: &str| {
        let member = types.member("sk_buff", name)?;
        Some((member.offset_bits, member.width_bits))
    };
    Checksum::from_layout(types.function("bpf_cast_to_kern_ctx")?, member)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `ip_summed` has two bits, and the places lie apart.
    #[test]
    fn this_kernel_says_where() {
        let Ok(types) = KernelTypes::load() else {
            eprintln!("SKIPPED: the kernel does not describe its types");
            return;
        };
        let found = find(&types).expect("Linux 6.6 or newer");
        assert_eq!(found.ip_summed_mask.count_ones(), 2);
        assert_eq!(found.partial, found.ip_summed_mask);
        let mut places = [
            found.ip_summed,
            found.csum_start,
            found.csum_offset,
            found.mac_header,
        ];
        places.sort_unstable();
        assert!(places.is_sorted_by(|one, next| one < next), "{found:?}");
    }
}
