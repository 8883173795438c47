//! Servers and listeners that come and go while flows are under way.

use super::*;
use exos_forward::health::passive::Rule;
use exos_forward::packets::traffic::Traffic;

const OTHER: &str = "10.0.0.12:8080";

/// A forwarder with one server more, and whatever goes to it, established.
fn two_servers() -> (Forwarder, Vec<(SocketAddr, SocketAddr)>) {
    let mut forwarder = forwarder(1000);
    let ours = at(VIP).ip();
    let added = forwarder.services_mut().add_server(0, at(OTHER), 1, ours);
    added.unwrap();
    settle(&mut forwarder);
    let mut flows = Vec::new();
    for n in 0..100 {
        let syn = tcp(client(n), at(VIP), SYN, 0);
        let syn = give(&mut forwarder, START, syn).unwrap();
        let (ours, server) = ends_of(&syn);
        give(&mut forwarder, START, tcp(server, ours, SYN | ACK, 101)).unwrap();
        let proof = tcp(client(n), at(VIP), ACK, ISN + 1);
        give(&mut forwarder, START, proof).unwrap();
        if server == at(OTHER) {
            flows.push((client(n), ours));
        }
    }
    assert!((30..70).contains(&flows.len()), "{}", flows.len());
    (forwarder, flows)
}

/// All that follows from a change.
fn settle(forwarder: &mut Forwarder) {
    while forwarder.poll_timeout() == Some(exos_inet::Instant::START) {
        forwarder.handle_timeout(START);
    }
}

/// Both ways, as before.
fn goes_on(forwarder: &mut Forwarder, flows: &[(SocketAddr, SocketAddr)]) {
    for &(client, ours) in flows {
        let onward = tcp(client, at(VIP), ACK, ISN + 1);
        let onward = give(forwarder, START, onward).unwrap();
        assert_eq!(ends_of(&onward), (ours, at(OTHER)));
        let back = give(forwarder, START, tcp(at(OTHER), ours, ACK, 101)).unwrap();
        assert_eq!(ends_of(&back), (at(VIP), client));
    }
}

/// New connections to all but this server.
fn nobody_new(forwarder: &mut Forwarder) {
    for n in 1000..1100 {
        let syn = give(forwarder, START, tcp(client(n), at(VIP), SYN, 0)).unwrap();
        assert_eq!(ends_of(&syn).1, at(SERVER));
    }
}

#[test]
fn a_server_that_is_drained_keeps_what_it_has() {
    let (mut forwarder, flows) = two_servers();
    let services = forwarder.services_mut();
    services.set_draining(0, at(OTHER), true).unwrap();
    nobody_new(&mut forwarder);
    settle(&mut forwarder);
    goes_on(&mut forwarder, &flows);
    // One whose connection is over may use its port again: for another server.
    let (client, ours) = flows[0];
    for (src, dst) in [(client, at(VIP)), (at(OTHER), ours)] {
        give(&mut forwarder, START, tcp(src, dst, FIN | ACK, ISN + 1)).unwrap();
    }
    let syn = give(&mut forwarder, START, tcp(client, at(VIP), SYN, 0)).unwrap();
    assert_eq!(ends_of(&syn).1, at(SERVER));
}

#[test]
fn a_server_that_is_removed_goes_with_its_last_flow() {
    let (mut forwarder, flows) = two_servers();
    let services = forwarder.services_mut();
    let place = services.remove_server(0, at(OTHER)).unwrap();
    nobody_new(&mut forwarder);
    settle(&mut forwarder);
    goes_on(&mut forwarder, &flows);
    let standing = |f: &Forwarder| f.services().servers[usize::from(place)].standing;
    assert_eq!(standing(&forwarder), Standing::Leaving);
    for &(client, ours) in &flows {
        for (src, dst) in [(client, at(VIP)), (at(OTHER), ours)] {
            give(&mut forwarder, START, tcp(src, dst, FIN | ACK, ISN + 1)).unwrap();
        }
    }
    let later = START + CLOSING_TIME + Duration::from_secs(2);
    forwarder.handle_timeout(later);
    assert_eq!(standing(&forwarder), Standing::Gone);
}

#[test]
fn a_server_that_is_removed_at_once_takes_its_flows_along_and_no_others() {
    let (mut forwarder, flows) = two_servers();
    let begun = forwarder.flows().len();
    let place = forwarder.services_mut().remove_server(0, at(OTHER));
    forwarder.end_flows(0, place.unwrap());
    settle(&mut forwarder);
    assert_eq!(forwarder.counters().flows_ended, flows.len() as u64);
    assert_eq!(forwarder.flows().len(), begun - flows.len() as u32);
    let standing = forwarder.services().servers.iter().map(|s| s.standing);
    assert_eq!(standing.filter(|s| *s == Standing::Gone).count(), 1);
    // What a client sends on is answered by the stack, with a reset.
    let (client, ours) = flows[0];
    let segment = tcp(client, at(VIP), ACK, ISN + 1);
    assert_eq!(give(&mut forwarder, START, segment), Err(Verdict::Stack));
    let answer = tcp(at(OTHER), ours, ACK, 101);
    assert_eq!(give(&mut forwarder, START, answer), Err(Verdict::Stack));
}

