//! The way in: a frame is parsed from the outside to the inside, and each part given to its owner.

mod datagrams;
mod header_prediction;
mod messages;
pub(super) mod packet;

use std::net::{IpAddr, SocketAddr};

use exos_wire::ethernet::{
    ETHERTYPE_ARP, ETHERTYPE_IPV4, ETHERTYPE_IPV6, EthernetView, VLAN_ID_MASK,
};
use exos_wire::ipv4::Ipv4View;
use exos_wire::ipv6::{self, Answer, Ipv6View, Upper};
use exos_wire::protocol;
use exos_wire::tcp::{TcpFlags, TcpView};

use exos_wire::offload::RxChecksum;

use crate::fragment::{Fragment, FragmentKey};
use crate::icmp::Problem;
use crate::route::Delivery;
use crate::stack::state::Stack;
use crate::tcp::{Ecn, Flow, Segment};
use crate::time::Instant;

use packet::{Arrival, Packet};

/// Whom else a frame concerns, where several stacks have an address together.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub enum Concern {
    /// Nobody else.
    Nobody,
    /// Anyone who knows the connection: this stack does not, and has done nothing.
    Another,
    /// Likewise; where nobody knows it, the segment begins this connection: it brings back a cookie of who answers SYNs for the stacks.
    Begins(Flow),
    /// Everybody: a neighbour's answer, an ICMP error, a fragment.
    Everybody,
}

impl Stack {
    /// Take in a frame that may be for another stack with the same address: one for each core, say, to which a device
    /// spreads what comes by a hash of its own. Such a device keeps the segments of a connection together, nearly: a
    /// kernel on the other side of a virtual one may change its mind, answers to ARP and errors of ICMP have other
    /// hashes than what they are about, and fragments have no ports.
    ///
    /// The caller hands the frame on as the result says: [`Concern::Everybody`] to this method of all others, whose
    /// results no longer matter; [`Concern::Another`] and [`Concern::Begins`] to this method of the next, and so on, and when nobody knows it to
    /// [`Self::handle_frame`] of any, which answers it as what belongs to nobody, or begins its connection. Copies of a segment that begins
    /// one may come to several stacks before any of them does: the caller sees to it that one alone begins it.
    ///
    /// The stacks are to be made with the same seed: then a cookie of one is good in another, and sequence numbers grow
    /// over a connection's next lives, wherever each is led.
    pub fn handle_frame_among(
        &mut self,
        now: Instant,
        frame: &[u8],
        checksum: RxChecksum,
    ) -> Concern {
        self.among(|stack| stack.handle_frame(now, frame, checksum))
    }

    /// Whom what is taken in concerns beside this stack.
    pub(super) fn among(&mut self, take_in: impl FnOnce(&mut Self)) -> Concern {
        self.tcp.addresses_shared = true;
        (self.tcp.belongs_elsewhere, self.for_every_stack) = (false, false);
        self.tcp.begins = None;
        take_in(self);
        self.tcp.addresses_shared = false;
        match (self.for_every_stack, self.tcp.belongs_elsewhere) {
            (true, _) => Concern::Everybody,
            (false, true) => self.tcp.begins.map_or(Concern::Another, Concern::Begins),
            (false, false) => Concern::Nobody,
        }
    }

    /// Take in a received Ethernet frame.
    pub fn handle_frame(&mut self, now: Instant, frame: &[u8], checksum: RxChecksum) {
        let checksum = self.believed(checksum);
        if !self.handle_expected(now, frame, checksum, false) {
            let arrival = Arrival {
                checksum,
                group: false,
                looped: false,
            };
            self.handle_any(now, frame, arrival);
        }
    }

    /// What the link says of checksums; where they are not to be verified, they are taken for right.
    #[inline]
    fn believed(&self, checksum: RxChecksum) -> RxChecksum {
        match self.config.verify_checksums {
            true => checksum,
            false => RxChecksum::Verified,
        }
    }

    /// Take in a frame of which all is to be looked at. Whether it is for a group stands in the frame.
    #[inline(never)]
    pub(super) fn handle_any(&mut self, now: Instant, frame: &[u8], arrival: Arrival) {
        self.counters.frames_received += 1;
        let Ok(ethernet) = EthernetView::parse(frame) else {
            self.counters.drop_ethernet_malformed += 1;
            return;
        };
        let group = ethernet.dst().is_multicast();
        if !group && ethernet.dst() != self.config.mac {
            self.counters.drop_ethernet_other_host += 1;
            return;
        }
        // IEEE 802.1Q §6.9: number 0 is a priority without a VLAN. Other VLANs are other networks.
        if ethernet.vlan().is_some_and(|tci| tci & VLAN_ID_MASK != 0) {
            self.counters.drop_ethernet_vlan += 1;
            return;
        }
        let arrival = Arrival { group, ..arrival };
        match ethernet.ethertype() {
            ETHERTYPE_IPV4 => self.handle_ipv4(now, ethernet.payload(), arrival),
            ETHERTYPE_IPV6 => self.handle_ipv6(now, ethernet.payload(), arrival),
            ETHERTYPE_ARP => self.handle_arp(now, ethernet.payload()),
            _ => self.counters.drop_ethernet_unknown_type += 1,
        }
    }

