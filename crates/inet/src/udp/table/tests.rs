//! UDP sockets: who gets a datagram, what is dropped, and the checksum rules.

use super::*;
use crate::icmp::Reason;
use crate::limits::{UDP_DATAGRAM_OVERHEAD, UDP_QUEUE_BYTES_MAX};
use exos_buf::Buffer;
use exos_wire::udp::UdpHeader;

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn at(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

const FIELDS: HeaderFields = HeaderFields {
    hop_limit: 3,
    traffic_class: 0xb9,
};
const PEER: &str = "10.0.0.2:5000";
const PEER_V6: &str = "[fd10::2]:5000";

fn deliver(table: &mut UdpTable, from: &str, to: &str, payload: &[u8]) -> Delivered {
    table.deliver(at(from), at(to), Delivery::Unicast, (FIELDS, payload))
}

#[test]
fn the_most_specific_socket_gets_it() {
    let mut table = UdpTable::new(1);
    let any = table.bind(None, 53).unwrap();
    let one = table.bind(Some(ip("10.0.0.1")), 53).unwrap();
    let connected = table.bind(Some(ip("10.0.0.9")), 53).unwrap();
    table.connect(connected, Some(at(PEER))).unwrap();
    let cases = [
        (PEER, "10.0.0.1:53", one),
        (PEER, "10.0.0.5:53", any),
        (PEER_V6, "[fd10::1]:53", any),
        (PEER, "10.0.0.9:53", connected),
        ("10.0.0.2:5001", "10.0.0.9:53", any),
    ];
    for (from, to, socket) in cases {
        assert_eq!(
            deliver(&mut table, from, to, b"x"),
            Delivered::Queued(socket),
            "{from} to {to}"
        );
        let received = table.receive(socket).unwrap().unwrap();
        assert_eq!((received.from, received.to), (at(from), at(to).ip()));
    }
    assert_eq!(
        deliver(&mut table, PEER, "10.0.0.1:54", b"x"),
        Delivered::NoSocket
    );
    assert_eq!(table.counters().no_socket, 1);
}

#[test]
fn each_family_has_sockets_of_its_own() {
    let mut table = UdpTable::new(1);
    let v4 = table.bind(Some(ip("0.0.0.0")), 53).unwrap();
    let v6 = table.bind(Some(ip("::")), 53).unwrap();
    let one = table.bind(Some(ip("10.0.0.1")), 53).unwrap();
    assert_eq!(table.bind(None, 53), Err(UdpError::PortTaken(53)));
    for (from, to, socket) in [
        (PEER, "10.0.0.5:53", v4),
        (PEER, "10.0.0.1:53", one),
        (PEER_V6, "[fd10::1]:53", v6),
    ] {
        let taken = deliver(&mut table, from, to, b"x");
        assert_eq!(taken, Delivered::Queued(socket), "{from} to {to}");
    }
    table.close(v6).unwrap();
    let nobody = deliver(&mut table, PEER_V6, "[fd10::1]:53", b"x");
    assert_eq!(nobody, Delivered::NoSocket);
    table.receive(v4).unwrap();
    table.deliver(
        at(PEER),
        at("10.0.0.255:53"),
        Delivery::Broadcast,
        (FIELDS, b"all"),
    );
    assert_eq!(table.receive(v4).unwrap().unwrap().payload, b"all");
}

#[test]
fn sockets_share_a_port_if_all_of_them_say_so() {
    let one = Some(ip("10.0.0.1"));
    for sharing in [Sharing::Last, Sharing::Spread] {
        let mut table = UdpTable::new(1);
        let sockets = [(); 3].map(|()| table.bind_shared(one, 53, Some(sharing)).unwrap());
        assert!(table.bind(one, 53).is_err());
        let mut counts = [0; 3];
        for port in 1..=300 {
            let from = SocketAddr::new(ip("10.0.0.2"), port);
            let first = table.deliver(from, at("10.0.0.1:53"), Delivery::Unicast, (FIELDS, b"x"));
            let again = table.deliver(from, at("10.0.0.1:53"), Delivery::Unicast, (FIELDS, b"x"));
            assert_eq!(first, again, "a flow is one socket's");
            let taker = sockets
                .iter()
                .position(|socket| first == Delivered::Queued(*socket));
            counts[taker.expect("one of them")] += 1;
        }
        match sharing {
            Sharing::Last => assert_eq!(counts, [0, 0, 300]),
            Sharing::Spread => assert!(counts.iter().all(|count| *count > 60), "{counts:?}"),
        }
        // The one that is connected is the only one that hears its peer.
        table.connect(sockets[0], Some(at(PEER))).unwrap();
        let taker = deliver(&mut table, PEER, "10.0.0.1:53", b"x");
        assert_eq!(taker, Delivered::Queued(sockets[0]));
    }
    let mut table = UdpTable::new(1);
    table.bind_shared(one, 53, Some(Sharing::Last)).unwrap();
    assert!(table.bind_shared(one, 53, Some(Sharing::Spread)).is_err());
}

#[test]
fn group_datagrams_reach_everybody_who_fits() {
    let mut table = UdpTable::new(1);
    let a = table.bind(None, 5353).unwrap();
    let b = table.bind(Some(ip("10.0.0.1")), 5353).unwrap();
    let elsewhere = table.bind(Some(ip("10.0.0.1")), 5354).unwrap();
    table.deliver(
        at(PEER),
        at("10.0.0.255:5353"),
        Delivery::Broadcast,
        (FIELDS, b"all"),
    );
    for socket in [a, b] {
        assert_eq!(table.receive(socket).unwrap().unwrap().payload, b"all");
    }
    assert_eq!(table.receive(elsewhere).unwrap(), None);
    // A socket of the one family hears no group of the other.
    table.deliver(
        at(PEER_V6),
        at("[ff02::fb]:5353"),
        Delivery::Multicast,
        (FIELDS, b"all"),
    );
    assert_eq!(table.receive(a).unwrap().unwrap().payload, b"all");
    assert_eq!(table.receive(b).unwrap(), None);
}

/// A program with many sockets asks none of them in vain.
#[test]
fn sockets_with_datagrams_are_told_once_for_all_that_came() {
    let mut table = UdpTable::new(1);
    let [a, b, closed] = [1, 2, 3].map(|port| table.bind(None, port).unwrap());
    assert_eq!(table.poll_readable(), None);
    for to in ["10.0.0.1:3", "10.0.0.1:2", "10.0.0.1:1", "10.0.0.1:2"] {
        deliver(&mut table, PEER, to, b"x");
    }
    table.close(closed).unwrap();
    assert_eq!(table.poll_readable(), Some(b));
    // What comes after it was told is told again, whether or not what was there has been taken.
    deliver(&mut table, PEER, "10.0.0.1:2", b"x");
    let told = [(); 3].map(|()| table.poll_readable());
    assert_eq!(told, [Some(a), Some(b), None]);
}

#[test]
fn addresses_and_ports_are_bound_once() {
    let mut table = UdpTable::new(1);
    let any = table.bind(None, 53).unwrap();
    assert_eq!(
        table.bind(Some(ip("0.0.0.0")), 53),
        Err(UdpError::PortTaken(53)),
        "any has all of a family"
    );
    table.bind(Some(ip("10.0.0.1")), 53).unwrap();
    assert_eq!(
        table.bind(Some(ip("10.0.0.1")), 53),
        Err(UdpError::PortTaken(53))
    );
    table.close(any).unwrap();
    let again = table.bind(None, 53).unwrap();
    assert_ne!(any, again, "names do not come back");
    assert_eq!(table.receive(any), Err(UdpError::Closed));
    assert_eq!(table.close(any), Err(UdpError::Closed));
}

#[test]
fn dynamic_ports_run_out_with_an_error() {
    let mut table = UdpTable::new(1);
    let mut ports = std::collections::BTreeSet::new();
    for _ in 0..UDP_SOCKETS_MAX {
        let socket = table.bind(None, 0).unwrap();
        ports.insert(table.local(socket).unwrap().1);
    }
    assert_eq!(ports.len(), UDP_SOCKETS_MAX);
    assert!(*ports.first().unwrap() >= EPHEMERAL_FIRST);
    assert_eq!(
        table.bind(None, 0),
        Err(UdpError::TooManySockets(UDP_SOCKETS_MAX))
    );
    let first = |seed| {
        let mut table = UdpTable::new(seed);
        let socket = table.bind(None, 0).unwrap();
        table.local(socket).unwrap().1
    };
    assert_eq!(first(3), first(3));
    assert_ne!(first(3), first(4));
}

#[test]
fn a_full_queue_drops_the_newest() {
    let mut table = UdpTable::new(1);
    let socket = table.bind(None, 53).unwrap();
    let fit = UDP_QUEUE_BYTES_MAX / (1000 + UDP_DATAGRAM_OVERHEAD);
    for i in 0..fit {
        let payload = vec![i as u8; 1000];
        assert_eq!(
            deliver(&mut table, PEER, "10.0.0.1:53", &payload),
            Delivered::Queued(socket)
        );
    }
    assert_eq!(
        deliver(&mut table, PEER, "10.0.0.1:53", &[0; 1000]),
        Delivered::Full
    );
    assert_eq!(
        (table.dropped(socket), table.counters().queue_full),
        (Ok(1), 1)
    );
    for i in 0..fit {
        assert_eq!(table.receive(socket).unwrap().unwrap().payload[0], i as u8);
    }
    assert_eq!(table.receive(socket).unwrap(), None);
    assert_eq!(
        deliver(&mut table, PEER, "10.0.0.1:53", &[0; 1000]),
        Delivered::Queued(socket)
    );
}

#[test]
fn connecting_drops_what_waits_from_others() {
    let mut table = UdpTable::new(1);
    let socket = table.bind(None, 53).unwrap();
    deliver(&mut table, "10.0.0.3:1", "10.0.0.1:53", b"forged");
    deliver(&mut table, PEER, "10.0.0.1:53", b"true");
    table.connect(socket, Some(at(PEER))).unwrap();
    assert_eq!(table.receive(socket).unwrap().unwrap().payload, b"true");
    assert_eq!(table.receive(socket).unwrap(), None);
    assert_eq!(
        deliver(&mut table, "10.0.0.3:1", "10.0.0.1:53", b"forged"),
        Delivered::NoSocket
    );
}

#[test]
fn sending_is_described_or_refused() {
    let mut table = UdpTable::new(1);
    let any = table.bind(None, 53).unwrap();
    let v4 = table.bind(Some(ip("10.0.0.1")), 54).unwrap();
    let slice = |len| Buffer::from(vec![7; len]).slice(0..len);
    let out = table
        .send(any, Some(ip("10.0.0.8")), at(PEER), slice(3))
        .unwrap();
    assert_eq!(
        (out.src, out.src_port, out.dst),
        (Some(ip("10.0.0.8")), 53, at(PEER))
    );
    assert_eq!(
        table.send(v4, None, at(PEER), slice(0)).unwrap().src,
        Some(ip("10.0.0.1"))
    );
    for bad in ["10.0.0.2:0", "0.0.0.0:9", PEER_V6] {
        assert_eq!(
            table.send(v4, None, at(bad), slice(1)).unwrap_err(),
            UdpError::BadDestination(at(bad))
        );
    }
    for (to, max) in [(PEER, 65_507), (PEER_V6, 65_527)] {
        assert!(table.send(any, None, at(to), slice(max)).is_ok());
        let refused = table.send(any, None, at(to), slice(max + 1)).unwrap_err();
        assert_eq!(refused, UdpError::TooLong { len: max + 1, max });
    }
    // As on Linux: a connected socket hears its peer alone, and sends to others where it is told to.
    table.connect(any, Some(at(PEER))).unwrap();
    let other = at("10.0.0.3:5000");
    assert_eq!(table.send(any, None, other, slice(1)).unwrap().dst, other);
    // Of all addresses of a family the stack chooses one.
    for (family, good, bad) in [("0.0.0.0", PEER, PEER_V6), ("::", PEER_V6, PEER)] {
        let all = table.bind(Some(ip(family)), 55).unwrap();
        assert_eq!(table.send(all, None, at(good), slice(1)).unwrap().src, None);
        assert!(table.send(all, None, at(bad), slice(1)).is_err());
    }
}

#[test]
fn icmp_errors_reach_the_socket() {
    let mut table = UdpTable::new(1);
    let socket = table.bind(None, 53).unwrap();
    let kind = ErrorKind::Hard(Reason::PortUnreachable);
    let (local, remote) = (ip("10.0.0.1"), ip("10.0.0.2"));
    let error = IcmpError {
        kind,
        local,
        remote,
        protocol: 17,
        local_port: 53,
        remote_port: 5000,
        seq: None,
    };
    assert_eq!(table.handle_error(&error), Some(socket));
    assert_eq!(table.take_error(socket), Ok(Some((at(PEER), kind))));
    assert_eq!(table.take_error(socket), Ok(None));
    assert_eq!(
        table.handle_error(&IcmpError {
            local_port: 99,
            ..error
        }),
        None
    );
    // A connected socket hears of its own remote only.
    table.connect(socket, Some(at("10.0.0.3:1"))).unwrap();
    assert_eq!(table.handle_error(&error), None);
}

/// Every combination of family, checksum and trust in the link.
#[test]
fn checksum_rules() {
    for (src, dst) in [("10.0.0.2", "10.0.0.1"), ("fd10::2", "fd10::1")] {
        let (src, dst) = (ip(src), ip(dst));
        let payload = b"datagram";
        let mut good = vec![0; 16];
        good[8..].copy_from_slice(payload);
        let sum = Sum::pseudo(src, dst, protocol::UDP, 16).plus(Sum::of(payload));
        UdpHeader {
            src_port: 1,
            dst_port: 2,
        }
        .emit(payload.len(), sum, &mut good);
        let mut none = good.clone();
        none[6..8].fill(0);
        let mut bad = good.clone();
        bad[9] ^= 1;
        let parsed = |segment: &[u8], verified| {
            parse(src, dst, segment, verified).map(|v| v.payload().to_vec())
        };
        assert_eq!(parsed(&good, false).unwrap(), payload);
        assert_eq!(parsed(&bad, false), Err(UdpDrop::BadChecksum));
        assert!(parsed(&bad, true).is_ok(), "the link has looked");
        for verified in [false, true] {
            let absent = if src.is_ipv4() {
                Ok(payload.to_vec())
            } else {
                Err(UdpDrop::MissingChecksum)
            };
            assert_eq!(parsed(&none, verified), absent);
        }
        assert_eq!(parsed(&good[..7], false), Err(UdpDrop::Malformed));
        assert_eq!(parsed(&good[..15], false), Err(UdpDrop::Malformed));
    }
}

/// A socket that is to hold more holds more.
#[test]
fn a_queue_is_as_long_as_it_is_to_be() {
    let mut table = UdpTable::new(1);
    let [short, long] = [7, 8].map(|port| table.bind(None, port).unwrap());
    table.set_queue_len(long, 4 * UDP_QUEUE_BYTES_MAX).unwrap();
    let from = SocketAddr::from(([10, 0, 0, 2], 9));
    let payload = vec![0; UDP_QUEUE_BYTES_MAX / 2];
    for (socket, port, fits) in [(short, 7, 1), (long, 8, 7)] {
        let to = SocketAddr::from(([10, 0, 0, 1], port));
        for _ in 0..10 {
            let content = (HeaderFields::default(), &payload[..]);
            table.deliver(from, to, Delivery::Unicast, content);
        }
        assert_eq!(table.dropped(socket), Ok(10 - fits));
    }
}
