//! No packet changes hands unless its owner says so.

use std::net::IpAddr;

use exos_xok::Protocol;
use exos_xok::claim::ClaimError;
use exos_xok::message::Refusal;
use proptest::prelude::*;

use super::index::{Key, key};
use super::*;
use crate::limits::{TICKET_LIFE, TICKETS_PER_SLOT_MAX};

const START: Now = Duration::ZERO;

fn owner(slot: SlotId) -> Owner {
    Owner {
        who: Rc::new(Who {
            uid: 1000 + slot,
            groups: Vec::new(),
        }),
        pid: 4000 + slot,
        program: format!("program{slot}"),
        interface: 2,
    }
}

fn ledger(slots: u32) -> Ledger {
    let mut ledger = Ledger::new(7);
    (1..=slots).for_each(|slot| ledger.add_slot(slot, owner(slot)));
    ledger
}

fn ip(last: u8) -> IpAddr {
    IpAddr::from([192, 0, 2, last])
}

fn far(port: u16) -> Endpoint {
    Endpoint { ip: ip(99), port }
}

fn tcp(port: u16) -> Claim {
    Claim {
        interface: 2,
        protocol: Protocol::Tcp,
        local: ip(7),
        port,
        remote: None,
    }
}

fn connection(port: u16, remote: u16) -> Claim {
    Claim {
        remote: Some(far(remote)),
        ..tcp(port)
    }
}

/// The owner of a packet by the definition: the narrowest claim that matches.
fn winner(ledger: &Ledger, packet: &Claim) -> Option<SlotId> {
    let matching = ledger
        .grants()
        .filter(|(_, g)| packet.is_subset_of(&g.claim));
    let narrow = |claim: &Claim| {
        (
            claim.remote.is_some(),
            claim.port != 0,
            claim.protocol != Protocol::Any,
        )
    };
    matching
        .max_by_key(|(_, g)| narrow(&g.claim))
        .map(|(_, g)| g.slot())
}

#[test]
fn what_is_held_is_refused_with_the_owners_name() {
    let mut ledger = ledger(2);
    ledger.claim(1, tcp(80)).expect("free");
    let whole = Claim { port: 0, ..tcp(80) };
    let address = Claim {
        protocol: Protocol::Any,
        ..whole
    };
    for claim in [tcp(80), connection(80, 9), whole, address] {
        let denied = ledger.claim(2, claim).expect_err("held");
        let said = "tcp 192.0.2.7:80 is held by program1 (pid 4001, uid 1001)";
        assert_eq!(denied.to_string(), said);
        assert_eq!(denied.code(), Refusal::Held);
    }
    assert!(ledger.claim(2, tcp(81)).is_ok());
    let udp = Claim {
        protocol: Protocol::Udp,
        ..tcp(80)
    };
    assert!(ledger.claim(2, udp).is_ok());
    let again = ledger.claim(1, tcp(80)).expect("its own");
    assert_eq!(again.grant, 1, "the same grant, not a second");
}

#[test]
fn a_connection_is_handed_on_and_outlives_its_listener() {
    let mut ledger = ledger(3);
    let listener = ledger.claim(1, tcp(80)).expect("free").grant;
    let part = ledger.narrow(1, listener, far(9), 0).expect("a part");
    assert_eq!(part.claim, connection(80, 9));
    let ticket = Secret([1; 16]);
    ledger
        .write_ticket(1, part.grant, TicketKind::Move, ticket, START)
        .expect("its own");
    assert_eq!(winner(&ledger, &connection(80, 9)), Some(1));
    let moved = ledger.present(2, &ticket, START).expect("good");
    assert_eq!((moved.slot, moved.claim), (Some(2), connection(80, 9)));
    assert_eq!(winner(&ledger, &connection(80, 9)), Some(2));
    assert_eq!(winner(&ledger, &connection(80, 8)), Some(1));
    let origin = &ledger.grant(moved.grant).expect("it is there").origin;
    assert_eq!(origin.uid, 1001, "by the right of who gave it");
    assert!(ledger.present(3, &ticket, START).is_err(), "used up");
    ledger.release(1, listener, START).expect("its own");
    assert_eq!(winner(&ledger, &connection(80, 9)), Some(2));
    // The next listener may come: the connection goes on winning.
    ledger.claim(3, tcp(80)).expect("around a connection");
    assert_eq!(winner(&ledger, &connection(80, 9)), Some(2));
    let denied = ledger.claim(1, connection(80, 9)).expect_err("another's");
    assert_eq!(denied.code(), Refusal::Held);
}

