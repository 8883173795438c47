//! Parts of grants, and tickets for them: what passes from hand to hand, and what is left with who passed it on.

use super::*;
use crate::limits::{TICKET_LIFE, TICKETS_PER_SLOT_MAX};
use exos_xok::claim::ClaimError;

#[test]
fn a_connection_is_handed_on_and_outlives_its_listener() {
    let mut ledger = ledger(3);
    let listener = ledger.claim(1, tcp(80)).expect("free").grant;
    let part = ledger.narrow(1, listener, far(9), 0).expect("a part");
    assert_eq!(part.claim, connection(80, 9));
    let ticket = Secret([1; 16]);
    ledger
        .write_ticket(1, part.grant, ticket, START)
        .expect("its own");
    assert_eq!(winner(&ledger, &connection(80, 9)), Some(1));
    let shared = ledger.present(2, &ticket, START).expect("good");
    assert_eq!(shared.slot, Some(1), "until it gives it back");
    let moved = ledger.release(1, part.grant, START).expect("its own");
    let moved = moved.expect("its packets go elsewhere");
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
            .write_ticket(1, grant, ticket, START)
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
            .write_ticket(1, grant, secret(n), START)
            .expect("room");
    }
    let full = ledger.write_ticket(1, grant, secret(200), START);
    assert_eq!(full.expect_err("full").code(), Refusal::Limit);
    assert!(
        ledger.present(2, &secret(0), TICKET_LIFE).is_err(),
        "too old"
    );
    ledger
        .write_ticket(1, grant, secret(200), TICKET_LIFE)
        .expect("room again");
    ledger.remove_slot(1, TICKET_LIFE);
    assert!(
        ledger.present(2, &secret(200), TICKET_LIFE).is_err(),
        "nobody's"
    );
}

/// Who hands a grant over has nothing of it left: no ticket of theirs brings them or anybody else in again.
#[test]
fn tickets_end_when_the_grant_is_handed_over() {
    let mut ledger = ledger(3);
    let grant = ledger.claim(1, tcp(80)).expect("free").grant;
    for secret in 1..=3 {
        let written = ledger.write_ticket(1, grant, Secret([secret; 16]), START);
        written.expect("it holds it");
    }
    let own = ledger.present(1, &Secret([2; 16]), START);
    own.expect("to itself: it goes on holding it");
    let shared = ledger.present(2, &Secret([3; 16]), START);
    shared.expect("it holds it, too");
    ledger.release(1, grant, START).expect("handed over");
    for slot in [1, 3] {
        let kept = ledger.present(slot, &Secret([1; 16]), START);
        assert_eq!(kept.expect_err("not theirs").code(), Refusal::NotFound);
    }
    assert_eq!(ledger.grant(grant).map(|g| &g.holders[..]), Some(&[2][..]));
}

/// A connection is offered to one after the other: who has refused it holds nothing of it, and its packets go to who took it.
#[test]
fn what_is_withdrawn_or_offered_again_is_the_givers_alone() {
    let mut ledger = ledger(4);
    let listener = ledger.claim(1, tcp(80)).expect("free").grant;
    let part = ledger.narrow(1, listener, far(9), 0).expect("a part").grant;
    let secret = |n: usize| Secret([n as u8; 16]);
    let holders = |ledger: &Ledger| ledger.grant(part).map(|g| g.holders.clone());
    for n in 0..=TICKETS_PER_SLOT_MAX {
        let written = ledger.write_ticket(1, part, secret(n), START);
        written.expect("one at a time");
    }
    let old = ledger
        .present(2, &secret(0), START)
        .expect_err("offered again");
    assert_eq!(old.code(), Refusal::NotFound);
    let last = secret(TICKETS_PER_SLOT_MAX);
    ledger.present(2, &last, START).expect("good");
    for (slot, what) in [(2, "its packets are another's"), (3, "not its own")] {
        let denied = ledger.withdraw(slot, part, START).expect_err(what);
        assert_eq!(denied.code(), Refusal::NotFound);
    }
    // Offered to another, without a word of the first.
    let again = ledger.write_ticket(1, part, secret(100), START);
    again.expect("its own");
    assert_eq!(holders(&ledger), Some(vec![1]));
    assert_eq!(ledger.count_held_by(2), 0);
    ledger.present(3, &secret(100), START).expect("good");
    let unused = ledger.write_ticket(3, part, secret(101), START);
    unused.expect("it holds it");
    ledger.withdraw(1, part, START).expect("its own");
    assert_eq!(holders(&ledger), Some(vec![1]));
    let theirs = ledger.present(2, &secret(101), START);
    assert!(theirs.is_err(), "of one that holds it no more");
    ledger
        .write_ticket(1, part, secret(102), START)
        .expect("its own");
    ledger.present(4, &secret(102), START).expect("good");
    ledger.release(1, part, START).expect("its own");
    assert_eq!(winner(&ledger, &connection(80, 9)), Some(4));
}
