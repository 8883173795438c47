//! Where this kernel keeps what the gate's programs read of its structures, by its own description of their types.

use exos_filter::gate::{Checksum, Namespace};
use exos_host::bpf::KernelTypes;
use exos_host::netns::NetNs;

/// What is still to be done about a packet's checksum; `None` where programs have no access to it (before Linux 6.2).
pub(super) fn checksum(types: &KernelTypes) -> Option<Checksum> {
    let member = |name: &str| {
        let member = types.member("sk_buff", name)?;
        Some((member.offset_bits, member.width_bits))
    };
    Checksum::from_layout(types.function("bpf_cast_to_kern_ctx")?, member)
}

/// The namespace that this daemon is in, as a program finds it; `None` where the kernel does not say.
pub(super) fn this_namespace(types: &KernelTypes) -> Option<Namespace> {
    let cast = types.function("bpf_cast_to_kern_ctx")?;
    let member = |structure: &str, name: &str| Some(types.member(structure, name)?.offset_bits);
    let cookie = NetNs::current().and_then(|here| here.cookie()).ok()?;
    Namespace::from_layout(cookie, cast, member)
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
        let found = checksum(&types).expect("Linux 6.2 or newer");
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
