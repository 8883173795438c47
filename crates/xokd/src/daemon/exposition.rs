//! How everything is, as Prometheus text (the exposition format, version 0.0.4).
//!
//! Names: `exos_NAME_total` for each of the gate's counters, with the labels interface, slot, program and uid. Slot 0 is
//! what belongs to no program: its program is `host`.

use std::fmt::Write as _;

use exos_filter::gate::Counter;

use super::{Daemon, now};

impl Daemon {
    /// The text that is served under `/metrics`.
    pub(super) fn exposition(&self) -> String {
        let mut text = String::new();
        let uptime = (now() - self.started).as_secs_f64();
        let connections = self.server.len();
        for (name, value) in [
            ("uptime_seconds", uptime.to_string()),
            ("connections", connections.to_string()),
            ("slots", self.seats.len().to_string()),
        ] {
            let _ = writeln!(text, "# TYPE exos_{name} gauge\nexos_{name} {value}");
        }
        let cuts = self.server.cuts();
        let refusals = self.refusals.iter().map(|(name, n)| (*name, *n));
        family(&mut text, "exos_connections_cut_total", cuts);
        family(&mut text, "exos_requests_refused_total", refusals);
        self.expose_slots(&mut text);
        text
    }

    fn expose_slots(&self, text: &mut String) {
        let slots = self.slots_with_labels();
        let _ = writeln!(text, "# TYPE exos_grants gauge");
        for (slot, labels, _) in &slots {
            let grants = self.ledger.count_held_by(*slot);
            let _ = writeln!(text, "exos_grants{{{labels}}} {grants}");
        }
        for (at, (_, name)) in Counter::ALL.iter().enumerate() {
            let _ = writeln!(text, "# TYPE exos_{name}_total counter");
            for (_, labels, counters) in &slots {
                let value = counters.get(at).copied().unwrap_or_default();
                let _ = writeln!(text, "exos_{name}_total{{{labels}}} {value}");
            }
        }
    }

    /// Number, labels and counters of each slot.
    fn slots_with_labels(&self) -> Vec<(u32, String, Vec<u64>)> {
        let mut slots = Vec::new();
        for interface in &self.interfaces {
            let name = escape(&interface.link.name);
            let mut add = |slot: u32, program: &str, uid: u32| {
                let program = escape(program);
                let labels = format!(
                    "interface=\"{name}\",slot=\"{slot}\",program=\"{program}\",uid=\"{uid}\""
                );
                let counters = interface.gate.counters(slot);
                slots.push((slot, labels, counters.unwrap_or_default().to_vec()));
            };
            add(0, "host", 0);
            let index = interface.link.index;
            for slot in self.seats.iter().filter(|(_, s)| s.interface == index) {
                let record = &slot.1.record;
                add(record.slot, &record.program, record.uid);
            }
        }
        slots
    }
}

/// One counter for each reason.
fn family<'a>(text: &mut String, name: &str, values: impl Iterator<Item = (&'a str, u64)>) {
    let _ = writeln!(text, "# TYPE {name} counter");
    for (reason, value) in values {
        let _ = writeln!(text, "{name}{{reason=\"{}\"}} {value}", escape(reason));
    }
}

/// A label's value: programs choose their names.
fn escape(value: &str) -> String {
    let mut text = String::new();
    for c in value.chars() {
        match c {
            '\\' | '"' => text.extend(['\\', c]),
            '\n' => text.push_str("\\n"),
            c => text.push(c),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_ends_a_label() {
        assert_eq!(escape("a\"} 1\nb\\"), "a\\\"} 1\\nb\\\\");
    }
}
