//! The small values: Ethernet addresses, sequence numbers, TCP flags, errors.

use std::net::{Ipv4Addr, Ipv6Addr};

use exos_wire::tcp::TcpFlags;
use exos_wire::udp::UdpView;
use exos_wire::{Mac, SeqNumber, WireError, ndp};
use proptest::prelude::*;

#[test]
fn mac_kinds() {
    let unicast = Mac([0x02, 0, 0, 0, 0, 1]);
    assert!(unicast.is_unicast() && !unicast.is_multicast() && !unicast.is_broadcast());
    assert!(Mac::BROADCAST.is_broadcast() && Mac::BROADCAST.is_multicast());
    assert!(!Mac::BROADCAST.is_unicast());
    assert!(!Mac::ZERO.is_unicast() && !Mac::ZERO.is_multicast());
    assert!(Mac([1, 0, 0x5e, 0, 0, 1]).is_multicast());
}

/// RFC 1112 §6.4 drops nine bits of the group, RFC 2464 §7 keeps the last four bytes.
#[test]
fn mac_of_groups() {
    let mdns = Mac::multicast_v4(Ipv4Addr::new(224, 0, 0, 251));
    assert_eq!(mdns.to_string(), "01:00:5e:00:00:fb");
    assert_eq!(mdns, Mac::multicast_v4(Ipv4Addr::new(239, 128, 0, 251)));
    let all_nodes: Ipv6Addr = "ff02::1".parse().unwrap();
    assert_eq!(
        Mac::multicast_v6(&all_nodes).to_string(),
        "33:33:00:00:00:01"
    );
}

/// RFC 4291 §2.7.1 gives this pair.
#[test]
fn solicited_node_group() {
    let address: Ipv6Addr = "4037::01:800:200e:8c6c".parse().unwrap();
    let group: Ipv6Addr = "ff02::1:ff0e:8c6c".parse().unwrap();
    assert_eq!(ndp::solicited_node(&address), group);
}

#[test]
fn mac_text() {
    let mac = Mac([0x02, 0xab, 0xcd, 0, 0x10, 0xff]);
    for text in [
        "02:ab:cd:00:10:ff",
        "02:AB:CD:00:10:FF",
        "02-ab-cd-00-10-ff",
    ] {
        assert_eq!(text.parse(), Ok(mac));
    }
    let wrong = [
        "",
        "02",
        "02:ab:cd:00:10",
        "02:ab:cd:00:10:ff:00",
        "2:ab:cd:0:10:ff",
        "+2:ab:cd:00:10:ff",
    ];
    for text in wrong.iter().chain(&[
        "02:ab:cd:00:10:fg",
        "02:ab:cd:00:10:ff ",
        "02:äb:cd:00:10:f",
    ]) {
        let error = text.parse::<Mac>().unwrap_err();
        assert!(error.to_string().contains("02:00:5e:10:00:01"), "{text}");
    }
}

#[test]
fn seq_numbers_wrap() {
    let (before, after) = (SeqNumber(0xffff_fff0), SeqNumber(0x10));
    assert_eq!(before + 0x20, after);
    assert_eq!(after - 0x20, before);
    assert_eq!(after - before, 0x20);
    assert_eq!(before - after, -0x20);
    assert!(before.lt(after) && before.le(after) && after.gt(before) && after.ge(before));
    assert!(!after.lt(after) && after.le(after) && after.ge(after) && !after.gt(after));
    assert_eq!((before.max(after), before.min(after)), (after, before));
    let mut moving = before;
    moving += 0x20;
    assert_eq!(moving, after);
}

#[test]
fn flags_read_as_tcpdump_prints_them() {
    let table = [
        (TcpFlags::NONE, "none"),
        (TcpFlags::SYN, "S"),
        (TcpFlags::SYN | TcpFlags::ACK, "S."),
        (TcpFlags::FIN | TcpFlags::PSH | TcpFlags::ACK, "FP."),
        (TcpFlags::RST | TcpFlags::ACK, "R."),
        (TcpFlags::PSH | TcpFlags::ACK | TcpFlags::URG, "P.U"),
        (TcpFlags::SYN | TcpFlags::ECE | TcpFlags::CWR, "SEW"),
        (TcpFlags(0xff), "FSRP.UEW"),
    ];
    for (flags, text) in table {
        assert_eq!(flags.to_string(), text);
    }
}

#[test]
fn flag_sets() {
    let syn_ack = TcpFlags::SYN | TcpFlags::ACK;
    assert!(syn_ack.contains(TcpFlags::SYN) && syn_ack.contains(syn_ack));
    assert!(!TcpFlags::SYN.contains(syn_ack) && TcpFlags::SYN.intersects(syn_ack));
    assert!(!syn_ack.intersects(TcpFlags::FIN | TcpFlags::RST));
    assert!(syn_ack.contains(TcpFlags::NONE) && !syn_ack.intersects(TcpFlags::NONE));
    let mut flags = TcpFlags::NONE;
    flags |= syn_ack;
    assert_eq!(flags, syn_ack);
}

#[test]
fn errors_name_their_layer_and_reason() {
    let error = UdpView::parse(&[0; 7]).unwrap_err();
    assert_eq!(
        error,
        WireError::Truncated {
            layer: "udp",
            need: 8,
            have: 7
        }
    );
    assert_eq!((error.layer(), error.name()), ("udp", "truncated"));
    assert_eq!(
        error.to_string(),
        "udp: cut off: 7 bytes where 8 are needed"
    );
    let error = UdpView::parse(&[0; 8]).unwrap_err();
    assert_eq!((error.layer(), error.name()), ("udp", "bad_length"));
    assert_eq!(WireError::TooManyHeaders { max: 8 }.layer(), "ipv6");
}

proptest! {
    #[test]
    fn mac_text_round_trips(bytes in any::<[u8; 6]>()) {
        prop_assert_eq!(Mac(bytes).to_string().parse(), Ok(Mac(bytes)));
    }

    /// Exactly one of before, equal, after, but at the one distance where both are before.
    #[test]
    fn seq_order_is_a_trichotomy(a in any::<u32>(), distance in any::<u32>()) {
        prop_assume!(distance != 1 << 31);
        let (a, b) = (SeqNumber(a), SeqNumber(a) + distance);
        prop_assert_eq!([a.lt(b), a == b, a.gt(b)].iter().filter(|is| **is).count(), 1);
        prop_assert_eq!(a.le(b), !a.gt(b));
        prop_assert_eq!(a.ge(b), !a.lt(b));
        prop_assert_eq!(b - a, distance.cast_signed());
    }
}
