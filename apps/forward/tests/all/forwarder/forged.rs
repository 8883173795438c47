//! Packets that a stranger forges, who knows a client's address and port and sees nothing: what they must not do to others.

use exos_forward::flow::State;
use exos_forward::limits::{ANSWERED_TIME, DATAGRAM_SHARE, FLOWS_DEFAULT, RESET_WINDOWS};
use exos_inet::Instant;
use exos_inet::route::Routes;

use super::*;

/// How the flow of this client stands.
pub(super) fn state(forwarder: &Forwarder, client: SocketAddr) -> Option<State> {
    let flows = forwarder.flows();
    let mut its = flows.ids().map(|id| *flows.get(id));
    its.find(|flow| SocketAddr::from(flow.key.client) == client)
        .map(|flow| flow.state)
}

/// A reset of the client's with this number.
fn reset(seq: u32) -> Vec<u8> {
    tcp_at(at(CLIENT), at(VIP), RST, 0, seq)
}

/// A service with these servers.
pub(super) fn service(transport: Transport, at_port: u16, servers: &[&str]) -> Forwarder {
    let listen = Listen {
        transport,
        at: SocketAddr::new(at(VIP).ip(), at_port),
        reach: Reach::Nat,
        to: servers.iter().map(|s| (at(s), 1, at(VIP).ip())).collect(),
    };
    Forwarder::new(Services::new(&[listen]).unwrap(), MAC, FLOWS_DEFAULT, 1)
}

pub(super) const TWO: [&str; 2] = ["10.0.0.11:80", "10.0.0.12:80"];

/// A question from this client and its server's answer.
fn ask(forwarder: &mut Forwarder, now: Instant, client: SocketAddr, vip: SocketAddr) -> bool {
    let question = udp(&client.to_string(), vip, vec![1]);
    let Ok(question) = give(forwarder, now, question) else {
        return false;
    };
    let (ours, server) = ends_of(&question);
    let answer = give(forwarder, now, udp(&server.to_string(), ours, vec![2])).unwrap();
    ends_of(&answer) == (vip, client)
}

/// A reset whose number is none of the connection's, or that goes no further than us, ends no silent connection.
#[test]
fn a_blind_reset_says_nothing() {
    let mut forwarder = forwarder(100);
    let ours = open(&mut forwarder, START, at(CLIENT), VIP);
    let numbers = [0, CLIENT_ISN, 1 << 31, CLIENT_ISN + 2 + RESET_WINDOWS[0]];
    for seq in numbers {
        give(&mut forwarder, START + secs(5), reset(seq)).expect("the server says what it is");
    }
    assert_eq!(forwarder.counters().resets_doubted, numbers.len() as u64);
    let mut near = reset(CLIENT_ISN + 1);
    set_hops(&mut near, 1);
    let dropped = give(&mut forwarder, START + secs(5), near);
    assert_eq!(dropped, Err(Verdict::Answered));
    assert_eq!(count(&forwarder, Class::Established), 1);
    forwarder.handle_timeout(START + ESTABLISHED_TIME);
    for (src, dst, ack) in [(at(CLIENT), at(VIP), ISN + 1), (at(SERVER), ours, 101)] {
        let late = give(
            &mut forwarder,
            START + ESTABLISHED_TIME,
            tcp(src, dst, ACK, ack),
        );
        late.expect("it is there");
    }
}

/// Resets keep nothing from being forgotten in its time.
#[test]
fn a_blind_reset_is_no_sign_of_life() {
    let mut forwarder = forwarder(100);
    open(&mut forwarder, START, at(CLIENT), VIP);
    give(&mut forwarder, START + ESTABLISHED_TIME, reset(0)).unwrap();
    forwarder.handle_timeout(START + ESTABLISHED_TIME + secs(1));
    assert_eq!(forwarder.flows().len(), 0);
}

/// What an attacker sends in the client's name moves nothing of what the server has acknowledged.
#[test]
fn a_forged_segment_makes_no_reset_true() {
    let mut forwarder = forwarder(100);
    open(&mut forwarder, START, at(CLIENT), VIP);
    let segment = tcp_at(at(CLIENT), at(VIP), ACK, 0xdead_beef, 1 << 30);
    give(&mut forwarder, START, segment).unwrap();
    give(&mut forwarder, START, reset(1 << 30)).unwrap();
    assert_eq!(state(&forwarder, at(CLIENT)), Some(State::Established));
}

