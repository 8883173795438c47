//! Dividing a link between its slots.
//!
//! Each slot is guaranteed its weight's part of the link's rate, both ways; what one cannot use, because policy caps
//! it below that, is divided between the others. Beyond that it may have what nobody else uses, up to its cap; the
//! packet path sees to that, with a bucket for each slot and one for the link. Without a known rate nothing is held
//! back but what policy caps.
//!
//! The daemon's own slot, 0, has a small guarantee of its own: neighbours are found and strays answered whatever
//! programs send.

use exos_filter::gate::limits::PART_MAX;
use exos_filter::gate::{Bucket, Share};
use exos_host::error::Result;

use super::Gate;
use crate::ledger::SlotId;

/// How much may be sent at once after a pause, as time at the rate: enough for a round trip's worth of super-packets,
/// short enough that nobody's latency grows by more.
const BURST_MS: u64 = 4;

/// At least this much at once: two super-packets.
const BURST_BYTES_MIN: u64 = 2 * 65_536;

/// The daemon's part of the link: one in this many. ARP for a network of a thousand machines takes less of 100 Mbit/s.
const DAEMON_PART: u64 = 64;

/// A slot's number, its weight, and what policy caps it at.
pub type Part = (SlotId, u32, Option<u64>);

/// What a rate means as a bucket.
pub fn bucket(rate: u64) -> Bucket {
    Bucket::new(rate, (rate / 1000 * BURST_MS).max(BURST_BYTES_MIN))
}

/// Sets the shares of all slots.
pub fn divide(gate: &Gate, rate: Option<u64>, parts: &[Part]) -> Result<()> {
    let bucket = |rate: Option<u64>| rate.map_or_else(Bucket::default, bucket);
    gate.set_link(bucket(rate))?;
    let daemon = Share {
        guarantee: bucket(rate.map(|rate| (rate / DAEMON_PART).max(1))),
        part: PART_MAX,
        ..Share::default()
    };
    gate.set_share(0, &daemon)?;
    let least = parts
        .iter()
        .map(|(_, weight, _)| *weight)
        .min()
        .unwrap_or(1);
    let left = rate.map(|rate| rate - rate / DAEMON_PART);
    for ((slot, weight, cap), guarantee) in parts.iter().zip(guarantees(left, parts)) {
        let share = Share {
            guarantee: bucket(guarantee),
            ceiling: bucket(*cap),
            part: part(*weight, least),
            ..Share::default()
        };
        gate.set_share(*slot, &share)?;
    }
    Ok(())
}

/// A slot's part of what others leave unused: its weight in sixteenths of the least.
fn part(weight: u32, least: u32) -> u64 {
    (16 * u64::from(weight) / u64::from(least.max(1))).min(PART_MAX)
}

/// What a slot can count on: its guarantee, or its cap where it is not known what the link carries. `None` when nothing
/// bounds it, or there is no such part.
pub fn bound(rate: Option<u64>, parts: &[Part], slot: SlotId) -> Option<u64> {
    let at = parts.iter().position(|part| part.0 == slot)?;
    guarantees(rate, parts)[at].or(parts[at].2)
}

/// What each slot is guaranteed: by weight, but no more than its cap; what that leaves goes to the others by weight.
fn guarantees(rate: Option<u64>, parts: &[Part]) -> Vec<Option<u64>> {
    let Some(mut rate) = rate else {
        return vec![None; parts.len()];
    };
    let mut all = vec![None; parts.len()];
    loop {
        let open = || (0..parts.len()).filter(|i| all[*i].is_none());
        let weights: u64 = open().map(|i| u64::from(parts[i].1)).sum();
        let share = |i: usize| {
            (u128::from(rate) * u128::from(parts[i].1) / u128::from(weights.max(1))) as u64
        };
        let capped = open().filter_map(|i| Some((i, parts[i].2.filter(|cap| *cap <= share(i))?)));
        let capped: Vec<(usize, u64)> = capped.collect();
        if capped.is_empty() {
            let rest: Vec<(usize, u64)> = open().map(|i| (i, share(i).max(1))).collect();
            rest.into_iter().for_each(|(i, share)| all[i] = Some(share));
            return all;
        }
        for (i, cap) in capped {
            all[i] = Some(cap);
            rate = rate.saturating_sub(cap);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_divide_the_link() {
        let parts = [(1, 1, None), (2, 3, None)];
        let all = guarantees(Some(4_000_000), &parts);
        assert_eq!(all, [Some(1_000_000), Some(3_000_000)]);
        assert_eq!(guarantees(None, &parts), [None, None]);
        assert_eq!(guarantees(Some(1), &parts)[0], Some(1), "never nothing");
        assert_eq!((part(1, 1), part(3, 2), part(1000, 1)), (16, 24, PART_MAX));
    }

    /// What a cap leaves of a part goes to the others, also when that makes another cap matter no more.
    #[test]
    fn what_is_capped_leaves_the_rest_to_others() {
        let parts = [(1, 1, Some(500)), (2, 1, Some(9_000)), (3, 2, None)];
        let all = guarantees(Some(2_000), &parts);
        assert_eq!(all, [Some(500), Some(500), Some(1_000)]);
        let parts = [(1, 2, Some(100)), (2, 1, Some(700)), (3, 1, None)];
        let all = guarantees(Some(2_000), &parts);
        assert_eq!(all, [Some(100), Some(700), Some(1_200)]);
        assert_eq!(bucket(1_000_000_000).burst, 4_000_000);
        assert_eq!(bucket(1000).burst, BURST_BYTES_MIN);
    }
}
