//! Where this kernel keeps what it still has to do about a packet's checksum.

use exos_filter::gate::Checksum;
use exos_host::bpf::KernelTypes;

/// By the running kernel's own description of its types; `None` where it gives programs no access (before Linux 6.2).
pub(super) fn find(types: &KernelTypes) -> Option<Checksum> {
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
        let found = find(&types).expect("Linux 6.2 or newer");
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
