//! Connections that a server refuses or does not answer: another one gets them, and their clients do not know.

use etherparse::{Icmpv4Type, Icmpv6Type, PacketBuilder, icmpv4, icmpv6};
use exos_forward::flow::State;
use exos_forward::limits::{ASKED_AGAIN_TIME, REFUSALS_MAX, SYNS_MAX};
use exos_forward::packets::packet::Segment;

use super::forged::{TWO, service, state};
use super::*;

const TWO6: [&str; 2] = ["[fd00::11]:80", "[fd00::12]:80"];
const FOUR: [&str; 4] = [
    "10.0.0.11:80",
    "10.0.0.12:80",
    "10.0.0.13:80",
    "10.0.0.14:80",
];

fn service_by(reach: Reach, vip: &str, servers: &[&str]) -> Forwarder {
    let listen = Listen {
        transport: Transport::Tcp,
        at: at(vip),
        reach,
        to: servers.iter().map(|s| (at(s), 1, at(vip).ip())).collect(),
    };
    Forwarder::new(Services::new(&[listen]).unwrap(), MAC, 100_000, 1)
}

/// A SYN of this client's: the ends between which it goes on, ours first.
fn ask(
    forwarder: &mut Forwarder,
    now: exos_inet::Instant,
    client: SocketAddr,
    vip: &str,
) -> (SocketAddr, SocketAddr) {
    let syn = give(forwarder, now, tcp(client, at(vip), SYN, 0)).unwrap();
    ends_of(&syn)
}

/// What a server's refusal becomes.
fn refuse(
    forwarder: &mut Forwarder,
    now: exos_inet::Instant,
    (ours, server): (SocketAddr, SocketAddr),
) -> Result<Vec<u8>, Verdict> {
    let refusal = tcp_at(server, ours, RST | ACK, CLIENT_ISN + 1, 0);
    let mut frames = give_any(forwarder, now, refusal)?;
    assert_eq!(frames.len(), 1);
    Ok(frames.remove(0).1)
}

fn segment(frame: &[u8]) -> Segment {
    let packet = Packet::read(frame, MAC).unwrap();
    Segment::read(&frame[packet.upper_range()])
}

/// The first server refuses, the other has the client's own SYN at once, and answers. What is passed on is right in every sum. If
/// the other refuses too, the client knows.
#[test]
fn a_refusal_goes_to_nobody_while_there_is_another() {
    for reach in [Reach::Nat, Reach::Transparent] {
        for (from, vip, servers) in [(CLIENT, VIP, TWO), (CLIENT6, VIP6, TWO6)] {
            for answers in [true, false] {
                let mut forwarder = service_by(reach, vip, &servers);
                let first = ask(&mut forwarder, START, at(from), vip);
                let again = refuse(&mut forwarder, START, first).unwrap();
                assert!(receive(&again));
                let second = ends_of(&again);
                assert_ne!(second.1, first.1);
                assert!(servers.iter().any(|s| at(s) == second.1));
                assert_eq!(segment(&again).seq.0, CLIENT_ISN);
                assert_eq!(segment(&again).flags.0, SYN);
                let (ours, server) = second;
                if answers {
                    let answer =
                        give(&mut forwarder, START, tcp(server, ours, SYN | ACK, 101)).unwrap();
                    assert_eq!(ends_of(&answer), (at(vip), at(from)));
                    let proof =
                        give(&mut forwarder, START, tcp(at(from), at(vip), ACK, ISN + 1)).unwrap();
                    assert_eq!(ends_of(&proof), second);
                    assert_eq!(count(&forwarder, Class::Established), 1);
                } else {
                    let told = refuse(&mut forwarder, START, second).unwrap();
                    assert_eq!(ends_of(&told), (at(vip), at(from)));
                    assert_eq!(segment(&told).ack.0, CLIENT_ISN + 1);
                }
                let counters = forwarder.counters();
                assert_eq!((counters.flows_begun, counters.flows_moved), (1, 1));
                assert_eq!(counters.refusals_withheld, 1);
                let refused: u64 = forwarder.services().servers.iter().map(|s| s.refused).sum();
                assert_eq!(refused, 1 + u64::from(!answers));
                assert_eq!(forwarder.flows().len(), 1);
                assert_eq!(
                    forwarder
                        .services()
                        .servers
                        .iter()
                        .map(|s| s.flows)
                        .sum::<u32>(),
                    1
                );
            }
        }
    }
}

