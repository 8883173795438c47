//! ICMP: who is answered, with what, how often; and what received errors mean.

use super::*;
use crate::time::Duration;
use exos_wire::icmpv6::ndp;
use exos_wire::ipv4::Ipv4Header;
use exos_wire::ipv6::Ipv6Header;
use exos_wire::{SeqNumber, ipv6::FragmentHeader};

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn routes() -> Routes {
    let mut routes = Routes::new();
    routes.add_address(ip("10.0.0.1"), 24).unwrap();
    routes.add_address(ip("fd10::1"), 64).unwrap();
    routes.add_address(ip("fe80::1"), 64).unwrap();
    routes.set_default(ip("10.0.0.254")).unwrap();
    routes.set_default(ip("fe80::254")).unwrap();
    routes
}

/// An IP packet with 8 bytes `upper` first and `len` bytes in all above IP.
fn packet(src: &str, dst: &str, protocol: u8, upper: [u8; 8], len: usize) -> Vec<u8> {
    let mut out = match (ip(src), ip(dst)) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let header = Ipv4Header {
                src,
                dst,
                protocol,
                ttl: 64,
                tos: 0,
                ident: 1,
                dont_fragment: true,
                more_fragments: false,
                fragment_offset: 0,
            };
            let mut out = vec![0; ipv4::LEN];
            header.emit(len, &mut out);
            out
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            let header = Ipv6Header {
                src,
                dst,
                next_header: protocol,
                hop_limit: 64,
                traffic_class: 0,
                flow_label: 0,
            };
            let mut out = vec![0; ipv6::LEN];
            header.emit(len, &mut out);
            out
        }
        _ => panic!("two families"),
    };
    out.extend(upper);
    out.resize(out.len() + len - 8, 0xaa);
    out
}

fn say(packet: &[u8], problem: Problem, group_frame: bool) -> Result<IcmpPacket, Silence> {
    IcmpSender::new(Instant::START).error(Instant::START, packet, problem, &routes(), group_frame)
}

const PORTS: [u8; 8] = [0x13, 0x88, 0, 53, 0, 108, 0, 0];
const PORT: Problem = Problem::PortUnreachable;

/// RFC 1122 §3.2.2 and RFC 4443 §2.4(e), case by case.
#[test]
fn who_is_not_answered() {
    use Silence::*;
    let udp = |src, dst| packet(src, dst, 17, PORTS, 108);
    let icmp = |kind| packet("10.0.0.2", "10.0.0.1", 1, [kind, 0, 0, 0, 0, 0, 0, 0], 108);
    let icmp6 = |kind| packet("fd10::2", "fd10::1", 58, [kind, 0, 0, 0, 0, 0, 0, 0], 108);
    let later = {
        let mut p = udp("10.0.0.2", "10.0.0.1");
        p[6..8].copy_from_slice(&[0x00, 0x10]);
        p
    };
    let later6 = {
        let mut fragment = [0; 8];
        FragmentHeader {
            next_header: 17,
            offset: 64,
            more: true,
            ident: 1,
        }
        .emit(&mut fragment);
        packet("fd10::2", "fd10::1", 44, fragment, 72)
    };
    let table = [
        ("udp", udp("10.0.0.2", "10.0.0.1"), None),
        ("udp6", udp("fd10::2", "fd10::1"), None),
        ("far udp", udp("8.8.8.8", "10.0.0.1"), None),
        ("to broadcast", udp("10.0.0.2", "10.0.0.255"), Some(ToGroup)),
        (
            "to all ones",
            udp("10.0.0.2", "255.255.255.255"),
            Some(ToGroup),
        ),
        ("to group", udp("10.0.0.2", "224.0.0.1"), Some(ToGroup)),
        ("to group6", udp("fd10::2", "ff02::1"), Some(ToGroup)),
        ("from nobody", udp("0.0.0.0", "10.0.0.1"), Some(BadSource)),
        (
            "from broadcast",
            udp("10.0.0.255", "10.0.0.1"),
            Some(BadSource),
        ),
        ("from group", udp("224.0.0.9", "10.0.0.1"), Some(BadSource)),
        (
            "from loopback",
            udp("127.0.0.1", "10.0.0.1"),
            Some(BadSource),
        ),
        (
            "from class E",
            udp("250.0.0.1", "10.0.0.1"),
            Some(BadSource),
        ),
        ("from ourselves", udp("10.0.0.1", "10.0.0.1"), None),
        ("from nobody6", udp("::", "fd10::1"), Some(BadSource)),
        ("from group6", udp("ff02::9", "fd10::1"), Some(BadSource)),
        ("from loopback6", udp("::1", "fd10::1"), Some(BadSource)),
        ("echo request", icmp(8), None),
        ("unreachable", icmp(3), Some(AboutError)),
        ("redirect", icmp(5), Some(AboutError)),
        ("time exceeded", icmp(11), Some(AboutError)),
        ("unknown type", icmp(77), Some(AboutError)),
        ("echo request6", icmp6(128), None),
        ("unreachable6", icmp6(1), Some(AboutError)),
        ("unknown error6", icmp6(99), Some(AboutError)),
        ("redirect6", icmp6(137), Some(AboutError)),
        ("later fragment", later, Some(LaterFragment)),
        ("later fragment6", later6, Some(LaterFragment)),
        ("nothing", vec![], Some(Unreadable)),
        ("noise", vec![0x55; 40], Some(Unreadable)),
        ("cut", vec![0x45; 19], Some(Unreadable)),
    ];
    for (name, packet, silence) in table {
        assert_eq!(say(&packet, PORT, false).err(), silence, "{name}");
        if silence.is_none() {
            let by_group = say(&packet, PORT, true);
            assert_eq!(by_group.err(), Some(ToGroup), "{name}, group frame");
        }
    }
}

