//! Traces of hand-made frames.

use super::*;
use exos_wire::SeqNumber;
use exos_wire::arp::ArpPacket;
use exos_wire::ethernet::{ETHERTYPE_ARP, ETHERTYPE_IPV4, ETHERTYPE_IPV6, EthernetHeader};
use exos_wire::icmpv4::Icmpv4;
use exos_wire::icmpv6::{Icmpv6, ndp::NeighborSolicitation};
use exos_wire::ipv4::Ipv4Header;
use exos_wire::ipv6::Ipv6Header;
use exos_wire::tcp::{TcpFlags, TcpHeader, TcpOptions};
use exos_wire::{Mac, protocol};
use std::net::Ipv4Addr;

const CLIENT: Mac = Mac([2, 0, 0, 0, 0, 1]);
const SERVER: Mac = Mac([2, 0, 0, 0, 0, 2]);

fn framed(ethertype: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; 14];
    EthernetHeader {
        dst: SERVER,
        src: CLIENT,
        vlan: None,
        ethertype,
    }
    .emit(&mut frame);
    frame.extend(payload);
    frame
}

fn over_v4(src: &str, dst: &str, protocol: u8, more_fragments: bool, payload: &[u8]) -> Vec<u8> {
    let (src, dst) = (src.parse().unwrap(), dst.parse().unwrap());
    let header = Ipv4Header {
        src,
        dst,
        protocol,
        ttl: 64,
        tos: 0,
        ident: 9,
        dont_fragment: false,
        more_fragments,
        fragment_offset: 0,
    };
    let mut packet = vec![0; 20];
    header.emit(payload.len(), &mut packet);
    packet.extend(payload);
    framed(ETHERTYPE_IPV4, &packet)
}

fn over_v6(src: &str, dst: &str, next_header: u8, payload: &[u8]) -> Vec<u8> {
    let (src, dst) = (src.parse().unwrap(), dst.parse().unwrap());
    let mut packet = vec![0; 40];
    let header = Ipv6Header {
        src,
        dst,
        next_header,
        hop_limit: 64,
        traffic_class: 0,
        flow_label: 0,
    };
    header.emit(payload.len(), &mut packet);
    packet.extend(payload);
    framed(ETHERTYPE_IPV6, &packet)
}

fn segment(
    ports: (u16, u16),
    seq: u32,
    ack: u32,
    flags: TcpFlags,
    options: &TcpOptions,
    len: usize,
) -> Vec<u8> {
    let header = TcpHeader {
        src_port: ports.0,
        dst_port: ports.1,
        seq: SeqNumber(seq),
        ack: SeqNumber(ack),
        flags,
        window: 512,
        urgent: 0,
    };
    let mut bytes = vec![0; 60];
    let header_len = header.emit(options, &mut bytes);
    bytes.truncate(header_len);
    bytes.resize(header_len + len, 0);
    bytes
}

fn trace() -> Trace {
    let mut trace = Trace::new();
    for (addr, name) in [
        ("10.0.0.1", "client"),
        ("10.0.0.2", "server"),
        ("fd10::1", "client"),
        ("fd10::2", "server"),
    ] {
        trace.name(addr.parse().unwrap(), name);
    }
    trace
}

const SYN_ACK: TcpFlags = TcpFlags::SYN.union(TcpFlags::ACK);
const PUSH_ACK: TcpFlags = TcpFlags::PSH.union(TcpFlags::ACK);

/// A handshake whose sequence numbers wrap, a lost segment and its selective acknowledgement.
fn conversation() -> Trace {
    let mut trace = trace();
    let mut record =
        |micros, fate, there: bool, seq: u32, ack: u32, flags, options: &TcpOptions, len| {
            let (src, dst, ports) = if there {
                ("10.0.0.1", "10.0.0.2", (49152, 80))
            } else {
                ("10.0.0.2", "10.0.0.1", (80, 49152))
            };
            let bytes = segment(ports, seq, ack, flags, options, len);
            trace.record(
                Instant::from_micros(micros),
                &over_v4(src, dst, protocol::TCP, false, &bytes),
                fate,
            );
        };
    let none = TcpOptions::NONE;
    let mut sack = TcpOptions::NONE;
    sack.sack.push(SeqNumber(1099), SeqNumber(2099));
    let mss = TcpOptions {
        mss: Some(1460),
        window_scale: Some(7),
        sack_permitted: true,
        ..none
    };
    record(0, Fate::Dropped, true, u32::MAX, 0, TcpFlags::SYN, &mss, 0);
    record(
        1_000_000,
        Fate::Delivered,
        true,
        u32::MAX,
        0,
        TcpFlags::SYN,
        &mss,
        0,
    );
    record(1_010_000, Fate::Delivered, false, 5000, 0, SYN_ACK, &mss, 0);
    record(
        1_020_000,
        Fate::Corrupted,
        true,
        0,
        5001,
        PUSH_ACK,
        &none,
        1000,
    );
    record(
        1_020_250,
        Fate::Delivered,
        true,
        1000,
        5001,
        PUSH_ACK,
        &none,
        1000,
    );
    record(
        1_030_250,
        Fate::Delivered,
        false,
        5001,
        0,
        TcpFlags::ACK,
        &sack,
        0,
    );
    trace
}