/// A server is killed that has connections which wait for it, and resets them: their clients use the ports again at once. It refuses the
/// SYNs, and another server has them; a reset that answers no SYN is passed on.
#[test]
fn a_flow_that_was_reset_is_refused_like_another() {
    let mut forwarder = service(Transport::Tcp, 80, &TWO);
    let (ours, server) = ask(&mut forwarder, START, at(CLIENT), VIP);
    give(&mut forwarder, START, tcp(server, ours, SYN | ACK, 101)).unwrap();
    give(
        &mut forwarder,
        START,
        tcp(at(CLIENT), at(VIP), ACK, ISN + 1),
    )
    .unwrap();
    for _ in 0..2 {
        // It acknowledges what the SYN of that time did, too.
        let reset = tcp(server, ours, RST | ACK, CLIENT_ISN + 1);
        let passed = give(&mut forwarder, START, reset).unwrap();
        assert_eq!(ends_of(&passed), (at(VIP), at(CLIENT)));
        assert_eq!(state(&forwarder, at(CLIENT)), Some(State::Reset));
    }
    let again = tcp_at(at(CLIENT), at(VIP), SYN, 0, 5000);
    let asked = give(&mut forwarder, START, again).unwrap();
    assert_eq!(ends_of(&asked), (ours, server), "both may be forged");
    let other = tcp_at(server, ours, RST | ACK, 5000, 0);
    let passed = give(&mut forwarder, START, other).unwrap();
    assert_eq!(ends_of(&passed), (at(VIP), at(CLIENT)));
    let refusal = tcp_at(server, ours, RST | ACK, 5001, 0);
    let moved = give_any(&mut forwarder, START, refusal).unwrap();
    let (ours, second) = ends_of(&moved[0].1);
    assert_ne!(second, server);
    assert_eq!(segment(&moved[0].1).seq.0, 5000);
    assert_eq!(forwarder.counters().flows_moved, 1);
    // The other one may refuse it, which the client is to know.
    let told = give(
        &mut forwarder,
        START,
        tcp_at(second, ours, RST | ACK, 5001, 0),
    );
    assert_eq!(ends_of(&told.unwrap()), (at(VIP), at(CLIENT)));
}

/// A SYN of a flow that was reset, again and again without an answer: both may be forged, and nothing moves.
#[test]
fn a_flow_that_was_reset_stays_where_it_is_until_it_is_refused() {
    let mut forwarder = service(Transport::Tcp, 80, &TWO);
    let (ours, server) = ask(&mut forwarder, START, at(CLIENT), VIP);
    give(&mut forwarder, START, tcp(server, ours, SYN | ACK, 101)).unwrap();
    give(
        &mut forwarder,
        START,
        tcp(at(CLIENT), at(VIP), ACK, ISN + 1),
    )
    .unwrap();
    let guessed = tcp_at(at(CLIENT), at(VIP), RST, 0, CLIENT_ISN + 50);
    give(&mut forwarder, START, guessed).unwrap();
    for second in 0..4 {
        let syn = tcp_at(at(CLIENT), at(VIP), SYN, 0, 5000);
        let asked = give(&mut forwarder, START + secs(second), syn).unwrap();
        assert_eq!(ends_of(&asked), (ours, server));
    }
    give(&mut forwarder, START, tcp(server, ours, ACK, 101)).unwrap();
    assert_eq!(state(&forwarder, at(CLIENT)), Some(State::Established));
    assert_eq!(forwarder.counters().flows_moved, 0);
}

