//! No packet changes hands unless its owner says so.

use std::net::IpAddr;

use exos_filter::Filter;
use exos_filter::gate::limits::GENERALS_MAX;
use exos_xok::Protocol;
use exos_xok::claim::ClaimError;
use exos_xok::message::Refusal;
use proptest::prelude::*;

use super::index::{Key, key};
use super::*;
use crate::limits::{
    ECHOES, ECHOES_PER_USER_MAX, FILTERING_PER_USER_MAX, FILTERS_PER_SLOT_MAX, GRANTS,
    GRANTS_PER_USER_MAX, NOBODY, TICKET_LIFE, TICKETS_PER_SLOT_MAX,
};

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

/// Who hands a grant over has nothing of it left: no ticket of theirs brings them or anybody else in again.
#[test]
fn tickets_end_when_the_grant_is_handed_over() {
    for other in [TicketKind::Share, TicketKind::Move] {
        let mut ledger = ledger(3);
        let grant = ledger.claim(1, tcp(80)).expect("free").grant;
        let mut write = |slot, kind, secret| {
            let secret = Secret([secret; 16]);
            ledger.write_ticket(slot, grant, kind, secret, START)
        };
        write(1, other, 1).expect("it holds it");
        write(1, TicketKind::Move, 2).expect("it holds it");
        let own = ledger.present(1, &Secret([2; 16]), START);
        own.expect("to itself: it goes on holding it");
        let secret = Secret([3; 16]);
        let written = ledger.write_ticket(1, grant, TicketKind::Move, secret, START);
        written.expect("it holds it");
        ledger.present(2, &secret, START).expect("handed over");
        for slot in [1, 3] {
            let kept = ledger.present(slot, &Secret([1; 16]), START);
            assert_eq!(kept.expect_err("not theirs").code(), Refusal::NotFound);
        }
        assert_eq!(ledger.grant(grant).map(|g| &g.holders[..]), Some(&[2][..]));
    }
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

/// One step of a history.
#[derive(Clone, Debug)]
enum Step {
    Claim(SlotId, Claim),
    Filter(SlotId, &'static str),
    Narrow(SlotId, GrantId, u16, u16),
    Release(SlotId, GrantId),
    Ticket(SlotId, GrantId, bool, u8),
    Present(SlotId, u8),
    Remove(SlotId),
    Await(SlotId, GrantId),
    EndAwaited,
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

/// Filters that meet each other and the claims of [`claims`] in all manners.
const FILTERS: [&str; 9] = [
    "tcp",
    "udp and dst host 192.0.2.7",
    "dst host 192.0.2.8",
    "tcp dst port 1",
    "not tcp dst port 1",
    "src port 2",
    "icmp",
    "src host 192.0.2.99 and not icmp",
    "tcp and not src port 1 and not dst port 2",
];

fn step() -> impl Strategy<Value = Step> {
    let slot = 1..4_u32;
    prop_oneof![
        3 => (slot.clone(), prop::sample::select(FILTERS.to_vec()))
            .prop_map(|(slot, text)| Step::Filter(slot, text)),
        6 => (slot.clone(), claims()).prop_map(|(slot, claim)| Step::Claim(slot, claim)),
        3 => (slot.clone(), 1..9_u32, 1..3_u16, 0..3_u16)
            .prop_map(|(slot, grant, remote, port)| Step::Narrow(slot, grant, remote, port)),
        2 => (slot.clone(), 1..9_u32).prop_map(|(slot, grant)| Step::Release(slot, grant)),
        2 => (slot.clone(), 1..9_u32, any::<bool>(), 0..3_u8)
            .prop_map(|(slot, grant, share, secret)| Step::Ticket(slot, grant, share, secret)),
        2 => (slot.clone(), 0..3_u8).prop_map(|(slot, secret)| Step::Present(slot, secret)),
        2 => slot.clone().prop_map(Step::Remove),
        3 => (slot, 1..9_u32).prop_map(|(slot, grant)| Step::Await(slot, grant)),
        1 => Just(Step::EndAwaited),
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

/// The slot of the user for whose program packets are kept that are nobody's now.
fn kept_for(ledger: &Ledger, packet: &Claim) -> Option<SlotId> {
    let (grant, _) = matching(ledger, packet)?;
    let awaited = ledger.successors.awaited(grant)?;
    Some(awaited.owner.who.uid - 1000)
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
            let kept_for: Vec<_> = packets.iter().map(|p| kept_for(&ledger, p)).collect();
            let mut from = None; // Whose packets may go elsewhere by this step.
            let changes: Vec<Change> = match step.clone() {
                Step::Claim(slot, claim) => {
                    let change = ledger.claim(slot, claim).ok();
                    let within = |inner: &Claim, _: &Awaited| change.is_some() && inner.is_subset_of(&claim);
                    let ended = ledger.end_awaited(within, START);
                    change.into_iter().chain(ended).collect()
                }
                Step::Await(slot, grant) => {
                    let _ = ledger.await_successor(slot, grant, Duration::from_secs(1));
                    Vec::new()
                }
                Step::EndAwaited => {
                    from = Some(NOBODY);
                    ledger.end_awaited(|_, _| true, START)
                }
                Step::Filter(slot, text) => {
                    let filter = Filter::parse(text).expect("a filter");
                    let _ = ledger.claim_general(slot, text.to_owned(), filter);
                    Vec::new()
                }
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
                    let filter = ledger.release_general(slot, grant);
                    let released = ledger.release(slot, grant, START);
                    prop_assert!(filter.is_none() || released.is_err(), "a number is of one grant");
                    released.ok().flatten().into_iter().collect()
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
            for ((packet, before), kept_for) in packets.iter().zip(before).zip(kept_for) {
                let after = winner(&ledger, packet);
                let succeeded = before == Some(NOBODY) && after == kept_for;
                let kept = before.is_none() || after == before || before == from || succeeded;
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
            // Who does not hold a grant (any more) hands it to nobody.
            for ticket in ledger.tickets() {
                let holders = ledger.grant(ticket.grant).map(|g| g.holders.contains(&ticket.from));
                prop_assert_eq!(holders, Some(true), "{:?}", ticket);
            }
            // What is promised is held, and what is awaited is of no slot.
            for (slot, grant, _) in ledger.promised() {
                let holders = ledger.grant(grant).map(|g| g.holders.contains(&slot));
                prop_assert_eq!(holders, Some(true), "{} of {}", grant, slot);
            }
            let awaited = ledger.awaited().map(|(id, ..)| id);
            let nobodys = ledger.grants().filter(|(_, g)| g.holders == [NOBODY]);
            prop_assert!(awaited.eq(nobodys.map(|(id, _)| id)));
            // Two slots whose claims meet, without a ticket: one of the claims is a connection, which wins.
            let of = |id, grant: &Grant| match ledger.successors.awaited(id) {
                Some(awaited) => awaited.owner.who.uid - 1000,
                None => grant.slot(),
            };
            for (a, one) in ledger.grants().filter(|_| !handed_on) {
                for (b, other) in ledger.grants() {
                    let apart = a == b || of(a, one) == of(b, other) || !one.claim.overlaps(&other.claim);
                    let one_wins = one.claim.remote.is_some() != other.claim.remote.is_some();
                    prop_assert!(apart || one_wins, "{} and {}", one.claim, other.claim);
                }
            }
        }
    }
}
