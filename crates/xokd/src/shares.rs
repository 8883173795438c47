//! Dividing a link between its slots.
//!
//! Each slot is guaranteed its weight's part of the link's rate, both ways. Beyond that it may have what nobody else
//! uses; the packet path sees to that, with one bucket for each slot and one for the link. Without a known rate
//! nothing is held back but what policy caps.

use exos_filter::gate::Bucket;
use exos_host::error::Result;

use crate::gate::Gate;
use crate::ledger::SlotId;

/// How much may be sent at once after a pause, as time at the rate: enough for a round trip's worth of super-packets,
/// short enough that nobody's latency grows by more.
const BURST_MS: u64 = 4;

/// At least this much at once: two super-packets.
const BURST_BYTES_MIN: u64 = 2 * 65_536;

/// What a rate means as a bucket.
pub fn bucket(rate: u64) -> Bucket {
    Bucket::new(rate, (rate / 1000 * BURST_MS).max(BURST_BYTES_MIN))
}

/// Sets the buckets of all slots: (slot, weight, cap).
pub fn divide(gate: &Gate, rate: Option<u64>, parts: &[(SlotId, u32, Option<u64>)]) -> Result<()> {
    gate.set_link(rate.map_or_else(Bucket::default, bucket))?;
    for (slot, rate, capped) in rates(rate, parts) {
        let bucket = rate.map_or_else(Bucket::default, bucket);
        gate.set_shares(slot, bucket, bucket, capped)?;
    }
    Ok(())
}

/// The rate of each slot, and whether it is never more.
fn rates(
    rate: Option<u64>,
    parts: &[(SlotId, u32, Option<u64>)],
) -> Vec<(SlotId, Option<u64>, bool)> {
    let weights: u64 = parts.iter().map(|(_, weight, _)| u64::from(*weight)).sum();
    let share = |weight: u32| rate.map(|rate| (rate * u64::from(weight) / weights.max(1)).max(1));
    let parts = parts.iter();
    let each = parts.map(|(slot, weight, cap)| match (share(*weight), cap) {
        // Never more than the cap, and guaranteed no more than the part: a cap above it is not a guarantee.
        (share, Some(cap)) => (
            *slot,
            Some(share.map_or(*cap, |share| share.min(*cap))),
            true,
        ),
        (share, None) => (*slot, share, false),
    });
    each.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_divide_the_link() {
        let parts = [(1, 1, None), (2, 3, None)];
        let all = rates(Some(4_000_000), &parts);
        assert_eq!(
            all,
            [(1, Some(1_000_000), false), (2, Some(3_000_000), false)]
        );
        assert_eq!(rates(None, &parts), [(1, None, false), (2, None, false)]);
        assert_eq!(rates(Some(1), &parts)[0].1, Some(1), "never nothing");
    }

    #[test]
    fn what_policy_caps_stays_capped() {
        let parts = [(1, 1, Some(500)), (2, 1, Some(9_000))];
        let all = rates(Some(2_000), &parts);
        assert_eq!(all, [(1, Some(500), true), (2, Some(1_000), true)]);
        assert_eq!(rates(None, &parts[..1]), [(1, Some(500), true)]);
        assert_eq!(bucket(1_000_000_000).burst, 4_000_000);
        assert_eq!(bucket(1000).burst, BURST_BYTES_MIN);
    }
}