    fn handle_ipv4(&mut self, now: Instant, bytes: &[u8], arrival: Arrival) {
        let Ok(view) = Ipv4View::parse(bytes) else {
            self.counters.drop_ipv4_malformed += 1;
            return;
        };
        if !view.header_checksum_ok() {
            self.counters.drop_ipv4_checksum += 1;
            return;
        }
        let (src, dst) = (IpAddr::V4(view.src()), IpAddr::V4(view.dst()));
        let Some(how) = self.check_addresses(src, dst, arrival) else {
            return;
        };
        let quote = &bytes[..view.total_len()];
        if view.is_fragment() {
            let key = FragmentKey {
                src,
                dst,
                ident: u32::from(view.ident()),
                protocol: view.protocol(),
            };
            let fragment = Fragment {
                key,
                offset: view.fragment_offset(),
                more: view.more_fragments(),
                payload: view.payload(),
                protocol: view.protocol(),
                ecn: Ecn::of(view.tos()),
                packet: quote,
            };
            return self.handle_fragment(now, &fragment, how, arrival);
        }
        let packet = Packet {
            src,
            dst,
            how,
            protocol: view.protocol(),
            payload: view.payload(),
            quote,
            protocol_field: 9,
            ecn: Ecn::of(view.tos()),
            arrival,
        };
        self.handle_upper(now, &packet);
    }

    fn handle_ipv6(&mut self, now: Instant, bytes: &[u8], arrival: Arrival) {
        let Ok(view) = Ipv6View::parse(bytes) else {
            self.counters.drop_ipv6_malformed += 1;
            return;
        };
        let (src, dst) = (IpAddr::V6(view.src()), IpAddr::V6(view.dst()));
        let Some(how) = self.check_addresses(src, dst, arrival) else {
            return;
        };
        let quote = &bytes[..ipv6::LEN + view.payload_len()];
        let Ok(upper) = view.upper() else {
            self.counters.drop_ipv6_malformed += 1;
            return;
        };
        if !self.headers_allow(now, &upper, quote, how, arrival) {
            return;
        }
        if let Some(part) = upper.fragment {
            let key = FragmentKey {
                src,
                dst,
                ident: part.ident,
                protocol: 0,
            };
            let fragment = Fragment {
                key,
                offset: part.offset,
                more: part.more,
                payload: upper.payload,
                protocol: upper.protocol,
                ecn: Ecn::of(view.traffic_class()),
                packet: quote,
            };
            return self.handle_fragment(now, &fragment, how, arrival);
        }
        let packet = Packet {
            src,
            dst,
            how,
            protocol: upper.protocol,
            payload: upper.payload,
            quote,
            protocol_field: upper.next_header_field,
            ecn: Ecn::of(view.traffic_class()),
            arrival,
        };
        self.handle_upper(now, &packet);
    }

    /// False when an extension header asks for the packet to be discarded (RFC 8200 §4.2).
    fn headers_allow(
        &mut self,
        now: Instant,
        upper: &Upper<'_>,
        quote: &[u8],
        how: Delivery,
        arrival: Arrival,
    ) -> bool {
        let Some(problem) = upper.problem else {
            return true;
        };
        self.counters.drop_ipv6_option += 1;
        let answer = match problem.answer {
            Answer::Never => false,
            Answer::Always => true,
            Answer::UnlessMulticast => how == Delivery::Unicast,
        };
        if answer {
            let problem = Problem::Parameter {
                code: problem.code,
                pointer: problem.pointer,
            };
            self.report(now, quote, problem, arrival.group);
        }
        false
    }

