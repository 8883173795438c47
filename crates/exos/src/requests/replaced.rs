//! Responses that were replaced while connections had not acknowledged them: the stack has to send just these bytes again, for a client may
//! have a part of them.
//!
//! Which those are the slots of connections say. They are looked through when much has been kept since they last were. A connection that was handed
//! up is still in its slot, which stays closed for longer than the server takes to take it on.

use std::collections::{HashMap, HashSet};

use exos_filter::handler::web::layout::{self, slot};
use exos_inet::{Duration, Instant};

use super::memory::Memory;
use super::sent::FORGOTTEN;

/// How many are kept without a look at the slots: some megabytes of the longest.
const UNSEEN: usize = 4096;

/// By their versions.
#[derive(Debug, Default)]
pub(super) struct Replaced {
    all: HashMap<u32, (Instant, Box<[u8]>)>,
    /// How many there were after the last look.
    seen: usize,
}

impl Replaced {
    /// Keeps one that was replaced now, which processors may be answering with for `in_use` more.
    pub(super) fn keep(
        &mut self,
        memory: &Memory,
        now: Instant,
        in_use: Duration,
        (version, response): (u32, Box<[u8]>),
    ) {
        self.all.insert(version, (now, response));
        if self.all.len() < 2 * self.seen + UNSEEN {
            return;
        }
        let waited_for = unacknowledged(memory);
        self.all.retain(|version, (replaced, _)| {
            let since = now - *replaced;
            since < in_use || (since < FORGOTTEN && waited_for.contains(version))
        });
        self.seen = self.all.len();
    }

    pub(super) fn get(&self, version: u32) -> Option<&[u8]> {
        self.all.get(&version).map(|(_, response)| &**response)
    }
}

/// The versions of responses that were sent, and are not acknowledged.
fn unacknowledged(memory: &Memory) -> HashSet<u32> {
    let slots = (0..layout::SLOT_COUNT).map(|number| layout::SLOTS + number * layout::SLOT_LEN);
    let waiting = slots.filter(|at| {
        let (_, nxt) = memory.halves(at + slot::RCV);
        memory.half(at + slot::UNA) != nxt
    });
    waiting.map(|at| memory.half(at + slot::VERSION)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// However much is replaced, what a connection waits for stays, and the rest goes.
    #[test]
    fn what_is_not_acknowledged_stays() {
        let words = (0..layout::ENTRIES / 8).map(|_| 0.into());
        let memory = Memory::Plain(words.collect());
        let at = layout::SLOTS + 5 * layout::SLOT_LEN;
        memory.set_halves(at + slot::RCV, 100, 1000);
        memory.set_halves(at + slot::UNA, 900, 0);
        memory.set_halves(at + slot::VERSION, 6, 0);
        let (mut replaced, ms) = (Replaced::default(), Duration::from_millis);
        let start = Instant::from_millis(100_000);
        let mut put = |version: u32, now: Instant| {
            let response = version.to_ne_bytes().into();
            replaced.keep(&memory, now, ms(10), (version, response));
            let first = replaced.get(6).map(|bytes| bytes.to_vec());
            (first, replaced.all.len())
        };
        put(6, start);
        for version in 1..10 * UNSEEN as u32 {
            let now = start + ms(u64::from(version) / 100);
            let (first, count) = put(2 * version + 6, now);
            assert_eq!(first, Some(6_u32.to_ne_bytes().to_vec()));
            assert!(count < UNSEEN + 3000, "{count}");
        }
        memory.set_halves(at + slot::UNA, 1000, 0);
        let later = start + ms(1000);
        let versions = (1..2 * UNSEEN as u32 + 10_000).map(|n| 2 * n + 200_000);
        let last = versions.map(|version| put(version, later).0).last();
        assert_eq!(last, Some(None), "acknowledged");
    }
}
