//! Which features of the kernel make a wire `plain` or `offload`.
//!
//! What counts is what is wished for, not what is at work: while an XDP program sits on one end, the kernel
//! suspends segmentation on the other, and gives it back afterwards.

use crate::settings::{INTERFACE, WireKind};
use exos_host::Result;
use exos_host::ethtool::{Ethtool, Feature};

/// True for the kernel's name of a feature that a plain wire does not have: segmentation and its conditions
/// (scatter-gather, checksums), merging of received packets, and VLAN tags carried beside the packet instead of
/// in it. By pattern, because each kernel brings new ones.
fn is_offload(name: &str) -> bool {
    let begins = [
        "tx-checksum-",
        "tx-scatter-gather",
        "tx-gso-",
        "tx-vlan-",
        "rx-checksum",
        "rx-gro",
        "rx-lro",
    ];
    let ends = ["-segmentation", "-hw-parse"];
    begins.iter().any(|text| name.starts_with(text)) || ends.iter().any(|text| name.ends_with(text))
}

/// Features whose presence makes a wire `offload`. Fewer than above: receive offload is the kernel's default on
/// some versions and not on others.
const ON_WHEN_OFFLOAD: [&str; 4] = [
    "tx-tcp-segmentation",
    "tx-generic-segmentation",
    "tx-scatter-gather",
    "tx-checksum-ip-generic",
];

/// What kind of wire this end makes; `None` when it is neither.
pub(crate) fn kind(ethtool: &Ethtool) -> Result<Option<WireKind>> {
    Ok(classify(&ethtool.features(INTERFACE)?))
}

fn classify(features: &[Feature]) -> Option<WireKind> {
    let mut wanted = features
        .iter()
        .filter(|f| f.requested)
        .map(|f| f.name.as_str());
    if ON_WHEN_OFFLOAD
        .iter()
        .all(|name| wanted.clone().any(|w| w == *name))
    {
        Some(WireKind::Offload)
    } else if !wanted.any(is_offload) {
        Some(WireKind::Plain)
    } else {
        None
    }
}

/// Turns off on an interface what a plain wire does not have.
///
/// # Errors
///
/// The kernel refuses.
pub fn make_plain(ethtool: &Ethtool, interface: &str) -> Result<()> {
    for feature in ethtool.features(interface)? {
        if feature.requested && is_offload(&feature.name) {
            ethtool.set_feature(interface, &feature.name, false)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn features(requested: &[&str]) -> Vec<Feature> {
        let names = ON_WHEN_OFFLOAD.iter().chain(&[
            "rx-gro",
            "rx-checksum",
            "tx-vlan-hw-insert",
            "highdma",
            "loopback",
        ]);
        let feature = |name: &&str| Feature {
            name: (*name).to_owned(),
            active: false,
            requested: requested.contains(name),
            fixed: false,
        };
        names.map(feature).collect()
    }

    #[test]
    fn a_wire_is_what_is_wished_for() {
        let with = |more: &'static str| [&ON_WHEN_OFFLOAD[..], &[more]].concat();
        for (requested, kind) in [
            (vec![], Some(WireKind::Plain)),
            (vec!["highdma"], Some(WireKind::Plain)),
            (ON_WHEN_OFFLOAD.to_vec(), Some(WireKind::Offload)),
            (with("rx-gro"), Some(WireKind::Offload)),
            (ON_WHEN_OFFLOAD[..2].to_vec(), None),
            (vec!["rx-checksum"], None),
            (vec!["tx-vlan-hw-insert"], None),
        ] {
            assert_eq!(classify(&features(&requested)), kind, "{requested:?}");
        }
    }
}
