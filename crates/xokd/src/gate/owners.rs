//! Which slot alone has ports of an address. A fragment that comes before its packet's first one names no port: it goes to that
//! slot, and where there are several to none.
//!
//! Of TCP and UDP only. Of other protocols the daemon itself answers for the address, with what it puts together.

use std::collections::{BTreeMap, HashMap};

use exos_filter::gate::{FlowKey, OwnerKey};
use exos_wire::protocol::{TCP, UDP};

use crate::ledger::SlotId;

/// Whose the grants are, counted by address and protocol.
#[derive(Debug, Default)]
pub(super) struct Owners {
    slots: HashMap<FlowKey, SlotId>,
    counts: HashMap<OwnerKey, BTreeMap<SlotId, usize>>,
}

impl Owners {
    /// Notes whose the packets of a flow are now. Tells who alone has ports there, if that has changed.
    pub(super) fn note(
        &mut self,
        flow: FlowKey,
        slot: Option<SlotId>,
    ) -> Option<(OwnerKey, Option<SlotId>)> {
        if ![TCP, UDP].contains(&flow.protocol) {
            return None;
        }
        let key = OwnerKey {
            address: flow.local,
            protocol: flow.protocol,
        };
        let before = self.sole(&key);
        let left = match slot {
            Some(slot) => self.slots.insert(flow, slot),
            None => self.slots.remove(&flow),
        };
        let counts = self.counts.entry(key).or_default();
        if let Some(slot) = slot {
            *counts.entry(slot).or_default() += 1;
        }
        if let Some(count) = left.and_then(|left| counts.get_mut(&left)) {
            *count -= 1;
        }
        counts.retain(|_, count| *count > 0);
        if counts.is_empty() {
            self.counts.remove(&key);
        }
        let now = self.sole(&key);
        (now != before).then_some((key, now))
    }

    fn sole(&self, key: &OwnerKey) -> Option<SlotId> {
        let counts = self.counts.get(key).filter(|counts| counts.len() == 1)?;
        counts.keys().next().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_alone_is_told_when_it_changes() {
        let mut owners = Owners::default();
        let flow = |protocol, port| FlowKey::port(protocol, ([192, 0, 2, 7], port).into());
        let mut note = |protocol, port, slot| {
            let told = owners.note(flow(protocol, port), slot);
            told.map(|(key, sole)| {
                assert_eq!(key.address, flow(protocol, port).local);
                (key.protocol, sole)
            })
        };
        assert_eq!(note(TCP, 80, Some(1)), Some((TCP, Some(1))));
        assert_eq!(note(TCP, 81, Some(1)), None);
        assert_eq!(note(TCP, 80, Some(1)), None, "it is so already");
        assert_eq!(note(UDP, 80, Some(2)), Some((UDP, Some(2))));
        assert_eq!(note(1, 80, Some(2)), None, "the daemon answers for ICMP");
        assert_eq!(note(TCP, 82, Some(3)), Some((TCP, None)), "two have some");
        assert_eq!(note(TCP, 81, Some(3)), None);
        assert_eq!(note(TCP, 80, Some(3)), Some((TCP, Some(3))), "passed on");
        for port in [80, 81] {
            assert_eq!(note(TCP, port, None), None);
        }
        assert_eq!(note(TCP, 82, None), Some((TCP, None)));
        assert_eq!(note(TCP, 82, None), None, "and nobody's again");
        assert!(owners.counts.len() == 1 && owners.slots.len() == 1);
    }
}
