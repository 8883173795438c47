//! What the kernel's interfaces before and behind the emulator dropped.
//!
//! A veth has room for 256 packets towards a program at its other end; what comes while it is full is dropped by
//! the sending end and counted there. So what was lost before the emulator is counted at each side's `wire`, what
//! was lost behind it at the ends in the middle.

use crate::settings::{INTERFACE, Side};
use exos_host::netns::NetNs;

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
        let table = drops_table(middle);
        Self {
            at_side: Side::BOTH.map(|side| {
                // Opened again each time: a handle would keep a side alive that was removed.
                let netns = NetNs::find(&side.namespace(lab)).ok().flatten();
                let table = netns.map(|netns| drops_table(&netns));
                tx_dropped(&table.unwrap_or_default(), INTERFACE)
            }),
            in_middle: Side::BOTH.map(|side| tx_dropped(&table, side.middle_interface())),
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

/// The kernel's table of interfaces of a namespace (proc(5), /proc/pid/net/dev).
fn drops_table(netns: &NetNs) -> String {
    let read = || std::fs::read_to_string("/proc/thread-self/net/dev");
    netns
        .run(read)
        .ok()
        .and_then(Result::ok)
        .unwrap_or_default()
}

/// The twelfth number of the interface's line; 0 when there is none.
fn tx_dropped(table: &str, interface: &str) -> u64 {
    let line = table.lines().find_map(|line| {
        let (name, numbers) = line.split_once(':')?;
        (name.trim() == interface).then_some(numbers)
    });
    let number = line.and_then(|numbers| numbers.split_whitespace().nth(11));
    number.and_then(|text| text.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_column_is_found() {
        let table = "\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo:       1       2    3    4    5     6          7         8        9      10   11   12   13    14      15         16
  wire: 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36
";
        assert_eq!(tx_dropped(table, "wire"), 32);
        assert_eq!(tx_dropped(table, "lo"), 12);
        assert_eq!(tx_dropped(table, "a"), 0);
        assert_eq!(tx_dropped("", "wire"), 0);
    }

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
