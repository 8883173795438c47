//! Servers that see their clients' addresses, and servers that answer clients by themselves.

use super::*;
use exos_forward::flow::State;
use exos_forward::health::passive::Rule;
use exos_forward::service::Balance;

/// A frame as it was, but for a hop less.
fn a_hop_less(frame: &[u8]) -> Vec<u8> {
    let packet = Packet::read(frame, MAC).unwrap();
    let mut frame = frame.to_vec();
    exos_forward::packets::rewrite::keep_ends(
        &packet,
        &mut frame,
        exos_forward::packets::rewrite::Sums::Complete,
    );
    frame
}

fn state(forwarder: &Forwarder) -> State {
    let id = forwarder.flows().ids().next().expect("a flow");
    forwarder.flows().get(id).state
}

/// Towards the server only the destination changes, and back only the source.
#[test]
fn transparent_keeps_the_client() {
    for (client, vip, server) in [(CLIENT, VIP, SERVER), (CLIENT6, VIP6, SERVER6)] {
        let mut forwarder = forwarder_by(Reach::Transparent, 100);
        let mut both = |src: SocketAddr, dst: SocketAddr, flags, ack| {
            let onward = give(&mut forwarder, START, tcp(src, dst, flags, ack)).unwrap();
            assert!(receive(&onward));
            ends_of(&onward)
        };
        let (client, vip, server) = (at(client), at(vip), at(server));
        assert_eq!(both(client, vip, SYN, 0), (client, server));
        assert_eq!(both(server, client, SYN | ACK, 101), (vip, client));
        assert_eq!(both(client, vip, ACK, ISN + 1), (client, server));
        assert_eq!(both(server, client, ACK, 101), (vip, client));
        assert_eq!(state(&forwarder), State::Established);
        // Of the same server to other clients, or ports, there is nothing.
        for other in [
            SocketAddr::new(client.ip(), 1),
            SocketAddr::new(vip.ip(), client.port()),
        ] {
            let said = give(&mut forwarder, START, tcp(server, other, ACK, 1));
            assert_eq!(said, Err(Verdict::Stack));
        }
        let udp = udp(&client.to_string(), vip, vec![7; 20]);
        let datagram = give(&mut forwarder, START, udp).unwrap();
        assert_eq!(ends_of(&datagram), (client, server));
        let taken = |s: &exos_forward::service::Server| s.ports.taken();
        assert_eq!(
            forwarder.services().servers.iter().map(taken).sum::<u32>(),
            0
        );
        forwarder.handle_timeout(START + ESTABLISHED_TIME + Duration::from_secs(2));
        assert_eq!(forwarder.flows().len(), 0);
        let said = give(&mut forwarder, START, tcp(server, client, ACK, 101));
        assert_eq!(said, Err(Verdict::Stack));
    }
}

/// A client's port speaks to one server by one listener at a time: the server would answer both alike.
#[test]
fn transparent_tells_listeners_apart() {
    let mut wanted = wanted_by(Reach::Transparent);
    let other = "10.0.0.20:8000";
    wanted.push(Listen {
        transport: Transport::Tcp,
        at: at(other),
        reach: Reach::Transparent,
        to: vec![(at(SERVER), 1, at(VIP).ip())],
    });
    let mut forwarder = Forwarder::new(Services::new(&wanted).unwrap(), MAC, 100, 1);
    give(&mut forwarder, START, tcp(at(CLIENT), at(other), SYN, 0)).unwrap();
    // The first was never answered, and gives way.
    give(&mut forwarder, START, tcp(at(CLIENT), at(VIP), SYN, 0)).unwrap();
    assert_eq!(forwarder.counters().flows_replaced, 1);
    give(
        &mut forwarder,
        START,
        tcp(at(SERVER), at(CLIENT), SYN | ACK, 101),
    )
    .unwrap();
    give(
        &mut forwarder,
        START,
        tcp(at(CLIENT), at(VIP), ACK, ISN + 1),
    )
    .unwrap();
    let refused = give(&mut forwarder, START, tcp(at(CLIENT), at(other), SYN, 0));
    assert_eq!(refused, Err(Verdict::Drop));
    assert_eq!(forwarder.counters().drop_ends_in_use, 1);
    let back = give(&mut forwarder, START, tcp(at(SERVER), at(CLIENT), ACK, 101)).unwrap();
    assert_eq!(ends_of(&back), (at(VIP), at(CLIENT)));
    // From another port it is another connection.
    let port = SocketAddr::new(at(CLIENT).ip(), 40_001);
    give(&mut forwarder, START, tcp(port, at(other), SYN, 0)).unwrap();
    let back = give(&mut forwarder, START, tcp(at(SERVER), port, SYN | ACK, 101)).unwrap();
    assert_eq!(ends_of(&back), (at(other), port));
}

