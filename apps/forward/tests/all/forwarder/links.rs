//! Several links: by which a packet leaves, whose frames are ours, and what does not fit on the other side.
//!
//! Clients are on the first, in the network of the listeners; servers on the second, which takes shorter packets.

use super::*;
use exos_inet::route::Routes;
use exos_wire::Mac;

/// Of the second link.
const BACK: Mac = Mac([2, 0, 0, 0, 0, 10]);
const NARROW: usize = 1400;
const BEHIND: &str = "10.1.0.11:8080";
const BEHIND6: &str = "[fd01::11]:8080";
const OURS_BEHIND: &str = "10.1.0.20";
const OURS_BEHIND6: &str = "fd01::20";

fn two_links(reach: Reach) -> Forwarder {
    let mut wanted = Vec::new();
    for transport in [Transport::Tcp, Transport::Udp] {
        for (vip, server, ours) in [(VIP, BEHIND, OURS_BEHIND), (VIP6, BEHIND6, OURS_BEHIND6)] {
            wanted.push(Listen {
                transport,
                at: at(vip),
                reach,
                to: vec![(server_by(reach, server), 1, ours.parse().unwrap())],
            });
        }
    }
    let mut forwarder = Forwarder::new(Services::new(&wanted).unwrap(), MAC, 100, 1);
    forwarder.set_links(&[(MAC, 1500), (BACK, NARROW)]);
    for (link, addresses) in [
        [("10.0.0.20", 24), ("fd00::20", 64)],
        [(OURS_BEHIND, 24), (OURS_BEHIND6, 64)],
    ]
    .into_iter()
    .enumerate()
    {
        let mut routes = Routes::new();
        for (address, len) in addresses {
            routes.add_address(address.parse().unwrap(), len).unwrap();
        }
        if link == 0 {
            routes.set_default("10.0.0.254".parse().unwrap()).unwrap();
        }
        forwarder.set_routes(link, routes.generation(), &routes);
    }
    forwarder
}

/// Gives a frame that came by this link.
fn come_by(forwarder: &mut Forwarder, link: usize, mut frame: Vec<u8>) -> Result<Vec<u8>, Verdict> {
    forwarder.frames_come_by(link);
    frame[..6].copy_from_slice(&[MAC, BACK][link].0);
    match forwarder.handle_frame(START, &mut frame, RxChecksum::Unknown) {
        Verdict::Onward(_) => Ok(frame),
        other => Err(other),
    }
}

#[test]
fn packets_leave_by_the_link_with_the_best_route() {
    let forwarder = two_links(Reach::Nat);
    for (host, link) in [
        ("10.0.0.1", 0),
        ("10.1.0.11", 1),
        ("192.0.2.1", 0),
        ("fd01::11", 1),
        ("fd00::1", 0),
    ] {
        assert_eq!(forwarder.link_to(host.parse().unwrap()), link, "{host}");
    }
}

/// Clients come by one link and servers answer by the other. A frame for one link's Ethernet address is nobody's on the other; but a
/// packet of the flow is, by whichever link it comes.
#[test]
fn both_ways_between_two_links() {
    for (client, vip, server, ours) in [
        (CLIENT, VIP, BEHIND, OURS_BEHIND),
        (CLIENT6, VIP6, BEHIND6, OURS_BEHIND6),
    ] {
        let mut forwarder = two_links(Reach::Nat);
        let syn = come_by(&mut forwarder, 0, tcp(at(client), at(vip), SYN, 0)).unwrap();
        let ours = SocketAddr::new(ours.parse().unwrap(), at(client).port());
        assert_eq!(ends_of_any(&syn), (ours, at(server)));
        let answer = tcp(at(server), ours, SYN | ACK, 101);
        let answer = come_by(&mut forwarder, 1, answer).unwrap();
        assert_eq!(ends_of_any(&answer), (at(vip), at(client)));
        forwarder.frames_come_by(1);
        let mut other = tcp(at(client), at(vip), ACK, 1);
        let said = forwarder.handle_frame(START, &mut other, RxChecksum::Unknown);
        assert_eq!(
            said,
            Verdict::Stack,
            "a frame for the other link's Ethernet address"
        );
        let elsewhere = tcp(at(client), at(vip), ACK, 1);
        let elsewhere = come_by(&mut forwarder, 1, elsewhere).unwrap();
        assert_eq!(ends_of_any(&elsewhere), (ours, at(server)));
        let elsewhere = tcp(at(server), ours, ACK, 102);
        let elsewhere = come_by(&mut forwarder, 0, elsewhere).unwrap();
        assert_eq!(ends_of_any(&elsewhere), (at(vip), at(client)));
    }
}

/// Nobody sends from an address of ours, on whichever link that is.
#[test]
fn our_addresses_of_all_links_begin_nothing() {
    let mut forwarder = two_links(Reach::Nat);
    for source in ["10.1.0.20:5000", "10.1.0.255:5000", "10.0.0.20:5000"] {
        let syn = tcp(at(source), at(VIP), SYN, 0);
        assert_eq!(
            come_by(&mut forwarder, 0, syn),
            Err(Verdict::Drop),
            "{source}"
        );
    }
    assert_eq!(forwarder.counters().drop_source, 3);
}

