//! Messages of ICMP and ICMPv6: echo, neighbours, and errors about what we sent; and what is reported to others.

use std::net::{IpAddr, SocketAddr};

use exos_wire::icmpv4::{Icmpv4, Icmpv4View};
use exos_wire::icmpv6::{Icmpv6, Icmpv6View};
use exos_wire::protocol;

use crate::icmp::{self, Echo, ErrorKind, IcmpError, IcmpPacket};
use crate::neighbor::ndp;
use crate::stack::config::Neighbors;
use crate::stack::input::Packet;
use crate::stack::pings::EchoReply;
use crate::stack::state::Stack;
use crate::tcp::Flow;
use crate::time::Instant;

impl Stack {
    /// Send an echo request. The answer comes out of `poll_echo_reply`.
    pub fn ping(&mut self, now: Instant, to: IpAddr, ident: u16, seq: u16, data: &[u8]) -> bool {
        let Some(source) = self.routes.source_for(to) else {
            return false;
        };
        let request = icmp::echo(Echo::Request, source, to, ident, seq, data);
        self.send_icmp(now, &request);
        true
    }

    /// An answer to a `ping`.
    pub fn poll_echo_reply(&mut self) -> Option<EchoReply> {
        self.pings.take()
    }

    fn send_icmp(&mut self, now: Instant, packet: &IcmpPacket) {
        self.send_ip(
            now,
            packet.src,
            packet.dst,
            packet.protocol,
            &packet.message,
        );
    }

    /// Send an ICMP error about a received packet, where the rules and the rate allow it.
    pub(in crate::stack) fn report(
        &mut self,
        now: Instant,
        packet: &[u8],
        problem: icmp::Problem,
        group_frame: bool,
    ) {
        match self
            .icmp
            .error(now, packet, problem, &self.routes, group_frame)
        {
            Ok(error) => {
                self.counters.icmp_errors_sent += 1;
                self.send_icmp(now, &error);
            }
            Err(icmp::Silence::RateLimited) => self.counters.drop_icmp_rate_limited += 1,
            Err(_) => {}
        }
    }

    pub(in crate::stack) fn handle_icmpv4(&mut self, now: Instant, packet: &Packet<'_>) {
        let Some(view) = Icmpv4View::parse(packet.payload)
            .ok()
            .filter(Icmpv4View::checksum_ok)
        else {
            self.counters.drop_icmp_malformed += 1;
            return;
        };
        if let Icmpv4::EchoReply { ident, seq, .. } = view.message() {
            self.heard_echo(packet.src, ident, seq);
        } else if let Some(error) = icmp::received::parse_v4(&view) {
            self.handle_icmp_error(now, &error);
        } else {
            self.answer_echo(now, packet);
        }
    }

    pub(in crate::stack) fn handle_icmpv6(&mut self, now: Instant, packet: &Packet<'_>) {
        let (IpAddr::V6(src), IpAddr::V6(dst)) = (packet.src, packet.dst) else {
            return;
        };
        let view = Icmpv6View::parse(packet.payload)
            .ok()
            .filter(|v| v.checksum_ok(&src, &dst));
        let Some((view, Ok(message))) = view.map(|v| (v, v.message())) else {
            self.counters.drop_icmp_malformed += 1;
            return;
        };
        match message {
            Icmpv6::NeighborSolicitation(ns) if self.ndp_is_valid(packet) => {
                let us = (self.config.mac, self.routes.as_ref());
                let heard = ndp::handle_solicitation(&mut self.neighbors, now, us, src, &ns);
                self.act_on(now, heard);
            }
            Icmpv6::NeighborAdvertisement(na) if self.ndp_is_valid(packet) => {
                let (cache, routes) = (&mut self.neighbors, &self.routes);
                let heard = ndp::handle_advertisement(cache, now, routes, packet.how, &na);
                self.act_on(now, heard);
            }
            Icmpv6::NeighborSolicitation(_) | Icmpv6::NeighborAdvertisement(_) => {}
            // Addresses and routers are configured, not learnt; see ARCHITECTURE.
            Icmpv6::RouterSolicitation(_) | Icmpv6::RouterAdvertisement(_) => {
                self.counters.drop_icmp_ignored += 1;
            }
            Icmpv6::EchoReply { ident, seq, .. } => self.heard_echo(packet.src, ident, seq),
            Icmpv6::EchoRequest { .. } => self.answer_echo(now, packet),
            _ => {
                if let Some(error) = icmp::received::parse_v6(&view) {
                    self.handle_icmp_error(now, &error);
                } else {
                    self.counters.drop_icmp_ignored += 1;
                }
            }
        }
    }

    fn answer_echo(&mut self, now: Instant, packet: &Packet<'_>) {
        let answer = icmp::answer_echo(
            packet.src,
            packet.dst,
            packet.how,
            packet.payload,
            &self.routes,
        );
        if let Some(answer) = answer {
            self.counters.icmp_echo_answered += 1;
            self.send_icmp(now, &answer);
        } else {
            self.counters.drop_icmp_ignored += 1;
        }
    }

    fn heard_echo(&mut self, from: IpAddr, ident: u16, seq: u16) {
        self.pings.heard(EchoReply { from, ident, seq });
    }

    fn ndp_is_valid(&mut self, packet: &Packet<'_>) -> bool {
        let valid = packet.quote.get(7) == Some(&255);
        self.counters.drop_icmp_malformed += u64::from(!valid);
        valid && self.config.neighbors == Neighbors::Own
    }

    fn handle_icmp_error(&mut self, now: Instant, error: &IcmpError) {
        if !self.routes.is_local(error.local) {
            self.counters.drop_icmp_malformed += 1;
            return;
        }
        self.counters.icmp_errors_received += 1;
        self.for_every_stack = true;
        if error.protocol == protocol::UDP {
            self.udp.handle_error(error);
        }
        let Some(seq) = error.seq.filter(|_| error.protocol == protocol::TCP) else {
            return;
        };
        let local = SocketAddr::new(error.local, error.local_port);
        let flow = Flow::new(local, SocketAddr::new(error.remote, error.remote_port));
        match error.kind {
            ErrorKind::Hard(reason) => {
                self.tcp.handle_unreachable(now, &flow, seq, reason, true);
            }
            ErrorKind::Soft(reason) => {
                self.tcp.handle_unreachable(now, &flow, seq, reason, false);
            }
            ErrorKind::TooBig { mtu } => {
                let headers = if error.local.is_ipv6() { 60 } else { 40 };
                let mss = mtu.saturating_sub(headers).min(u32::from(u16::MAX)) as u16;
                self.tcp.handle_too_big(now, &flow, seq, mss);
            }
        }
    }
}
