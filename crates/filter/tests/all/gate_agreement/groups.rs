//! Whose the flows of a port are that several slots hold together: members come and go, and what has begun stays.

use super::*;
use exos_filter::gate::group::NO_MEMBER;

const SYN: u8 = 0x02;
const ACK: u8 = 0x10;
const FIN: u8 = 0x11;
const RST: u8 = 0x04;

/// A gate whose slots 1, 2 and 3 can be members of one group, which has port 80 of both addresses, for TCP and UDP.
struct Port {
    interfaces: Vec<u32>,
    model: Model,
    tables: Tables,
    programs: Programs,
    /// The number of the next that joins.
    next: u64,
}

impl Port {
    fn new() -> Self {
        let interfaces = gate::interfaces(4);
        let mut model = Model::default();
        model.config.mac = MAC;
        for number in [1, 2, 3] {
            let ifindex = interfaces[number as usize];
            model.slots[number as usize] = slot(SlotKind::Veth, ifindex);
            model.by_ifindex.insert(ifindex, number);
            model.ports.insert(number);
        }
        for address in ["192.0.2.7", "2001:db8::7"] {
            for protocol in [TCP, UDP] {
                let key = FlowKey::port(protocol, (v(address), 80).into());
                grant(&mut model, key, GROUP | 5);
            }
        }
        let seed = 0x0123_4567_89ab_cdef;
        let group = Group {
            seed,
            grant: 7,
            ..Group::default()
        };
        model.groups.insert(5, group);
        let tables = gate::create();
        tables.fill(&model);
        Self {
            programs: programs(&tables, &model),
            interfaces,
            model,
            tables,
            next: 1,
        }
    }

    /// These slots are the members now, each with as many buckets as the others. One that was keeps its place and number.
    fn set_members(&mut self, slots: &[u32]) {
        let group = self.model.groups.get_mut(&5).unwrap();
        for (place, member) in (1..).zip(&mut group.members[..3]) {
            match (slots.contains(&place), member.is_there()) {
                (true, false) => {
                    let since = self.next;
                    *member = Member { slot: place, since };
                    self.next += 1;
                }
                (false, true) => *member = Member::NOBODY,
                _ => {}
            }
        }
        group.buckets = std::array::from_fn(|at| slots[at % slots.len()] as u8 - 1);
        self.tables.fill(&self.model);
    }

    /// What becomes of a segment from or to a client's port.
    fn step(&mut self, protocol: u8, port: u16, flags: u8, hook: Hook) -> Decision {
        let v4 = port.is_multiple_of(2);
        let [local, remote] = match v4 {
            true => ["192.0.2.7", "198.51.100.9"],
            false => ["2001:db8::7", "2001:db8:9::9"],
        };
        let (from, to, ports) = match hook {
            Hook::Out(_) => (local, remote, (80, port)),
            Hook::In | Hook::Host => (remote, local, (port, 80)),
        };
        let mut header = gate::packets::ports(protocol, ports.0, ports.1, 6);
        if protocol == TCP {
            header[13] = flags;
        }
        let packet = gate::packets::ip(v(from), v(to), protocol, None, &[], &header);
        let kind = if v4 { 0x0800 } else { 0x86dd };
        let frame = gate::packets::ethernet(MAC, MAC, kind, &packet);
        let decision = step(&self.programs, &mut self.model, &frame, hook);
        compare(&self.tables, &self.model, &|| {
            format!("port {port} flags {flags} {hook:?}")
        });
        decision
    }

    /// Who gets a segment.
    fn comes(&mut self, port: u16, flags: u8) -> u32 {
        let decision = self.step(TCP, port, flags, Hook::In);
        decision.slot.expect("a member's")
    }

    /// Whether a slot may send a segment.
    fn goes(&mut self, slot: u32, port: u16, flags: u8) -> bool {
        let ifindex = self.interfaces[slot as usize];
        let decision = self.step(TCP, port, flags, Hook::Out(ifindex));
        decision.to == To::Wire
    }
}

const CLIENTS: std::ops::Range<u16> = 30_000..30_200;

