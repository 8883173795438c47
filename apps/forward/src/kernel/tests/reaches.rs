//! Flows of servers that see their clients, and of those that answer them by themselves.

use etherparse::PacketBuilder;
use exos_inet::RxChecksum;
use exos_wire::tcp::TcpFlags;
use strum::VariantArray as _;

use super::*;
use crate::forwarder::Verdict;
use crate::limits::EVICTABLE_AFTER;

const BOTH: [Transport; 2] = [Transport::Tcp, Transport::Udp];

/// By each reach the kernel has the flows that packets change nothing of, and no others; of those in tunnels none.
#[test]
fn each_reach_has_its_flows_there() {
    if !allowed("each_reach_has_its_flows_there") {
        return;
    }
    for reach in Reach::ALL {
        let (mut forwarder, mut stack) = (forwarder_by(reach, &BOTH), stack());
        let mut table = table(&forwarder);
        let mut there = Vec::new();
        for (n, &state) in (0..).zip(State::VARIANTS) {
            if !state.is_of(reach) {
                continue;
            }
            for client in [
                format!("10.1.0.1:{}", 2000 + n),
                format!("[fd00::1]:{}", 2000 + n),
            ] {
                let id = restore_by(&mut forwarder, reach, &client, state, 0);
                table.follow(now(), &mut forwarder, &mut [&mut stack], id);
                if table.seen(now(), id).is_some() && !there.contains(&state) {
                    there.push(state);
                }
            }
        }
        use State::*;
        let wanted: &[State] = match reach {
            Reach::Nat | Reach::Transparent => {
                &[Established, ClientFinished, ServerFinished, BothWays]
            }
            Reach::Direct => &[GoesOn, Repeated],
            Reach::Tunnel => &[],
        };
        assert_eq!(there, wanted, "{reach:?}");
        assert_eq!((table.count as usize, table.refused), (2 * wanted.len(), 0));
        let entries = table.maps.index.words().iter();
        let entries = entries.filter(|entry| entry.load(Ordering::Relaxed) != 0);
        let ways = if reach == Reach::Direct { 1 } else { 2 };
        assert_eq!(entries.count(), 2 * wanted.len() * ways);
        // They end, and nothing is left of them.
        forwarder.handle_timeout(now() + ESTABLISHED_TIME + Duration::from_secs(2));
        while let Some(id) = forwarder.poll_changed() {
            table.follow(now(), &mut forwarder, &mut [&mut stack], id);
        }
        assert_eq!((table.count, table.tallies.users()), (0, 0));
        assert!(table.hops_are_free());
        let mut entries = table.maps.index.words().iter();
        assert!(entries.all(|entry| entry.load(Ordering::Relaxed) == 0));
    }
}

/// Where packets keep their ends, they come and leave with the same, and go to the server and to nobody else: no client is
/// asked for by their link address, who may be anybody.
#[test]
fn kept_ends_lead_to_the_server() {
    if !allowed("kept_ends_lead_to_the_server") {
        return;
    }
    let (mut forwarder, mut stack) = (forwarder_by(Reach::Direct, &BOTH), stack());
    let mut table = table(&forwarder);
    for n in 0..40 {
        let (client, server) = (format!("10.7.0.{n}:5000"), n % 2);
        let id = restore_by(
            &mut forwarder,
            Reach::Direct,
            &client,
            State::GoesOn,
            server,
        );
        table.follow(now(), &mut forwarder, &mut [&mut stack], id);
        let flow = table.maps.flows().get(id.0).unwrap();
        assert!(flow.is_one_way);
        let ends = flow.ends;
        assert_eq!(
            (ends.client, ends.listener),
            (at(&client), at("10.0.0.20:80"))
        );
        assert_eq!((ends.ours, ends.server), (ends.client, ends.listener));
        let wanted: IpAddr = ["10.0.0.11", "10.0.0.12"][server].parse().unwrap();
        assert_eq!(table.hops().neighbour(flow.hops[0]), wanted);
    }
    assert_eq!(table.hops().len(), 2);
}

/// A flow between the same ends as the one before it, at its place, goes to its own server: also when the kernel hears of both at
/// once, and nothing in the packets differs.
#[test]
fn kept_ends_with_another_server() {
    if !allowed("kept_ends_with_another_server") {
        return;
    }
    let (mut forwarder, mut stack) = (forwarder_by(Reach::Direct, &BOTH), stack());
    let mut table = table(&forwarder);
    let client = "10.0.0.1:5000";
    let mut ids = Vec::new();
    for server in [0, 1] {
        let id = restore_by(&mut forwarder, Reach::Direct, client, State::GoesOn, server);
        table.follow(now(), &mut forwarder, &mut [&mut stack], id);
        let hop = table.maps.flows().get(id.0).unwrap().hops[0];
        let wanted: IpAddr = ["10.0.0.11", "10.0.0.12"][server].parse().unwrap();
        assert_eq!(table.hops().neighbour(hop), wanted);
        ids.push(id);
        forwarder.handle_timeout(now() + ESTABLISHED_TIME + Duration::from_secs(2));
        while forwarder.poll_changed().is_some() {}
    }
    assert_eq!(ids[0], ids[1]);
    assert_eq!((table.hops().len(), table.tallies.users()), (1, 1));
}