/// A server may be behind listeners of both kinds; each of its packets is of one.
#[test]
fn a_server_is_reached_in_several_ways() {
    let mut wanted = wanted_by(Reach::Transparent);
    let other = "10.0.0.20:8000";
    wanted.push(Listen {
        transport: Transport::Tcp,
        at: at(other),
        reach: Reach::Nat,
        to: vec![(at(SERVER), 1, at(VIP).ip())],
    });
    let mut forwarder = Forwarder::new(Services::new(&wanted).unwrap(), MAC, 100, 1);
    let syn = give(&mut forwarder, START, tcp(at(CLIENT), at(other), SYN, 0)).unwrap();
    let ours = ends_of(&syn).0;
    assert_eq!(ours.ip(), at(VIP).ip());
    give(&mut forwarder, START, tcp(at(CLIENT), at(VIP), SYN, 0)).unwrap();
    for (to, listener) in [(ours, other), (at(CLIENT), VIP)] {
        let back = give(&mut forwarder, START, tcp(at(SERVER), to, SYN | ACK, 101)).unwrap();
        assert_eq!(ends_of(&back), (at(listener), at(CLIENT)));
    }
}

/// Packets to servers that answer by themselves are the same but for a hop, and go to the server.
#[test]
fn direct_keeps_both_ends() {
    for (client, vip, server) in [(CLIENT, VIP, SERVER), (CLIENT6, VIP6, SERVER6)] {
        let mut forwarder = forwarder_by(Reach::Direct, 100);
        let server = server_by(Reach::Direct, server);
        let frames = [
            tcp(at(client), at(vip), SYN, 0),
            tcp(at(client), at(vip), ACK, 500),
            tcp(at(client), at(vip), FIN | ACK, 500),
            udp(client, at(vip), vec![1; 30]),
        ];
        let states = [State::Asked, State::GoesOn, State::SaidAll];
        for (n, frame) in frames.into_iter().enumerate() {
            let (to, onward) = give_to(&mut forwarder, START, frame.clone()).unwrap();
            assert_eq!((to, onward), (server.ip(), a_hop_less(&frame)));
            if let Some(wanted) = states.get(n) {
                assert_eq!(state(&forwarder), *wanted);
            }
        }
        // Nothing of the server's is ours, not even with a client's address.
        let answer = tcp(server, at(client), ACK, 101);
        assert_eq!(give(&mut forwarder, START, answer), Err(Verdict::Stack));
        assert_eq!(forwarder.counters().forwarded_to_clients, 0);
    }
}

/// With the flow, with none, with no room for one: a packet goes to the same server, so that a forwarder may take over from
/// another. Not so where the choice depends on what one has seen.
#[test]
fn direct_agrees_with_other_forwarders() {
    let mut wanted = wanted_by(Reach::Direct);
    wanted[0].to = (11..=18)
        .map(|n| {
            (
                at(&format!("10.0.0.{n}:80")),
                1,
                ours_by(Reach::Direct, VIP),
            )
        })
        .collect();
    let forwarder = |flows| Forwarder::new(Services::new(&wanted).unwrap(), MAC, flows, 1);
    let (mut one, mut other) = (forwarder(1000), forwarder(1));
    let segment = |n, flags| tcp(client(n), at(VIP), flags, 500);
    for n in 0..100 {
        let (to, _) = give_to(&mut one, START, segment(n, SYN)).unwrap();
        assert_eq!(give_to(&mut one, START, segment(n, ACK)).unwrap().0, to);
        assert_eq!(give_to(&mut other, START, segment(n, ACK)).unwrap().0, to);
        assert_eq!(give_to(&mut other, START, segment(n, RST)).unwrap().0, to);
    }
    assert_eq!(other.counters().forwarded_without_flow, 200);
    assert_eq!(
        other.flows().len(),
        0,
        "what one segment says begins no flow"
    );
    // A table that is full of who goes on takes nobody else, who is served all the same.
    for flags in [SYN, ACK] {
        give_to(&mut other, START, segment(0, flags)).unwrap();
    }
    let (to, _) = give_to(&mut one, START, segment(1, SYN)).unwrap();
    assert_eq!(give_to(&mut other, START, segment(1, SYN)).unwrap().0, to);
    assert_eq!(other.counters().drop_table_full, 0);
    other.services_mut().set_balance(Balance::RoundRobin);
    let unknown = give_to(&mut other, START, segment(2, ACK));
    assert_eq!(unknown, Err(Verdict::Stack));
    let full = give_to(&mut other, START, segment(2, SYN));
    assert_eq!(full, Err(Verdict::Drop));
}

