//! ICMP and ICMPv6: what may be said about a packet, and what was said about ours.
//!
//! [`IcmpSender::error`] decides whether an error about a received packet may be sent (RFC 1122
//! §3.2.2, RFC 4443 §2.4(e)), quotes it within the limits and spends a token of the rate limit.
//! [`echo`] makes echo requests and replies. Both give an [`IcmpPacket`], a complete message with
//! its checksum, which the stack puts behind an IP header. [`received`] reads errors about our own
//! packets for the transports.
//!
//! The rules, one for each [`Silence`]: no error about an error, none about a packet to or from a
//! group (or that came in a group frame), none about a later fragment, none to a source that is
//! nobody's address, none beyond the rate. They are what keeps two hosts, or a crowd, from talking
//! each other to death.

pub mod received;

pub use received::{ErrorKind, IcmpError, Reason};

use crate::limits::{
    ICMP_ERRORS_BURST, ICMP_ERRORS_PER_SECOND, ICMPV4_ERROR_MAX, ICMPV6_ERROR_MAX,
};
use crate::route::{Delivery, Routes};
use crate::time::Instant;
use exos_wire::icmpv4::{self, Icmpv4, Icmpv4View};
use exos_wire::icmpv6::{self, Icmpv6, Icmpv6View};
use exos_wire::ipv4::{self, Ipv4View};
use exos_wire::ipv6::{self, Ipv6View};
use exos_wire::protocol;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A complete ICMP message for the stack to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IcmpPacket {
    /// Our address.
    pub src: IpAddr,
    /// Where it goes.
    pub dst: IpAddr,
    /// The IP protocol: ICMP or ICMPv6.
    pub protocol: u8,
    /// The message, checksum included.
    pub message: Vec<u8>,
}

/// What is wrong with a received packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Problem {
    /// Nobody listens at the port.
    PortUnreachable,
    /// Nobody speaks the protocol.
    ProtocolUnreachable {
        /// Offset in the packet of the byte that names it, for IPv6.
        pointer: usize,
    },
    /// The rest of the datagram did not come.
    ReassemblyTimeExceeded,
    /// A header's field or option is not acceptable.
    Parameter {
        /// The ICMP code.
        code: u8,
        /// Offset of the offending byte in the packet.
        pointer: usize,
    },
}

/// Why no error is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Silence {
    /// The packet cannot be read.
    Unreadable,
    /// It is an ICMP error (or a redirect, or of a type that may be one).
    AboutError,
    /// It went to a group, or came in a group frame.
    ToGroup,
    /// It is a fragment other than the first.
    LaterFragment,
    /// Its source is not the address of one host.
    BadSource,
    /// We have no address to speak from.
    NoAddress,
    /// Too many errors lately.
    RateLimited,
}

/// Permission to act, granted at a steady rate and in bursts of a bounded size.
#[derive(Clone, Debug)]
pub struct TokenBucket {
    per_second: u32,
    burst: u32,
    /// Tokens times a million, so that microseconds add whole numbers.
    millionths: u64,
    refilled: Instant,
}

impl TokenBucket {
    /// A full bucket.
    pub fn new(per_second: u32, burst: u32, now: Instant) -> TokenBucket {
        TokenBucket {
            per_second,
            burst,
            millionths: u64::from(burst) * 1_000_000,
            refilled: now,
        }
    }

    /// Take one token, if there is one.
    pub fn take(&mut self, now: Instant) -> bool {
        let micros = u64::try_from((now - self.refilled).as_micros()).unwrap_or(u64::MAX);
        let gained = micros.saturating_mul(u64::from(self.per_second));
        let full = u64::from(self.burst) * 1_000_000;
        self.millionths = self.millionths.saturating_add(gained).min(full);
        self.refilled = now;
        let granted = self.millionths >= 1_000_000;
        if granted {
            self.millionths -= 1_000_000;
        }
        granted
    }
}

/// Sends errors, within the rules and the rate.
#[derive(Debug)]
pub struct IcmpSender {
    bucket: TokenBucket,
}

impl IcmpSender {
    /// With the whole burst at hand.
    pub fn new(now: Instant) -> IcmpSender {
        let bucket = TokenBucket::new(ICMP_ERRORS_PER_SECOND, ICMP_ERRORS_BURST, now);
        IcmpSender { bucket }
    }

    /// The error that says `problem` about `packet`, a whole or cut-off received IP packet, or why
    /// it must not be sent. `group_frame`: it came to a broadcast or multicast MAC.
    pub fn error(
        &mut self,
        now: Instant,
        packet: &[u8],
        problem: Problem,
        routes: &Routes,
        group_frame: bool,
    ) -> Result<IcmpPacket, Silence> {
        let make = match packet.first().map(|byte| byte >> 4) {
            Some(4) => error_v4(packet, problem, routes, group_frame)?,
            Some(6) => error_v6(packet, problem, routes, group_frame)?,
            _ => return Err(Silence::Unreadable),
        };
        // Last, so that what must not be sent anyway costs no token.
        if self.bucket.take(now) {
            Ok(make)
        } else {
            Err(Silence::RateLimited)
        }
    }
}

