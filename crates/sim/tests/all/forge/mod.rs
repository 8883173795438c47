//! What an attacker needs: an ear on the wire, and frames made from what it heard.

use exos_sim::prelude::*;
use exos_wire::ethernet::EthernetView;
use exos_wire::icmpv4::{self, Icmpv4};
use exos_wire::icmpv6::{self, Icmpv6};
use exos_wire::tcp::fill_checksum;
use exos_wire::{Sum, ipv4, ipv6, protocol};
use std::cell::RefCell;
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;

/// What crossed the wire, for the attacker to look at.
pub type Overheard = Rc<RefCell<Vec<(usize, Vec<u8>)>>>;

pub fn overhear(sim: &mut Sim) -> Overheard {
    let heard: Overheard = Rc::default();
    let sink = heard.clone();
    sim.link().drop_if(move |from, frame| {
        sink.borrow_mut().push((from, frame.to_vec()));
        false
    });
    heard
}

/// Where the TCP header begins.
pub fn tcp_at(frame: &[u8]) -> usize {
    14 + if frame[12] == 0x08 {
        ipv4::LEN
    } else {
        ipv6::LEN
    }
}

/// Make the checksum of a TCP frame right again.
pub fn mend(frame: &mut [u8]) {
    let at = tcp_at(frame);
    let address = |from: usize, len: usize| frame[from..from + len].to_vec();
    let ends: [IpAddr; 2] = if at == 34 {
        [26, 30].map(|from| <[u8; 4]>::try_from(address(from, 4)).unwrap().into())
    } else {
        [22, 38].map(|from| <[u8; 16]>::try_from(address(from, 16)).unwrap().into())
    };
    let segment = &mut frame[at..];
    let header_len = (usize::from(segment[12] >> 4) * 4).clamp(20, segment.len());
    let payload = Sum::of(&segment[header_len..]).swapped_if(header_len % 2 == 1);
    let pseudo = Sum::pseudo(ends[0], ends[1], protocol::TCP, segment.len() as u32);
    fill_checksum(&mut segment[..header_len], pseudo.plus(payload));
}

trait SwappedIf {
    fn swapped_if(self, swap: bool) -> Self;
}

impl SwappedIf for Sum {
    fn swapped_if(self, swap: bool) -> Sum {
        if swap { self.swapped() } else { self }
    }
}

/// Make a frame of IPv4 come from elsewhere.
pub fn set_source(frame: &mut [u8], from: Ipv4Addr, port: u16) {
    frame[26..30].copy_from_slice(&from.octets());
    frame[24..26].fill(0);
    let sum = Sum::of(&frame[14..34]).finish();
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
    frame[34..36].copy_from_slice(&port.to_be_bytes());
    mend(frame);
}

/// An ICMP error about an overheard frame, from nobody in particular.
pub fn icmp_about(frame: &[u8], message: impl FnOnce(&[u8]) -> Vec<u8>) -> Vec<u8> {
    let ethernet = EthernetView::parse(frame).unwrap();
    let packet = ethernet.payload();
    let v6 = tcp_at(frame) > 34;
    let body = message(&packet[..packet.len().min(200)]);
    let mut out = vec![0; tcp_at(frame)];
    // To the sender of the frame, from its destination.
    out[..6].copy_from_slice(&frame[6..12]);
    out[6..12].copy_from_slice(&frame[..6]);
    out[12..14].copy_from_slice(&frame[12..14]);
    let address = |at: usize| <[u8; 16]>::try_from(&packet[at..at + 16]).unwrap().into();
    let short = |at: usize| <[u8; 4]>::try_from(&packet[at..at + 4]).unwrap().into();
    if v6 {
        let (src, dst, next_header) = (address(24), address(8), protocol::ICMPV6);
        let header = ipv6::Ipv6Header {
            src,
            dst,
            next_header,
            hop_limit: 64,
            traffic_class: 0,
            flow_label: 0,
        };
        header.emit(body.len(), &mut out[14..]);
    } else {
        let header = ipv4::Ipv4Header {
            src: short(16),
            dst: short(12),
            protocol: protocol::ICMP,
            ttl: 64,
            tos: 0,
            ident: 0,
            dont_fragment: false,
            more_fragments: false,
            fragment_offset: 0,
        };
        header.emit(body.len(), &mut out[14..]);
    }
    [out, body].concat()
}

/// An error that says that nobody has the port.
pub fn port_unreachable(frame: &[u8]) -> Vec<u8> {
    unreachable(frame, icmpv4::UNREACHABLE_PORT, icmpv6::UNREACHABLE_PORT)
}

/// An error that says that a router found nobody with the address, which may pass.
pub fn host_unreachable(frame: &[u8]) -> Vec<u8> {
    // RFC 792: host unreachable; RFC 4443 §3.1: address unreachable.
    unreachable(frame, 1, 3)
}

fn unreachable(frame: &[u8], v4: u8, v6: u8) -> Vec<u8> {
    icmp_about(frame, |quoted| {
        let mut out = vec![0; 8 + quoted.len()];
        if tcp_at(frame) == 34 {
            let message = Icmpv4::Unreachable {
                code: v4,
                mtu: None,
                quoted,
            };
            message.emit(&mut out);
        } else {
            let address = |at: usize| <[u8; 16]>::try_from(&quoted[at..at + 16]).unwrap().into();
            let message = Icmpv6::Unreachable { code: v6, quoted };
            message.emit(&address(24), &address(8), &mut out);
        }
        out
    })
}
