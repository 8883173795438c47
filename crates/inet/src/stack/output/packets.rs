//! IP packets that leave as complete frames: ICMP and UDP, in fragments where they are longer than the MTU.

use std::net::{IpAddr, SocketAddr};

use exos_buf::Slice;
use exos_wire::ethernet::{ETHERTYPE_IPV4, ETHERTYPE_IPV6};
use exos_wire::ipv4::Ipv4Header;
use exos_wire::ipv6::{self, Ipv6Header};
use exos_wire::udp::{self, UdpHeader};
use exos_wire::{Mac, Sum, protocol};

use crate::fragment::{cut_v4, cut_v6};
use crate::limits::DATAGRAM_MAX;
use crate::neighbor::frames::frame_of;
use crate::stack::output::NextHop;
use crate::stack::state::Stack;
use crate::time::Instant;
use crate::udp::{HeaderFields, Outgoing, UdpError, UdpHandle};

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
        self.send_datagram(now, &out);
        Ok(())
    }

    /// Send a datagram with header fields that are its own, and not the socket's.
    pub fn udp_send_with(
        &mut self,
        now: Instant,
        handle: UdpHandle,
        from: Option<IpAddr>,
        to: SocketAddr,
        (payload, fields): (Slice, HeaderFields),
    ) -> Result<(), UdpError> {
        let out = self.udp.send(handle, from, to, payload)?;
        self.send_datagram(now, &Outgoing { fields, ..out });
        Ok(())
    }

    fn send_datagram(&mut self, now: Instant, out: &Outgoing) {
        let to = out.dst;
        let Some(source) = out.src.or_else(|| self.routes.source_for(to.ip())) else {
            self.counters.drop_ip_no_route += 1;
            return;
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
        let addresses = (source, to.ip());
        self.send_ip_with(now, addresses, protocol::UDP, &datagram, out.fields);
    }

    /// Send an IP packet of ours, in fragments where it is longer than the MTU.
    pub(in crate::stack) fn send_ip(
        &mut self,
        now: Instant,
        src: IpAddr,
        dst: IpAddr,
        protocol: u8,
        payload: &[u8],
    ) {
        self.send_ip_with(now, (src, dst), protocol, payload, HeaderFields::default());
    }

    pub(in crate::stack) fn send_ip_with(
        &mut self,
        now: Instant,
        (src, dst): (IpAddr, IpAddr),
        protocol: u8,
        payload: &[u8],
        fields: HeaderFields,
    ) {
        let hop = self.path_to(now, dst);
        let ident = self.random.next_u64() as u32;
        // To ourselves whole, however long it is.
        let mtu = match (hop, dst) {
            (NextHop::Loopback, IpAddr::V4(_)) => DATAGRAM_MAX,
            (NextHop::Loopback, IpAddr::V6(_)) => ipv6::LEN + DATAGRAM_MAX,
            _ => self.config.mtu,
        };
        let packets: Vec<Vec<u8>> = match (src, dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                let header = Ipv4Header {
                    src,
                    dst,
                    protocol,
                    ttl: fields.hop_limit,
                    tos: fields.traffic_class,
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
                    hop_limit: fields.hop_limit,
                    traffic_class: fields.traffic_class,
                    flow_label: 0,
                };
                if ipv6::LEN + payload.len() <= mtu {
                    let mut packet = vec![0; ipv6::LEN + payload.len()];
                    header.emit(payload.len(), &mut packet);
                    packet[ipv6::LEN..].copy_from_slice(payload);
                    vec![packet]
                } else {
                    cut_v6(&header, ident, payload, mtu).collect()
                }
            }
            _ => unreachable!("source and destination are of one family"),
        };
        let ethertype = if dst.is_ipv6() {
            ETHERTYPE_IPV6
        } else {
            ETHERTYPE_IPV4
        };
        for packet in packets {
            let frame = frame_of(self.config.mac, Mac::ZERO, ethertype, &packet);
            self.send_by(hop, frame);
        }
    }

    /// Sends a frame to who is next, whose link address it is given.
    pub(in crate::stack) fn send_by(&mut self, hop: NextHop, mut frame: Vec<u8>) {
        let to = match hop {
            NextHop::Known(mac) => mac,
            NextHop::Loopback => self.config.mac,
            NextHop::Pending(_) | NextHop::None => Mac::ZERO,
        };
        frame[..6].copy_from_slice(&to.0);
        match hop {
            NextHop::Known(_) => self.queue_frame(frame),
            NextHop::Loopback => self.loop_frame(&frame),
            NextHop::Pending(neighbor) => self.neighbors.queue(neighbor, frame),
            NextHop::None => self.counters.drop_ip_no_route += 1,
        }
    }
}
