//! Packets and bytes that the kernel has forwarded, by listener and server, each way.
//!
//! Each pair of a listener and a server that has flows there has two entries of an array that the program counts in, for
//! each processor. They are read now and then; what has come since is told as traffic of that listener and that server. A
//! pair keeps its entries when its last flow ends; once all are in use, those without flows are given to others.

use std::collections::HashMap;

use super::maps::{Maps, Tally};
use crate::forwarder::Forwarder;
use crate::limits::KERNEL_PAIRS_MAX;
use crate::packets::traffic::Course;

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
    /// Flows that name it.
    users: u32,
    /// What was read of it, each way.
    read: [Tally; 2],
}

impl Tallies {
    /// The number of a pair, for one flow more; `None` where all are in use.
    pub(super) fn take(
        &mut self,
        maps: &Maps,
        (listener, server): (u16, u16),
        forwarder: &mut Forwarder,
    ) -> Option<u32> {
        if let Some(&number) = self.numbers.get(&(listener, server)) {
            self.pairs[number as usize].users += 1;
            return Some(number);
        }
        let new = Pair {
            listener,
            server,
            users: 1,
            read: [Tally::default(); 2],
        };
        let number = match self.pairs.len() as u32 {
            next if next < KERNEL_PAIRS_MAX => {
                self.pairs.push(new);
                next
            }
            _ => {
                let number = self.pairs.iter().position(|pair| pair.users == 0)?;
                self.read_pair(maps, forwarder, number);
                let pair = &mut self.pairs[number];
                self.numbers.remove(&(pair.listener, pair.server));
                // It goes on counting from where it is.
                let read = pair.read;
                *pair = Pair { read, ..new };
                number as u32
            }
        };
        self.numbers.insert((listener, server), number);
        Some(number)
    }

    /// True when this is the number of the pair.
    pub(super) fn is_of(&self, number: u32, pair: (u16, u16)) -> bool {
        self.numbers.get(&pair) == Some(&number)
    }

    /// Counts on from where the ones before it end, which have told all.
    pub(super) fn go_on_from(&mut self, before: &Self) {
        for (total, before) in self.total.iter_mut().zip(before.total) {
            total.packets += before.packets;
            total.bytes += before.bytes;
        }
    }

    /// One flow less names it, if any does, as with hops.
    pub(super) fn give(&mut self, number: u32) {
        if let Some(pair) = self.pairs.get_mut(number as usize) {
            pair.users = pair.users.saturating_sub(1);
        }
    }

    /// Reads what has come since the last time.
    pub(super) fn read(&mut self, maps: &Maps, forwarder: &mut Forwarder) {
        for number in 0..self.pairs.len() {
            self.read_pair(maps, forwarder, number);
        }
    }

    fn read_pair(&mut self, maps: &Maps, forwarder: &mut Forwarder, number: usize) {
        let pair = &mut self.pairs[number];
        for (way, to_server) in [true, false].into_iter().enumerate() {
            let Some(now) = maps.tally((2 * number + way) as u32) else {
                continue;
            };
            let before = std::mem::replace(&mut pair.read[way], now);
            let since = Tally {
                packets: now.packets.wrapping_sub(before.packets),
                bytes: now.bytes.wrapping_sub(before.bytes),
            };
            self.total[way].packets += since.packets;
            self.total[way].bytes += since.bytes;
            let course = Course {
                listener: pair.listener,
                server: pair.server,
                to_server,
            };
            forwarder.note_forwarded(course, since.packets, since.bytes);
        }
    }
}

#[cfg(test)]
impl Tallies {
    /// Flows that name a pair.
    pub(super) fn users(&self) -> u32 {
        self.pairs.iter().map(|pair| pair.users).sum()
    }
}
