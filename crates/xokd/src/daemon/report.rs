//! How everything is, as JSON.

use exos_filter::gate::Counter;
use serde_json::{Map, Value, json};

use super::{Daemon, now};
use crate::interface::Interface;
use crate::ledger::SlotId;
use crate::policy::Who;

impl Daemon {
    /// The report that `Status` asks for. Its shape is described in docs/json.md.
    pub(super) fn report(&self, who: &Who) -> Value {
        let now = now();
        let interfaces = self.interfaces.iter().map(|i| self.report_interface(i));
        let cuts = self
            .server
            .cuts()
            .map(|(name, n)| (name.to_owned(), json!(n)));
        let refusals = self.refusals.iter();
        let refusals = refusals.map(|(name, n)| (format!("refused_{name}"), json!(n)));
        json!({
            "schema": "exos.daemon.status/1",
            "pid": std::process::id(),
            "uptime_ms": (now - self.started).as_millis() as u64,
            "time_ns": now.as_nanos() as u64,
            "connections": self.server.len(),
            "counters": cuts.chain(refusals).collect::<Map<_, _>>(),
            "interfaces": interfaces.collect::<Vec<_>>(),
            "taps": self.report_taps(),
            "asker": self.report_asker(who),
        })
    }

    fn report_interface(&self, interface: &Interface) -> Value {
        let addresses = interface.addresses.iter();
        let addresses = addresses.map(|a| format!("{}/{}", a.ip, a.prefix));
        let index = interface.link.index;
        let seats = self.seats.iter().filter(|(_, s)| s.interface == index);
        let stack = interface.neighbours.responder_ref().map(|r| {
            let counters = r.counters().into_iter().filter(|(_, n)| *n > 0);
            counters
                .map(|(name, n)| (name.to_owned(), json!(n)))
                .collect::<Map<_, _>>()
        });
        json!({
            "name": interface.link.name,
            "ifindex": index,
            "mac": interface.mac.to_string(),
            "mtu": interface.link.mtu,
            "rate_bits_per_sec": interface.policy.rate.map(|rate| rate * 8),
            "addresses": addresses.collect::<Vec<_>>(),
            "host": counters(interface, 0),
            "daemon": stack,
            "slots": seats.map(|(slot, _)| self.report_slot(interface, *slot)).collect::<Vec<_>>(),
        })
    }

    fn report_slot(&self, interface: &Interface, slot: SlotId) -> Value {
        let seat = &self.seats[&slot];
        let record = &seat.record;
        let grants = self.ledger.held_by(slot).map(|(id, grant)| {
            json!({
                "id": id,
                "claim": grant.claim.to_string(),
                "holders": grant.holders.len(),
                "receives": grant.slot() == slot,
            })
        });
        json!({
            "slot": slot,
            "program": record.program,
            "pid": record.pid,
            "uid": record.uid,
            "mode": if record.queue.is_some() { "direct" } else { "shared" },
            "queue": record.queue,
            "weight": record.weight,
            "rate_max_bits_per_sec": record.rate_max.map(|rate| rate * 8),
            "memory_bytes": record.memory,
            "since_ns": record.since_ns(),
            "attached": seat.connection.is_some(),
            "grants": grants.collect::<Vec<_>>(),
            "counters": counters(interface, slot),
        })
    }
}

fn counters(interface: &Interface, slot: SlotId) -> Map<String, Value> {
    let values = interface.gate.counters(slot).unwrap_or_default();
    let named = Counter::ALL.iter().zip(values);
    named
        .map(|((_, name), n)| ((*name).to_owned(), json!(n)))
        .collect()
}