/// A segment from a client in 10.0.0.0/8.
fn segment(client: u32, flags: u8) -> Vec<u8> {
    let [a, b, c, _] = client.to_be_bytes();
    let builder =
        PacketBuilder::ethernet2([2; 6], MAC.0).ipv4([10, a | 1, b, c], [10, 0, 0, 20], 9);
    let mut frame = Vec::new();
    builder
        .tcp(client as u16, 80, 1, 1000)
        .write(&mut frame, &[])
        .unwrap();
    frame[14 + 20 + 13] = flags;
    frame
}

/// Anyone who forges clients that claim a connection each takes no more of the kernel than there is room for here, and no
/// neighbour's place; and when there is no room, flows that have gone on stay and those that are silent go, there as here.
#[test]
fn claims_are_cheap_and_bounded() {
    if !allowed("claims_are_cheap_and_bounded") {
        return;
    }
    let (mut forwarder, mut stack) = (forwarder_by(Reach::Direct, &[Transport::Tcp]), stack());
    let mut table = table(&forwarder);
    let mut give =
        |table: &mut Table, forwarder: &mut Forwarder, at: Instant, client: u32, flags: u8| {
            let mut frame = segment(client, flags);
            let verdict = forwarder.handle_frame(at, &mut frame, RxChecksum::Unknown);
            assert!(matches!(verdict, Verdict::Onward(_)), "{verdict:?}");
            while let Some(id) = forwarder.poll_changed() {
                table.follow(at, forwarder, &mut [&mut stack], id);
            }
            // They agree on every place.
            for id in (0..100).map(FlowId) {
                let claimed = forwarder.flows().ids().any(|there| there == id)
                    && forwarder.flows().get(id).state.class() == Class::Claimed;
                assert_eq!(table.maps.flows().get(id.0).is_some(), claimed, "{id:?}");
            }
        };
    let claim = |n: u32| 0x0200_0400 + (n << 16) + n;
    let mut claims =
        |table: &mut Table, forwarder: &mut Forwarder, at, clients: std::ops::Range<u32>| {
            for n in clients {
                give(table, forwarder, at, claim(n), TcpFlags::SYN.0);
                give(table, forwarder, at, claim(n), TcpFlags::ACK.0);
            }
        };
    let begun = now();
    claims(&mut table, &mut forwarder, begun, 0..150);
    // A table full of claims that were just made gives none up; what is more is forwarded without.
    assert_eq!((table.count, table.begun), (100, 100));
    assert!(forwarder.counters().forwarded_without_flow > 0);
    assert!(table.hops().len() <= 2, "the servers'");
    // Ten of them go on, as the kernel sees; a minute later all others give way, one for each that comes.
    let later = begun + EVICTABLE_AFTER + Duration::from_secs(1);
    let stay: Vec<FlowId> = (0..10).map(|n| FlowId(7 * n)).collect();
    stay.iter().for_each(|id| note_seen(&table, *id, later));
    while !table.sweep(later, &mut forwarder) {}
    let ends = |table: &Table, id: &FlowId| table.maps.flows().get(id.0).unwrap().ends;
    let before: Vec<_> = stay.iter().map(|id| ends(&table, id)).collect();
    claims(&mut table, &mut forwarder, later, 200..400);
    assert_eq!((table.count, table.begun), (100, 190));
    assert_eq!(forwarder.counters().flows_evicted, 90);
    let after: Vec<_> = stay.iter().map(|id| ends(&table, id)).collect();
    assert_eq!(before, after, "who goes on stays");
    assert_eq!(table.hops().len(), 2);
    assert_eq!(table.tallies.users(), 100);
}

/// A FIN takes a claim out of the kernel, and so does a reset; a SYN alone does not, nor brings it one.
#[test]
fn what_ends_a_claim_ends_it_there() {
    if !allowed("what_ends_a_claim_ends_it_there") {
        return;
    }
    let (mut forwarder, mut stack) = (forwarder_by(Reach::Direct, &[Transport::Tcp]), stack());
    let mut table = table(&forwarder);
    let mut there_after = |flags: &[u8]| {
        for flags in flags {
            let mut frame = segment(0x0200_1000, *flags);
            forwarder.handle_frame(now(), &mut frame, RxChecksum::Unknown);
        }
        while let Some(id) = forwarder.poll_changed() {
            table.follow(now(), &mut forwarder, &mut [&mut stack], id);
        }
        table.count == 1
    };
    let [syn, ack, fin, rst] = [
        TcpFlags::SYN.0,
        TcpFlags::ACK.0,
        TcpFlags::FIN.0 | TcpFlags::ACK.0,
        TcpFlags::RST.0,
    ];
    for (flags, wanted) in [
        (&[syn, syn][..], false),
        (&[ack], true),
        (&[syn], true),
        (&[fin], false),
        (&[ack, ack], false),
        (&[syn, ack], true),
        (&[rst], false),
        (&[ack, ack], true),
        // In one turn: it ends, and another begins between the same ends.
        (&[fin, syn, ack], true),
        (&[ack, fin], false),
    ] {
        assert_eq!(there_after(flags), wanted, "{flags:?}");
    }
}
