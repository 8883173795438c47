//! ICMP errors about packets of ours, read for the transports.
//!
//! An error is a hint by someone on the way, and easily forged: [`IcmpError`] gives the transport
//! what it needs to judge it. TCP looks whether [`IcmpError::seq`] is of data in flight (RFC 5927
//! §4.1), does not end a connection that is established for a hard error (RFC 5461 §4.1 and what
//! every stack does since), and never raises its segment size on one.

use exos_wire::SeqNumber;
use exos_wire::icmpv4::{self, Icmpv4, Icmpv4View};
use exos_wire::icmpv6::{self, Icmpv6, Icmpv6View};
use exos_wire::ipv4::Ipv4View;
use exos_wire::quoted::{Quoted, QuotedUpper};
use std::net::IpAddr;

/// What is said to have happened to the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// No route to the network, or none from where we are.
    NetworkUnreachable,
    /// The last router found nobody with the address.
    HostUnreachable,
    /// The host does not speak the protocol.
    ProtocolUnreachable,
    /// Nobody listens at the port.
    PortUnreachable,
    /// Somebody on the way does not allow it.
    Prohibited,
    /// It passed too many routers.
    HopLimitExceeded,
    /// Its fragments did not all arrive.
    ReassemblyTimeExceeded,
    /// A header was not understood.
    ParameterProblem,
}

/// How an error is to be taken (RFC 1122 §4.2.3.9).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// May pass: try on, and remember the reason in case of giving up.
    Soft(Reason),
    /// Will not pass: a connection attempt may give up.
    Hard(Reason),
    /// Send smaller packets.
    TooBig {
        /// The largest IP packet that passes; at least 1280 for IPv6 and 68 for IPv4. The transport
        /// has a floor of its own.
        mtu: u32,
    },
}

/// An error about a packet that we sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct IcmpError {
    /// What happened.
    pub kind: ErrorKind,
    /// The packet's source. The caller checks that it is ours.
    pub local: IpAddr,
    /// The packet's destination.
    pub remote: IpAddr,
    /// The packet's upper-layer protocol.
    pub protocol: u8,
    /// Its source port; zero if the protocol has none.
    pub local_port: u16,
    /// Its destination port; zero if the protocol has none.
    pub remote_port: u16,
    /// Its sequence number, of TCP.
    pub seq: Option<SeqNumber>,
}

/// Read an ICMP error; `None` for other messages, and for errors that say nothing of use.
pub fn parse_v4(view: &Icmpv4View<'_>) -> Option<IcmpError> {
    let (kind, quoted) = match view.message() {
        Icmpv4::Unreachable {
            code: icmpv4::UNREACHABLE_FRAGMENTATION_NEEDED,
            mtu,
            quoted,
        } => (too_big_v4(mtu, quoted)?, quoted),
        Icmpv4::Unreachable { code, quoted, .. } => (unreachable_v4(code)?, quoted),
        Icmpv4::TimeExceeded { code, quoted } => (time_exceeded(code)?, quoted),
        Icmpv4::ParameterProblem { quoted, .. } => {
            (ErrorKind::Soft(Reason::ParameterProblem), quoted)
        }
        // RFC 1122 §3.2.2.2 wants redirects obeyed; everybody on the link could then take our
        // traffic.
        Icmpv4::Redirect { .. } => return None,
        Icmpv4::EchoRequest { .. } | Icmpv4::EchoReply { .. } | Icmpv4::Other { .. } => {
            return None;
        }
    };
    Some(about(kind, Quoted::parse_v4(quoted).ok()?))
}

