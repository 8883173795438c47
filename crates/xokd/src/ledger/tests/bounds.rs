//! How much of what anyone may have, so that others find some left.

use super::*;
use crate::limits::{
    ECHOES, ECHOES_PER_USER_MAX, FILTERING_PER_USER_MAX, FILTERS_PER_SLOT_MAX, GRANTS,
    GRANTS_PER_USER_MAX,
};
use exos_filter::gate::limits::GENERALS_MAX;

/// Whom the policy does not name has what is left of their pool, no matter who else is there.
#[test]
fn users_whom_nobody_names_leave_grants_to_the_others() {
    let mut ledger = Ledger::new(7);
    ledger.add_slot(3, owner(3));
    let pool = GRANTS.most(Standing::Unnamed) as u16;
    let grants = each_of_many(&mut ledger, 1..=pool, tcp);
    for slot in [OTHERS + 1, OTHERS + 2] {
        let denied = ledger.claim(slot, tcp(9000)).expect_err("full");
        assert_eq!(denied.code(), Refusal::Limit);
        assert!(denied.to_string().contains("no rule"), "{denied}");
    }
    ledger.claim(3, tcp(9000)).expect("their pool is another");
    ledger
        .release(OTHERS + 1, grants[0], START)
        .expect("it has it");
    ledger
        .claim(OTHERS + 2, tcp(9001))
        .expect("one was given back");
    // A policy that names them has more for them.
    ledger.set_standings(|_| Standing::Named);
    ledger.claim(OTHERS + 1, tcp(9002)).expect("as for others");
}

/// Users whom rules name, one after the other, each with as much as it gets: anyone who comes next finds some left.
#[test]
fn no_two_users_take_all_grants() {
    let mut ledger = Ledger::new(7);
    let mut ports = 1..=u16::MAX;
    let mut has = Vec::new();
    for slot in 1..=5 {
        ledger.add_slot(slot, owner(slot));
        let mut more = || ledger.claim(slot, tcp(ports.next().expect("a port"))).ok();
        has.push(std::iter::from_fn(&mut more).count());
    }
    assert_eq!(has[0], GRANTS_PER_USER_MAX);
    assert!(has.iter().all(|count| *count >= 40), "{has:?}");
    let denied = ledger.claim(2, tcp(u16::MAX)).expect_err("it has its part");
    assert_eq!(denied.code(), Refusal::Limit);
    assert!(denied.to_string().contains("are left for"), "{denied}");
}

/// What is claimed of echo requests is lost to the host's own, where an address is the host's: a few for each user, and not
/// many for all of them.
#[test]
fn identifiers_of_echo_are_few() {
    let mut ledger = Ledger::new(7);
    let echo = |port| Claim {
        protocol: Protocol::Icmp,
        ..tcp(port)
    };
    for slot in 1..=8 {
        let standing = Standing::Named;
        let owner = owner(slot);
        ledger.add_slot(slot, Owner { standing, ..owner });
        let ids = (0..).map(|n| slot as u16 * 1000 + n);
        let granted = ids.take_while(|id| ledger.claim(slot, echo(*id)).is_ok());
        let expected = if slot <= 6 { ECHOES_PER_USER_MAX } else { 0 };
        assert_eq!(granted.count(), expected, "{slot}");
    }
    let most = ECHOES.most(Standing::Named);
    assert_eq!(most, 6 * ECHOES_PER_USER_MAX);
    let denied = ledger
        .claim(1, echo(1))
        .expect_err("it has as many as it may");
    assert!(
        denied.to_string().contains("identifiers of echo"),
        "{denied}"
    );
    ledger.claim(1, tcp(80)).expect("ports are another matter");
    // A connection out of one is one more, and to give back is to have room.
    let (id, _) = ledger.held_by(1).next().expect("it has some");
    ledger.release(1, id, START).expect("its own");
    ledger.claim(1, echo(1)).expect("one was given back");
}

/// Filters of programs whose users nobody names are two on an interface; each of those may have several.
#[test]
fn users_whom_nobody_names_leave_filters_to_the_others() {
    let mut ledger = ledger(4);
    ledger.set_standings(|who| match who.uid {
        1004 => Standing::Member,
        _ => Standing::Unnamed,
    });
    let mut claim = |slot: SlotId, port: u32| {
        let text = format!("udp dst port {port}");
        let filter = Filter::parse(&text).expect("a filter");
        ledger.claim_general(slot, text, filter).map(drop)
    };
    for (slot, port) in [(1, 1), (2, 2), (1, 3), (2, 4)] {
        claim(slot, port).expect("two programs");
    }
    assert_eq!(claim(3, 5).expect_err("full").code(), Refusal::Limit);
    claim(4, 6).expect("their group is named");
}

#[test]
fn filters_are_bounded() {
    let mut ledger = ledger(20);
    let mut count = 0;
    for slot in 1..=17 {
        for _ in 0..=FILTERS_PER_SLOT_MAX {
            let text = format!("udp dst port {}", 7000 + slot);
            let filter = Filter::parse(&text).expect("a filter");
            match ledger.claim_general(slot, text, filter) {
                Ok(_) => count += 1,
                Err(denied) => assert_eq!(denied.code(), Refusal::Limit, "{denied}"),
            }
        }
    }
    assert_eq!(count, FILTERS_PER_SLOT_MAX * GENERALS_MAX as usize);
}

/// A user whom a rule names may not have all of what is there for such users.
#[test]
fn one_user_leaves_filters_to_the_others() {
    let mut ledger = Ledger::new(7);
    let named = |slot| Owner {
        standing: Standing::Named,
        ..owner(slot)
    };
    let most = FILTERING_PER_USER_MAX as SlotId;
    let who = owner(1).who;
    for slot in 1..=most + 1 {
        let who = Rc::clone(&who);
        ledger.add_slot(slot, Owner { who, ..named(slot) });
    }
    ledger.add_slot(20, named(20));
    let mut claim = |slot| {
        let text = format!("udp dst port {}", 7000 + slot);
        let filter = Filter::parse(&text).expect("a filter");
        ledger.claim_general(slot, text, filter)
    };
    for slot in 1..=most {
        claim(slot).expect("there is room");
    }
    let denied = claim(most + 1).expect_err("one too many");
    assert_eq!(denied.code(), Refusal::Limit);
    claim(20).expect("another's");
}
