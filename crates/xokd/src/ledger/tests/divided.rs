//! Ports that several slots hold together: who may join, who gets what is new, and what is left of it.

use super::*;
use crate::limits::{DIVIDED_PER_USER_MAX, MEMBERS_MAX};

/// Books of slots of one user, and slot 9 of another.
fn ledger_of_one_user(slots: u32) -> Ledger {
    let mut ledger = Ledger::new(7);
    for slot in (1..=slots).chain(9..10) {
        let who = Rc::clone(&owner(if slot == 9 { 9 } else { 1 }).who);
        ledger.add_slot(slot, Owner { who, ..owner(slot) });
    }
    ledger
}

fn udp(port: u16) -> Claim {
    Claim {
        protocol: Protocol::Udp,
        ..tcp(port)
    }
}

#[test]
fn programs_of_one_user_share_a_port() {
    let mut ledger = ledger_of_one_user(3);
    let first = ledger.claim_divided(1, tcp(80)).expect("free");
    assert_eq!(ledger.members(first.grant), [(1, true)]);
    for slot in [2, 3, 2] {
        let joined = ledger.claim_divided(slot, tcp(80)).expect("of one user");
        assert_eq!((joined.grant, joined.slot), (first.grant, Some(1)));
    }
    assert_eq!(
        ledger.members(first.grant),
        [(1, true), (2, true), (3, true)]
    );
    // When a member goes the packet path hears of it.
    let gone = ledger.remove_slot(2, START);
    assert_eq!(gone.iter().map(|c| c.slot).collect::<Vec<_>>(), [Some(1)]);
    let left = ledger.release(1, first.grant, START).expect("held");
    assert_eq!(left.and_then(|change| change.slot), Some(3));
    assert_eq!(ledger.members(first.grant), [(3, true)]);
    let last = ledger.release(3, first.grant, START).expect("held");
    assert_eq!(last.map(|change| change.slot), Some(None));
    assert!(ledger.members(first.grant).is_empty() && !ledger.has(&tcp(80)));
}

#[test]
fn others_do_not_join_nor_take_a_part() {
    let mut ledger = ledger_of_one_user(3);
    let shared = ledger.claim_divided(1, tcp(80)).expect("free").grant;
    ledger.claim_divided(2, tcp(80)).expect("of one user");
    let own = ledger.claim(1, tcp(81)).expect("free").grant;
    let refused = [
        (9, tcp(80), "shared by programs of that user only"),
        (2, tcp(81), "does not share it"),
        (1, tcp(81), "does not share it"),
    ];
    for (slot, claim, why) in refused {
        let denied = ledger.claim_divided(slot, claim).expect_err("held");
        assert_eq!(denied.code(), Refusal::Held);
        assert!(denied.to_string().contains(why), "{denied}");
    }
    let alone = ledger.claim(3, tcp(80)).expect_err("it is shared");
    assert_eq!(alone.code(), Refusal::Held);
    // No member has packets of it that are not the others' too.
    for slot in [1, 2] {
        let part = ledger.narrow(slot, shared, far(4000), 0);
        assert_eq!(part.expect_err("another's").code(), Refusal::Held);
        let around = Claim { port: 0, ..tcp(80) };
        ledger.claim(slot, around).expect_err("a part is another's");
    }
    assert!(ledger.retire(1, own).is_err(), "nobody else has it");
    ledger.remove_slot(1, START);
    let part = ledger.narrow(2, shared, far(4000), 0);
    part.expect("the one that is left has all of it");
}

#[test]
fn what_is_no_port_is_not_shared() {
    let mut ledger = ledger_of_one_user(1);
    let icmp = Claim {
        protocol: Protocol::Icmp,
        ..tcp(80)
    };
    for claim in [tcp(0), icmp, connection(80, 4000)] {
        let denied = ledger.claim_divided(1, claim).expect_err("no port");
        assert_eq!(denied.code(), Refusal::BadRequest, "{denied}");
    }
    ledger.claim_divided(1, udp(53)).expect("a port");
}

#[test]
fn who_retires_stays_and_gets_nothing_new() {
    let mut ledger = ledger_of_one_user(2);
    let grant = ledger.claim_divided(1, tcp(80)).expect("free").grant;
    ledger.claim_divided(2, tcp(80)).expect("of one user");
    ledger.retire(1, grant).expect("it is a member");
    assert_eq!(ledger.members(grant), [(1, false), (2, true)]);
    ledger.retire(2, grant).expect("it is a member");
    assert_eq!(
        ledger.members(grant),
        [(1, true), (2, true)],
        "somebody does"
    );
    ledger.release(1, grant, START).expect("held");
    assert_eq!(ledger.members(grant), [(2, true)]);
    assert!(ledger.retire(1, grant).is_err(), "it holds nothing");
}

/// The owner's word makes a program of another user a member.
#[test]
fn a_ticket_lets_another_user_in() {
    let mut ledger = ledger_of_one_user(1);
    let grant = ledger.claim_divided(1, tcp(80)).expect("free").grant;
    let secret = Secret([1; 16]);
    ledger.write_ticket(1, grant, secret, START).expect("held");
    ledger.present(9, &secret, START).expect("a good ticket");
    assert_eq!(ledger.members(grant), [(1, true), (9, true)]);
    ledger.remove_slot(1, START);
    assert_eq!(ledger.members(grant), [(9, true)]);
    // It is still by the first one's right that it is held.
    ledger.add_slot(1, owner(1));
    ledger.claim_divided(1, tcp(80)).expect("of that user");
}

#[test]
fn there_are_only_so_many() {
    let mut ledger = ledger_of_one_user(1);
    let ports = 1..=DIVIDED_PER_USER_MAX as u16;
    for port in ports.clone() {
        ledger.claim_divided(1, tcp(port)).expect("free");
    }
    let next = ports.end() + 1;
    let denied = ledger.claim_divided(1, tcp(next)).expect_err("too many");
    assert_eq!(denied.code(), Refusal::Limit, "{denied}");
    ledger.claim(1, tcp(next)).expect("alone it may");
    ledger
        .claim_divided(9, tcp(next + 1))
        .expect("another user");
    let grant = ledger.claim_divided(1, tcp(1)).expect("held").grant;
    for slot in 100..100 + MEMBERS_MAX as u32 - 1 {
        let who = Rc::clone(&owner(1).who);
        ledger.add_slot(slot, Owner { who, ..owner(slot) });
        ledger
            .claim_divided(slot, tcp(1))
            .expect("there is a place");
    }
    let who = Rc::clone(&owner(1).who);
    ledger.add_slot(99, Owner { who, ..owner(99) });
    let denied = ledger.claim_divided(99, tcp(1)).expect_err("too many");
    assert_eq!(denied.code(), Refusal::Limit, "{denied}");
    assert_eq!(ledger.members(grant).len(), MEMBERS_MAX);
}