/// RFC 4443 §2.4(e.3): the one error about group traffic, from a unicast address.
#[test]
fn unknown_options_in_group_packets_are_answered() {
    let problem = Problem::Parameter {
        code: icmpv6::PARAMETER_OPTION,
        pointer: 42,
    };
    let asked = packet("fd10::2", "ff02::1", 17, PORTS, 108);
    assert_eq!(say(&asked, problem, true).unwrap().src, ip("fd10::1"));
}

#[test]
fn errors_quote_within_their_limits() {
    for (src, dst, max, overhead) in [
        ("10.0.0.2", "10.0.0.1", 576, 20),
        ("fd10::2", "fd10::1", 1280, 40),
    ] {
        for len in [8, 100, 548, 1232, 1460] {
            let about = packet(src, dst, 17, PORTS, len);
            // Link padding is not quoted.
            let padded = [about.as_slice(), &[0; 20]].concat();
            let error = say(&padded, PORT, false).unwrap();
            assert_eq!((error.src, error.dst), (ip(dst), ip(src)));
            let expected = (max - overhead - 8).min(about.len());
            assert_eq!(&error.message[8..], &about[..expected], "{src} {len}");
        }
    }
}

/// Every problem in both families, as type, code and the word after the checksum.
#[test]
fn problems_on_the_wire() {
    let table = [
        (PORT, (3, 3, 0), (1, 4, 0)),
        (
            Problem::ProtocolUnreachable { pointer: 6 },
            (3, 2, 0),
            (4, 1, 6),
        ),
        (Problem::ReassemblyTimeExceeded, (11, 1, 0), (3, 1, 0)),
        (
            Problem::Parameter {
                code: 0,
                pointer: 20,
            },
            (12, 0, 20 << 24),
            (4, 0, 20),
        ),
    ];
    for (problem, v4, v6) in table {
        let m = say(
            &packet("10.0.0.2", "10.0.0.1", 99, PORTS, 50),
            problem,
            false,
        )
        .unwrap()
        .message;
        let view = Icmpv4View::parse(&m).unwrap();
        assert!(view.checksum_ok());
        assert_eq!((view.kind(), view.code(), view.rest()), v4, "{problem:?}");
        let m = say(&packet("fd10::2", "fd10::1", 99, PORTS, 50), problem, false)
            .unwrap()
            .message;
        let view = Icmpv6View::parse(&m).unwrap();
        assert!(view.checksum_ok(&"fd10::1".parse().unwrap(), &"fd10::2".parse().unwrap()));
        assert_eq!((view.kind(), view.code(), view.rest()), v6, "{problem:?}");
    }
}