fn error_v4(
    packet: &[u8],
    problem: Problem,
    routes: &Routes,
    group_frame: bool,
) -> Result<IcmpPacket, Silence> {
    let view = Ipv4View::parse_quoted(packet).map_err(|_| Silence::Unreadable)?;
    may_answer_v4(&view, routes, group_frame)?;
    let quoted = &packet[..packet
        .len()
        .min(view.total_len())
        .min(ICMPV4_ERROR_MAX - ipv4::LEN - icmpv4::LEN)];
    let unreachable = |code| Icmpv4::Unreachable {
        code,
        mtu: None,
        quoted,
    };
    let message = match problem {
        Problem::PortUnreachable => unreachable(icmpv4::UNREACHABLE_PORT),
        Problem::ProtocolUnreachable { .. } => unreachable(icmpv4::UNREACHABLE_PROTOCOL),
        Problem::ReassemblyTimeExceeded => Icmpv4::TimeExceeded {
            code: icmpv4::TIME_EXCEEDED_REASSEMBLY,
            quoted,
        },
        Problem::Parameter { code, pointer } => Icmpv4::ParameterProblem {
            code,
            pointer: pointer.min(255) as u8,
            quoted,
        },
    };
    let src = speaker(view.dst().into(), view.src().into(), routes)?;
    Ok(pack_v4(src, view.src(), &message))
}

/// RFC 1122 §3.2.2.
fn may_answer_v4(view: &Ipv4View<'_>, routes: &Routes, group_frame: bool) -> Result<(), Silence> {
    let (src, dst) = (view.src(), view.dst());
    if group_frame || dst.is_multicast() || routes.is_broadcast(dst.into()) {
        return Err(Silence::ToGroup);
    }
    // RFC 1122 also counts class E; its last address is the limited broadcast.
    let nobody =
        src.is_unspecified() || src.is_multicast() || src.is_loopback() || src.octets()[0] >= 240;
    if nobody || routes.is_broadcast(src.into()) {
        return Err(Silence::BadSource);
    }
    if view.fragment_offset() != 0 {
        return Err(Silence::LaterFragment);
    }
    let kind = view.payload().first();
    if view.protocol() == protocol::ICMP && !kind.is_some_and(|kind| ICMPV4_QUERIES.contains(kind))
    {
        return Err(Silence::AboutError);
    }
    Ok(())
}

/// The types that are known to be no errors: echo, router discovery, timestamp, information, mask.
const ICMPV4_QUERIES: [u8; 10] = [0, 8, 9, 10, 13, 14, 15, 16, 17, 18];

fn error_v6(
    packet: &[u8],
    problem: Problem,
    routes: &Routes,
    group_frame: bool,
) -> Result<IcmpPacket, Silence> {
    let view = Ipv6View::parse_quoted(packet).map_err(|_| Silence::Unreadable)?;
    may_answer_v6(&view, problem, group_frame)?;
    let whole = ipv6::LEN + view.payload_len();
    let quoted = &packet[..packet
        .len()
        .min(whole)
        .min(ICMPV6_ERROR_MAX - ipv6::LEN - icmpv6::LEN)];
    let parameter = |code, pointer| Icmpv6::ParameterProblem {
        code,
        pointer: pointer as u32,
        quoted,
    };
    let message = match problem {
        Problem::PortUnreachable => Icmpv6::Unreachable {
            code: icmpv6::UNREACHABLE_PORT,
            quoted,
        },
        // RFC 4443 §3.4: in IPv6 the unknown protocol is a wrong Next Header field.
        Problem::ProtocolUnreachable { pointer } => {
            parameter(icmpv6::PARAMETER_NEXT_HEADER, pointer)
        }
        Problem::ReassemblyTimeExceeded => Icmpv6::TimeExceeded {
            code: icmpv6::TIME_EXCEEDED_REASSEMBLY,
            quoted,
        },
        Problem::Parameter { code, pointer } => parameter(code, pointer),
    };
    let src = speaker(view.dst().into(), view.src().into(), routes)?;
    Ok(pack_v6(src, view.src(), &message))
}

