//! What an ICMP error says about the packet that caused it.
//!
//! An error quotes the packet's beginning: of IPv4 the header and at least 8 bytes (RFC 792), of
//! IPv6 as much as fits (RFC 4443 §2.4 c). That is enough to find the connection that it belongs to:
//! addresses, protocol, ports, and for TCP the sequence number by which a forged error is told from
//! a real one (RFC 5927 §4.1).

use std::net::IpAddr;

use crate::bytes::{be16, be32, head};
use crate::ipv4::Ipv4View;
use crate::ipv6::Ipv6View;
use crate::{SeqNumber, WireError, protocol};

/// The beginning of a packet that we are said to have sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Quoted {
    /// Its source: one of our addresses, or the error is not for us.
    pub src: IpAddr,
    /// Its destination.
    pub dst: IpAddr,
    /// The upper-layer protocol.
    pub protocol: u8,
    /// What the protocol's first 8 bytes say.
    pub upper: QuotedUpper,
}

/// The first 8 bytes of a quoted packet's upper layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum QuotedUpper {
    /// TCP.
    Tcp {
        /// Our port.
        src_port: u16,
        /// The peer's port.
        dst_port: u16,
        /// The sequence number that we sent.
        seq: SeqNumber,
    },
    /// UDP.
    Udp {
        /// Our port.
        src_port: u16,
        /// The peer's port.
        dst_port: u16,
    },
    /// ICMP or ICMPv6, read as an echo.
    Icmp {
        /// Type.
        kind: u8,
        /// Identifier.
        ident: u16,
        /// Sequence number.
        seq: u16,
    },
    /// Another protocol, or a fragment other than the first.
    Other,
}

impl Quoted {
    /// Reads what an ICMP error over IPv4 quotes.
    ///
    /// # Errors
    /// Those of [`Ipv4View::parse_quoted`], or [`WireError::Truncated`] when fewer than 8 bytes of
    /// the upper layer are there.
    pub fn parse_v4(bytes: &[u8]) -> Result<Self, WireError> {
        let packet = Ipv4View::parse_quoted(bytes)?;
        let first = packet.fragment_offset() == 0;
        Ok(Self {
            src: packet.src().into(),
            dst: packet.dst().into(),
            protocol: packet.protocol(),
            upper: QuotedUpper::parse(packet.protocol(), packet.payload(), first)?,
        })
    }

    /// Reads what an ICMP error over IPv6 quotes.
    ///
    /// # Errors
    /// Those of [`Ipv6View::parse_quoted`] and [`Ipv6View::upper`], or [`WireError::Truncated`] when
    /// fewer than 8 bytes of the upper layer are there.
    pub fn parse_v6(bytes: &[u8]) -> Result<Self, WireError> {
        let packet = Ipv6View::parse_quoted(bytes)?;
        let upper = packet.upper()?;
        let first = upper.fragment.is_none_or(|fragment| fragment.offset == 0);
        Ok(Self {
            src: packet.src().into(),
            dst: packet.dst().into(),
            protocol: upper.protocol,
            upper: QuotedUpper::parse(upper.protocol, upper.payload, first)?,
        })
    }
}

impl QuotedUpper {
    fn parse(protocol: u8, payload: &[u8], first: bool) -> Result<Self, WireError> {
        if !first {
            return Ok(Self::Other);
        }
        let (bytes, _) = head::<8>(payload, "quoted packet")?;
        let (src_port, dst_port) = (be16::<0, _>(bytes), be16::<2, _>(bytes));
        Ok(match protocol {
            protocol::TCP => Self::Tcp {
                src_port,
                dst_port,
                seq: SeqNumber(be32::<4, _>(bytes)),
            },
            protocol::UDP => Self::Udp { src_port, dst_port },
            protocol::ICMP | protocol::ICMPV6 => {
                let (ident, seq) = (be16::<4, _>(bytes), be16::<6, _>(bytes));
                Self::Icmp {
                    kind: bytes[0],
                    ident,
                    seq,
                }
            }
            _ => Self::Other,
        })
    }
}