#[test]
fn a_part_is_a_part() {
    let mut ledger = ledger(2);
    let listener = ledger.claim(1, tcp(80)).expect("free").grant;
    let all = Claim { port: 0, ..tcp(0) };
    let denied = ledger
        .narrow(1, listener, far(9), 81)
        .expect_err("another port");
    assert_eq!(denied, Denied::NotPart(tcp(80)));
    assert_eq!(
        ledger
            .narrow(2, listener, far(9), 0)
            .expect_err("not its own")
            .code(),
        Refusal::NotFound
    );
    ledger.release(1, listener, START).expect("its own");
    let whole = ledger.claim(1, all).expect("free").grant;
    let part = ledger.narrow(1, whole, far(9), 5000).expect("a part");
    assert_eq!(part.claim, connection(5000, 9));
    let denied = ledger.narrow(1, whole, far(9), 0).expect_err("no port");
    assert_eq!(denied, Denied::Bad(ClaimError::RemoteWithoutPort));
    let wide = Endpoint {
        ip: IpAddr::from([0xfe80, 0, 0, 0, 0, 0, 0, 1]),
        port: 1,
    };
    assert_eq!(
        ledger
            .narrow(1, whole, wide, 5000)
            .expect_err("IPv6")
            .code(),
        Refusal::BadRequest
    );
}

#[test]
fn the_next_holder_gets_the_packets_when_the_first_goes() {
    let mut ledger = ledger(3);
    let grant = ledger.claim(1, tcp(80)).expect("free").grant;
    for slot in [2, 3] {
        let ticket = Secret([slot as u8; 16]);
        ledger
            .write_ticket(1, grant, TicketKind::Share, ticket, START)
            .expect("its own");
        assert_eq!(
            ledger.present(slot, &ticket, START).expect("good").slot,
            Some(1)
        );
    }
    assert_eq!(ledger.release(2, grant, START), Ok(None), "nothing changes");
    let changes = ledger.remove_slot(1, START);
    assert_eq!(
        changes,
        [Change {
            grant,
            claim: tcp(80),
            slot: Some(3)
        }]
    );
    let changes = ledger.remove_slot(3, START);
    assert_eq!(
        changes,
        [Change {
            grant,
            claim: tcp(80),
            slot: None
        }]
    );
    assert_eq!(ledger.grants().count(), 0);
    assert!(ledger.claim(2, tcp(80)).is_ok());
}

#[test]
fn tickets_end_with_time_with_the_slot_and_at_their_bound() {
    let mut ledger = ledger(2);
    let grant = ledger.claim(1, tcp(80)).expect("free").grant;
    let secret = |n: usize| Secret([n as u8; 16]);
    for n in 0..TICKETS_PER_SLOT_MAX {
        ledger
            .write_ticket(1, grant, TicketKind::Move, secret(n), START)
            .expect("room");
    }
    let full = ledger.write_ticket(1, grant, TicketKind::Move, secret(200), START);
    assert_eq!(full.expect_err("full").code(), Refusal::Limit);
    assert!(
        ledger.present(2, &secret(0), TICKET_LIFE).is_err(),
        "too old"
    );
    ledger
        .write_ticket(1, grant, TicketKind::Move, secret(200), TICKET_LIFE)
        .expect("room again");
    ledger.remove_slot(1, TICKET_LIFE);
    assert!(
        ledger.present(2, &secret(200), TICKET_LIFE).is_err(),
        "nobody's"
    );
}