/// RFC 4443 §2.4(e).
fn may_answer_v6(view: &Ipv6View<'_>, problem: Problem, group_frame: bool) -> Result<(), Silence> {
    // (e.3): the only error about group traffic that a host sends is that of an option which asks
    // for it.
    let about_option = matches!(
        problem,
        Problem::Parameter {
            code: icmpv6::PARAMETER_OPTION,
            ..
        }
    );
    if (group_frame || view.dst().is_multicast()) && !about_option {
        return Err(Silence::ToGroup);
    }
    // (e.6)
    let src = view.src();
    if src.is_unspecified() || src.is_multicast() || src.is_loopback() {
        return Err(Silence::BadSource);
    }
    // Headers that cannot be walked hide no upper layer that we could see: the problem is in them.
    let Ok(upper) = view.upper() else {
        return Ok(());
    };
    if upper.fragment.is_some_and(|f| f.offset != 0) {
        return Err(Silence::LaterFragment);
    }
    // (e.1), (e.2): errors, redirects.
    const REDIRECT: u8 = 137;
    let is_error = |kind: &u8| *kind < 128 || *kind == REDIRECT;
    if upper.protocol == protocol::ICMPV6 && upper.payload.first().is_none_or(is_error) {
        return Err(Silence::AboutError);
    }
    Ok(())
}

/// Whom an error comes from: the address that the packet was sent to, or what routing says.
fn speaker(asked: IpAddr, asker: IpAddr, routes: &Routes) -> Result<IpAddr, Silence> {
    if routes.is_local(asked) {
        return Ok(asked);
    }
    routes.source_for(asker).ok_or(Silence::NoAddress)
}

fn pack_v4(src: IpAddr, dst: Ipv4Addr, message: &Icmpv4<'_>) -> IcmpPacket {
    let mut bytes = vec![0; message.message_len()];
    message.emit(&mut bytes);
    IcmpPacket {
        src,
        dst: dst.into(),
        protocol: protocol::ICMP,
        message: bytes,
    }
}

fn pack_v6(src: IpAddr, dst: Ipv6Addr, message: &Icmpv6<'_>) -> IcmpPacket {
    let IpAddr::V6(from) = src else {
        unreachable!("addresses of one family")
    };
    let mut bytes = vec![0; message.message_len()];
    message.emit(&from, &dst, &mut bytes);
    IcmpPacket {
        src,
        dst: dst.into(),
        protocol: protocol::ICMPV6,
        message: bytes,
    }
}

/// Which half of an echo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Echo {
    /// Asks.
    Request,
    /// Answers.
    Reply,
}

/// An echo message of ours, from `src` to `dst`, which are of one family.
pub fn echo(
    which: Echo,
    src: IpAddr,
    dst: IpAddr,
    ident: u16,
    seq: u16,
    data: &[u8],
) -> IcmpPacket {
    match (dst, which) {
        (IpAddr::V4(dst), Echo::Request) => {
            pack_v4(src, dst, &Icmpv4::EchoRequest { ident, seq, data })
        }
        (IpAddr::V4(dst), Echo::Reply) => {
            pack_v4(src, dst, &Icmpv4::EchoReply { ident, seq, data })
        }
        (IpAddr::V6(dst), Echo::Request) => {
            pack_v6(src, dst, &Icmpv6::EchoRequest { ident, seq, data })
        }
        (IpAddr::V6(dst), Echo::Reply) => {
            pack_v6(src, dst, &Icmpv6::EchoReply { ident, seq, data })
        }
    }
}

/// The reply to an echo request for `dst` from `src`, if one is due. `message` is a whole ICMP
/// message of `src`'s family with a good checksum; `None` when it is no echo request, or one that
/// we do not answer.
pub fn answer_echo(
    src: IpAddr,
    dst: IpAddr,
    how: Delivery,
    message: &[u8],
    routes: &Routes,
) -> Option<IcmpPacket> {
    if src.is_unspecified() || src.is_multicast() || routes.is_broadcast(src) {
        return None;
    }
    // RFC 1122 §3.2.2.6 lets us ignore pings to IPv4 groups, by which crowds are made to answer one
    // victim; RFC 4443 §4.2 wants those to IPv6 groups answered, from a unicast address.
    let from = match how {
        Delivery::Unicast => dst,
        Delivery::Multicast if src.is_ipv6() => routes.source_for(src)?,
        Delivery::Multicast | Delivery::Broadcast => return None,
    };
    let (ident, seq, data) = echo_request(src, message)?;
    Some(echo(Echo::Reply, from, src, ident, seq, data))
}

fn echo_request(src: IpAddr, message: &[u8]) -> Option<(u16, u16, &[u8])> {
    match src {
        IpAddr::V4(_) => match Icmpv4View::parse(message).ok()?.message() {
            Icmpv4::EchoRequest { ident, seq, data } => Some((ident, seq, data)),
            _ => None,
        },
        IpAddr::V6(_) => match Icmpv6View::parse(message).ok()?.message().ok()? {
            Icmpv6::EchoRequest { ident, seq, data } => Some((ident, seq, data)),
            _ => None,
        },
    }
}

#[cfg(test)]
mod tests;