#[test]
fn a_listener_that_is_removed_keeps_what_it_has() {
    let (mut forwarder, flows) = two_servers();
    forwarder.services_mut().remove_listener(0);
    goes_on(&mut forwarder, &flows);
    let syn = tcp(client(5000), at(VIP), SYN, 0);
    assert_eq!(give(&mut forwarder, START, syn), Err(Verdict::Stack));
}

/// What went through is counted by listener and by server.
#[test]
fn traffic_is_counted_where_it_belongs() {
    let mut forwarder = forwarder(100);
    let ours = open(&mut forwarder, START, at(CLIENT), VIP);
    give(&mut forwarder, START, udp(CLIENT6, at(VIP6), vec![1; 100])).unwrap();
    give(
        &mut forwarder,
        START,
        tcp(at("10.0.0.9:5"), at(VIP), SYN, 0),
    )
    .unwrap();
    give(
        &mut forwarder,
        START,
        tcp(at(SERVER), at("10.0.0.20:5"), RST, 0),
    )
    .unwrap_err();
    let refused = forwarder
        .flows()
        .ids()
        .map(|id| forwarder.flows().get(id).our_port);
    let refused = refused.filter(|port| *port != ours.port()).max().unwrap();
    let refused = SocketAddr::new(ours.ip(), refused);
    give(
        &mut forwarder,
        START,
        tcp(at(SERVER), refused, RST | ACK, 101),
    )
    .unwrap();
    let services = forwarder.services();
    let tcp_server = &services.servers[0];
    // A head of 40 bytes each: two SYNs and an ACK, a SYN-ACK and a reset.
    let wanted = Traffic {
        packets_to_servers: 3,
        bytes_to_servers: 120,
        packets_to_clients: 2,
        bytes_to_clients: 80,
    };
    assert_eq!(tcp_server.traffic, wanted);
    assert_eq!(services.listeners[0].traffic, tcp_server.traffic);
    assert_eq!(
        (tcp_server.begun, tcp_server.refused, tcp_server.open),
        (2, 1, 1)
    );
    assert_eq!(
        (services.listeners[0].begun, services.listeners[0].flows),
        (2, 2)
    );
    let udp6 = services.server(
        Transport::Udp,
        at(SERVER6).into(),
        at(VIP6).ip().into(),
        Reach::Nat,
    );
    let udp6 = &services.servers[udp6.unwrap()];
    assert_eq!(udp6.traffic.bytes_to_servers, 148);
    forwarder.handle_timeout(START + OPENING_TIME + Duration::from_secs(2));
    let services = forwarder.services();
    let unanswered = services.servers.iter().map(|s| s.unanswered);
    assert_eq!(unanswered.sum::<u64>(), 1, "the datagram");
    assert_eq!(services.listeners.iter().map(|l| l.flows).sum::<u32>(), 1);
}

/// A server that answers nobody rests after three connections in a row, unless it is the last; one answer forgives all.
#[test]
fn a_server_that_answers_nobody_rests() {
    let rule = Rule {
        failures: 3,
        window: Duration::from_secs(10),
        rest: Duration::from_secs(20),
    };
    let (mut forwarder, flows) = two_servers();
    forwarder.services_mut().set_passive(Some(rule));
    let other = forwarder.services().servers.len() - 1;
    let health = |forwarder: &Forwarder| forwarder.services().servers[other].health;
    let mut next = 2000;
    // A client of the other server, whose SYN is refused, or sent again after two seconds.
    let mut fail = |forwarder: &mut Forwarder, now: exos_inet::Instant, refused: bool| loop {
        next += 1;
        let syn = tcp(client(next), at(VIP), SYN, 0);
        let (ours, server) = ends_of(&give(forwarder, now, syn.clone()).unwrap());
        if server != at(OTHER) {
            continue;
        }
        if refused {
            give_any(forwarder, now, tcp(at(OTHER), ours, RST | ACK, 101)).unwrap();
        } else {
            give(forwarder, now, syn.clone()).unwrap();
            give(forwarder, now + Duration::from_secs(2), syn).unwrap();
        }
        return;
    };
    fail(&mut forwarder, START, true);
    fail(&mut forwarder, START, false);
    let answered = (5000..).find_map(|n| {
        let syn = give(&mut forwarder, START, tcp(client(n), at(VIP), SYN, 0)).unwrap();
        let (ours, server) = ends_of(&syn);
        (server == at(OTHER)).then_some((client(n), ours))
    });
    let (answered, ours) = answered.unwrap();
    give(&mut forwarder, START, tcp(at(OTHER), ours, SYN | ACK, 101)).unwrap();
    let after = START + Duration::from_secs(1);
    fail(&mut forwarder, after, true);
    fail(&mut forwarder, after, true);
    assert!(
        health(&forwarder).is_well(),
        "it has answered {answered} in between"
    );
    fail(&mut forwarder, after, false);
    assert_eq!(
        (health(&forwarder).is_well(), health(&forwarder).rests),
        (false, 1)
    );
    assert_eq!(health(&forwarder).flows_failed, 5);
    nobody_new(&mut forwarder);
    goes_on(&mut forwarder, &flows);
    let awake = after + rule.rest + Duration::from_secs(3);
    forwarder.handle_timeout(awake);
    assert!(health(&forwarder).is_well());
    // The last one that there is does not rest.
    forwarder
        .services_mut()
        .remove_server(0, at(SERVER))
        .unwrap();
    for _ in 0..5 {
        fail(&mut forwarder, awake, true);
    }
    assert!(health(&forwarder).is_well());
}