#[test]
fn the_rate_is_limited_and_recovers() {
    let mut sender = IcmpSender::new(Instant::START);
    let about = packet("10.0.0.2", "10.0.0.1", 17, PORTS, 108);
    let silent = packet("10.0.0.2", "10.0.0.255", 17, PORTS, 108);
    let mut burst = |now, count: usize, about: &[u8]| {
        (0..count)
            .filter(|_| sender.error(now, about, PORT, &routes(), false).is_ok())
            .count()
    };
    assert_eq!(burst(Instant::START, 1000, &silent), 0, "costs nothing");
    assert_eq!(
        burst(Instant::START, 1000, &about),
        ICMP_ERRORS_BURST as usize
    );
    // One thousand a second is one a millisecond.
    assert_eq!(burst(Instant::from_micros(999), 10, &about), 0);
    assert_eq!(burst(Instant::from_micros(1_000), 10, &about), 1);
    assert_eq!(burst(Instant::from_millis(11), 100, &about), 10);
    assert_eq!(
        burst(Instant::from_millis(100_000), 1000, &about),
        ICMP_ERRORS_BURST as usize
    );
}

#[test]
fn a_bucket_keeps_its_rate_for_any_pattern() {
    let mut bucket = TokenBucket::new(100, 5, Instant::START);
    let mut now = Instant::START;
    let mut granted = 0;
    for step in 0..100_000u64 {
        now += Duration::from_micros(step % 777);
        granted += u32::from(bucket.take(now));
    }
    let allowed = 5 + now.millis() as u32 / 10;
    assert!(
        granted <= allowed && granted + 2 >= allowed,
        "{granted} of {allowed}"
    );
}

#[test]
fn pings_are_answered_or_not() {
    let routes = routes();
    let request = |src, dst| echo(Echo::Request, ip(src), ip(dst), 7, 9, b"ping").message;
    let table = [
        ("10.0.0.2", "10.0.0.1", Delivery::Unicast, Some("10.0.0.1")),
        ("8.8.8.8", "10.0.0.1", Delivery::Unicast, Some("10.0.0.1")),
        ("10.0.0.2", "10.0.0.255", Delivery::Broadcast, None),
        ("10.0.0.2", "224.0.0.1", Delivery::Multicast, None),
        ("10.0.0.255", "10.0.0.1", Delivery::Unicast, None),
        ("fd10::2", "fd10::1", Delivery::Unicast, Some("fd10::1")),
        ("fd10::2", "ff02::1", Delivery::Multicast, Some("fd10::1")),
        ("fe80::2", "ff02::1", Delivery::Multicast, Some("fe80::1")),
        ("::", "fd10::1", Delivery::Unicast, None),
    ];
    for (src, dst, how, from) in table {
        let answer = answer_echo(ip(src), ip(dst), how, &request(src, dst), &routes);
        let expected = from.map(|from| echo(Echo::Reply, ip(from), ip(src), 7, 9, b"ping"));
        assert_eq!(answer, expected, "{src} to {dst}");
    }
    let reply = echo(Echo::Reply, ip("10.0.0.2"), ip("10.0.0.1"), 7, 9, b"pong").message;
    assert_eq!(
        answer_echo(
            ip("10.0.0.2"),
            ip("10.0.0.1"),
            Delivery::Unicast,
            &reply,
            &routes
        ),
        None
    );
}

/// A segment's ports and number, as the sender of an error quotes them.
const QUOTED: [u8; 8] = [0x1f, 0x90, 0xc0, 0x00, 0x12, 0x34, 0x56, 0x78];
const QUOTED_SEQ: Option<SeqNumber> = Some(SeqNumber(0x1234_5678));

/// What each type and code means to a transport.
#[test]
fn received_errors() {
    use ErrorKind::{Hard, Soft, TooBig};
    let sent = packet("10.0.0.1", "8.8.8.8", 6, QUOTED, 1480);
    let quoted = &sent[..28];
    let unreachable = |code, mtu| Icmpv4::Unreachable { code, mtu, quoted };
    let exceeded = |code| Icmpv4::TimeExceeded { code, quoted };
    let parameter = Icmpv4::ParameterProblem {
        code: 0,
        pointer: 1,
        quoted,
    };
    let redirect = Icmpv4::Redirect {
        code: 1,
        gateway: Ipv4Addr::new(10, 0, 0, 3),
        quoted,
    };
    let reply = Icmpv4::EchoReply {
        ident: 1,
        seq: 1,
        data: quoted,
    };
    let table = [
        (unreachable(0, None), Some(Soft(Reason::NetworkUnreachable))),
        (unreachable(1, None), Some(Soft(Reason::HostUnreachable))),
        (
            unreachable(2, None),
            Some(Hard(Reason::ProtocolUnreachable)),
        ),
        (unreachable(3, None), Some(Hard(Reason::PortUnreachable))),
        (unreachable(4, Some(1400)), Some(TooBig { mtu: 1400 })),
        (unreachable(4, Some(1)), Some(TooBig { mtu: 68 })),
        // RFC 1191 §5: an old router; the next plateau below the 1500 bytes sent.
        (unreachable(4, None), Some(TooBig { mtu: 1492 })),
        (unreachable(13, None), Some(Soft(Reason::Prohibited))),
        (unreachable(200, None), None),
        (exceeded(0), Some(Soft(Reason::HopLimitExceeded))),
        (exceeded(1), Some(Soft(Reason::ReassemblyTimeExceeded))),
        (parameter, Some(Soft(Reason::ParameterProblem))),
        (redirect, None),
        (reply, None),
    ];
    for (message, kind) in table {
        let bytes = pack_v4(ip("10.0.0.9"), Ipv4Addr::new(10, 0, 0, 1), &message).message;
        let error = received::parse_v4(&Icmpv4View::parse(&bytes).unwrap());
        assert_eq!(error.map(|e| e.kind), kind, "{message:?}");
        let Some(e) = error else { continue };
        assert_eq!((e.local, e.local_port), (ip("10.0.0.1"), 8080));
        assert_eq!((e.remote, e.remote_port), (ip("8.8.8.8"), 49152));
        assert_eq!((e.protocol, e.seq), (6, QUOTED_SEQ));
    }
}

