//! Which features of the kernel make a wire `plain` or `offload`.
//!
//! What counts is what is wished for, not what is at work: while an XDP program sits on one end, the kernel
//! suspends segmentation on the other, and gives it back afterwards.

use crate::settings::{INTERFACE, WireKind};
use exos_host::Result;
use exos_host::ethtool::{Ethtool, Feature};

/// Features that are off on a plain wire, by the kernel's names, in an order in which they can be turned off:
/// segmentation depends on scatter-gather, that on checksums.
const OFF_WHEN_PLAIN: [&str; 9] = [
    "tx-tcp-segmentation",
    "tx-tcp-ecn-segmentation",
    "tx-tcp-mangleid-segmentation",
    "tx-tcp6-segmentation",
    "tx-generic-segmentation",
    "rx-gro",
    "tx-scatter-gather",
    "tx-checksum-ip-generic",
    "rx-checksum",
];

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
    let wanted = |name: &&str| features.iter().any(|f| f.name == **name && f.requested);
    if !OFF_WHEN_PLAIN.iter().any(&wanted) {
        Some(WireKind::Plain)
    } else if ON_WHEN_OFFLOAD.iter().all(wanted) {
        Some(WireKind::Offload)
    } else {
        None
    }
}

/// Turns off on this end what a plain wire does not have.
pub(crate) fn make_plain(ethtool: &Ethtool) -> Result<()> {
    let features = ethtool.features(INTERFACE)?;
    for name in OFF_WHEN_PLAIN {
        if features
            .iter()
            .any(|f| f.name == name && f.requested && !f.fixed)
        {
            ethtool.set_feature(INTERFACE, name, false)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn features(requested: &[&str]) -> Vec<Feature> {
        let feature = |name: &&str| Feature {
            name: (*name).to_owned(),
            active: false,
            requested: requested.contains(name),
            fixed: false,
        };
        OFF_WHEN_PLAIN.iter().map(feature).collect()
    }

    #[test]
    fn a_wire_is_what_is_wished_for() {
        assert_eq!(classify(&features(&[])), Some(WireKind::Plain));
        assert_eq!(
            classify(&features(&ON_WHEN_OFFLOAD)),
            Some(WireKind::Offload)
        );
        assert_eq!(
            classify(&features(&OFF_WHEN_PLAIN)),
            Some(WireKind::Offload)
        );
        assert_eq!(classify(&features(&ON_WHEN_OFFLOAD[..2])), None);
        assert_eq!(classify(&features(&["rx-gro"])), None);
    }
}