/// Connections that are only claimed give way to those that are proven, never the other way round.
#[test]
fn claims_give_way() {
    let mut wanted = wanted();
    let direct = "10.0.0.20:8080";
    wanted.push(Listen {
        transport: Transport::Tcp,
        at: at(direct),
        reach: Reach::Direct,
        to: vec![(at(SERVER), 1, ours_by(Reach::Direct, VIP))],
    });
    let mut forwarder = Forwarder::new(Services::new(&wanted).unwrap(), MAC, 100, 1);
    for n in 0..50 {
        open(&mut forwarder, START, client(n), VIP);
    }
    let later = START + Duration::from_secs(1);
    for n in 100..300 {
        for flags in [SYN, ACK] {
            give_to(&mut forwarder, later, tcp(client(n), at(direct), flags, 1)).unwrap();
        }
    }
    assert_eq!(forwarder.flows().count(Class::Claimed), 50);
    let much_later = later + EVICTABLE_AFTER;
    for n in 1000..1050 {
        open(&mut forwarder, much_later, client(n), VIP);
    }
    assert_eq!(forwarder.flows().count(Class::Established), 100);
    assert_eq!(forwarder.counters().flows_evicted, 50);
}

/// Errors about what a server has sent to a client come to us, who have the address that the packet came from: they go to
/// the server, known by the flow or without one.
#[test]
fn direct_passes_errors_to_the_server() {
    let mut forwarder = forwarder_by(Reach::Direct, 100);
    let quoted = tcp(at(VIP), at(CLIENT), ACK, 101);
    let mut error = Vec::new();
    let kind = etherparse::Icmpv4Type::DestinationUnreachable(
        etherparse::icmpv4::DestUnreachableHeader::FragmentationNeeded { next_hop_mtu: 1280 },
    );
    etherparse::PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], MAC.0)
        .ipv4([10, 0, 0, 254], [10, 0, 0, 20], 64)
        .icmpv4(kind)
        .write(&mut error, &quoted[14..14 + 28])
        .unwrap();
    for turn in 0..2 {
        let (to, onward) = give_to(&mut forwarder, START, error.clone()).unwrap();
        assert_eq!(
            (to, onward),
            (at(SERVER).ip(), a_hop_less(&error)),
            "turn {turn}"
        );
        give_to(&mut forwarder, START, tcp(at(CLIENT), at(VIP), SYN, 0)).unwrap();
    }
    assert_eq!(forwarder.counters().forwarded_icmp_errors, 2);
}

/// Fragments keep their number too, and follow their first.
#[test]
fn direct_fragments_stay_as_they_are() {
    let mut forwarder = forwarder_by(Reach::Direct, 100);
    let whole = udp(CLIENT, at(VIP), vec![9; 3000]);
    let cut = |from: usize, to: usize, more: bool| {
        let mut ip = etherparse::Ipv4Header::from_slice(&whole[14..]).unwrap().0;
        ip.set_payload_len(to - from).unwrap();
        (ip.dont_fragment, ip.more_fragments) = (false, more);
        ip.fragment_offset = ((from / 8) as u16).try_into().unwrap();
        ip.header_checksum = ip.calc_header_checksum();
        let mut frame = whole[..14].to_vec();
        ip.write(&mut frame).unwrap();
        frame.extend(&whole[34 + from..34 + to]);
        frame
    };
    let parts = [
        cut(0, 1200, true),
        cut(1200, 2400, true),
        cut(2400, 3008, false),
    ];
    let early = give_to(&mut forwarder, START, parts[1].clone());
    assert_eq!(early, Err(Verdict::Held));
    let wanted = parts
        .each_ref()
        .map(|part| (at(SERVER).ip(), a_hop_less(part)));
    let first = give_to(&mut forwarder, START, parts[0].clone()).unwrap();
    let second = forwarder.poll_made().unwrap();
    let last = give_to(&mut forwarder, START, parts[2].clone()).unwrap();
    assert_eq!([first, second, last], wanted);
}