#[test]
fn received_errors_of_ipv6() {
    use ErrorKind::{Hard, Soft, TooBig};
    let sent = packet("fd10::1", "2001:db8::8", 6, QUOTED, 1480);
    let quoted = &sent[..1232];
    let unreachable = |code| Icmpv6::Unreachable { code, quoted };
    let big = |mtu| Icmpv6::PacketTooBig { mtu, quoted };
    let exceeded = Icmpv6::TimeExceeded { code: 0, quoted };
    let parameter = |code| Icmpv6::ParameterProblem {
        code,
        pointer: 6,
        quoted,
    };
    let request = Icmpv6::EchoRequest {
        ident: 1,
        seq: 1,
        data: quoted,
    };
    let solicitation = Icmpv6::NeighborSolicitation(ndp::NeighborSolicitation {
        target: "fd10::1".parse().unwrap(),
        source_mac: None,
    });
    let table = [
        (unreachable(0), Some(Soft(Reason::NetworkUnreachable))),
        (unreachable(1), Some(Soft(Reason::Prohibited))),
        (unreachable(3), Some(Soft(Reason::HostUnreachable))),
        (unreachable(4), Some(Hard(Reason::PortUnreachable))),
        (unreachable(99), None),
        (big(1400), Some(TooBig { mtu: 1400 })),
        (big(100), Some(TooBig { mtu: 1280 })),
        (exceeded, Some(Soft(Reason::HopLimitExceeded))),
        (parameter(1), Some(Hard(Reason::ProtocolUnreachable))),
        (parameter(2), Some(Soft(Reason::ParameterProblem))),
        (request, None),
        (solicitation, None),
    ];
    for (message, kind) in table {
        let bytes = pack_v6(ip("fd10::9"), "fd10::1".parse().unwrap(), &message).message;
        let error = received::parse_v6(&Icmpv6View::parse(&bytes).unwrap());
        assert_eq!(error.map(|e| e.kind), kind, "{message:?}");
        let Some(e) = error else { continue };
        assert_eq!((e.local, e.local_port), (ip("fd10::1"), 8080));
        assert_eq!((e.remote, e.seq), (ip("2001:db8::8"), QUOTED_SEQ));
    }
}

/// Our own errors are read by ourselves, whatever is quoted; cut-off quotes never panic.
#[test]
fn what_we_send_we_can_read() {
    for (src, dst) in [("10.0.0.2", "10.0.0.1"), ("fd10::2", "fd10::1")] {
        let about = packet(src, dst, 17, PORTS, 108);
        let error = say(&about, PORT, false).unwrap();
        for cut in 0..=error.message.len() {
            let bytes = &error.message[..cut];
            let read = if error.src.is_ipv4() {
                Icmpv4View::parse(bytes)
                    .ok()
                    .and_then(|v| received::parse_v4(&v))
            } else {
                Icmpv6View::parse(bytes)
                    .ok()
                    .and_then(|v| received::parse_v6(&v))
            };
            let enough = 8 + if error.src.is_ipv4() { 28 } else { 48 };
            assert_eq!(read.is_some(), cut >= enough, "{cut}");
            if let Some(e) = read {
                assert_eq!(
                    (e.local, e.local_port, e.remote, e.remote_port),
                    (ip(src), 5000, ip(dst), 53)
                );
            }
        }
    }
}
