//! Numbers as a person reads them, and counts by name.

use std::collections::BTreeMap;

/// A time as a person reads it.
pub(crate) fn micros(micros: u64) -> String {
    let it = micros as f64;
    match micros {
        0..1000 => format!("{micros} us"),
        1000..1_000_000 => format!("{:.2} ms", it / 1e3),
        _ => format!("{:.2} s", it / 1e6),
    }
}

/// A number as a person reads it.
pub(crate) fn plain(value: f64) -> String {
    match value.abs() {
        100.0.. => format!("{value:.0}"),
        _ => format!("{value:.2}"),
    }
}

/// Adds others to counts, each to that of its name.
pub(super) fn add_counts<K: Clone + Ord>(counts: &mut BTreeMap<K, u64>, others: &BTreeMap<K, u64>) {
    for (name, count) in others {
        *counts.entry(name.clone()).or_default() += count;
    }
}

/// Counts with their names.
pub(super) fn listed(counts: &BTreeMap<String, u64>) -> String {
    let each = counts.iter().map(|(name, count)| format!("{count} {name}"));
    each.collect::<Vec<_>>().join(", ")
}