#[test]
fn connections_stay_while_members_come_and_go() {
    in_namespace("connections_stay_while_members_come_and_go", || {
        let mut port = Port::new();
        port.set_members(&[1, 2]);
        let begun: Vec<u32> = CLIENTS.map(|client| port.comes(client, SYN)).collect();
        let first = begun.iter().filter(|slot| **slot == 1).count();
        assert!((60..140).contains(&first), "{first} of 200 go to the first");
        assert!(
            begun.iter().all(|slot| [1, 2].contains(slot)),
            "all go to members"
        );
        for members in [&[1, 2, 3][..], &[3, 1, 2], &[1, 3, 2]] {
            port.set_members(members);
            for (client, slot) in CLIENTS.zip(&begun) {
                assert_eq!(port.comes(client, ACK), *slot, "it has begun there");
                assert_eq!(
                    port.comes(client, SYN),
                    *slot,
                    "a SYN of another moves it not"
                );
                assert!(port.goes(*slot, client, ACK), "and may answer");
                assert!(!port.goes(3, client, RST), "nobody else may");
            }
        }
        // The first goes: what it had goes to others, all else stays.
        port.set_members(&[2, 3]);
        for (client, slot) in CLIENTS.zip(&begun) {
            let now = port.comes(client, ACK);
            assert!(now == *slot || *slot == 1 && now != 1, "{slot} {now}");
            assert!(!port.goes(1, client, ACK), "who has gone sends nothing");
        }
        // Back again it is another member, to which nothing of the first one's leads but by its hash.
        port.set_members(&[1, 2, 3]);
        let mut its = CLIENTS.zip(&begun).filter(|(_, slot)| **slot == 1);
        assert!(its.any(|(client, _)| port.comes(client, ACK) != 1));
    });
}

#[test]
fn an_ended_connection_makes_way_for_another() {
    for end in [FIN, RST] {
        in_namespace("an_ended_connection_makes_way_for_another", || {
            let mut port = Port::new();
            port.set_members(&[1]);
            CLIENTS.for_each(|client| assert_eq!(port.comes(client, SYN), 1));
            port.set_members(&[2, 1]);
            for client in CLIENTS {
                let stranger = port.goes(3, client, end);
                assert!(!stranger, "who is none of them ends nothing");
                assert_eq!(port.comes(client, SYN), 1, "it goes on");
                assert!(port.goes(1, client, end));
                assert_eq!(port.comes(client, ACK), 1, "the last segments come");
            }
            let next: Vec<u32> = CLIENTS.map(|client| port.comes(client, SYN)).collect();
            let second = next.iter().filter(|slot| **slot == 2).count();
            assert!((60..140).contains(&second), "{second} of 200 are another's");
            for (client, slot) in CLIENTS.zip(next) {
                assert_eq!(port.comes(client, ACK), slot);
            }
        });
    }
}

#[test]
fn datagrams_are_divided_by_their_hash() {
    in_namespace("datagrams_are_divided_by_their_hash", || {
        let mut port = Port::new();
        port.set_members(&[1, 2, 3]);
        let mut counts = [0; 4];
        for client in CLIENTS {
            let slot = port.step(UDP, client, 0, Hook::In).slot.unwrap();
            counts[slot as usize] += 1;
            for other in [1, 2, 3] {
                let hook = Hook::Out(port.interfaces[other as usize]);
                let is_sent = port.step(UDP, client, 0, hook).to == To::Wire;
                assert_eq!(is_sent, other == slot, "who gets it answers");
            }
        }
        assert!(counts[1..].iter().all(|n| *n > 30), "{counts:?}");
        assert!(port.model.member_flows.is_empty(), "nothing is remembered");
        // The host's own, too.
        let slot = port.step(TCP, 30_000, SYN, Hook::Host).slot;
        assert_eq!(slot, port.step(TCP, 30_000, ACK, Hook::In).slot);
    });
}

/// Between two members' times a place is empty: what goes there is dropped, and nothing of it is remembered.
#[test]
fn an_empty_place_gets_nothing() {
    in_namespace("an_empty_place_gets_nothing", || {
        let mut port = Port::new();
        for flags in [SYN, ACK] {
            let decision = port.step(TCP, 30_000, flags, Hook::In);
            assert_eq!((decision.to, decision.slot), (To::Drop, Some(NO_MEMBER)));
            assert!(!port.goes(1, 30_000, flags));
        }
        assert!(port.model.member_flows.is_empty());
    });
}