    /// What is in the datagram is handled with its last fragment.
    fn handle_fragment(
        &mut self,
        now: Instant,
        fragment: &Fragment<'_>,
        how: Delivery,
        arrival: Arrival,
    ) {
        self.for_every_stack = true;
        let Some(datagram) = self.reassembler.push(now, fragment) else {
            return;
        };
        let (mut protocol, mut payload) = (datagram.protocol, &datagram.payload[..]);
        if datagram.src.is_ipv6() {
            // Extension headers may follow in the fragmentable part (RFC 8200 §4.5).
            let Ok(upper) = ipv6::walk(protocol, payload, ipv6::LEN, 6, false) else {
                self.counters.drop_ipv6_malformed += 1;
                return;
            };
            if upper.fragment.is_some()
                || !self.headers_allow(now, &upper, &datagram.quote, how, arrival)
            {
                return;
            }
            (protocol, payload) = (upper.protocol, upper.payload);
        }
        let packet = Packet {
            src: datagram.src,
            dst: datagram.dst,
            how,
            protocol,
            payload,
            quote: &datagram.quote,
            protocol_field: if datagram.src.is_ipv6() { 6 } else { 9 },
            ecn: datagram.ecn,
            arrival: Arrival {
                checksum: self.believed(RxChecksum::Unknown),
                ..arrival
            },
        };
        match self.joined.is_held() && protocol == protocol::TCP {
            true => self.hold(&packet),
            false => self.handle_upper(now, &packet),
        }
    }

    /// How a packet concerns us; `None` and a counter when it does not, or when nobody can have
    /// sent it (RFC 1122 §3.2.1.3).
    fn check_addresses(&mut self, src: IpAddr, dst: IpAddr, arrival: Arrival) -> Option<Delivery> {
        if !arrival.looped && !self.routes.may_send(src) {
            self.counters.drop_ip_source += 1;
            return None;
        }
        let how = self.routes.accepts(dst);
        if how.is_none() {
            self.counters.drop_ip_other_host += 1;
        }
        how
    }

    fn handle_upper(&mut self, now: Instant, packet: &Packet<'_>) {
        match (packet.protocol, packet.src) {
            (protocol::TCP, _) => self.handle_tcp(now, packet),
            (protocol::UDP, _) => self.handle_udp(now, packet),
            (protocol::ICMP, IpAddr::V4(_)) => self.handle_icmpv4(now, packet),
            (protocol::ICMPV6, IpAddr::V6(_)) => self.handle_icmpv6(now, packet),
            _ => {
                self.counters.drop_ip_protocol += 1;
                let problem = Problem::ProtocolUnreachable {
                    pointer: packet.protocol_field,
                };
                self.report(now, packet.quote, problem, packet.arrival.group);
            }
        }
    }

    fn handle_tcp(&mut self, now: Instant, packet: &Packet<'_>) {
        if let Some((flow, segment)) = self.expect_segment(packet) {
            self.handle_segment(now, flow, &segment);
        }
    }

    /// The segment in a packet, and whose it is; none, and counted, where it is no right one.
    pub(super) fn expect_segment<'a>(
        &mut self,
        packet: &Packet<'a>,
    ) -> Option<(Flow, Segment<'a>)> {
        let Ok(view) = TcpView::parse(packet.payload) else {
            self.counters.drop_tcp_malformed += 1;
            return None;
        };
        // RFC 9293 §3.9.2.3: connections are between unicast addresses; and nobody has port 0.
        if packet.how != Delivery::Unicast || packet.src.is_unspecified() || view.src_port() == 0 {
            self.counters.drop_ip_source += 1;
            return None;
        }
        // RFC 1122 §3.3.6: what comes to everybody's MAC and one address is nobody's connection.
        if packet.arrival.group {
            self.counters.drop_tcp_group += 1;
            return None;
        }
        let pseudo = packet.pseudo();
        let is_right = match packet.arrival.checksum {
            RxChecksum::Verified | RxChecksum::Partial => true,
            RxChecksum::MaybePartial if view.checksum() == pseudo.value() => true,
            RxChecksum::MaybePartial | RxChecksum::Unknown => view.checksum_ok(pseudo),
        };
        if !is_right {
            self.counters.drop_tcp_checksum += 1;
            return None;
        }
        let local = SocketAddr::new(packet.dst, view.dst_port());
        let remote = SocketAddr::new(packet.src, view.src_port());
        let segment = Segment {
            ecn: packet.ecn,
            ..Segment::from_view(&view)
        };
        if segment.has(TcpFlags::SYN) && !self.can_answer(packet.src) {
            // No connection begins that could not be answered.
            self.counters.drop_ip_no_route += 1;
            return None;
        }
        Some((Flow::new(local, remote), segment))
    }

    pub(super) fn handle_segment(&mut self, now: Instant, flow: Flow, segment: &Segment<'_>) {
        let remote = flow.remote().ip();
        let link = self.local(remote.is_ipv6());
        let progress = self
            .tcp
            .handle_segment(now, flow, segment, link, &mut self.counters);
        // RFC 4861 §7.3.1: progress of TCP spares the neighbour a probe.
        if progress && self.neighbors.is_verifying() {
            self.confirm_neighbor(now, remote);
        }
    }
}
