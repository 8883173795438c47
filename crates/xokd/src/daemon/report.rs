//! How everything is, as JSON: made when somebody asks and the last one (`Reports`) is old.

use std::os::fd::OwnedFd;

use exos_filter::gate::Counter;
use exos_host::error::Result;
use exos_xok::Protocol;
use serde_json::{Map, Value, json};

use super::Daemon;
use super::grants::dropped;
use crate::clock::now;
use crate::interface::Interface;
use crate::ledger::SlotId;
use crate::state;

impl Daemon {
    /// The report for anyone who asks: its length in bytes and a descriptor.
    pub(super) fn lend_report(&mut self) -> Result<(u32, OwnedFd)> {
        let asked = now();
        if self.reports.is_due(asked) {
            let text = self.report().to_string();
            self.reports.add(&text, asked)?;
        }
        self.reports.lend()
    }

    /// The report that `Status` asks for, without what is about who asks. `exos_program::status` describes it.
    fn report(&self) -> Value {
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
        })
    }

    fn report_interface(&self, interface: &Interface) -> Value {
        let addresses = interface.addresses.iter();
        let addresses = addresses.map(|a| format!("{}/{}", a.ip, a.prefix));
        let index = interface.link.index;
        let attachments = self
            .attachments
            .iter()
            .filter(|(_, s)| s.interface == index);
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
            "filters_verified": interface.gate.filters_verified(),
            "leftovers": self.leftovers.of(index).map(report_leftover).collect::<Vec<_>>(),
            "awaited": self.report_awaited(interface),
            "awaited_dropped": dropped(interface),
            "slots": attachments.map(|(slot, _)| self.report_slot(interface, *slot)).collect::<Vec<_>>(),
        })
    }

    fn report_slot(&self, interface: &Interface, slot: SlotId) -> Value {
        let attachment = &self.attachments[&slot];
        let record = &attachment.record;
        let grants = self.ledger.held_by(slot).map(|(id, grant)| {
            json!({
                "id": id,
                "claim": grant.claim.to_string(),
                "holders": grant.holders.len(),
                "receives": grant.is_received_by(slot),
                "shared": grant.is_divided,
                "retired": grant.retired.contains(&slot),
                "successor_ms": self.ledger.promise_of(slot, id).map(|time| time.as_millis() as u64),
            })
        });
        let filters = self.ledger.generals_of(slot).map(|(id, general)| {
            json!({"id": id, "claim": format!("filter {}", general.text), "holders": 1, "receives": true, "shared": false, "retired": false, "successor_ms": null})
        });
        let grants = grants.chain(filters);
        json!({
            "slot": slot,
            "program": record.program,
            "pid": record.pid,
            "uid": record.who.uid,
            "mode": if record.queue.is_some() { "direct" } else { "shared" },
            "queue": record.queue,
            "weight": record.weight,
            "rate_max_bits_per_sec": record.rate_max.map(|rate| rate * 8),
            "memory_bytes": record.memory,
            "since_ns": record.since_ns(),
            "attached": attachment.connection.is_some(),
            "handled_ports": handled_ports(interface, slot),
            "grants": grants.collect::<Vec<_>>(),
            "counters": counters(interface, slot),
        })
    }
}

fn report_leftover(left: state::Leftover) -> Value {
    json!({"uid": left.who.uid, "memory_bytes": left.memory})
}

/// What the slot's handlers get, as a claim says it without an address.
fn handled_ports(interface: &Interface, slot: SlotId) -> Vec<String> {
    let handlers = interface.gate.handlers(slot).unwrap_or_default();
    let named = handlers.iter().filter_map(|handled| {
        let protocol = Protocol::from_number(handled.protocol)?;
        Some(format!("{} {}", protocol.name(), handled.port))
    });
    named.collect()
}

fn counters(interface: &Interface, slot: SlotId) -> Map<String, Value> {
    let values = interface.gate.counters(slot).unwrap_or_default();
    let named = Counter::ALL.iter().zip(values);
    named
        .map(|((_, name), n)| ((*name).to_owned(), json!(n)))
        .collect()
}