/// A reset that does not answer the SYN is its client's to judge, and moves nothing.
#[test]
fn a_reset_with_another_number_is_passed_on() {
    let mut forwarder = service(Transport::Tcp, 80, &TWO);
    let (ours, server) = ask(&mut forwarder, START, at(CLIENT), VIP);
    for (flags, ack) in [(RST | ACK, CLIENT_ISN), (RST | ACK, 1 << 31), (RST, 0)] {
        let passed = give(&mut forwarder, START, tcp_at(server, ours, flags, ack, 0)).unwrap();
        assert_eq!(ends_of(&passed), (at(VIP), at(CLIENT)));
    }
    assert_eq!(forwarder.counters().flows_moved, 0);
}

/// A word of ICMP that the server cannot be reached has it asked elsewhere, if it is about the very SYN.
#[test]
fn an_unreachable_goes_to_nobody_while_there_is_another() {
    for (from, vip, servers) in [(CLIENT, VIP, TWO), (CLIENT6, VIP6, TWO6)] {
        for (seq, moved) in [(CLIENT_ISN, 1), (CLIENT_ISN + 1, 0)] {
            let mut forwarder = service_by(Reach::Nat, vip, &servers);
            let (ours, server) = ask(&mut forwarder, START, at(from), vip);
            let about = tcp_at(ours, server, SYN, 0, seq);
            let frames = give_any(
                &mut forwarder,
                START,
                unreachable(&about[14..], server, ours),
            )
            .unwrap();
            let (to, frame) = &frames[0];
            assert_eq!(forwarder.counters().flows_moved, moved);
            if moved == 1 {
                assert!(receive(frame) && *to != server.ip());
                assert_eq!(ends_of(frame).1.ip(), *to);
            } else {
                assert_eq!(*to, at(from).ip(), "its client is to judge");
            }
        }
    }
}

/// An error of ICMP about a packet that was sent on.
fn unreachable(about: &[u8], from: SocketAddr, to: SocketAddr) -> Vec<u8> {
    let link = PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], MAC.0);
    let mut frame = Vec::new();
    match (from.ip(), to.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let port = Icmpv4Type::DestinationUnreachable(icmpv4::DestUnreachableHeader::Host);
            let builder = link.ipv4(from.octets(), to.octets(), 64).icmpv4(port);
            builder.write(&mut frame, &about[..28]).unwrap();
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            let port = Icmpv6Type::DestinationUnreachable(icmpv6::DestUnreachableCode::Address);
            let builder = link.ipv6(from.octets(), to.octets(), 64).icmpv6(port);
            builder.write(&mut frame, about).unwrap();
        }
        _ => unreachable!("one family"),
    }
    frame
}

/// A SYN that nobody answers goes to the other server when the client sends it again, and not when the network doubles it. What the
/// first server says after all finds no flow.
#[test]
fn a_syn_that_is_not_answered_goes_elsewhere_the_next_time() {
    for reach in [Reach::Nat, Reach::Transparent] {
        let mut forwarder = service_by(reach, VIP, &TWO);
        let first = ask(&mut forwarder, START, at(CLIENT), VIP);
        let copy = ask(
            &mut forwarder,
            START + ASKED_AGAIN_TIME / 2,
            at(CLIENT),
            VIP,
        );
        assert_eq!(copy, first);
        let now = START + secs(1) + ASKED_AGAIN_TIME / 2;
        let second = ask(&mut forwarder, now, at(CLIENT), VIP);
        assert_ne!(second.1, first.1);
        let late = give(&mut forwarder, now, tcp(first.1, first.0, SYN | ACK, 101));
        assert_eq!(late, Err(Verdict::Stack));
        let (ours, server) = second;
        give(&mut forwarder, now, tcp(server, ours, SYN | ACK, 101)).unwrap();
        // It is answered: if the answer was lost, its server says it again.
        assert_eq!(ask(&mut forwarder, now + secs(3), at(CLIENT), VIP), second);
        let counters = forwarder.counters();
        assert_eq!((counters.flows_begun, counters.flows_moved), (1, 1));
    }
}

