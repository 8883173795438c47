//! A frame that stands for several datagrams of UDP of one length, as kernels hand on what a program sends with `UDP_SEGMENT`, or what a
//! device has merged: made into frames of one datagram each, where it lies.

use exos_wire::ethernet::{ETHERTYPE_IPV4, ETHERTYPE_IPV6};
use exos_wire::{Sum, ethernet, ipv4, ipv6, protocol, udp};

use crate::meta::{RxChecksum, RxMeta};

/// The longest headers: without a tag, which packet sockets have apart, with all options of IPv4.
const HEAD_LEN_MAX: usize = ethernet::LEN + 60 + udp::LEN;

/// Calls `take` for each datagram of a frame, of `size` bytes but the last, which may be shorter, as the frame that it would be by itself.
/// The headers are written before each, over what was taken before. False where the frame is none of these.
///
/// Their checksums are taken for right: who has put them together has looked at them, or has left them to be made.
pub(crate) fn each(frame: &mut [u8], size: u16, mut take: impl FnMut(&[u8], RxMeta)) -> bool {
    let Some(udp) = start_of_udp(frame) else {
        return false;
    };
    let start = udp + udp::LEN;
    let (size, mut head) = (usize::from(size), [0; HEAD_LEN_MAX]);
    let Some(whole) = frame.get(..start).filter(|_| size > 0) else {
        return false;
    };
    head[..start].copy_from_slice(whole);
    // What lies behind the datagrams is padding.
    let len = usize::from(be16(&head, udp + 4)).saturating_sub(udp::LEN);
    let payload_len = len.min(frame.len() - start);
    let meta = RxMeta {
        checksum: RxChecksum::Partial,
        ..RxMeta::default()
    };
    for at in (0..payload_len).step_by(size) {
        let len = size.min(payload_len - at);
        write_lengths(&mut head[..start], udp, len);
        let one = &mut frame[at..at + start + len];
        one[..start].copy_from_slice(&head[..start]);
        take(one, meta);
    }
    true
}

/// Where the header of UDP begins.
fn start_of_udp(frame: &[u8]) -> Option<usize> {
    let ip = ethernet::LEN;
    let start = match be16(frame.get(..ip)?, 12) {
        ETHERTYPE_IPV4 if *frame.get(ip + 9)? == protocol::UDP => {
            ip + usize::from(frame[ip] & 15) * 4
        }
        ETHERTYPE_IPV6 if *frame.get(ip + 6)? == protocol::UDP => ip + ipv6::LEN,
        _ => return None,
    };
    (start >= ip + ipv4::LEN).then_some(start)
}

/// Makes headers those of a datagram with this much payload.
fn write_lengths(head: &mut [u8], udp: usize, payload_len: usize) {
    let datagram_len = udp::LEN + payload_len;
    let (ip, datagram) = head[ethernet::LEN..].split_at_mut(udp - ethernet::LEN);
    put16(datagram, 4, datagram_len);
    if ip[0] >> 4 == 6 {
        put16(ip, 4, datagram_len);
        return;
    }
    put16(ip, 2, ip.len() + datagram_len);
    put16(ip, 10, 0);
    let checksum = Sum::of(ip).finish();
    put16(ip, 10, checksum.into());
}

fn be16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

