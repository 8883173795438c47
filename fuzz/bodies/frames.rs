//! Frames from a peer, and segments in frames to it: for the bodies that speak with a stack.
//!
//! What is built is whole and right but for what the caller asks otherwise; what is read must be sound, or it
//! panics.

use std::net::IpAddr;

use exos_wire::ethernet::{ETHERTYPE_IPV4, ETHERTYPE_IPV6, EthernetHeader};
use exos_wire::ipv4::{self, Ipv4Header, Ipv4View};
use exos_wire::ipv6::{self, Ipv6Header, Ipv6View};
use exos_wire::tcp::{TcpHeader, TcpOptions, TcpView, fill_checksum};
use exos_wire::{Mac, Sum, protocol};

/// The stack's and its peer's link addresses.
pub const OURS: Mac = Mac([2, 0, 0, 0, 0, 1]);
pub const THEIRS: Mac = Mac([2, 0, 0, 0, 0, 2]);

/// Bytes in front of the IP header.
const ETHERNET: usize = 14;

/// A frame to the stack with an IP packet of `payload`; both addresses are of one family.
pub fn frame(src: IpAddr, dst: IpAddr, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let (mut packet, ethertype) = match (src, dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let mut packet = vec![0; ipv4::LEN];
            Ipv4Header {
                src,
                dst,
                protocol,
                ttl: 64,
                tos: 0,
                ident: 7,
                dont_fragment: true,
                more_fragments: false,
                fragment_offset: 0,
            }
            .emit(payload.len(), &mut packet);
            (packet, ETHERTYPE_IPV4)
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            let mut packet = vec![0; ipv6::LEN];
            Ipv6Header {
                src,
                dst,
                next_header: protocol,
                hop_limit: 64,
                traffic_class: 0,
                flow_label: 0,
            }
            .emit(payload.len(), &mut packet);
            (packet, ETHERTYPE_IPV6)
        }
        _ => unreachable!("one family"),
    };
    let mut frame = vec![0; ETHERNET];
    EthernetHeader {
        dst: OURS,
        src: THEIRS,
        vlan: None,
        ethertype,
    }
    .emit(&mut frame);
    frame.append(&mut packet);
    frame.extend(payload);
    frame
}

/// A frame to the stack with a TCP segment.
pub fn segment_frame(
    (src, dst): (IpAddr, IpAddr),
    header: &TcpHeader,
    options: &TcpOptions,
    data: impl Iterator<Item = u8>,
) -> Vec<u8> {
    let mut segment = vec![0; 60];
    let header_len = header.emit(options, &mut segment);
    segment.truncate(header_len);
    segment.extend(data);
    let pseudo = Sum::pseudo(src, dst, protocol::TCP, segment.len() as u32);
    let data = Sum::of(&segment[header_len..]);
    fill_checksum(&mut segment[..header_len], pseudo.plus(data));
    frame(src, dst, protocol::TCP, &segment)
}

/// The TCP segment in a frame from the stack at `src`, which must be sound.
pub fn segment_of(frame: &[u8], src: IpAddr, dst: IpAddr) -> TcpView<'_> {
    let payload = if src.is_ipv6() {
        let ip = Ipv6View::parse(&frame[ETHERNET..]).expect("an IPv6 packet");
        let upper = ip.upper().expect("headers in order");
        assert_eq!(upper.protocol, protocol::TCP);
        upper.payload
    } else {
        let ip = Ipv4View::parse(&frame[ETHERNET..]).expect("an IPv4 packet");
        assert!(ip.header_checksum_ok());
        assert_eq!(ip.protocol(), protocol::TCP);
        ip.payload()
    };
    let tcp = TcpView::parse(payload).expect("a TCP segment");
    let pseudo = Sum::pseudo(src, dst, protocol::TCP, payload.len() as u32);
    assert!(tcp.checksum_ok(pseudo) && !tcp.options().malformed);
    tcp
}
