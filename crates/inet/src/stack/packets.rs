//! IP packets that leave as complete frames: ICMP and UDP, in fragments where they are longer than the MTU.

use std::net::{IpAddr, SocketAddr};

use exos_buf::Slice;
use exos_wire::ethernet::{ETHERTYPE_IPV4, ETHERTYPE_IPV6};
use exos_wire::ipv4::Ipv4Header;
use exos_wire::ipv6::{self, Ipv6Header};
use exos_wire::udp::{self, UdpHeader};
use exos_wire::{Mac, Sum, protocol};

use crate::fragment::{cut_v4, cut_v6};
use crate::limits::{DATAGRAM_MAX, HOP_LIMIT};
use crate::neighbor::frames::frame_of;
use crate::stack::output::NextHop;
use crate::stack::state::Stack;
use crate::time::Instant;
use crate::udp::{UdpError, UdpHandle};

impl Stack {
    /// Send a datagram, in fragments where it is longer than the MTU.
    pub fn udp_send(
        &mut self,
        now: Instant,
        handle: UdpHandle,
        from: Option<IpAddr>,
        to: SocketAddr,
        payload: Slice,
    ) -> Result<(), UdpError> {
        let out = self.udp.send(handle, from, to, payload)?;
        let Some(source) = out.src.or_else(|| self.routes.source_for(to.ip())) else {
            self.counters.drop_ip_no_route += 1;
            return Ok(());
        };
        let payload = out.payload.as_bytes();
        let mut datagram = vec![0; udp::LEN + payload.len()];
        let header = UdpHeader {
            src_port: out.src_port,
            dst_port: out.dst.port(),
        };
        let pseudo = Sum::pseudo(source, to.ip(), protocol::UDP, datagram.len() as u32);
        header.emit(
            payload.len(),
            pseudo.plus(out.payload.sum(0..payload.len())),
            &mut datagram,
        );
        datagram[udp::LEN..].copy_from_slice(payload);
        self.send_ip(now, source, to.ip(), protocol::UDP, &datagram);
        Ok(())
    }

    /// Send an IP packet of ours, in fragments where it is longer than the MTU.
    pub(super) fn send_ip(
        &mut self,
        now: Instant,
        src: IpAddr,
        dst: IpAddr,
        protocol: u8,
        payload: &[u8],
    ) {
        self.send_ip_with_hop_limit(now, src, dst, protocol, payload, HOP_LIMIT);
    }

    pub(super) fn send_ip_with_hop_limit(
        &mut self,
        now: Instant,
        src: IpAddr,
        dst: IpAddr,
        protocol: u8,
        payload: &[u8],
        hops: u8,
    ) {
        let hop = self.path_to(now, dst);
        let ident = self.random.next_u64() as u32;
        // To ourselves whole, however long it is.
        let mtu = match (hop, dst) {
            (NextHop::Loopback, IpAddr::V4(_)) => DATAGRAM_MAX,
            (NextHop::Loopback, IpAddr::V6(_)) => ipv6::LEN + DATAGRAM_MAX,
            _ => self.config.mtu,
        };
        for packet in packets((src, dst), protocol, hops, ident, payload, mtu) {
            self.send_packet(hop, dst, &packet);
        }
    }

    /// Send a packet to `dst` the way that was found for it, or drop it where there is none.
    fn send_packet(&mut self, hop: NextHop, dst: IpAddr, packet: &[u8]) {
        let ethertype = if dst.is_ipv6() {
            ETHERTYPE_IPV6
        } else {
            ETHERTYPE_IPV4
        };
        let to = match hop {
            NextHop::Known(mac) => mac,
            NextHop::Loopback => self.config.mac,
            NextHop::Pending(_) | NextHop::None => Mac::ZERO,
        };
        let frame = frame_of(self.config.mac, to, ethertype, packet);
        match hop {
            NextHop::Known(_) => self.queue_frame(frame),
            NextHop::Loopback => self.loop_frame(&frame),
            NextHop::Pending(neighbor) => self.neighbors.queue(neighbor, frame),
            NextHop::None => self.counters.drop_ip_no_route += 1,
        }
    }
}

/// A payload in IP packets from the first address to the second, none longer than `mtu`: one, or fragments called `ident`.
fn packets(
    addresses: (IpAddr, IpAddr),
    protocol: u8,
    hops: u8,
    ident: u32,
    payload: &[u8],
    mtu: usize,
) -> Vec<Vec<u8>> {
    match addresses {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let header = Ipv4Header {
                src,
                dst,
                protocol,
                ttl: hops,
                tos: 0,
                ident: ident as u16,
                dont_fragment: false,
                more_fragments: false,
                fragment_offset: 0,
            };
            cut_v4(&header, payload, mtu).collect()
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            let header = Ipv6Header {
                src,
                dst,
                next_header: protocol,
                hop_limit: hops,
                traffic_class: 0,
                flow_label: 0,
            };
            packets_v6(&header, ident, payload, mtu)
        }
        _ => unreachable!("source and destination are of one family"),
    }
}

fn packets_v6(header: &Ipv6Header, ident: u32, payload: &[u8], mtu: usize) -> Vec<Vec<u8>> {
    if ipv6::LEN + payload.len() > mtu {
        return cut_v6(header, ident, payload, mtu).collect();
    }
    let mut packet = vec![0; ipv6::LEN + payload.len()];
    header.emit(payload.len(), &mut packet);
    packet[ipv6::LEN..].copy_from_slice(payload);
    vec![packet]
}
