//! The books: who may claim what beside whom; [`bounds`] of how much, [`divided`] among several, [`passing`] on, [`successors`], and any
//! history of it ([`histories`]).

use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::rc::Rc;
use std::time::Duration;

use exos_filter::Filter;
use exos_xok::message::{GrantId, Refusal, Secret};
use exos_xok::{Claim, Endpoint, Protocol};

use super::*;
use crate::clock::Now;
use crate::policy::Who;
use crate::pool::Standing;

mod bounds;
mod divided;
mod histories;
mod passing;
mod successors;

const START: Now = Duration::ZERO;

fn owner(slot: SlotId) -> Owner {
    Owner {
        who: Rc::new(Who {
            uid: 1000 + slot,
            groups: Vec::new(),
        }),
        standing: Standing::Own,
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

/// Slots of [`each_of_many`] come behind this number.
const OTHERS: SlotId = 1000;

/// Each of these is claimed by another user, whom no rule names.
fn each_of_many(
    ledger: &mut Ledger,
    ports: RangeInclusive<u16>,
    claim: impl Fn(u16) -> Claim,
) -> Vec<GrantId> {
    let each = ports.map(|port| {
        let slot = OTHERS + SlotId::from(port);
        let standing = Standing::Unnamed;
        let owner = owner(slot);
        ledger.add_slot(slot, Owner { standing, ..owner });
        let claimed = ledger.claim(slot, claim(port));
        claimed.expect("there is room").grant
    });
    each.collect()
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

/// A frame as it comes in, of the one packet that a claim on a connection matches.
fn frame(packet: &Claim) -> Vec<u8> {
    let remote = packet.remote.expect("a packet has two ends");
    let v4 = |ip| match ip {
        IpAddr::V4(ip) => ip.octets(),
        IpAddr::V6(_) => unreachable!("the little world is IPv4"),
    };
    let mut ip = [0; 20];
    (ip[0], ip[3], ip[8], ip[9]) = (0x45, 28, 64, packet.protocol.number());
    ip[12..16].copy_from_slice(&v4(remote.ip));
    ip[16..20].copy_from_slice(&v4(packet.local));
    let transport = match packet.protocol {
        // An echo reply: type, code, checksum, identifier.
        Protocol::Icmp => [0, 0, packet.port, 0],
        _ => [remote.port, packet.port, 8, 0],
    };
    let transport = transport.map(u16::to_be_bytes).concat();
    [&[2; 12], &[8, 0][..], &ip, &transport].concat()
}

/// The owner of a packet by the definition: the narrowest claim that matches, else the filter that does.
fn winner(ledger: &Ledger, packet: &Claim) -> Option<SlotId> {
    let frame = frame(packet);
    let mut generals = ledger.generals.all().filter(|g| g.filter.matches(&frame));
    let by_filter = generals.next().map(|general| general.slot);
    let same = generals.all(|general| Some(general.slot) == by_filter);
    assert!(same, "{packet} is of two slots' filters");
    exact_winner(ledger, packet).or(by_filter)
}

fn exact_winner(ledger: &Ledger, packet: &Claim) -> Option<SlotId> {
    matching(ledger, packet).map(|(_, grant)| grant.slot())
}

/// The narrowest claim that matches a packet.
fn matching<'a>(ledger: &'a Ledger, packet: &Claim) -> Option<(GrantId, &'a Grant)> {
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
    matching.max_by_key(|(_, g)| narrow(&g.claim))
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
    // Anyone who has all ports of an address has those, too.
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

#[test]
fn filters_lie_around_exact_grants_and_apart_from_each_other() {
    let mut ledger = ledger(3);
    let filter = |text: &str| (text.to_owned(), Filter::parse(text).expect("a filter"));
    let claim = |ledger: &mut Ledger, slot, text| {
        let (text, filter) = filter(text);
        ledger.claim_general(slot, text, filter)
    };
    ledger.claim(1, tcp(80)).expect("free");
    let grant = claim(&mut ledger, 2, "tcp and dst host 192.0.2.7").expect("around");
    assert_eq!(winner(&ledger, &connection(80, 9)), Some(1));
    assert_eq!(winner(&ledger, &connection(81, 9)), Some(2));
    // Exact claims on its packets, and filters that meet it, are refused with its owner's name.
    let said = "packets of it are held by program2 (pid 4002, uid 1002), by the filter \"tcp and dst host 192.0.2.7\"";
    for denied in [
        ledger.claim(3, tcp(81)).map(drop),
        ledger.claim(1, connection(81, 9)).map(drop),
        claim(&mut ledger, 3, "dst port 7000").map(drop),
    ] {
        let denied = denied.expect_err("held");
        assert_eq!(
            (denied.to_string().as_str(), denied.code()),
            (said, Refusal::Held)
        );
    }
    let chosen = ledger.claim_ephemeral(3, tcp(0), START, &[40_000..=40_000]);
    assert_eq!(chosen.expect_err("held").code(), Refusal::Held);
    // Parts of what one has are one's own, and so is what nobody else's filter matches.
    ledger.claim(1, connection(80, 9)).expect("of its own");
    claim(&mut ledger, 2, "tcp dst port 7000").expect("its own meets it");
    claim(&mut ledger, 3, "udp and dst host 192.0.2.7").expect("apart");
    let udp = Claim {
        protocol: Protocol::Udp,
        ..tcp(53)
    };
    assert!(ledger.claim(1, udp).is_err());
    assert!(ledger.release_general(3, grant).is_none(), "another's");
    assert!(ledger.release_general(2, grant).is_some());
    ledger.claim(3, tcp(81)).expect("free again");
    ledger.remove_slot(3, START);
    ledger.claim(1, udp).expect("filters go with their slots");
}
