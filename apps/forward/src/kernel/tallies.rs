//! Packets and bytes that the kernel has forwarded, by listener and server, each way.
//!
//! Each pair of a listener and a server has two entries of an array that the program counts in, for each processor. They are
//! read now and then; what has come since is told as traffic of that listener and that server.

use std::collections::HashMap;

use super::maps::Maps;
use crate::limits::KERNEL_PAIRS_MAX;
use crate::traffic::Course;

/// All pairs that have an entry.
#[derive(Default)]
pub(super) struct Tallies {
    numbers: HashMap<(u16, u16), u32>,
    /// By number.
    pairs: Vec<Pair>,
    /// Everything together, towards servers and towards clients.
    pub(super) total: [Tally; 2],
}

struct Pair {
    listener: u16,
    server: u16,
    /// What was read of it, each way.
    read: [Tally; 2],
}

/// What one way has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) packets: u64,
    /// From the IP header on.
    pub(super) bytes: u64,
}

impl Tallies {
    /// Which entries count the packets to a server, and those to its clients; `None` where all are in use.
    pub(super) fn of(&mut self, listener: u16, server: u16) -> Option<[u32; 2]> {
        let next = self.pairs.len() as u32;
        let number = *self.numbers.entry((listener, server)).or_insert(next);
        if number >= KERNEL_PAIRS_MAX {
            self.numbers.remove(&(listener, server));
            return None;
        }
        if number == next {
            self.pairs.push(Pair {
                listener,
                server,
                read: [Tally::default(); 2],
            });
        }
        Some([2 * number, 2 * number + 1])
    }

    /// Reads what has come since the last time.
    pub(super) fn read(&mut self, maps: &Maps, mut tell: impl FnMut(Course, Tally)) {
        for (number, pair) in (0..).zip(&mut self.pairs) {
            for (way, to_server) in [true, false].into_iter().enumerate() {
                let Some(now) = maps.tally(2 * number + way as u32) else {
                    continue;
                };
                let before = std::mem::replace(&mut pair.read[way], now);
                let since = Tally {
                    packets: now.packets - before.packets,
                    bytes: now.bytes - before.bytes,
                };
                self.total[way].packets += since.packets;
                self.total[way].bytes += since.bytes;
                let course = Course {
                    listener: pair.listener,
                    server: pair.server,
                    to_server,
                };
                tell(course, since);
            }
        }
    }
}