#[test]
fn chosen_ports_are_nobodys_and_rested() {
    let mut ledger = ledger(2);
    let (wish, allowed) = (tcp(0), [40_000..=40_003]);
    let first = ledger
        .claim_ephemeral(1, wish, START, &allowed)
        .expect("plenty");
    // Connections at one port: it is free when the last of them is gone.
    let part = ledger.narrow(1, first.grant, far(9), 0).expect("a part");
    ledger.release(1, first.grant, START).expect("its own");
    let others = [(); 3].map(|()| ledger.claim_ephemeral(2, wish, START, &allowed));
    let mut ports = others.map(|other| other.expect("three are left").claim.port);
    ports.sort_unstable();
    assert!(!ports.contains(&first.claim.port) && ports.is_sorted_by(|a, b| a < b));
    let none = ledger.claim_ephemeral(2, wish, START, &allowed);
    assert_eq!(none.expect_err("all are taken").code(), Refusal::Limit);
    ledger.release(1, part.grant, START).expect("its own");
    let last = ledger.claim_ephemeral(2, wish, START, &allowed);
    assert_eq!(
        last.expect("it rests, but is free").claim.port,
        first.claim.port
    );
    // Whoever has all ports of an address has those, too.
    let all = Claim {
        protocol: Protocol::Udp,
        ..wish
    };
    ledger.claim(1, all).expect("free");
    let held = ledger.claim_ephemeral(2, all, START, &allowed);
    assert_eq!(held.expect_err("another has all").code(), Refusal::Held);
    let own = ledger.claim_ephemeral(1, all, START, &allowed);
    assert!(own.is_ok_and(|change| allowed[0].contains(&change.claim.port)));
}

/// One step of a history.
#[derive(Clone, Debug)]
enum Step {
    Claim(SlotId, Claim),
    Narrow(SlotId, GrantId, u16, u16),
    Release(SlotId, GrantId),
    Ticket(SlotId, GrantId, bool, u8),
    Present(SlotId, u8),
    Remove(SlotId),
}

fn claims() -> impl Strategy<Value = Claim> {
    let protocol = prop::sample::select(vec![Protocol::Any, Protocol::Tcp, Protocol::Udp]);
    (protocol, 7..9_u8, 0..3_u16, 0..3_u16)
        .prop_map(|(protocol, last, port, remote)| Claim {
            protocol,
            local: ip(last),
            remote: (remote != 0).then(|| far(remote)),
            ..tcp(port)
        })
        .prop_filter("a shape", |claim| claim.check().is_ok())
}

fn step() -> impl Strategy<Value = Step> {
    let slot = 1..4_u32;
    prop_oneof![
        6 => (slot.clone(), claims()).prop_map(|(slot, claim)| Step::Claim(slot, claim)),
        3 => (slot.clone(), 1..9_u32, 1..3_u16, 0..3_u16)
            .prop_map(|(slot, grant, remote, port)| Step::Narrow(slot, grant, remote, port)),
        2 => (slot.clone(), 1..9_u32).prop_map(|(slot, grant)| Step::Release(slot, grant)),
        2 => (slot.clone(), 1..9_u32, any::<bool>(), 0..3_u8)
            .prop_map(|(slot, grant, share, secret)| Step::Ticket(slot, grant, share, secret)),
        2 => (slot.clone(), 0..3_u8).prop_map(|(slot, secret)| Step::Present(slot, secret)),
        1 => slot.prop_map(Step::Remove),
    ]
}

