//! What the kernel's interfaces before and behind the emulator dropped.
//!
//! A veth has room for 256 packets towards a program at its other end; what comes while it is full is dropped by
//! the sending end and counted there. So what was lost before the emulator is counted at each side's `wire`, what
//! was lost behind it at the ends in the middle.

use crate::settings::{INTERFACE, Side};
use exos_host::netns::NetNs;
use procfs::FromRead as _;
use procfs::net::InterfaceDeviceStatus;
use std::collections::HashMap;

/// Packets that interfaces could not send, by the side to which they lead or belong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Dropped {
    /// By each side's end: before the emulator.
    pub(super) at_side: [u64; 2],
    /// By the middle's end that leads to each side: behind the emulator.
    pub(super) in_middle: [u64; 2],
}

impl Dropped {
    /// As counted since the interfaces were made. What cannot be read counts as nothing: the interface is gone.
    pub(super) fn read(lab: &str, middle: &NetNs) -> Self {
        let of = |table: &HashMap<String, u64>, name| table.get(name).copied().unwrap_or(0);
        let table = tx_dropped(middle);
        Self {
            at_side: Side::BOTH.map(|side| {
                // Opened again each time: a handle would keep a side alive that was removed.
                let netns = NetNs::find(&side.namespace(lab)).ok().flatten();
                netns.map_or(0, |netns| of(&tx_dropped(&netns), INTERFACE))
            }),
            in_middle: Side::BOTH.map(|side| of(&table, side.middle_interface())),
        }
    }

    /// What came since an earlier reading.
    pub(super) fn since(&self, earlier: &Self) -> Self {
        let minus = |now: [u64; 2], then: [u64; 2]| [0, 1].map(|i| now[i].saturating_sub(then[i]));
        Self {
            at_side: minus(self.at_side, earlier.at_side),
            in_middle: minus(self.in_middle, earlier.in_middle),
        }
    }
}

/// What the interfaces of a namespace could not send, by name (proc(5), /proc/pid/net/dev).
fn tx_dropped(netns: &NetNs) -> HashMap<String, u64> {
    let read = || InterfaceDeviceStatus::from_file("/proc/thread-self/net/dev");
    let table = netns.run(read).ok().and_then(Result::ok);
    let interfaces = table.into_iter().flat_map(|table| table.0);
    interfaces
        .map(|(name, status)| (name, status.sent_drop))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_came_since_counts() {
        let then = Dropped {
            at_side: [1, 2],
            in_middle: [3, 4],
        };
        let now = Dropped {
            at_side: [11, 2],
            in_middle: [0, 5],
        };
        let since = now.since(&then);
        assert_eq!((since.at_side, since.in_middle), ([10, 0], [0, 1]));
    }
}
