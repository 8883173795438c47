//! What an interface did with packets before an XDP program was attached to it, so that it does so again afterwards.
//!
//! Packets that a device has merged are too long for XDP. So the kernel (generic mode) or the driver (native mode, vmxnet3
//! for one) turns large-receive-offload off when a program comes, and does not turn it on when the program goes. In native
//! mode the kernel still knows that it was wanted: one that a killed process left off is put back by the next.

use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::error::Result;
use crate::ethtool::{Ethtool, Feature};
use crate::netlink::Netlink;

/// The kernel's names: by the device, and as the device's part of generic receive offload.
const NAMES: [&str; 2] = ["rx-lro", "rx-gro-hw"];

/// The kernel detaches a program within a few milliseconds after its link was closed.
const DETACH_WAIT: Duration = Duration::from_millis(500);
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Puts what merges packets back on an interface when it is dropped, when no program is on that any more.
pub(super) struct Merging(Option<Wanted>);

struct Wanted {
    ifindex: u32,
    features: Vec<&'static str>,
    /// Of the interface's network namespace, whatever namespace the thread is in by then.
    ethtool: Ethtool,
    /// Links are shared by threads; this is used by the last.
    netlink: Mutex<Netlink>,
}

impl Merging {
    /// To be called before a program is attached, or for one that is.
    pub(super) fn note(ifindex: u32) -> Self {
        // What cannot be found out cannot be put back.
        Self(Wanted::find(ifindex).ok().flatten())
    }

    /// Puts nothing back: the program stays, and its next owner notes it.
    pub(super) fn forget(&mut self) {
        self.0 = None;
    }

    /// The program did not come. One that is on the interface is another's, whose end nobody waits for.
    pub(super) fn put_back_at_once(mut self) {
        if let Some(mut wanted) = self.0.take() {
            wanted.put_back(Duration::ZERO);
        }
    }
}

/// What merges packets on an interface that a program makes the kernel or the driver turn off, and that takes privilege to be
/// turned on afterwards. To be asked before the program is attached; nothing when it cannot be found out.
pub fn merging_of(interface: &str) -> Vec<&'static str> {
    let features = Ethtool::new().and_then(|ethtool| ethtool.features(interface));
    features.map_or_else(|_| Vec::new(), |features| to_put_back(&features))
}

impl fmt::Debug for Merging {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let features = self.0.as_ref().map(|wanted| &wanted.features);
        f.debug_tuple("Merging").field(&features).finish()
    }
}

impl Drop for Merging {
    fn drop(&mut self) {
        if let Some(wanted) = &mut self.0 {
            wanted.put_back(DETACH_WAIT);
        }
    }
}

impl Wanted {
    fn find(ifindex: u32) -> Result<Option<Self>> {
        let (ethtool, netlink) = (Ethtool::new()?, Netlink::new()?);
        let Some(link) = netlink.link_by_index(ifindex)? else {
            return Ok(None);
        };
        let features = to_put_back(&ethtool.features(&link.name)?);
        Ok((!features.is_empty()).then_some(Self {
            ifindex,
            features,
            ethtool,
            netlink: Mutex::new(netlink),
        }))
    }

    /// As soon as no program is on the interface, if that is within this time.
    fn put_back(&mut self, patience: Duration) {
        let until = Instant::now() + patience;
        loop {
            let netlink = self.netlink.get_mut();
            let netlink = netlink.unwrap_or_else(PoisonError::into_inner);
            match netlink.link_by_index(self.ifindex) {
                Ok(Some(link)) if link.xdp.is_none() => return self.turn_on(&link.name),
                // A link with a name goes on, or another program has come, which needs them off as well.
                Ok(Some(_)) if Instant::now() < until => std::thread::sleep(LOOK_EVERY),
                _ => return,
            }
        }
    }

    fn turn_on(&self, interface: &str) {
        for feature in &self.features {
            if let Err(error) = self.ethtool.set_feature(interface, feature, true) {
                let remedy = turn_on_again(interface, &[feature]);
                crate::warn!("{}; {remedy}", error.sentence());
            }
        }
    }
}

/// How a person puts that back, as an imperative.
pub fn turn_on_again(interface: &str, features: &[&str]) -> String {
    let on: Vec<String> = features.iter().map(|name| format!("{name} on")).collect();
    let (names, on) = (features.join(" and "), on.join(" "));
    format!("turn {names} on again with `ethtool -K {interface} {on}`")
}

/// Those that are on, or would be if a program had not come: they can be changed, and somebody wants them.
fn to_put_back(features: &[Feature]) -> Vec<&'static str> {
    let is_wanted = |name: &&str| {
        let mut all = features.iter();
        all.any(|f| f.name == **name && !f.fixed && (f.active || f.requested))
    };
    NAMES.into_iter().filter(|name| is_wanted(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn feature(name: &str, active: bool, requested: bool, fixed: bool) -> Feature {
        Feature {
            name: name.to_owned(),
            active,
            requested,
            fixed,
        }
    }

    /// A link that stays on when its owner goes.
    #[test]
    fn what_is_forgotten_is_not_put_back() {
        let mut merging = Merging(Some(Wanted {
            ifindex: 1,
            features: vec!["rx-lro"],
            ethtool: Ethtool::new().expect("a socket"),
            netlink: Mutex::new(Netlink::new().expect("a socket")),
        }));
        assert_eq!(format!("{merging:?}"), "Merging(Some([\"rx-lro\"]))");
        merging.forget();
        assert_eq!(format!("{merging:?}"), "Merging(None)");
    }

    #[test]
    fn a_person_is_told_how_to_put_it_back() {
        assert_eq!(
            turn_on_again("eth0", &NAMES),
            "turn rx-lro and rx-gro-hw on again with `ethtool -K eth0 rx-lro on rx-gro-hw on`"
        );
        assert_eq!(merging_of("lo"), [""; 0], "it cannot be changed");
        assert_eq!(merging_of("nothing"), [""; 0]);
    }

    /// As vmxnet3 has them before a program and after one that was killed, as virtio-net, and as veth.
    #[test]
    fn what_is_on_or_was_and_can_be_changed_is_put_back() {
        for (features, wanted) in [
            (vec![feature("rx-lro", true, true, false)], vec!["rx-lro"]),
            (vec![feature("rx-lro", false, true, false)], vec!["rx-lro"]),
            (vec![feature("rx-lro", false, false, false)], vec![]),
            (vec![feature("rx-gro-hw", true, true, true)], vec![]),
            (
                vec![
                    feature("rx-lro", true, true, false),
                    feature("rx-gro", true, true, false),
                    feature("rx-gro-hw", true, true, false),
                ],
                vec!["rx-lro", "rx-gro-hw"],
            ),
            (vec![], vec![]),
        ] {
            assert_eq!(to_put_back(&features), wanted, "{features:?}");
        }
    }
}
