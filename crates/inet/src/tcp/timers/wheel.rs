//! A timer wheel: arming is O(1), so is each expiry; cancelling is forgetting.
//!
//! Four levels of 64 slots with a tick of one millisecond reach some four and a half hours; a
//! later deadline waits at the far end and is sorted in again. An entry is a small value (a
//! connection's identity). The owner keeps each object's true deadline and, when an entry comes
//! up, looks whether it is due: an entry that came too early is armed again, one that is no longer
//! wanted is dropped. So a deadline that moves later, as nearly all do, costs nothing.

use crate::time::Instant;

const LEVELS: usize = 4;
const SLOT_BITS: u32 = 6;
const SLOTS: usize = 1 << SLOT_BITS;

#[derive(Clone)]
struct Level<T> {
    /// Bit `s` is set when slot `s` holds an entry.
    occupied: u64,
    slots: [Vec<(u64, T)>; SLOTS],
}

/// Deadlines of many objects, each with a value that says whose it is.
pub struct Wheel<T> {
    /// The next tick to be looked at: all earlier ones have been.
    tick: u64,
    levels: [Level<T>; LEVELS],
    len: usize,
}

/// The first tick at or after `at`, so that no entry comes up before its time.
const fn tick_of(at: Instant) -> u64 {
    at.micros().div_ceil(1000)
}

impl<T: Copy> Wheel<T> {
    /// An empty wheel that begins at `now`.
    pub fn new(now: Instant) -> Self {
        let level = || Level {
            occupied: 0,
            slots: std::array::from_fn(|_| Vec::new()),
        };
        Self {
            tick: now.millis(),
            levels: std::array::from_fn(|_| level()),
            len: 0,
        }
    }

    /// How many entries wait, stale ones included.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// True when no entry waits.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Let `value` come up at `at`, or as soon as possible when that is past.
    pub fn arm(&mut self, at: Instant, value: T) {
        self.len += 1;
        self.place(tick_of(at), value);
    }

    /// Put an entry on the lowest level of which less than one turn lies between it and now. There
    /// it is never in the current slot, except on the lowest level.
    fn place(&mut self, tick: u64, value: T) {
        let tick = tick.max(self.tick);
        let ahead = |level: usize| {
            (tick >> (level as u32 * SLOT_BITS)) - (self.tick >> (level as u32 * SLOT_BITS))
        };
        let level = (0..LEVELS).find(|&level| ahead(level) < SLOTS as u64);
        let (level, slot) = match level {
            Some(level) => (level, (tick >> (level as u32 * SLOT_BITS)) as usize % SLOTS),
            // Beyond the horizon: the last slot of the top level, to be sorted in again from there.
            None => (
                LEVELS - 1,
                ((self.tick >> ((LEVELS - 1) as u32 * SLOT_BITS)) as usize + SLOTS - 1) % SLOTS,
            ),
        };
        let level = &mut self.levels[level];
        level.occupied |= 1 << slot;
        level.slots[slot].push((tick, value));
    }

    /// When to call `expire` next; may be early for deadlines far away, never late.
    pub fn next_deadline(&self) -> Option<Instant> {
        let (level, slot) = self.next_occupied()?;
        Some(Instant::from_millis(self.slot_start(level, slot)))
    }

    /// The level and slot that come up first.
    fn next_occupied(&self) -> Option<(usize, usize)> {
        let mut best: Option<(u64, usize, usize)> = None;
        for (number, level) in self.levels.iter().enumerate() {
            if level.occupied == 0 {
                continue;
            }
            let current = (self.tick >> (number as u32 * SLOT_BITS)) as u32 % SLOTS as u32;
            let ahead = level.occupied.rotate_right(current).trailing_zeros();
            let slot = ((current + ahead) as usize) % SLOTS;
            let start = self.slot_start(number, slot);
            // On a tie the higher level first: its entries may belong into the lower one's slot.
            if best.is_none_or(|(s, _, _)| start <= s) {
                best = Some((start, number, slot));
            }
        }
        best.map(|(_, level, slot)| (level, slot))
    }

