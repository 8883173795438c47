//! UDP on the way in: to a handler of the port, where there is one, and to sockets.
//!
//! A handler is code of the program's that deals with messages where they arrive, before any socket: what it gives up comes to the sockets as if
//! there were no handler. It is given what is whole and could not be another handler's answer; the conditions are those on which a
//! kernel runs such handlers.

use std::net::{IpAddr, SocketAddr};

use exos_wire::ethernet::{self, ETHERTYPE_IPV4, ETHERTYPE_IPV6, EthernetHeader};
use exos_wire::ipv4::{self, Ipv4Header};
use exos_wire::ipv6::{self, Ipv6Header};
use exos_wire::offload::RxChecksum;
use exos_wire::udp::{self as wire_udp, UdpHeader, UdpView};
use exos_wire::{Mac, Sum, protocol};

use crate::icmp::Problem;
use crate::limits::{HANDLED_BYTES_MAX, HOP_LIMIT};
use crate::route::Delivery;
use crate::stack::handler::{Handled, Handling, MessageHandler, OfAnother};
use crate::stack::input::Packet;
use crate::stack::state::Stack;
use crate::time::Instant;
use crate::udp::{self, Delivered, HeaderFields, UdpDrop};

impl Stack {
    /// Has a handler deal with the datagrams to a port before sockets get them, in place of the one before at this port.
    ///
    /// It is given unicast datagrams from another host and another port, whole, without IP options or extension headers, whose checksum is right, of
    /// at most [`HANDLED_BYTES_MAX`] bytes.
    pub fn handle_datagrams(&mut self, port: u16, handler: Box<dyn MessageHandler>) {
        self.stop_handling_datagrams(port);
        self.handling.push(Handling {
            port,
            frame: Vec::new(),
            handler,
        });
    }

    /// All datagrams to a port come to sockets.
    pub fn stop_handling_datagrams(&mut self, port: u16) {
        self.handling.retain(|handling| handling.port != port);
    }

    /// Where several stacks have an address together: of what comes to this port, these are for another of them. They are for the one that
    /// does not say so; where none is, for the one to which they came ([`handle_frame_among`](Self::handle_frame_among)).
    pub fn share_datagrams(&mut self, port: u16, is_of_another: OfAnother) {
        self.shared_ports.retain(|(other, _)| *other != port);
        self.shared_ports.push((port, is_of_another));
    }

    fn is_of_another(&self, view: &UdpView<'_>) -> bool {
        let mut shared = self.shared_ports.iter();
        shared.any(|(port, is)| *port == view.dst_port() && is(view.payload()))
    }

    pub(in crate::stack) fn handle_udp(&mut self, now: Instant, packet: &Packet<'_>) {
        let partial = packet.arrival.checksum == RxChecksum::MaybePartial
            && packet.payload.get(6..8) == Some(&packet.pseudo().value().to_be_bytes());
        let trusted =
            [RxChecksum::Verified, RxChecksum::Partial].contains(&packet.arrival.checksum);
        let verified = partial || trusted;
        let view = match udp::parse(packet.src, packet.dst, packet.payload, verified) {
            Ok(view) => view,
            Err(UdpDrop::Malformed) => {
                self.counters.drop_udp_malformed += 1;
                return;
            }
            Err(UdpDrop::BadChecksum | UdpDrop::MissingChecksum) => {
                self.counters.drop_udp_checksum += 1;
                return;
            }
        };
        if self.handling.is_empty() || !self.was_handled(now, packet, &view) {
            self.deliver(now, packet, &view);
        }
    }

    fn deliver(&mut self, now: Instant, packet: &Packet<'_>, view: &UdpView<'_>) {
        if self.tcp.addresses_shared && self.is_of_another(view) {
            self.tcp.belongs_elsewhere = true;
            return;
        }
        let from = SocketAddr::new(packet.src, view.src_port());
        let to = SocketAddr::new(packet.dst, view.dst_port());
        let fields = HeaderFields::of(packet.quote, packet.ecn.bits());
        match self
            .udp
            .deliver(from, to, packet.how, (fields, view.payload()))
        {
            Delivered::Queued(_) => {}
            Delivered::Full => self.counters.drop_udp_queue_full += 1,
            Delivered::NoSocket if self.tcp.addresses_shared => self.tcp.belongs_elsewhere = true,
            Delivered::NoSocket => {
                self.counters.drop_udp_no_socket += 1;
                self.report(
                    now,
                    packet.quote,
                    Problem::PortUnreachable,
                    packet.arrival.group,
                );
            }
        }
    }