/// Read an ICMPv6 error; `None` for other messages, and for errors that say nothing of use.
pub fn parse_v6(view: &Icmpv6View<'_>) -> Option<IcmpError> {
    if !view.is_error() {
        return None;
    }
    let (kind, quoted) = match view.message().ok()? {
        Icmpv6::Unreachable { code, quoted } => (unreachable_v6(code)?, quoted),
        // RFC 8201 §4: a smaller value than the minimum MTU is not believed.
        Icmpv6::PacketTooBig { mtu, quoted } => (ErrorKind::TooBig { mtu: mtu.max(1280) }, quoted),
        Icmpv6::TimeExceeded { code, quoted } => (time_exceeded(code)?, quoted),
        // RFC 4443 §3.4: code 1 is IPv6's protocol unreachable.
        Icmpv6::ParameterProblem {
            code: icmpv6::PARAMETER_NEXT_HEADER,
            quoted,
            ..
        } => (ErrorKind::Hard(Reason::ProtocolUnreachable), quoted),
        Icmpv6::ParameterProblem { quoted, .. } => {
            (ErrorKind::Soft(Reason::ParameterProblem), quoted)
        }
        _ => return None,
    };
    Some(about(kind, Quoted::parse_v6(quoted).ok()?))
}

fn about(kind: ErrorKind, quoted: Quoted) -> IcmpError {
    let (local_port, remote_port, seq) = match quoted.upper {
        QuotedUpper::Tcp {
            src_port,
            dst_port,
            seq,
        } => (src_port, dst_port, Some(seq)),
        QuotedUpper::Udp { src_port, dst_port } => (src_port, dst_port, None),
        QuotedUpper::Icmp { .. } | QuotedUpper::Other => (0, 0, None),
    };
    let Quoted {
        src: local,
        dst: remote,
        protocol,
        ..
    } = quoted;
    IcmpError {
        kind,
        local,
        remote,
        protocol,
        local_port,
        remote_port,
        seq,
    }
}

/// RFC 1122 §3.2.2.1 and §4.2.3.9, RFC 1812 §5.2.7.1.
fn unreachable_v4(code: u8) -> Option<ErrorKind> {
    Some(match code {
        0 | 5 | 6 | 11 => ErrorKind::Soft(Reason::NetworkUnreachable),
        1 | 7 | 8 | 12 => ErrorKind::Soft(Reason::HostUnreachable),
        icmpv4::UNREACHABLE_PROTOCOL => ErrorKind::Hard(Reason::ProtocolUnreachable),
        icmpv4::UNREACHABLE_PORT => ErrorKind::Hard(Reason::PortUnreachable),
        9 | 10 | 13 | 14 | 15 => ErrorKind::Soft(Reason::Prohibited),
        _ => return None,
    })
}

/// RFC 4443 §3.1.
fn unreachable_v6(code: u8) -> Option<ErrorKind> {
    Some(match code {
        0 | 2 => ErrorKind::Soft(Reason::NetworkUnreachable),
        1 | 5 | 6 => ErrorKind::Soft(Reason::Prohibited),
        3 => ErrorKind::Soft(Reason::HostUnreachable),
        icmpv6::UNREACHABLE_PORT => ErrorKind::Hard(Reason::PortUnreachable),
        _ => return None,
    })
}

/// The codes are the same in both families.
fn time_exceeded(code: u8) -> Option<ErrorKind> {
    Some(match code {
        icmpv4::TIME_EXCEEDED_TTL => ErrorKind::Soft(Reason::HopLimitExceeded),
        icmpv4::TIME_EXCEEDED_REASSEMBLY => ErrorKind::Soft(Reason::ReassemblyTimeExceeded),
        _ => return None,
    })
}

/// RFC 791: every router forwards 68 bytes whole.
const MTU_MIN_V4: u16 = 68;

/// RFC 1191 §7.1, table 7-1: MTUs of real links, for routers that do not say theirs.
const PLATEAUS: [u16; 10] = [
    32_000, 17_914, 8_166, 4_352, 2_002, 1_492, 1_006, 508, 296, MTU_MIN_V4,
];

fn too_big_v4(mtu: Option<u16>, quoted: &[u8]) -> Option<ErrorKind> {
    let mtu = match mtu {
        Some(mtu) => mtu.max(MTU_MIN_V4),
        None => {
            let sent = Ipv4View::parse_quoted(quoted).ok()?.total_len();
            PLATEAUS
                .into_iter()
                .find(|&p| usize::from(p) < sent)
                .unwrap_or(MTU_MIN_V4)
        }
    };
    Some(ErrorKind::TooBig { mtu: mtu.into() })
}
