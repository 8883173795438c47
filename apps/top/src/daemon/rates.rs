//! What changed from one report to the next, per second.
//!
//! A rate is `None` when there is nothing to compare with: no earlier report, a slot that another program
//! has now, or a daemon that has started again.

use exos_program::status::{InterfaceStatus, SlotStatus, Status};

use crate::reason::Reason;

/// Counters that count no drops. All others do, also those of a newer daemon: a drop that is shown under
/// a strange name is better than one that is not shown.
const NO_DROPS: [&str; 8] = [
    "rx_packets",
    "rx_bytes",
    "tx_packets",
    "tx_bytes",
    "tx_to_slot",
    "tx_to_host",
    "pass_to_host",
    "stray_to_daemon",
];

/// What a slot did per second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rates {
    /// Packets received.
    pub rx_packets: f64,
    /// Bits received.
    pub rx_bits: f64,
    /// Packets sent.
    pub tx_packets: f64,
    /// Bits sent.
    pub tx_bits: f64,
    /// Packets dropped, for whatever reason.
    pub drops: f64,
}

/// One program on one interface.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The interface's name.
    pub interface: String,
    /// The report's own.
    pub slot: SlotStatus,
    /// Per second.
    pub rates: Option<Rates>,
    /// Dropped since it came.
    pub drops: u64,
    /// Why, with its counter's total and rate; only those that are not zero.
    pub reasons: Vec<Reason>,
}

/// The programs of all interfaces.
#[must_use]
pub fn rows(before: Option<&Status>, now: &Status) -> Vec<Row> {
    let seconds = before.and_then(|before| seconds_between(before, now));
    let mut rows = Vec::new();
    for interface in &now.interfaces {
        let host = host(interface);
        for slot in host.iter().chain(&interface.slots) {
            let earlier = before.and_then(|before| find(before, interface, slot));
            let earlier = earlier.zip(seconds);
            rows.push(row(interface, slot, earlier.as_ref()));
        }
    }
    rows
}

/// What belongs to no program, as a slot's.
fn host(interface: &InterfaceStatus) -> Option<SlotStatus> {
    (!interface.host.is_empty()).then(|| SlotStatus {
        program: "(host)".to_owned(),
        counters: interface.host.clone(),
        ..SlotStatus::default()
    })
}

/// The time from one report to the next; `None` when it cannot be known, or the daemon is another one.
fn seconds_between(before: &Status, now: &Status) -> Option<f64> {
    let ns = now.time_ns?.checked_sub(before.time_ns?)?;
    (ns > 0 && before.pid == now.pid).then(|| ns as f64 / 1e9)
}

/// The slot of this program in an earlier report.
fn find(before: &Status, interface: &InterfaceStatus, slot: &SlotStatus) -> Option<SlotStatus> {
    let same = |i: &&InterfaceStatus| (i.ifindex, &i.name) == (interface.ifindex, &interface.name);
    let interface = before.interfaces.iter().find(same)?;
    let same = |s: &SlotStatus| (s.slot, s.pid, &s.program) == (slot.slot, slot.pid, &slot.program);
    let found = interface.slots.iter().find(|s| same(s)).cloned();
    found.or_else(|| host(interface).filter(same))
}

fn row(interface: &InterfaceStatus, slot: &SlotStatus, earlier: Option<&(SlotStatus, f64)>) -> Row {
    let total = |name: &str| slot.counters.get(name).copied().unwrap_or(0);
    let rate = |name: &str| {
        let (earlier, seconds) = earlier?;
        let before = earlier.counters.get(name).copied().unwrap_or(0);
        Some(total(name).checked_sub(before)? as f64 / seconds)
    };
    let reasons: Vec<Reason> = drops(slot)
        .filter(|(_, total)| *total > 0)
        .map(|(name, total)| Reason {
            name: name.to_owned(),
            total,
            rate: rate(name),
        })
        .collect();
    let rates = || {
        Some(Rates {
            rx_packets: rate("rx_packets")?,
            rx_bits: rate("rx_bytes")? * 8.0,
            tx_packets: rate("tx_packets")?,
            tx_bits: rate("tx_bytes")? * 8.0,
            drops: reasons
                .iter()
                .try_fold(0.0, |sum, reason| Some(sum + reason.rate?))?,
        })
    };
    Row {
        interface: interface.name.clone(),
        slot: slot.clone(),
        rates: rates(),
        drops: reasons.iter().map(|reason| reason.total).sum(),
        reasons,
    }
}

/// A slot's counters that count drops.
fn drops(slot: &SlotStatus) -> impl Iterator<Item = (&str, u64)> {
    let counters = slot
        .counters
        .iter()
        .map(|(name, total)| (name.as_str(), *total));
    counters.filter(|(name, _)| !NO_DROPS.contains(name))
}
