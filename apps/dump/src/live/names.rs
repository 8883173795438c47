//! Copies of packets from the daemon: what the ring buffer holds, as packets.
//!
//! The program in the kernel's packet path writes a record for each packet that matches: time on the
//! monotonic clock, slot, direction, verdict, and the bytes. Names of interfaces and programs, and what
//! was lost for want of room, come from the daemon's report.

use std::collections::HashMap;
use std::rc::Rc;

use exos_filter::gate::{TapRecord, Verdict as TapVerdict};
use exos_program::status::Status;

use crate::packet::{Origin, Packet, Verdict};

/// The daemon's own slot, on each of its interfaces.
const DAEMON_SLOT: u16 = 0;

/// Who is behind the numbers of a record.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    interfaces: HashMap<u32, Rc<str>>,
    /// The interface and the program of each slot: numbers of slots are the daemon's, not an interface's.
    slots: HashMap<u16, (Rc<str>, Rc<str>)>,
    processes: HashMap<u16, u32>,
}

impl Names {
    /// Takes them from a report.
    pub(super) fn new(status: &Status) -> Self {
        let mut names = Self::default();
        for interface in &status.interfaces {
            let index = interface.ifindex;
            let name: Rc<str> = Rc::from(interface.name.as_str());
            names.interfaces.insert(index, Rc::clone(&name));
            for slot in &interface.slots {
                let program = Rc::from(slot.program.as_str());
                names.slots.insert(slot.slot, (Rc::clone(&name), program));
                names.processes.extend(slot.pid.map(|pid| (slot.slot, pid)));
            }
        }
        names
    }

    /// The interfaces.
    pub(super) fn interfaces(&self) -> Vec<String> {
        self.interfaces.values().map(ToString::to_string).collect()
    }

    /// True when a record's program is not known, so that it is time for another report.
    pub(super) fn lacks(&self, record: &TapRecord) -> bool {
        !matches!(record.slot, DAEMON_SLOT | TapRecord::NO_SLOT)
            && !self.slots.contains_key(&record.slot)
    }

    /// True when the daemon lends a process a part of an interface.
    pub(super) fn has_process(&self, pid: u32) -> bool {
        self.processes.values().any(|of_slot| *of_slot == pid)
    }

    /// True when a packet is a process's.
    pub(super) fn is_of_process(&self, record: &TapRecord, pid: u32) -> bool {
        self.processes.get(&record.slot) == Some(&pid)
    }

    /// The interface, where there is no other.
    fn only(&self) -> Option<&Rc<str>> {
        let mut all = self.interfaces.values();
        all.next().filter(|_| all.next().is_none())
    }

    fn origin(&self, record: &TapRecord) -> Origin {
        let slot = (record.slot != TapRecord::NO_SLOT).then_some(record.slot);
        let of_slot = slot.and_then(|slot| self.slots.get(&slot));
        // What a slot sends is seen on the slot's own interface, which has no name for anybody.
        let interface = self.interfaces.get(&record.ifindex);
        let interface = interface.or(of_slot.map(|(interface, _)| interface));
        Origin {
            interface: interface.or(self.only()).cloned(),
            direction: Some(record.direction),
            program: match slot {
                Some(DAEMON_SLOT) => Some(Rc::from("xokd")),
                _ => of_slot.map(|(_, program)| Rc::clone(program)),
            },
            slot,
            verdict: Some(verdict(record.verdict)),
        }
    }
}

fn verdict(verdict: TapVerdict) -> Verdict {
    let (name, is_drop) = match verdict {
        TapVerdict::Slot => ("slot", false),
        TapVerdict::Host => ("host", false),
        TapVerdict::Daemon => ("daemon", false),
        TapVerdict::Wire => ("wire", false),
        TapVerdict::Dropped(counter) => (counter.name(), true),
    };
    Verdict {
        name: name.into(),
        is_drop,
    }
}

/// A record as a packet. `wall_ns` is what the wall clock is ahead of the monotonic one.
pub(super) fn packet<'a>(
    record: &TapRecord,
    bytes: &'a [u8],
    names: &Names,
    wall_ns: u64,
) -> Packet<'a> {
    Packet {
        time_ns: record.time_ns.saturating_add(wall_ns),
        bytes,
        len: (record.length as usize).max(bytes.len()),
        origin: names.origin(record),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Direction;
    use exos_filter::gate::Counter;

    const REPORT: &str = r#"{"interfaces": [{"name": "eth0", "ifindex": 2, "slots": [
        {"slot": 3, "program": "serve"}]}]}"#;

    fn record(slot: u16, verdict: TapVerdict) -> TapRecord {
        TapRecord {
            time_ns: 5_000_000_000,
            length: 60,
            captured: 4,
            slot,
            direction: Direction::Out,
            verdict,
            ifindex: 2,
        }
    }

    #[test]
    fn a_record_becomes_a_packet_with_names() {
        let names = Names::new(&Status::parse(REPORT).expect("a report"));
        let record = record(3, TapVerdict::Dropped(Counter::TxBadSource));
        let packet = packet(&record, &[1, 2, 3, 4], &names, 1_000);
        assert_eq!((packet.time_ns, packet.len), (5_000_001_000, 60));
        assert_eq!(
            packet.origin,
            Origin {
                interface: Some("eth0".into()),
                direction: Some(Direction::Out),
                program: Some("serve".into()),
                slot: Some(3),
                verdict: Some(Verdict {
                    name: "tx_bad_source".into(),
                    is_drop: true
                }),
            }
        );
    }

    /// A slot sends on an interface of its own, and so does the daemon.
    #[test]
    fn what_is_sent_has_the_name_of_the_interface_that_is_served() {
        let names = Names::new(&Status::parse(REPORT).expect("a report"));
        for (slot, program) in [(3, "serve"), (0, "xokd")] {
            let sent = TapRecord {
                ifindex: 77,
                ..record(slot, TapVerdict::Wire)
            };
            assert!(!names.lacks(&sent));
            let origin = packet(&sent, &[], &names, 0).origin;
            assert_eq!(origin.interface.as_deref(), Some("eth0"));
            assert_eq!(origin.program.as_deref(), Some(program));
        }
    }

    #[test]
    fn an_unknown_program_wants_another_report_and_the_host_has_none() {
        let names = Names::new(&Status::parse(REPORT).expect("a report"));
        assert!(names.lacks(&record(4, TapVerdict::Wire)));
        assert!(!names.lacks(&record(3, TapVerdict::Wire)));
        let host = record(TapRecord::NO_SLOT, TapVerdict::Host);
        assert!(!names.lacks(&host));
        let origin = packet(&host, &[], &names, 0).origin;
        assert_eq!((origin.slot, origin.program), (None, None));
    }
}