/// A number that is a part of a length that had 16 bits, or is one.
fn put16(bytes: &mut [u8], at: usize, value: usize) {
    bytes[at..at + 2].copy_from_slice(&(value as u16).to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use exos_wire::Mac;
    use exos_wire::ethernet::{EthernetHeader, EthernetView};
    use exos_wire::ipv4::{Ipv4Header, Ipv4View};
    use exos_wire::ipv6::{Ipv6Header, Ipv6View};
    use exos_wire::udp::{UdpHeader, UdpView};
    use std::net::{Ipv4Addr, Ipv6Addr};

    /// A frame of datagrams that are to be cut.
    fn frame(is_ipv6: bool, payload: &[u8]) -> Vec<u8> {
        let mut out = vec![0; HEAD_LEN_MAX];
        let ethernet = EthernetHeader {
            dst: Mac([1; 6]),
            src: Mac([2; 6]),
            vlan: None,
            ethertype: if is_ipv6 {
                ETHERTYPE_IPV6
            } else {
                ETHERTYPE_IPV4
            },
        };
        let at = ethernet.emit(&mut out);
        let len = udp::LEN + payload.len();
        let at = at
            + match is_ipv6 {
                true => {
                    let header = Ipv6Header {
                        src: Ipv6Addr::LOCALHOST,
                        dst: Ipv6Addr::LOCALHOST,
                        next_header: protocol::UDP,
                        hop_limit: 9,
                        traffic_class: 1,
                        flow_label: 0,
                    };
                    header.emit(len, &mut out[at..])
                }
                false => {
                    Ipv4Header::atomic(Ipv4Addr::LOCALHOST, Ipv4Addr::BROADCAST, protocol::UDP)
                        .emit(len, &mut out[at..])
                }
            };
        let header = UdpHeader {
            src_port: 7,
            dst_port: 8,
        };
        let at = at + header.emit_partial(payload.len(), Sum::ZERO, &mut out[at..]);
        out.truncate(at);
        out.extend_from_slice(payload);
        out
    }

    /// The payload of a frame of one datagram, which is as it should be.
    fn payload(frame: &[u8]) -> Vec<u8> {
        let ethernet = EthernetView::parse(frame).unwrap();
        let datagram = match ethernet.ethertype() {
            ETHERTYPE_IPV4 => {
                let view = Ipv4View::parse(ethernet.payload()).unwrap();
                assert!(view.header_checksum_ok());
                assert_eq!(view.total_len(), ethernet.payload().len());
                ethernet.payload()[ipv4::LEN..].to_vec()
            }
            _ => {
                let view = Ipv6View::parse(ethernet.payload()).unwrap();
                assert_eq!((view.hop_limit(), view.traffic_class()), (9, 1));
                ethernet.payload()[ipv6::LEN..].to_vec()
            }
        };
        let view = UdpView::parse(&datagram).unwrap();
        assert_eq!(view.length(), datagram.len());
        assert_eq!((view.src_port(), view.dst_port()), (7, 8));
        view.payload().to_vec()
    }

    #[test]
    fn each_datagram_comes_by_itself() {
        for (len, size) in [(3000, 1200), (2400, 1200), (1, 1200), (500, 20), (90, 1)] {
            let all: Vec<u8> = (0..len).map(|n| (n % 251) as u8).collect();
            for is_ipv6 in [false, true] {
                let mut frame = frame(is_ipv6, &all);
                // What is behind it belongs to nobody.
                frame.extend_from_slice(&[0xee; 3]);
                let mut came = Vec::new();
                let known = each(&mut frame, size, |one, meta| {
                    assert_eq!((meta.checksum, meta.gso_size), (RxChecksum::Partial, None));
                    came.push(payload(one));
                });
                let wanted: Vec<Vec<u8>> = all.chunks(size.into()).map(<[u8]>::to_vec).collect();
                assert!(known);
                assert_eq!(came, wanted);
            }
        }
    }

    /// Whatever a frame says of its lengths, nothing is read that is not there.
    #[test]
    fn what_is_none_is_not_taken() {
        let whole = frame(false, &[5; 100]);
        let taken = |frame: &[u8], size| each(&mut frame.to_vec(), size, |_, _| {});
        assert!(taken(&whole, 10) && !taken(&whole, 0));
        for len in 0..42 {
            assert!(!taken(&whole[..len], 10), "{len}");
        }
        let mut tcp = whole.clone();
        tcp[ethernet::LEN + 9] = protocol::TCP;
        assert!(!taken(&tcp, 10));
        for header_len in 0..16 {
            let mut odd = whole.clone();
            odd[ethernet::LEN] = 0x40 | header_len;
            taken(&odd, 10);
        }
    }
}