#[test]
fn tcp_reads_like_a_story() {
    let expected = "
        # Blank lines, comments and spaces do not matter.
        0.000     client > server S  seq 0                 (dropped)

        1.000     client > server S  seq 0
        1.010     server > client S. seq 0 ack 1
        1.020     client > server P. seq 1 ack 1 len 1000  (corrupted)
        1.020250  client > server P. seq 1001 ack 1 len 1000
        1.030250  server > client .  seq 1 ack 1 sack 1100:2100
    ";
    conversation().compare(expected).unwrap();
    assert_eq!(
        conversation().lines()[2..4].join("\n"),
        "1.010  server > client    S.  seq 0 ack 1\n1.020  client > server    P.  seq 1 ack 1 len 1000 (corrupted)"
    );
}

#[test]
fn style_shows_more() {
    let mut trace = conversation();
    trace.set_style(Style {
        windows: true,
        ports: true,
        options: true,
        ..Style::default()
    });
    let line = "1.000  client.49152 > server.80  S   seq 0 win 512 mss 1460 wscale 7 sackOK";
    assert_eq!(trace.lines()[1], line);
}

#[test]
fn a_difference_is_shown_in_place() {
    let expected = "
        0.000 client > server S seq 0 (dropped)
        1.000 client > server S seq 0
        1.015 server > client S. seq 0 ack 1
        1.020 client > server P. seq 1 ack 1 len 1000 (corrupted)
        1.020250 client > server P. seq 1001 ack 1 len 1000
        1.030250 server > client . seq 1 ack 1 sack 1100:2100
        2.000 client > server . seq 2001 ack 1
    ";
    let message = conversation().compare(expected).unwrap_err();
    let (diff, whole) = message.split_once("the whole trace:").unwrap();
    assert_eq!(
        diff,
        "the trace is not what was expected (- missing, + unexpected):
    0.000 client > server S seq 0 (dropped)
    1.000 client > server S seq 0
  - 1.015 server > client S. seq 0 ack 1
  + 1.010 server > client S. seq 0 ack 1
    1.020 client > server P. seq 1 ack 1 len 1000 (corrupted)
    1.020250 client > server P. seq 1001 ack 1 len 1000
    1.030250 server > client . seq 1 ack 1 sack 1100:2100
  - 2.000 client > server . seq 2001 ack 1
"
    );
    assert_eq!(whole.lines().count(), 7);
}

fn arp(operation: u16, sender: (Mac, Ipv4Addr), target: (Mac, Ipv4Addr)) -> Vec<u8> {
    let mut packet = vec![0; 28];
    ArpPacket {
        operation,
        sender_mac: sender.0,
        sender_ip: sender.1,
        target_mac: target.0,
        target_ip: target.1,
    }
    .emit(&mut packet);
    packet
}

/// A frame of each protocol but TCP, and one of none.
fn frames_of_each() -> Vec<Vec<u8>> {
    let (client, server) = ("10.0.0.1", "10.0.0.2");
    let [ours, theirs] = [client, server].map(|ip| ip.parse().unwrap());
    let question = arp(1, (CLIENT, ours), (Mac::ZERO, theirs));
    let answer = arp(2, (SERVER, theirs), (CLIENT, ours));
    let mut ping = vec![0; 8 + 56];
    Icmpv4::EchoRequest {
        ident: 7,
        seq: 1,
        data: &[0; 56],
    }
    .emit(&mut ping);
    let quoted = [0x45; 28];
    let mut unreachable = vec![0; 8 + 28];
    Icmpv4::Unreachable {
        code: 3,
        mtu: None,
        quoted: &quoted,
    }
    .emit(&mut unreachable);
    let solicitation = NeighborSolicitation {
        target: "fd10::2".parse().unwrap(),
        source_mac: Some(CLIENT),
    };
    let mut asked = vec![0; 32];
    let group = "ff02::1:ff00:2";
    Icmpv6::NeighborSolicitation(solicitation).emit(
        &"fd10::1".parse().unwrap(),
        &group.parse().unwrap(),
        &mut asked,
    );
    let mut udp = vec![0; 8 + 1000];
    udp[..8].copy_from_slice(&[0x13, 0x88, 0, 53, 3, 0xf0, 0, 0]);
    vec![
        framed(ETHERTYPE_ARP, &question),
        framed(ETHERTYPE_ARP, &answer),
        over_v4(client, server, protocol::ICMP, false, &ping),
        over_v4(server, client, protocol::ICMP, false, &unreachable),
        over_v6("fd10::1", group, protocol::ICMPV6, &asked),
        over_v4(client, "10.0.0.255", protocol::UDP, false, &udp),
        over_v4(client, server, protocol::UDP, true, &udp[..800]),
        over_v4(client, server, 99, false, &[0; 10]),
        framed(0x88cc, &[0; 46]),
        vec![1, 2, 3],
    ]
}

#[test]
fn other_protocols() {
    let mut trace = trace();
    for frame in frames_of_each() {
        trace.record(Instant::START, &frame, Fate::Delivered);
    }
    let expected = "
        0.000 client > server arp who-has server
        0.000 server > client arp server is-at 02:00:00:00:00:02
        0.000 client > server icmp echo request id 7 seq 1 len 56
        0.000 server > client icmp port unreachable
        0.000 client > ff02::1:ff00:2 icmp6 who-has server
        0.000 client > 10.0.0.255 udp 5000 > 53 len 1000
        0.000 client > server fragment protocol 17 offset 0 len 800 more
        0.000 client > server protocol 99 len 10
        0.000 02:00:00:00:00:01 > 02:00:00:00:00:02 ethertype 0x88cc
        0.000 ? unreadable frame of 3 bytes
    ";
    trace.compare(expected).unwrap();
    trace.set_style(Style {
        hide_neighbors: true,
        ..Style::default()
    });
    assert_eq!(trace.lines().len(), 7);
}
