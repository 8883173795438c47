//! What a program leaves to its successor is nobody else's, for as long as it said.

use super::*;
use crate::limits::{GRANTS, NOBODY};

const WAIT: Duration = Duration::from_secs(5);

/// All ports of TCP.
fn whole() -> Claim {
    tcp(0)
}

/// A ledger in which slot 1 has promised all ports of TCP to its successor, and slot 3 is of the same user.
fn promised() -> (Ledger, GrantId) {
    let mut ledger = ledger(2);
    let who = Rc::clone(&ledger.owner(1).expect("it is there").who);
    ledger.add_slot(3, Owner { who, ..owner(3) });
    let grant = ledger.claim(1, whole()).expect("free").grant;
    ledger
        .await_successor(1, grant, WAIT)
        .expect("all ports of its own");
    (ledger, grant)
}

#[test]
fn what_is_promised_awaits_the_successor_and_nobody_else() {
    let (mut ledger, grant) = promised();
    let dropped = Change {
        grant,
        claim: whole(),
        slot: Some(NOBODY),
    };
    assert_eq!(ledger.remove_slot(1, START), [dropped]);
    assert_eq!(winner(&ledger, &connection(80, 9)), Some(NOBODY));
    assert_eq!(ledger.awaited_until(), Some(START + WAIT));
    let any = Claim {
        protocol: Protocol::Any,
        ..whole()
    };
    for claim in [whole(), any, tcp(80), connection(80, 9)] {
        let denied = ledger.claim(2, claim).expect_err("another user's");
        assert_eq!(denied.code(), Refusal::Held, "{claim}");
        let said = "tcp 192.0.2.7 is kept for a successor of program1 (pid 4001, uid 1001)";
        assert!(denied.to_string().starts_with(said), "{denied}");
    }
    let chosen = ledger.claim_ephemeral(2, tcp(0), START, &[40_000..=40_003]);
    assert_eq!(chosen.expect_err("another user's").code(), Refusal::Held);
    let change = ledger.claim(3, whole()).expect("the same user's");
    assert_eq!((change.grant, change.slot), (grant, Some(3)));
    assert_eq!(ledger.count_held_by(3), 1);
    assert_eq!(ledger.awaited_until(), None);
    // The successor has promised nothing.
    let ended = Change {
        slot: None,
        ..dropped
    };
    assert_eq!(ledger.remove_slot(3, START), [ended]);
    ledger.claim(2, whole()).expect("nobody's");
}

#[test]
fn nobody_is_awaited_when_the_time_is_over() {
    let (mut ledger, grant) = promised();
    ledger.remove_slot(1, START);
    let ended = ledger.end_awaited(|_, awaited| awaited.until <= START + WAIT, START);
    assert_eq!((ended[0].grant, ended[0].slot), (grant, None));
    assert_eq!(ledger.grants().count(), 0);
    ledger.claim(2, whole()).expect("nobody's");
}

/// Another shape of the same packets: what lies within is the successor's by the other claim, what lies around is kept.
#[test]
fn a_successor_may_claim_less_or_more() {
    let (mut ledger, _) = promised();
    ledger.remove_slot(1, START);
    let part = ledger.claim(3, tcp(80)).expect("within");
    assert_eq!(winner(&ledger, &connection(80, 9)), Some(3));
    assert_eq!(winner(&ledger, &connection(81, 9)), Some(NOBODY));
    ledger.release(3, part.grant, START).expect("its own");
    let any = Claim {
        protocol: Protocol::Any,
        ..whole()
    };
    ledger.claim(3, any).expect("around");
    let ended = ledger.end_awaited(|inner, _| inner.is_subset_of(&any), START);
    assert_eq!(ended.len(), 1);
    assert_eq!(winner(&ledger, &connection(81, 9)), Some(3));
}

type GivingUp<'a> = &'a dyn Fn(&mut Ledger, GrantId);

/// Who gives back, hands over or shares leaves nothing to their successor, nor does who takes their promise back.
#[test]
fn what_is_not_ones_own_any_more_is_not_promised() {
    let secret = Secret([1; 16]);
    let give_back = |ledger: &mut Ledger, grant| {
        ledger.release(1, grant, START).expect("its own");
    };
    let hand_over = |ledger: &mut Ledger, grant| {
        let ticket = ledger.write_ticket(1, grant, secret, START);
        ticket.expect("its own");
        ledger.present(2, &secret, START).expect("good");
        ledger.release(1, grant, START).expect("its own");
    };
    let share = |ledger: &mut Ledger, grant| {
        let ticket = ledger.write_ticket(1, grant, secret, START);
        ticket.expect("its own");
        ledger.present(2, &secret, START).expect("good");
    };
    let take_back = |ledger: &mut Ledger, grant| {
        let no_time = Duration::ZERO;
        ledger.await_successor(1, grant, no_time).expect("its own");
    };
    let ways: [GivingUp<'_>; 4] = [&give_back, &hand_over, &share, &take_back];
    for (way, do_it) in ways.into_iter().enumerate() {
        let (mut ledger, grant) = promised();
        do_it(&mut ledger, grant);
        ledger.remove_slot(1, START);
        ledger.remove_slot(2, START);
        assert_eq!(ledger.grants().count(), 0, "{way}");
        assert_eq!(ledger.promised().count(), 0, "{way}");
    }
}

#[test]
fn what_is_awaited_counts_as_the_users() {
    let mut ledger = ledger(2);
    ledger.set_standings(|_| Standing::Unnamed);
    let grant = ledger.claim(1, whole()).expect("free").grant;
    ledger.await_successor(1, grant, WAIT).expect("its own");
    ledger.remove_slot(1, START);
    let pool = GRANTS.most(Standing::Unnamed) as u16;
    let udp = |port| Claim {
        protocol: Protocol::Udp,
        ..tcp(port)
    };
    each_of_many(&mut ledger, 2..=pool, udp);
    let full = ledger.claim(2, udp(1)).expect_err("with the awaited one");
    assert_eq!(full.code(), Refusal::Limit);
    ledger.end_awaited(|_, _| true, START);
    ledger.claim(2, udp(1)).expect("one less");
}

/// A filter that lies around what was promised does not keep the successor from it.
#[test]
fn filters_around_do_not_keep_a_successor_out() {
    let (mut ledger, _) = promised();
    let text = "tcp and dst host 192.0.2.7";
    let filter = Filter::parse(text).expect("a filter");
    ledger
        .claim_general(2, text.to_owned(), filter)
        .expect("around");
    ledger.remove_slot(1, START);
    assert_eq!(winner(&ledger, &connection(80, 9)), Some(NOBODY));
    ledger.claim(3, whole()).expect("kept for it");
    assert_eq!(winner(&ledger, &connection(80, 9)), Some(3));
}

#[test]
fn a_port_or_a_connection_is_left_to_nobody() {
    let mut ledger = ledger(1);
    for claim in [tcp(80), connection(81, 9)] {
        let grant = ledger.claim(1, claim).expect("free").grant;
        let denied = ledger.await_successor(1, grant, WAIT);
        let denied = denied.expect_err("no address");
        assert_eq!(denied, Denied::NotWhole(claim));
    }
    let denied = ledger.await_successor(1, 99, WAIT).expect_err("none");
    assert_eq!(denied.code(), Refusal::NotFound);
}