/// A SYN that came by one link, and is refused by a server on the other, goes to another server.
#[test]
fn a_refused_syn_is_sent_again_though_it_came_by_the_other_link() {
    let ours: IpAddr = OURS_BEHIND.parse().unwrap();
    let listen = Listen {
        transport: Transport::Tcp,
        at: at(VIP),
        reach: Reach::Nat,
        to: vec![(at(BEHIND), 1, ours), (at("10.1.0.12:8080"), 1, ours)],
    };
    let mut forwarder = Forwarder::new(Services::new(&[listen]).unwrap(), MAC, 100, 1);
    forwarder.set_links(&[(MAC, 1500), (BACK, 1500)]);
    let syn = come_by(&mut forwarder, 0, tcp(at(CLIENT), at(VIP), SYN, 0)).unwrap();
    let (ours, first) = ends_of_any(&syn);
    let reset = tcp(first, ours, RST | ACK, CLIENT_ISN + 1);
    assert_eq!(come_by(&mut forwarder, 1, reset), Err(Verdict::Generated));
    let (to, frame) = forwarder.poll_made().expect("the SYN");
    assert_ne!(to, first.ip());
    assert_eq!(ends_of_any(&frame).1.ip(), to);
}

/// What may not be cut is answered with what fits where it would leave; on the link by which it came it would fit.
#[test]
fn who_sends_what_does_not_fit_the_other_link_is_told() {
    for reach in [Reach::Nat, Reach::Transparent, Reach::Direct] {
        let mut forwarder = two_links(reach);
        let long = udp(CLIENT6, at(VIP6), vec![7; NARROW - 48 + 1]);
        let said = come_by(&mut forwarder, 0, long.clone());
        assert_eq!(said, Err(Verdict::Answered), "{reach:?}");
        let (to, answer) = forwarder.poll_made().expect("an answer");
        assert_eq!(to, at(CLIENT6).ip());
        // RFC 4443 §3.2: type 2, and what fits. It quotes the packet as it came.
        assert_eq!((answer[54], &answer[58..62]), (2, &[0, 0, 5, 0x78][..]));
        assert_eq!(answer[22..38], long[38..54], "from the listener");
        assert_eq!(answer[62..102], long[14..54]);
        assert_eq!(forwarder.counters().too_big_answered, 1);
        let fits = udp(CLIENT6, at(VIP6), vec![7; NARROW - 48]);
        assert!(come_by(&mut forwarder, 0, fits).is_ok(), "{reach:?}");
    }
}

/// A server that sends too much to clients is told by the address that it knows of.
#[test]
fn servers_are_told_too() {
    for reach in [Reach::Nat, Reach::Transparent] {
        let mut forwarder = two_links(reach);
        forwarder.set_links(&[(MAC, NARROW), (BACK, 1500)]);
        let asked = come_by(&mut forwarder, 0, udp(CLIENT6, at(VIP6), vec![1])).unwrap();
        let (seen, server) = ends_of_any(&asked);
        let answer = udp(&server.to_string(), seen, vec![7; NARROW]);
        assert_eq!(
            come_by(&mut forwarder, 1, answer),
            Err(Verdict::Answered),
            "{reach:?}"
        );
        let (to, told) = forwarder.poll_made().expect("an answer");
        assert_eq!(to, server.ip());
        let from: [u8; 16] = told[22..38].try_into().unwrap();
        let known = match reach {
            Reach::Nat => OURS_BEHIND6.parse().unwrap(),
            _ => at(VIP6).ip(),
        };
        assert_eq!(IpAddr::from(from), known, "{reach:?}");
    }
}

/// What may be cut goes on in pieces that fit, rewritten, under a number of their own.
#[test]
fn what_may_be_cut_goes_on_in_pieces() {
    let mut forwarder = two_links(Reach::Nat);
    let mut idents = BTreeSet::new();
    for client in [CLIENT, "10.0.0.2:40000"] {
        let mut long = udp(client, at(VIP), vec![7; 1472]);
        // Cutting is not forbidden.
        long[20] = 0;
        set_checksum(&mut long);
        assert_eq!(come_by(&mut forwarder, 0, long), Err(Verdict::Generated));
        let mut len = 0;
        for more in [true, false] {
            let (to, piece) = forwarder.poll_made().expect("a piece");
            assert_eq!(to, at(BEHIND).ip());
            assert!(piece.len() <= 14 + NARROW);
            let header = etherparse::Ipv4Header::from_slice(&piece[14..]).unwrap().0;
            assert_eq!(header.calc_header_checksum(), header.header_checksum);
            assert_eq!(header.more_fragments, more);
            assert_eq!(
                IpAddr::from(header.source),
                OURS_BEHIND.parse::<IpAddr>().unwrap()
            );
            idents.insert(header.identification);
            len += piece.len() - 34;
        }
        assert_eq!((len, forwarder.poll_made()), (1480, None));
    }
    assert_eq!(idents.len(), 2, "two clients' packets are not mixed");
    assert_eq!(forwarder.counters().forwarded_cut, 2);
    // Links that take packets of one length have nothing looked at.
    forwarder.set_links(&[(MAC, 1500), (BACK, 1500)]);
    let long = udp(CLIENT, at(VIP), vec![7; 1472]);
    assert!(come_by(&mut forwarder, 0, long).is_ok());
}

fn set_checksum(frame: &mut [u8]) {
    let header = etherparse::Ipv4Header::from_slice(&frame[14..]).unwrap().0;
    let sum = header.calc_header_checksum();
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
}

/// Sender and receiver, by whichever link the frame came.
fn ends_of_any(frame: &[u8]) -> (SocketAddr, SocketAddr) {
    let packet = Packet::read_again(frame).unwrap();
    let (_, src, dst) = packet.ends().unwrap();
    (src.into(), dst.into())
}