    /// Whether a handler of its port has dealt with a datagram.
    fn was_handled(&mut self, now: Instant, packet: &Packet<'_>, view: &UdpView<'_>) -> bool {
        let port = view.dst_port();
        let is_for_it = self.handling.iter().any(|handling| handling.port == port);
        // A reply must not fail once the handler has done its work.
        if !is_for_it || !is_message(packet, view) || !self.can_answer(packet.src) {
            return false;
        }
        let mut handlings = self.handling.iter_mut();
        let Some(handling) = handlings.find(|handling| handling.port == port) else {
            return false;
        };
        let head = ethernet::LEN + ip_len(packet.src) + wire_udp::LEN;
        handling.frame.resize(head + HANDLED_BYTES_MAX, 0);
        let room = handling.frame.last_chunk_mut();
        let room = room.expect("behind the headers");
        match handling.handler.handle(view.payload(), room) {
            Handled::GivenUp => {
                self.counters.handler_gave_up += 1;
                return false;
            }
            Handled::Done => self.counters.handler_done += 1,
            Handled::Reply(bytes) => {
                self.counters.handler_answered += 1;
                let mut frame = std::mem::take(&mut handling.frame);
                frame.truncate(head + bytes);
                self.send_reply(now, packet, view, frame);
            }
        }
        true
    }

    /// Sends a frame that has its payload, back to where a datagram came from: its headers are written before it.
    fn send_reply(
        &mut self,
        now: Instant,
        packet: &Packet<'_>,
        view: &UdpView<'_>,
        mut frame: Vec<u8>,
    ) {
        let (headers, payload) =
            frame.split_at_mut(ethernet::LEN + ip_len(packet.src) + wire_udp::LEN);
        let datagram_len = wire_udp::LEN + payload.len();
        let (rest, udp) = headers.split_at_mut(headers.len() - wire_udp::LEN);
        let (link, ip) = rest.split_at_mut(ethernet::LEN);
        let pseudo = Sum::pseudo(packet.dst, packet.src, protocol::UDP, datagram_len as u32);
        let header = UdpHeader {
            src_port: view.dst_port(),
            dst_port: view.src_port(),
        };
        header.emit(payload.len(), pseudo.plus(Sum::of(payload)), udp);
        let ethertype = emit_ip(packet, datagram_len, ip);
        let header = EthernetHeader {
            dst: Mac::ZERO,
            src: self.config.mac,
            vlan: None,
            ethertype,
        };
        header.emit(link);
        let start = ethernet::LEN + ip_len(packet.src);
        if frame.len() - ethernet::LEN > self.config.mtu {
            self.send_ip(now, packet.dst, packet.src, protocol::UDP, &frame[start..]);
            return;
        }
        let hop = self.path_to(now, packet.src);
        self.send_by(hop, frame);
    }
}

fn ip_len(of: IpAddr) -> usize {
    match of {
        IpAddr::V4(_) => ipv4::LEN,
        IpAddr::V6(_) => ipv6::LEN,
    }
}

/// The header of what answers a packet. Returns its ethertype.
fn emit_ip(packet: &Packet<'_>, payload_len: usize, out: &mut [u8]) -> u16 {
    match (packet.dst, packet.src) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            Ipv4Header::atomic(src, dst, protocol::UDP).emit(payload_len, out);
            ETHERTYPE_IPV4
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            let header = Ipv6Header {
                src,
                dst,
                next_header: protocol::UDP,
                hop_limit: HOP_LIMIT,
                traffic_class: 0,
                flow_label: 0,
            };
            header.emit(payload_len, out);
            ETHERTYPE_IPV6
        }
        _ => unreachable!("source and destination are of one family"),
    }
}

/// Whether a handler may be given a datagram. Two of one port would answer each other for ever, and what is not from one host cannot be
/// answered.
fn is_message(packet: &Packet<'_>, view: &UdpView<'_>) -> bool {
    // Not put together from fragments, no options or extension headers, and nothing behind the datagram.
    let is_whole = packet.quote.len() == ip_len(packet.src) + view.length()
        && packet.payload.len() == view.length();
    let is_to_us = packet.how == Delivery::Unicast && !packet.arrival.group;
    let from = view.src_port();
    is_whole
        && is_to_us
        && !packet.arrival.looped
        && view.payload().len() <= HANDLED_BYTES_MAX
        && from != 0
        && from != view.dst_port()
        && is_of_one_host(packet.src)
}

fn is_of_one_host(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => !matches!(v4.octets()[0], 0 | 127 | 224..),
        // Multicast, and what begins with 64 zeros: loopback, no address, one of IPv4.
        IpAddr::V6(v6) => v6.octets()[0] != 0xff && v6.octets()[..8] != [0; 8],
    }
}
