//! Errors of ICMP about packets that were forwarded: anyone who sent the packet is to get the error.
//!
//! An error quotes the packet that it is about as it left us. It is translated as that packet's answer would be, and
//! what it quotes back into what its sender had sent (RFC 5508 §4.2). The new sender of the error is the end that the
//! receiver knows of, not the router, whose address nobody expects from us. Numbers that the error carries, such as the
//! MTU of the way, are left as they are: a packet is as long on both sides of us.
//!
//! A quote may end anywhere behind the eighth byte of the transport header. Checksums within it follow as far as they
//! are there, and the message's own follows by the difference of the whole message, which is short.

use std::ops::Range;

use exos_wire::ipv4::Ipv4View;
use exos_wire::ipv6::Ipv6View;
use exos_wire::{Sum, icmpv4, icmpv6, protocol};

use crate::packets::endpoint::{Address, Endpoint};
use crate::packets::packet::{Packet, Transport, Upper};
use crate::packets::rewrite::{Rewrite, Sums, changed, get16, put16, some};

/// Bytes before what a message quotes.
const QUOTE_AT: usize = 8;

/// What an error quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quote {
    /// Its transport protocol.
    pub transport: Transport,
    /// Who sent it: one of our ends.
    pub src: Endpoint,
    /// To whom.
    pub dst: Endpoint,
    /// Of a segment, its sequence number.
    pub seq: u32,
    /// Where its transport header begins in the frame.
    upper_at: u16,
}

impl Quote {
    /// Reads what an error quotes; `None` when it is no error, or about no packet that is forwarded.
    pub fn read(packet: &Packet, frame: &[u8]) -> Option<Self> {
        let message = &frame[packet.upper_range()];
        let is_icmp = packet.upper == Upper::Icmp && packet.fragment.is_none();
        if !is_icmp || !is_error(*message.first()?, packet.src.is_ipv6()) {
            return None;
        }
        let quoted = message.get(QUOTE_AT..)?;
        let (src, dst, number, upper_at) = if packet.src.is_ipv6() {
            read_v6(quoted)?
        } else {
            read_v4(quoted)?
        };
        let transport = match number {
            protocol::TCP => Transport::Tcp,
            protocol::UDP => Transport::Udp,
            _ => return None,
        };
        // RFC 792: at least eight bytes are quoted. The ports are in the first four.
        let upper = quoted.get(upper_at..upper_at + 8)?;
        let end = |address, at| Endpoint {
            address,
            port: get16(upper, at),
        };
        Some(Self {
            transport,
            src: end(src, 0),
            dst: end(dst, 2),
            seq: u32::from(get16(upper, 4)) << 16 | u32::from(get16(upper, 6)),
            upper_at: packet.upper_at + (QUOTE_AT + upper_at) as u16,
        })
    }

    /// True for an error that says that a host or its port cannot be reached, and nothing of a packet's length.
    pub fn says_unreachable(packet: &Packet, frame: &[u8]) -> bool {
        let &[kind, code, ..] = &frame[packet.upper_range()] else {
            return false;
        };
        match packet.src.is_ipv6() {
            true => kind == icmpv6::UNREACHABLE,
            false => {
                let is_too_big = code == icmpv4::UNREACHABLE_FRAGMENTATION_NEEDED;
                kind == icmpv4::UNREACHABLE && !is_too_big
            }
        }
    }

    /// Has the error come from `outer.src` and go to `outer.dst`, and quote a packet that went the other way between
    /// the ends of `inner`.
    pub fn translate(&self, packet: &Packet, frame: &mut [u8], outer: &Rewrite, inner: &Rewrite) {
        let before = Sum::of(&frame[packet.upper_range()]);
        self.rewrite_quote(packet, frame, inner);
        let after = Sum::of(&frame[packet.upper_range()]);
        let mut change = after.minus(before);
        if packet.src.is_ipv6() {
            // RFC 4443 §2.3: the checksum covers a pseudo header too.
            let ends = outer.src.address.sum().plus(outer.dst.address.sum());
            change = change.plus(ends.minus(packet.src.sum()).minus(packet.dst.sum()));
        }
        let message = &mut frame[packet.upper_range()];
        put16(message, 2, changed(get16(message, 2), change));
        // The quote's own ports have changed; the message has none.
        outer.apply(packet, frame, Sums::Complete);
    }

    fn rewrite_quote(&self, packet: &Packet, frame: &mut [u8], inner: &Rewrite) {
        let quote = Range {
            start: usize::from(packet.upper_at) + QUOTE_AT,
            end: packet.end.into(),
        };
        let (ip, upper) = frame[quote]
            .split_at_mut(usize::from(self.upper_at) - usize::from(packet.upper_at) - QUOTE_AT);
        let addresses = inner.src.address.sum().plus(inner.dst.address.sum());
        let addresses = addresses
            .minus(self.src.address.sum())
            .minus(self.dst.address.sum());
        if self.src.address.is_ipv6() {
            inner.src.address.put(&mut ip[8..24]);
            inner.dst.address.put(&mut ip[24..40]);
        } else {
            inner.src.address.put(&mut ip[12..16]);
            inner.dst.address.put(&mut ip[16..20]);
            put16(ip, 10, changed(get16(ip, 10), addresses));
        }
        let ports = Sum::ZERO
            .plus_word(inner.src.port)
            .plus_word(inner.dst.port);
        let ports = ports.plus_word(!self.src.port).plus_word(!self.dst.port);
        put16(upper, 0, inner.src.port);
        put16(upper, 2, inner.dst.port);
        let at = self.transport.checksum_at();
        if upper.len() >= at + 2 && (self.transport == Transport::Tcp || get16(upper, at) != 0) {
            let sum = changed(get16(upper, at), addresses.plus(ports));
            put16(upper, at, some(self.transport, sum));
        }
    }
}

/// RFC 792, RFC 4443: errors, redirects and source quenches not among them, which are about links of others.
const fn is_error(kind: u8, ipv6: bool) -> bool {
    if ipv6 {
        use icmpv6::{PACKET_TOO_BIG, PARAMETER_PROBLEM, TIME_EXCEEDED, UNREACHABLE};
        matches!(
            kind,
            UNREACHABLE | PACKET_TOO_BIG | TIME_EXCEEDED | PARAMETER_PROBLEM
        )
    } else {
        use icmpv4::{PARAMETER_PROBLEM, TIME_EXCEEDED, UNREACHABLE};
        matches!(kind, UNREACHABLE | TIME_EXCEEDED | PARAMETER_PROBLEM)
    }
}

fn read_v4(quoted: &[u8]) -> Option<(Address, Address, u8, usize)> {
    let view = Ipv4View::parse_quoted(quoted).ok()?;
    let found = (
        view.src().into(),
        view.dst().into(),
        view.protocol(),
        view.header_len(),
    );
    (view.fragment_offset() == 0).then_some(found)
}

fn read_v6(quoted: &[u8]) -> Option<(Address, Address, u8, usize)> {
    let view = Ipv6View::parse_quoted(quoted).ok()?;
    let upper = view.upper().ok()?;
    let (src, dst) = (Address::from(view.src()), Address::from(view.dst()));
    let first = upper.fragment.is_none_or(|part| part.offset == 0);
    (first && src.is_ipv6() && dst.is_ipv6()).then_some((src, dst, upper.protocol, upper.offset))
}
