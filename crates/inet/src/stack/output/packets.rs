//! IP packets that leave as complete frames: ICMP and UDP, in fragments where they are longer than the MTU.

use std::net::{IpAddr, SocketAddr};

use exos_buf::Slice;
use exos_wire::ethernet::{self, ETHERTYPE_IPV4, ETHERTYPE_IPV6, EthernetHeader};
use exos_wire::ipv4::{self, Ipv4Header};
use exos_wire::ipv6::{self, Ipv6Header};
use exos_wire::udp::{self, UdpHeader};
use exos_wire::{Mac, Sum, protocol};

use crate::fragment::{cut_v4, cut_v6};
use crate::limits::DATAGRAM_MAX;
use crate::stack::output::NextHop;
use crate::stack::output::bursts::Burst;
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

    /// An empty buffer for datagrams that are to leave together, in memory that others have left.
    pub fn burst_buffer(&mut self) -> Vec<u8> {
        self.bursts.take_spare()
    }

    /// Send datagrams that lie one behind the other, each of `segment` bytes but the last, which may be shorter, with header fields of
    /// their own; of no bytes, none. They leave together, and none in fragments: of those for which there is [no room](Self::datagram_room) all are
    /// dropped.
    ///
    /// # Errors
    ///
    /// Those of [`udp_send`](Self::udp_send); and one is longer than a packet of the link.
    pub fn udp_send_burst(
        &mut self,
        now: Instant,
        handle: UdpHandle,
        from: Option<IpAddr>,
        to: SocketAddr,
        (payload, segment, fields): (Vec<u8>, usize, HeaderFields),
    ) -> Result<(), UdpError> {
        if payload.is_empty() {
            return Ok(());
        }
        let segment = segment.clamp(1, payload.len());
        let src = self.udp.can_send(handle, from, to, segment)?;
        let ip_len = if to.is_ipv4() { ipv4::LEN } else { ipv6::LEN };
        let max = self.config.mtu.saturating_sub(ip_len + udp::LEN);
        if segment > max {
            return Err(UdpError::TooLong { len: segment, max });
        }
        let count = payload.len().div_ceil(segment);
        let src_port = self.udp.note_sent(handle, count as u64)?;
        let Some(source) = src.or_else(|| self.routes.source_for(to.ip())) else {
            self.counters.drop_ip_no_route += count as u64;
            return Ok(());
        };
        let packet = |len| OwnPacket {
            src: source,
            dst: to.ip(),
            protocol: protocol::UDP,
            fields,
            len,
            is_whole: true,
        };
        let header = UdpHeader {
            src_port,
            dst_port: to.port(),
        };
        match self.path_to(now, to.ip()) {
            NextHop::Known(_) if self.datagram_room() < count => {
                self.counters.drop_control_queue_full += count as u64;
            }
            NextHop::Known(mac) => {
                let ip = packet(0).header(0);
                self.bursts.push(Burst {
                    ethernet: self.link_header(&ip, mac),
                    ip,
                    ends: (source, to.ip()),
                    udp: header,
                    payload,
                    segment,
                    left: 0,
                });
            }
            _ => {
                for payload in payload.chunks(segment) {
                    let len = udp::LEN + payload.len();
                    let pseudo = Sum::pseudo(source, to.ip(), protocol::UDP, len as u32);
                    let sum = pseudo.plus(Sum::of(payload));
                    self.send_packet(now, packet(len), |datagram| {
                        header.emit(payload.len(), sum, datagram);
                        datagram[udp::LEN..].copy_from_slice(payload);
                    });
                }
            }
        }
        Ok(())
    }

    fn send_datagram(&mut self, now: Instant, out: &Outgoing) {
        let to = out.dst;
        let Some(source) = out.src.or_else(|| self.routes.source_for(to.ip())) else {
            self.counters.drop_ip_no_route += 1;
            return;
        };
        let payload = out.payload.as_bytes();
        let len = udp::LEN + payload.len();
        let header = UdpHeader {
            src_port: out.src_port,
            dst_port: out.dst.port(),
        };
        let pseudo = Sum::pseudo(source, to.ip(), protocol::UDP, len as u32);
        let sum = pseudo.plus(out.payload.sum(0..payload.len()));
        let packet = OwnPacket {
            src: source,
            dst: to.ip(),
            protocol: protocol::UDP,
            fields: out.fields,
            len,
            is_whole: false,
        };
        self.send_packet(now, packet, |datagram| {
            header.emit(payload.len(), sum, datagram);
            datagram[udp::LEN..].copy_from_slice(payload);
        });
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
        let packet = OwnPacket {
            src,
            dst,
            protocol,
            fields,
            len: payload.len(),
            is_whole: false,
        };
        self.send_packet(now, packet, |to| to.copy_from_slice(payload));
    }

    /// Sends a packet whose payload is written where it leaves from, in fragments where it is longer than the MTU.
    fn send_packet(&mut self, now: Instant, packet: OwnPacket, write: impl FnOnce(&mut [u8])) {
        let hop = self.path_to(now, packet.dst);
        let ident = self.random.next_u64() as u32;
        let header = packet.header(ident as u16);
        // To ourselves whole, however long it is.
        let mtu = match (hop, &header) {
            (NextHop::Loopback, IpHeader::V4(_)) => DATAGRAM_MAX,
            (NextHop::Loopback, IpHeader::V6(_)) => ipv6::LEN + DATAGRAM_MAX,
            _ => self.config.mtu,
        };
        let whole = header.len() + packet.len;
        if whole <= mtu {
            let mut frame = vec![0; ethernet::LEN + whole];
            let start = self.emit_link_header(&header, &mut frame);
            let start = start + header.emit(packet.len, &mut frame[start..]);
            write(&mut frame[start..]);
            return self.send_by(hop, frame);
        }
        let mut payload = vec![0; packet.len];
        write(&mut payload);
        for fragment in header.cut(ident, &payload, mtu) {
            let mut frame = vec![0; ethernet::LEN + fragment.len()];
            let start = self.emit_link_header(&header, &mut frame);
            frame[start..].copy_from_slice(&fragment);
            self.send_by(hop, frame);
        }
    }

    /// Writes Ethernet's header, but for who is next; the bytes that it takes.
    fn emit_link_header(&self, of: &IpHeader, frame: &mut [u8]) -> usize {
        self.link_header(of, Mac::ZERO).emit(frame)
    }

    /// Ethernet's header of a packet for this neighbour.
    fn link_header(&self, of: &IpHeader, dst: Mac) -> EthernetHeader {
        EthernetHeader {
            dst,
            src: self.config.mac,
            vlan: None,
            ethertype: match of {
                IpHeader::V4(_) => ETHERTYPE_IPV4,
                IpHeader::V6(_) => ETHERTYPE_IPV6,
            },
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

/// A packet that is to leave, whatever is in it.
struct OwnPacket {
    src: IpAddr,
    dst: IpAddr,
    protocol: u8,
    fields: HeaderFields,
    /// Bytes behind IP's header.
    len: usize,
    /// Nobody on its way is to fragment it.
    is_whole: bool,
}

impl OwnPacket {
    fn header(&self, ident: u16) -> IpHeader {
        match (self.src, self.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => IpHeader::V4(Ipv4Header {
                src,
                dst,
                protocol: self.protocol,
                ttl: self.fields.hop_limit,
                tos: self.fields.traffic_class,
                ident,
                dont_fragment: self.is_whole,
                more_fragments: false,
                fragment_offset: 0,
            }),
            (IpAddr::V6(src), IpAddr::V6(dst)) => IpHeader::V6(Ipv6Header {
                src,
                dst,
                next_header: self.protocol,
                hop_limit: self.fields.hop_limit,
                traffic_class: self.fields.traffic_class,
                flow_label: 0,
            }),
            _ => unreachable!("source and destination are of one family"),
        }
    }
}

/// The header of either family, without options or extension headers.
pub(in crate::stack) enum IpHeader {
    V4(Ipv4Header),
    V6(Ipv6Header),
}

impl IpHeader {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::V4(_) => ipv4::LEN,
            Self::V6(_) => ipv6::LEN,
        }
    }

    /// Writes it before a payload of this length; the bytes that it takes.
    pub(super) fn emit(&self, payload_len: usize, packet: &mut [u8]) -> usize {
        match self {
            Self::V4(header) => header.emit(payload_len, packet),
            Self::V6(header) => header.emit(payload_len, packet),
        }
    }

    fn cut(&self, ident: u32, payload: &[u8], mtu: usize) -> Vec<Vec<u8>> {
        match self {
            Self::V4(header) => cut_v4(header, payload, mtu).collect(),
            Self::V6(header) => cut_v6(header, ident, payload, mtu).collect(),
        }
    }
}