    /// The first tick of a slot that lies ahead (or is the current one).
    fn slot_start(&self, level: usize, slot: usize) -> u64 {
        let shift = level as u32 * SLOT_BITS;
        let current = self.tick >> shift;
        let ahead = (slot as u64).wrapping_sub(current) % SLOTS as u64;
        ((current + ahead) << shift).max(self.tick)
    }

    /// False when `expire` has nothing to do: all until `now` has been looked at.
    #[inline]
    pub const fn wants(&self, now: Instant) -> bool {
        // Not `millis`: a division.
        now.micros() >= self.tick * 1000
    }

    /// Move the entries whose time has come by `now` into `due`.
    pub fn expire(&mut self, now: Instant, due: &mut Vec<T>) {
        let last = now.millis();
        if !self.wants(now) {
            return;
        }
        while let Some((level, slot)) = self.next_occupied() {
            let start = self.slot_start(level, slot);
            if start > last {
                break;
            }
            self.tick = start;
            self.levels[level].occupied &= !(1 << slot);
            let mut entries = std::mem::take(&mut self.levels[level].slots[slot]);
            for (tick, value) in entries.drain(..) {
                if tick <= start {
                    self.len -= 1;
                    due.push(value);
                } else {
                    self.place(tick, value);
                }
            }
            // Give the slot its memory back, unless sorting in again used it.
            let slot = &mut self.levels[level].slots[slot];
            if slot.is_empty() && entries.capacity() <= SLOTS {
                *slot = entries;
            }
        }
        self.tick = self.tick.max(last + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn drain(wheel: &mut Wheel<u32>, now: u64) -> Vec<u32> {
        let mut due = Vec::new();
        wheel.expire(Instant::from_millis(now), &mut due);
        due.sort_unstable();
        due
    }

    #[test]
    fn comes_up_at_its_time_and_not_before() {
        let mut wheel = Wheel::new(Instant::START);
        wheel.arm(Instant::from_micros(1500), 1);
        assert_eq!(drain(&mut wheel, 1), []);
        assert_eq!(wheel.next_deadline(), Some(Instant::from_millis(2)));
        assert_eq!(drain(&mut wheel, 2), [1]);
        assert!(wheel.is_empty());
    }

    #[test]
    fn the_past_comes_up_at_once_even_on_a_tick_already_looked_at() {
        let mut wheel = Wheel::new(Instant::START);
        drain(&mut wheel, 1000);
        wheel.arm(Instant::from_millis(3), 7);
        assert_eq!(drain(&mut wheel, 1001), [7]);
    }

    #[test]
    fn beyond_the_horizon() {
        let mut wheel = Wheel::new(Instant::START);
        let far = 40_000_000;
        wheel.arm(Instant::from_millis(far), 9);
        assert_eq!(drain(&mut wheel, far - 1), []);
        assert_eq!(drain(&mut wheel, far), [9]);
    }

    proptest! {
        /// Against a sorted list: never early, never later than the next look.
        #[test]
        fn agrees_with_a_sorted_list(
            start in 0u64..20_000_000,
            steps in prop::collection::vec((prop::collection::vec(0u64..6_000_000, 0..6), 0u64..300_000), 1..40),
        ) {
            let mut wheel = Wheel::new(Instant::from_millis(start));
            let mut model: Vec<(u64, u32)> = Vec::new();
            let (mut now, mut name) = (start, 0);
            for (delays, step) in steps {
                for delay in delays {
                    wheel.arm(Instant::from_millis(now + delay), name);
                    // The current tick was looked at: what is due now comes up with the next one.
                    model.push(((now + delay).max(now + u64::from(now != start)), name));
                    name += 1;
                }
                if let Some(next) = wheel.next_deadline() {
                    let least = model.iter().map(|m| m.0).min().unwrap();
                    prop_assert!(next.millis() <= least.max(now + 1), "woken late");
                }
                now += step;
                let mut expected: Vec<u32> = model.iter().filter(|m| m.0 <= now).map(|m| m.1).collect();
                model.retain(|m| m.0 > now);
                expected.sort_unstable();
                prop_assert_eq!(drain(&mut wheel, now), expected);
                prop_assert_eq!(wheel.len(), model.len());
            }
        }
    }
}