/// A client's connections belong together: while new ones would go to its server, one that is not answered waits for it too.
#[test]
fn a_client_that_keeps_its_server_waits_for_it() {
    let mut forwarder = service(Transport::Tcp, 80, &TWO);
    forwarder.services_mut().set_affinity(Affinity::Client);
    let first = ask(&mut forwarder, START, at(CLIENT), VIP);
    let again = ask(&mut forwarder, START + secs(1), at(CLIENT), VIP);
    assert_eq!(again, first);
    let services = forwarder.services_mut();
    services.set_draining(0, first.1, true).unwrap();
    while !services.build(usize::MAX) {}
    let elsewhere = ask(&mut forwarder, START + secs(3), at(CLIENT), VIP);
    assert_ne!(elsewhere.1, first.1);
    // Where new ones go too.
    let other = SocketAddr::new(at(CLIENT).ip(), at(CLIENT).port() + 1);
    let new = ask(&mut forwarder, START + secs(3), other, VIP);
    assert_eq!(new.1, elsewhere.1);
}

/// Other flows have taken the places of SYNs that were kept: then the refusal is withheld all the same, and what the client sends
/// again goes to the other server.
#[test]
fn without_its_syn_a_flow_waits_for_the_client() {
    let mut forwarder = service(Transport::Tcp, 80, &TWO);
    let first = ask(&mut forwarder, START, at(CLIENT), VIP);
    for n in 0..SYNS_MAX as u32 {
        ask(&mut forwarder, START, client(n), VIP);
    }
    assert_eq!(refuse(&mut forwarder, START, first), Err(Verdict::Drop));
    assert_eq!(forwarder.counters().refusals_withheld, 1);
    let second = ask(&mut forwarder, START + secs(1), at(CLIENT), VIP);
    assert_ne!(second.1, first.1);
}

/// Of several servers a flow asks each once, no more than it may, and not those that are to have nothing. Flows of one that is gone
/// go to all others.
#[test]
fn each_server_is_asked_once_and_all_have_their_share() {
    for gone in [None, Some(1)] {
        let mut forwarder = service(Transport::Tcp, 80, &FOUR);
        if let Some(gone) = gone {
            let services = forwarder.services_mut();
            services.set_draining(0, at(FOUR[gone]), true).unwrap();
            while !services.build(usize::MAX) {}
        }
        let left = 4 - usize::from(gone.is_some());
        let mut seconds = BTreeMap::new();
        for n in 0..600 {
            let mut ends = ask(&mut forwarder, START, client(n), VIP);
            let mut asked = vec![ends.1];
            let told = loop {
                let next = refuse(&mut forwarder, START, ends).unwrap();
                ends = ends_of(&next);
                if ends.1 == client(n) {
                    break ends.0;
                }
                asked.push(ends.1);
            };
            assert_eq!(told, at(VIP));
            assert_eq!(asked.len(), left.min(1 + usize::from(REFUSALS_MAX)));
            asked.sort_unstable();
            asked.dedup();
            assert_eq!(asked.len(), left);
            assert!(gone.is_none_or(|gone| !asked.contains(&at(FOUR[gone]))));
        }
        for n in 1000..1600 {
            let first = ask(&mut forwarder, START, client(n), VIP);
            let second = ends_of(&refuse(&mut forwarder, START, first).unwrap());
            *seconds.entry((first.1, second.1)).or_insert(0) += 1;
        }
        assert_eq!(seconds.len(), left * (left - 1), "{seconds:?}");
        let fair = 600 / seconds.len();
        assert!(seconds.values().all(|n| *n > fair / 2), "{seconds:?}");
    }
}
