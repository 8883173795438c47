//! Copies of packets from the daemon: what the ring buffer holds, as packets.
//!
//! The program in the kernel's packet path writes a record for each packet that matches: time on the
//! monotonic clock, slot, direction, verdict, and the bytes. Names of interfaces and programs, and what
//! was lost for want of room, come from the daemon's report.

use std::collections::HashMap;
use std::rc::Rc;

use exos_filter::gate::Verdict as TapVerdict;
use exos_filter::gate::tap::{Direction as TapDirection, TapRecord};
use exos_program::status::Status;

use crate::packet::{Direction, Origin, Packet, Verdict};

/// Who is behind the numbers of a record.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    interfaces: HashMap<u32, Rc<str>>,
    programs: HashMap<(u32, u16), Rc<str>>,
}

impl Names {
    /// Takes them from a report.
    pub(crate) fn new(status: &Status) -> Self {
        let mut names = Self::default();
        for interface in &status.interfaces {
            let index = interface.ifindex;
            names
                .interfaces
                .insert(index, Rc::from(interface.name.as_str()));
            for slot in &interface.slots {
                let program = Rc::from(slot.program.as_str());
                names.programs.insert((index, slot.slot), program);
            }
        }
        names
    }

    /// True when a record's program is not known, so that it is time for another report.
    pub(crate) fn lacks(&self, record: &TapRecord) -> bool {
        record.slot != TapRecord::NO_SLOT
            && !self.programs.contains_key(&(record.ifindex, record.slot))
    }

    fn origin(&self, record: &TapRecord) -> Origin {
        let slot = (record.slot != TapRecord::NO_SLOT).then_some(record.slot);
        Origin {
            interface: self.interfaces.get(&record.ifindex).cloned(),
            direction: Some(match record.direction {
                TapDirection::In => Direction::In,
                TapDirection::Out => Direction::Out,
            }),
            program: slot.and_then(|slot| self.programs.get(&(record.ifindex, slot)).cloned()),
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
pub(crate) fn packet<'a>(
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
    use exos_filter::gate::Counter;

    const REPORT: &str = r#"{"interfaces": [{"name": "eth0", "ifindex": 2, "slots": [
        {"slot": 0, "program": "xokd"}, {"slot": 3, "program": "serve"}]}]}"#;

    fn record(slot: u16, verdict: TapVerdict) -> TapRecord {
        TapRecord {
            time_ns: 5_000_000_000,
            length: 60,
            captured: 4,
            slot,
            direction: TapDirection::Out,
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