/// What a server does is told by what its clients do: asking again, and going on.
#[test]
fn direct_servers_that_do_not_answer_rest() {
    let mut wanted = wanted_by(Reach::Direct);
    wanted[0]
        .to
        .push((at("10.0.0.12:80"), 1, ours_by(Reach::Direct, VIP)));
    let mut forwarder = Forwarder::new(Services::new(&wanted).unwrap(), MAC, 1000, 1);
    let rule = Rule {
        failures: 3,
        window: Duration::from_secs(10),
        rest: Duration::from_secs(10),
    };
    forwarder.services_mut().set_passive(Some(rule));
    let second = START + Duration::from_secs(1);
    let again = second + Duration::from_secs(1);
    for n in 0..20 {
        let syn = tcp(client(n), at(VIP), SYN, 0);
        let (to, _) = give_to(&mut forwarder, START, syn.clone()).unwrap();
        if to == at(SERVER).ip() {
            give_to(&mut forwarder, second, tcp(client(n), at(VIP), ACK, 1)).unwrap();
        } else {
            give_to(&mut forwarder, again, syn).unwrap();
        }
    }
    let rests = |n: usize| forwarder.services().servers[n].health.is_resting();
    let servers = &forwarder.services().servers;
    let place = |ip: &str| {
        servers
            .iter()
            .position(|s| SocketAddr::from(s.at) == at(ip))
    };
    assert!(rests(place("10.0.0.12:80").unwrap()));
    assert!(!rests(place("10.0.0.11:80").unwrap()));
}

/// Datagrams one way: one is soon forgotten, a client that goes on is remembered as long as one that is answered.
#[test]
fn direct_datagrams_that_go_on() {
    let mut forwarder = forwarder_by(Reach::Direct, 100);
    give_to(&mut forwarder, START, udp(CLIENT, at(VIP), vec![1])).unwrap();
    give_to(&mut forwarder, START, udp(CLIENT, at(VIP), vec![2])).unwrap();
    assert_eq!(state(&forwarder), State::OneWay);
    let later = START + Duration::from_secs(1);
    give_to(&mut forwarder, later, udp(CLIENT, at(VIP), vec![3])).unwrap();
    assert_eq!(
        (state(&forwarder), forwarder.flows().count(Class::Talking)),
        (State::Repeated, 1)
    );
}

/// A server that is removed at once loses its flows, also those that have no port of ours.
#[test]
fn flows_end_with_their_server() {
    for reach in [Reach::Transparent, Reach::Direct, Reach::Tunnel] {
        let mut wanted = wanted_by(reach);
        let (gone, stays) = ("10.0.0.12:80", "10.0.0.13:80");
        wanted[0].to = [gone, stays]
            .map(|s| (at(s), 1, ours_by(reach, VIP)))
            .to_vec();
        let mut forwarder = Forwarder::new(Services::new(&wanted).unwrap(), MAC, 5000, 1);
        for n in 0..4000 {
            for flags in [SYN, ACK] {
                give_any(&mut forwarder, START, tcp(client(n), at(VIP), flags, 1)).ok();
            }
        }
        let place = forwarder.services_mut().remove_server(0, at(gone)).unwrap();
        let had = forwarder.services().servers[usize::from(place)].flows;
        let before = forwarder.flows().len();
        forwarder.end_flows(0, place);
        for _ in 0..1000 {
            forwarder.handle_timeout(START);
        }
        assert!(
            had > 100 && forwarder.counters().flows_ended == u64::from(had),
            "{reach:?}"
        );
        assert_eq!(forwarder.flows().len(), before - had);
        assert_eq!(
            forwarder.services().servers[usize::from(place)].standing,
            Standing::Gone
        );
    }
}