/// Real ones of either side, with what was acknowledged or what is under way, end a connection in a minute.
#[test]
fn a_real_reset_ends_it() {
    for (is_client, beyond) in [(true, 0), (true, 1000), (false, 0), (false, 1 << 20)] {
        let mut forwarder = forwarder(100);
        let ours = open(&mut forwarder, START, at(CLIENT), VIP);
        let (src, dst, next) = match is_client {
            true => (at(CLIENT), at(VIP), CLIENT_ISN + 1),
            false => (at(SERVER), ours, ISN + 1),
        };
        let real = tcp_at(src, dst, RST, 0, next + beyond);
        give(&mut forwarder, START, real).unwrap();
        assert_eq!(count(&forwarder, Class::Closing), 1, "{src} {beyond}");
        forwarder.handle_timeout(START + CLOSING_TIME + secs(1));
        assert_eq!(forwarder.flows().len(), 0);
    }
}

/// A connection that was refused before it stood: a reset with no number that means anything, or the client's.
#[test]
fn a_refusal_needs_no_number() {
    let mut forwarder = forwarder(100);
    let syn = give(&mut forwarder, START, tcp(at(CLIENT), at(VIP), SYN, 0)).unwrap();
    let (ours, server) = ends_of(&syn);
    let refusal = tcp_at(server, ours, RST | ACK, CLIENT_ISN + 1, 0);
    give(&mut forwarder, START, refusal).unwrap();
    assert_eq!(state(&forwarder, at(CLIENT)), Some(State::Refused));
    give(&mut forwarder, START, tcp(client(1), at(VIP), SYN, 0)).unwrap();
    let ours = SocketAddr::new(at(VIP).ip(), client(1).port());
    give(&mut forwarder, START, tcp(at(SERVER), ours, SYN | ACK, 101)).unwrap();
    give(&mut forwarder, START, tcp(client(1), at(VIP), RST, 0)).unwrap();
    assert_eq!(state(&forwarder, client(1)), Some(State::Refused));
}

/// A reset that the server does not believe, because it expects another number, it answers; and then nothing has happened.
#[test]
fn the_server_s_answer_undoes_a_lucky_guess() {
    let mut forwarder = forwarder(100);
    let ours = open(&mut forwarder, START, at(CLIENT), VIP);
    give(&mut forwarder, START, reset(CLIENT_ISN + 50)).unwrap();
    assert_eq!(count(&forwarder, Class::Closing), 1);
    give(&mut forwarder, START, tcp(at(SERVER), ours, ACK, 101)).unwrap();
    assert_eq!(count(&forwarder, Class::Established), 1);
}

/// What the server had under way when the client reset the connection does not bring it back.
#[test]
fn what_was_under_way_brings_nothing_back() {
    let mut forwarder = forwarder(100);
    let ours = open(&mut forwarder, START, at(CLIENT), VIP);
    give(&mut forwarder, START, reset(CLIENT_ISN + 1)).unwrap();
    for flags in [ACK, FIN | ACK] {
        give(&mut forwarder, START, tcp(at(SERVER), ours, flags, 101)).unwrap();
        assert_eq!(count(&forwarder, Class::Closing), 1);
    }
    forwarder.handle_timeout(START + CLOSING_TIME + secs(1));
    assert_eq!(forwarder.flows().len(), 0);
    // A FIN that the server has not acknowledged, then a reset after it; the client answers what comes then.
    let ours = open(&mut forwarder, START, at(CLIENT), VIP);
    give(
        &mut forwarder,
        START,
        tcp(at(CLIENT), at(VIP), FIN | ACK, ISN + 1),
    )
    .unwrap();
    give(&mut forwarder, START, reset(CLIENT_ISN + 2)).unwrap();
    give(
        &mut forwarder,
        START,
        tcp(at(SERVER), ours, ACK, CLIENT_ISN + 1),
    )
    .unwrap();
    give(&mut forwarder, START, reset(CLIENT_ISN + 1)).unwrap();
    assert_eq!(count(&forwarder, Class::Closing), 1);
}

