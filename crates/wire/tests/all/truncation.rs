//! Frames cut off at every length, and with every byte set to telling values: whatever is left is
//! read or refused, and what is refused says so truthfully.

use crate::common;

use common::captured;
use exos_wire::ethernet::{ETHERTYPE_ARP, ETHERTYPE_IPV4, ETHERTYPE_IPV6, EthernetView};
use exos_wire::icmpv4::Icmpv4View;
use exos_wire::icmpv6::Icmpv6View;
use exos_wire::ipv4::Ipv4View;
use exos_wire::ipv6::Ipv6View;
use exos_wire::quoted::Quoted;
use exos_wire::tcp::TcpView;
use exos_wire::udp::UdpView;
use exos_wire::{WireError, arp, ethernet, protocol};

/// Reads a frame as far as it goes, and says why it goes no further.
fn read(frame: &[u8]) -> Result<usize, WireError> {
    let frame = EthernetView::parse(frame)?;
    match frame.ethertype() {
        ETHERTYPE_ARP => arp::ArpView::parse(frame.payload()).map(|_| 0),
        ETHERTYPE_IPV4 => {
            let packet = Ipv4View::parse(frame.payload())?;
            packet
                .options_iter()
                .try_for_each(|option| option.map(|_| ()))?;
            match packet.is_fragment() {
                true => Ok(packet.payload().len()),
                false => upper(packet.protocol(), packet.payload()),
            }
        }
        ETHERTYPE_IPV6 => {
            let upper_layer = Ipv6View::parse(frame.payload())?.upper()?;
            match upper_layer.fragment {
                Some(_) => Ok(upper_layer.payload.len()),
                None => upper(upper_layer.protocol, upper_layer.payload),
            }
        }
        _ => Ok(frame.payload().len()),
    }
}

fn upper(number: u8, payload: &[u8]) -> Result<usize, WireError> {
    match number {
        protocol::TCP => TcpView::parse(payload).map(|segment| segment.payload().len()),
        protocol::UDP => UdpView::parse(payload).map(|datagram| datagram.payload().len()),
        protocol::ICMP => Icmpv4View::parse(payload).map(|message| message.body().len()),
        protocol::ICMPV6 => {
            let view = Icmpv6View::parse(payload)?;
            view.message().map(|_| view.body().len())
        }
        _ => Ok(payload.len()),
    }
}

#[test]
fn every_captured_frame_is_read() {
    for frame in captured() {
        if let Err(error) = read(&frame.bytes) {
            panic!("{}: {error}", frame.name);
        }
    }
}

/// Link padding is the only thing that may be cut off unnoticed: a shorter frame is refused as
/// truncated, by the layer that misses bytes, with counts that say so.
#[test]
fn every_shorter_frame_is_refused_as_truncated() {
    for frame in captured() {
        let ip_len = ip_len(&frame.bytes);
        for len in 0..frame.bytes.len() {
            match (read(&frame.bytes[..len]), ip_len) {
                (Err(WireError::Truncated { need, have, .. }), _) => assert!(need > have),
                (Ok(_), Some(whole)) if len >= whole => {}
                // What is neither IP nor ARP has no length of its own.
                (Ok(_), None) if len >= ethernet::LEN => {}
                (outcome, _) => panic!("{} cut to {len}: {outcome:?}", frame.name),
            }
        }
    }
}

/// Where the IP or ARP packet in a frame ends.
fn ip_len(frame: &[u8]) -> Option<usize> {
    let frame = EthernetView::parse(frame).unwrap();
    let packet_len = match frame.ethertype() {
        ETHERTYPE_ARP => arp::LEN,
        ETHERTYPE_IPV4 => Ipv4View::parse(frame.payload()).unwrap().total_len(),
        ETHERTYPE_IPV6 => 40 + Ipv6View::parse(frame.payload()).unwrap().payload_len(),
        _ => return None,
    };
    Some(frame.header_len() + packet_len)
}

/// Lengths, versions and offsets are among the bytes that are set to anything.
#[test]
fn any_one_byte_may_be_anything() {
    let mut refused = 0u32;
    for frame in captured() {
        let mut bytes = frame.bytes;
        for at in 0..bytes.len().min(120) {
            let was = bytes[at];
            for value in [0, 1, 2, 5, 0x0f, 0x40, 0x4f, 0x7f, 0x80, 0xff, was ^ 0x10] {
                bytes[at] = value;
                refused += u32::from(read(&bytes).is_err());
                let packet = &bytes[14..];
                let _ = (Quoted::parse_v4(packet), Quoted::parse_v6(packet));
            }
            bytes[at] = was;
        }
    }
    assert!(refused > 1000, "only {refused} frames were refused");
}

/// ICMP errors quote packets cut anywhere: addresses and ports are there from 8 bytes of the upper
/// layer on, and below that the quotation is refused.
#[test]
fn quotations_are_read_from_eight_bytes_on() {
    for frame in captured() {
        let view = EthernetView::parse(&frame.bytes).unwrap();
        let packet = view.payload();
        let (parse, upper_at): (fn(&[u8]) -> _, usize) = match view.ethertype() {
            ETHERTYPE_IPV4 => (
                Quoted::parse_v4,
                Ipv4View::parse(packet).unwrap().header_len(),
            ),
            ETHERTYPE_IPV6 => (
                Quoted::parse_v6,
                Ipv6View::parse(packet).unwrap().upper().unwrap().offset,
            ),
            _ => continue,
        };
        let Ok(whole) = parse(packet) else {
            assert!(packet.len() < upper_at + 8, "{}", frame.name);
            continue;
        };
        for len in upper_at + 8..packet.len() {
            assert_eq!(
                parse(&packet[..len]),
                Ok(whole),
                "{} cut to {len}",
                frame.name
            );
        }
        for len in 0..upper_at {
            assert!(
                parse(&packet[..len]).is_err(),
                "{} cut to {len}",
                frame.name
            );
        }
    }
}