/// Every packet of the little world, as the claim that only it matches.
fn packets() -> Vec<Claim> {
    let mut all = Vec::new();
    for protocol in [Protocol::Tcp, Protocol::Udp, Protocol::Icmp] {
        for last in 7..9 {
            for port in 1..4 {
                for remote in 1..4 {
                    let packet = Claim {
                        protocol,
                        local: ip(last),
                        ..connection(port, remote)
                    };
                    all.push(packet);
                }
            }
        }
    }
    all
}

/// What the packet path would look like after the changes: the kernel's table.
fn tell(table: &mut BTreeMap<Key, SlotId>, changes: &[Change]) {
    for change in changes {
        match change.slot {
            Some(slot) => table.insert(key(&change.claim), slot),
            None => table.remove(&key(&change.claim)),
        };
    }
}

proptest! {
    #[test]
    fn no_packet_changes_hands_unless_its_owner_says_so(steps in prop::collection::vec(step(), 1..60)) {
        let mut ledger = ledger(3);
        let mut table = BTreeMap::new();
        let packets = packets();
        let mut handed_on = false;
        for step in steps {
            let before: Vec<_> = packets.iter().map(|p| winner(&ledger, p)).collect();
            let mut from = None; // Whose packets may go elsewhere by this step.
            let changes: Vec<Change> = match step.clone() {
                Step::Claim(slot, claim) => ledger.claim(slot, claim).ok().into_iter().collect(),
                Step::Narrow(slot, grant, remote, port) => {
                    let whole = ledger.grant(grant).map(|g| g.claim);
                    let part = ledger.narrow(slot, grant, far(remote), port);
                    if let Ok(change) = &part {
                        prop_assert!(change.claim.is_subset_of(&whole.expect("it was there")));
                    }
                    part.ok().into_iter().collect()
                }
                Step::Release(slot, grant) => {
                    from = Some(slot);
                    ledger.release(slot, grant, START).ok().flatten().into_iter().collect()
                }
                Step::Ticket(slot, grant, share, secret) => {
                    let kind = if share { TicketKind::Share } else { TicketKind::Move };
                    let _ = ledger.write_ticket(slot, grant, kind, Secret([secret; 16]), START);
                    Vec::new()
                }
                Step::Present(slot, secret) => {
                    let secret = Secret([secret; 16]);
                    from = ledger.tickets.find(&secret, START).map(|t| t.from);
                    let presented = ledger.present(slot, &secret, START);
                    handed_on |= presented.is_ok();
                    presented.ok().into_iter().collect()
                }
                Step::Remove(slot) => {
                    from = Some(slot);
                    let changes = ledger.remove_slot(slot, START);
                    ledger.add_slot(slot, owner(slot));
                    changes
                }
            };
            tell(&mut table, &changes);
            for (packet, before) in packets.iter().zip(before) {
                let after = winner(&ledger, packet);
                let kept = before.is_none() || after == before || before == from;
                prop_assert!(kept, "{step:?}: {packet} went from {before:?} to {after:?}");
            }
            // The packet path was told all of it.
            let expected: BTreeMap<_, _> = ledger.grants().map(|(_, g)| (key(&g.claim), g.slot())).collect();
            prop_assert_eq!(&table, &expected);
            for (slot, _) in ledger.slots() {
                let held = ledger.held_by(slot).map(|(id, _)| id);
                let expected = ledger.grants().filter(|(_, g)| g.holders.contains(&slot));
                prop_assert!(held.eq(expected.map(|(id, _)| id)), "slot {slot}");
            }
            // Two slots whose claims meet, without a ticket: one of the claims is a connection, which wins.
            for (a, one) in ledger.grants().filter(|_| !handed_on) {
                for (b, other) in ledger.grants() {
                    let apart = a == b || one.slot() == other.slot() || !one.claim.overlaps(&other.claim);
                    let one_wins = one.claim.remote.is_some() != other.claim.remote.is_some();
                    prop_assert!(apart || one_wins, "{} and {}", one.claim, other.claim);
                }
            }
        }
    }
}