/// A reset and a SYN, both forged: the connection stays established, and at its server, though that is to have no others.
#[test]
fn a_reset_and_a_syn_take_nobody_away() {
    let mut forwarder = service(Transport::Tcp, 80, &TWO);
    let syn = give(&mut forwarder, START, tcp(at(CLIENT), at(VIP), SYN, 0)).unwrap();
    let (ours, server) = ends_of(&syn);
    give(&mut forwarder, START, tcp(server, ours, SYN | ACK, 101)).unwrap();
    give(
        &mut forwarder,
        START,
        tcp(at(CLIENT), at(VIP), ACK, ISN + 1),
    )
    .unwrap();
    forwarder
        .services_mut()
        .set_draining(0, server, true)
        .unwrap();
    // A guess that is right but for what is under way.
    give(&mut forwarder, START, reset(CLIENT_ISN + 9)).unwrap();
    give(&mut forwarder, START, tcp(at(CLIENT), at(VIP), SYN, 0)).unwrap();
    let next = give(
        &mut forwarder,
        START,
        tcp(at(CLIENT), at(VIP), ACK, ISN + 1),
    )
    .unwrap();
    assert_eq!(ends_of(&next), (ours, server));
    assert_eq!(count(&forwarder, Class::Established), 1);
}

/// A reset between the server's SYN and the client's answer to it does not matter to those who go on.
#[test]
fn a_reset_in_the_handshake_is_made_good() {
    let mut forwarder = forwarder(100);
    let syn = give(&mut forwarder, START, tcp(at(CLIENT), at(VIP), SYN, 0)).unwrap();
    let (ours, server) = ends_of(&syn);
    give(&mut forwarder, START, tcp(server, ours, SYN | ACK, 101)).unwrap();
    give(&mut forwarder, START, reset(0)).unwrap();
    give(
        &mut forwarder,
        START,
        tcp(at(CLIENT), at(VIP), ACK, ISN + 1),
    )
    .unwrap();
    assert_eq!(count(&forwarder, Class::Established), 1);
    assert_eq!(forwarder.services().servers[0].open, 1);
}

/// Nothing acknowledges a SYN that no server has sent, whatever number that would have.
#[test]
fn nothing_is_proven_of_a_server_that_was_not_heard() {
    let mut forwarder = forwarder(100);
    give(&mut forwarder, START, tcp(at(CLIENT), at(VIP), SYN, 0)).unwrap();
    for flags in [ACK, RST, ACK] {
        give(&mut forwarder, START, tcp(at(CLIENT), at(VIP), flags, 1)).unwrap();
    }
    assert_eq!(count(&forwarder, Class::Established), 0);
}

/// Where the client alone is heard, a reset has to go on from what it said last.
#[test]
fn a_reset_of_whom_alone_we_hear() {
    let mut forwarder = forwarder_by(Reach::Direct, 100);
    let segments = [
        (SYN, CLIENT_ISN),
        (ACK, CLIENT_ISN + 1),
        (ACK, CLIENT_ISN + 500),
    ];
    for (flags, seq) in segments {
        let segment = tcp_at(at(CLIENT), at(VIP), flags, ISN + 1, seq);
        give_to(&mut forwarder, START, segment).unwrap();
    }
    // A segment from elsewhere does not make a reset from there true.
    let elsewhere = tcp_at(at(CLIENT), at(VIP), ACK, ISN + 1, 1 << 30);
    give_to(&mut forwarder, START, elsewhere).unwrap();
    give_to(&mut forwarder, START, reset(1 << 30)).unwrap();
    assert_eq!(count(&forwarder, Class::Claimed), 1);
    give_to(&mut forwarder, START, reset(CLIENT_ISN + 1000)).unwrap();
    assert_eq!(count(&forwarder, Class::Closing), 1);
}

/// Where packets go by unseen, a client's reset has to fit what is known of old, and a server's counts.
#[test]
fn resets_where_packets_go_by_elsewhere() {
    let mut forwarder = forwarder(100);
    forwarder.set_seen_elsewhere();
    let ours = open(&mut forwarder, START, at(CLIENT), VIP);
    give(&mut forwarder, START, reset(1 << 30)).unwrap();
    assert_eq!(count(&forwarder, Class::Established), 1);
    let far = tcp_at(at(SERVER), ours, RST, 0, 1 << 30);
    give(&mut forwarder, START, far).unwrap();
    assert_eq!(count(&forwarder, Class::Closing), 1);
}

/// 300 questions a second to one server, each from another port and answered at once: all are.
#[test]
fn questions_find_a_port() {
    for port in [53, 5353] {
        let vip = SocketAddr::new(at(VIP).ip(), port);
        let mut forwarder = service(Transport::Udp, port, &["10.0.0.11:53"]);
        for n in 0..90_000u32 {
            let now = START + Duration::from_micros(u64::from(n) * 3333);
            forwarder.handle_timeout(now);
            assert!(ask(&mut forwarder, now, client(n), vip), "{port}: {n}");
        }
        let taken = forwarder.services().servers[0].ports.taken();
        let short = 300 * (ANSWERED_TIME.as_secs() as u32 + 3);
        assert!(port != 53 || taken < short, "{taken}");
    }
}

/// A client that goes on asking keeps its port for minutes.
#[test]
fn who_goes_on_asking_is_talking() {
    let mut forwarder = forwarder(100);
    for second in [0, 1] {
        assert!(ask(
            &mut forwarder,
            START + secs(second),
            at(CLIENT),
            at(VIP)
        ));
    }
    forwarder.handle_timeout(START + ANSWERED_TIME + secs(10));
    assert_eq!(count(&forwarder, Class::Talking), 1);
}

/// With forged questions that are answered, datagrams take their share of the table; connections that were silent for
/// a minute stay, and others begin.
#[test]
fn answered_datagrams_take_no_connection_s_place() {
    for vip in [VIP, "10.0.0.20:5060"] {
        let mut forwarder = {
            let mut wanted = wanted();
            wanted[2].at = at(vip);
            Forwarder::new(Services::new(&wanted).unwrap(), MAC, 1000, 1)
        };
        for n in 0..100 {
            open(&mut forwarder, START, client(n), VIP);
        }
        let now = START + EVICTABLE_AFTER + secs(1);
        for n in 0..2000 {
            assert!(ask(&mut forwarder, now, client(10_000 + n), at(vip)));
        }
        assert_eq!(count(&forwarder, Class::Established), 100);
        assert_eq!(forwarder.flows().datagrams(), 1000 / DATAGRAM_SHARE);
        open(&mut forwarder, now, at(CLIENT), VIP);
    }
}

/// With the table full of connections a datagram takes the place of none, however long they were silent.
#[test]
fn a_datagram_takes_no_connection_s_place() {
    let mut forwarder = forwarder(8);
    for n in 0..8 {
        open(&mut forwarder, START, client(n), VIP);
    }
    let now = START + EVICTABLE_AFTER * 2;
    let datagram = udp(CLIENT, at(VIP), vec![1]);
    assert_eq!(give(&mut forwarder, now, datagram), Err(Verdict::Drop));
    assert_eq!(count(&forwarder, Class::Established), 8);
}

/// What cannot be anybody's address begins no flow: the answer would go to everybody, or to ourselves.
#[test]
fn nobody_s_address_begins_nothing() {
    let mut routes = Routes::default();
    routes.add_address(at(VIP).ip(), 24).unwrap();
    routes.add_address(at(VIP6).ip(), 64).unwrap();
    let mut forwarder = forwarder(100);
    forwarder.set_routes(0, 1, &routes);
    let v4 = [
        "10.0.0.255",
        "255.255.255.255",
        "224.0.0.1",
        "10.0.0.20",
        "127.0.0.1",
        "0.0.0.0",
    ];
    let v6 = ["ff02::1", "fd00::20", "::1"];
    let v4 = v4.map(|source| (source, VIP));
    let all = v4.into_iter().chain(v6.map(|source| (source, VIP6)));
    for (n, (source, vip)) in (1..).zip(all) {
        let source = SocketAddr::new(source.parse().unwrap(), 99);
        let datagram = udp(&source.to_string(), at(vip), vec![1]);
        assert_eq!(
            give(&mut forwarder, START, datagram),
            Err(Verdict::Drop),
            "{source}"
        );
        assert_eq!(forwarder.counters().drop_source, n);
    }
    let neighbour = udp("10.0.0.254:99", at(VIP), vec![1]);
    give(&mut forwarder, START, neighbour).unwrap();
    assert_eq!(forwarder.flows().len(), 1);
}

/// Who was never answered goes to another server once theirs is not in use any more: by a SYN or a datagram sent again.
#[test]
fn nobody_waits_for_a_server_that_is_gone() {
    for transport in [Transport::Tcp, Transport::Udp] {
        let mut forwarder = service(transport, 80, &TWO);
        let first = || match transport {
            Transport::Tcp => tcp(at(CLIENT), at(VIP), SYN, 0),
            Transport::Udp => udp(CLIENT, at(VIP), vec![1]),
        };
        let (_, server) = ends_of(&give(&mut forwarder, START, first()).unwrap());
        forwarder.services_mut().remove_server(0, server).unwrap();
        let (_, other) = ends_of(&give(&mut forwarder, START + secs(1), first()).unwrap());
        assert_ne!(other, server);
    }
}
