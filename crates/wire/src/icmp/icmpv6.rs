//! ICMP for IPv6 (RFC 4443); neighbour discovery is in [`ndp`].
//!
//! ```text
//!  0      1      2          4                8
//!  | type | code | checksum | rest of header | body
//! ```
//!
//! The checksum covers a pseudo-header, so that it cannot be verified or written without the
//! packet's addresses. The body of an error quotes the packet that caused it, cut short: read it
//! with [`crate::quoted`].

use std::net::Ipv6Addr;
use std::ops::Deref;

use super::view::echo;
pub use super::view::{IcmpView, LEN};
use crate::bytes::{head_mut, put, put16, put32};
pub use crate::ndp;
use crate::ndp::{
    NeighborAdvertisement, NeighborSolicitation, RouterAdvertisement, RouterSolicitation,
};
use crate::{Sum, WireError, protocol};

/// Type: the packet could not be delivered; the code says why.
pub const UNREACHABLE: u8 = 1;
/// Type: the packet is larger than the next link's MTU.
pub const PACKET_TOO_BIG: u8 = 2;
/// Type: the hop limit or the time for reassembly ran out.
pub const TIME_EXCEEDED: u8 = 3;
/// Type: a field of a header is wrong.
pub const PARAMETER_PROBLEM: u8 = 4;
/// Type: asks for an echo reply.
pub const ECHO_REQUEST: u8 = 128;
/// Type: answer to an echo request.
pub const ECHO_REPLY: u8 = 129;
/// Type: asks routers to advertise themselves.
pub const ROUTER_SOLICITATION: u8 = 133;
/// Type: a router advertises itself.
pub const ROUTER_ADVERTISEMENT: u8 = 134;
/// Type: asks for a neighbour's link-layer address.
pub const NEIGHBOR_SOLICITATION: u8 = 135;
/// Type: gives it.
pub const NEIGHBOR_ADVERTISEMENT: u8 = 136;

/// Code of [`UNREACHABLE`]: nobody listens at the port.
pub const UNREACHABLE_PORT: u8 = 4;
/// Code of [`TIME_EXCEEDED`]: in transit.
pub const TIME_EXCEEDED_HOP_LIMIT: u8 = 0;
/// Code of [`TIME_EXCEEDED`]: while waiting for fragments.
pub const TIME_EXCEEDED_REASSEMBLY: u8 = 1;
/// Code of [`PARAMETER_PROBLEM`]: nobody speaks the next header.
pub const PARAMETER_NEXT_HEADER: u8 = 1;
/// Code of [`PARAMETER_PROBLEM`]: an option is not known.
pub const PARAMETER_OPTION: u8 = 2;

/// A received message.
#[derive(Clone, Copy, Debug)]
pub struct Icmpv6View<'a> {
    whole: &'a [u8],
    view: IcmpView<'a>,
}

impl<'a> Deref for Icmpv6View<'a> {
    type Target = IcmpView<'a>;

    #[inline]
    fn deref(&self) -> &IcmpView<'a> {
        &self.view
    }
}

impl<'a> Icmpv6View<'a> {
    /// Reads a message: the whole upper-layer payload of the IPv6 packet.
    ///
    /// # Errors
    /// [`WireError::Truncated`].
    #[inline]
    pub fn parse(message: &'a [u8]) -> Result<Self, WireError> {
        let view = IcmpView::parse(message, "icmp6")?;
        Ok(Self {
            whole: message,
            view,
        })
    }

    /// True when the message is intact and was sent between these addresses.
    #[inline]
    #[must_use]
    pub fn checksum_ok(&self, src: &Ipv6Addr, dst: &Ipv6Addr) -> bool {
        pseudo(src, dst, self.whole.len())
            .plus(Sum::of(self.whole))
            .is_intact()
    }

    /// True for errors, which must never be answered with an error (RFC 4443 §2.1, §2.4 e.1).
    #[inline]
    #[must_use]
    pub fn is_error(&self) -> bool {
        self.kind() < 128
    }

    /// The packet that an error is about, cut short; empty for what is no error.
    #[inline]
    #[must_use]
    pub fn quoted(&self) -> &'a [u8] {
        if self.is_error() { self.body() } else { &[] }
    }

    /// The message as a value.
    ///
    /// # Errors
    /// Those of [`ndp`]'s parsers. Nothing else fails.
    pub fn message(&self) -> Result<Icmpv6<'a>, WireError> {
        let (code, quoted, rest) = (self.code(), self.body(), self.rest());
        let (ident, seq, data) = (self.ident(), self.seq(), self.body());
        Ok(match (self.kind(), code) {
            (ECHO_REQUEST, 0) => Icmpv6::EchoRequest { ident, seq, data },
            (ECHO_REPLY, 0) => Icmpv6::EchoReply { ident, seq, data },
            (UNREACHABLE, _) => Icmpv6::Unreachable { code, quoted },
            // RFC 4443 §3.2: the code is zero when sent and ignored when received.
            (PACKET_TOO_BIG, _) => Icmpv6::PacketTooBig { mtu: rest, quoted },
            (TIME_EXCEEDED, _) => Icmpv6::TimeExceeded { code, quoted },
            (PARAMETER_PROBLEM, _) => Icmpv6::ParameterProblem {
                code,
                pointer: rest,
                quoted,
            },
            (NEIGHBOR_SOLICITATION, _) => {
                Icmpv6::NeighborSolicitation(NeighborSolicitation::parse(self.whole)?)
            }
            (NEIGHBOR_ADVERTISEMENT, _) => {
                Icmpv6::NeighborAdvertisement(NeighborAdvertisement::parse(self.whole)?)
            }
            (ROUTER_SOLICITATION, _) => {
                Icmpv6::RouterSolicitation(RouterSolicitation::parse(self.whole)?)
            }
            (ROUTER_ADVERTISEMENT, _) => {
                Icmpv6::RouterAdvertisement(RouterAdvertisement::parse(self.whole)?)
            }
            (kind, code) => Icmpv6::Other {
                kind,
                code,
                rest,
                body: self.body(),
            },
        })
    }
}

/// A message, received or to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Icmpv6<'a> {
    /// Asks for a reply with the same contents.
    EchoRequest {
        /// Identifier.
        ident: u16,
        /// Sequence number.
        seq: u16,
        /// Data to be returned.
        data: &'a [u8],
    },
    /// The answer.
    EchoReply {
        /// Identifier of the request.
        ident: u16,
        /// Sequence number of the request.
        seq: u16,
        /// Data of the request.
        data: &'a [u8],
    },
    /// A packet could not be delivered.
    Unreachable {
        /// Why.
        code: u8,
        /// The packet's beginning.
        quoted: &'a [u8],
    },
    /// A packet was larger than the next link allows.
    PacketTooBig {
        /// The next link's MTU.
        mtu: u32,
        /// The packet's beginning.
        quoted: &'a [u8],
    },
    /// A packet's time ran out.
    TimeExceeded {
        /// Which time.
        code: u8,
        /// The packet's beginning.
        quoted: &'a [u8],
    },
    /// A packet's header is wrong.
    ParameterProblem {
        /// What is wrong.
        code: u8,
        /// Offset of the offending byte in the packet.
        pointer: u32,
        /// The packet's beginning.
        quoted: &'a [u8],
    },
    /// Asks routers to advertise themselves.
    RouterSolicitation(RouterSolicitation),
    /// A router advertises itself.
    RouterAdvertisement(RouterAdvertisement),
    /// Asks for a neighbour's link-layer address.
    NeighborSolicitation(NeighborSolicitation),
    /// Gives it.
    NeighborAdvertisement(NeighborAdvertisement),
    /// Anything else.
    Other {
        /// Type.
        kind: u8,
        /// Code.
        code: u8,
        /// Second half of the header.
        rest: u32,
        /// What follows the header.
        body: &'a [u8],
    },
}

impl Icmpv6<'_> {
    /// Bytes that [`Self::emit`] writes.
    #[must_use]
    pub fn message_len(&self) -> usize {
        match self {
            Self::EchoRequest { data, .. } | Self::EchoReply { data, .. } => LEN + data.len(),
            Self::Unreachable { quoted, .. }
            | Self::PacketTooBig { quoted, .. }
            | Self::TimeExceeded { quoted, .. }
            | Self::ParameterProblem { quoted, .. } => LEN + quoted.len(),
            Self::RouterSolicitation(message) => message.message_len(),
            Self::RouterAdvertisement(message) => message.message_len(),
            Self::NeighborSolicitation(message) => message.message_len(),
            Self::NeighborAdvertisement(message) => message.message_len(),
            Self::Other { body, .. } => LEN + body.len(),
        }
    }

    /// Writes the message with its checksum and returns its length.
    ///
    /// # Panics
    /// When `out` is shorter than [`Self::message_len`].
    pub fn emit(&self, src: &Ipv6Addr, dst: &Ipv6Addr, out: &mut [u8]) -> usize {
        let (kind, code, rest, body) = match *self {
            Self::EchoRequest { ident, seq, data } => (ECHO_REQUEST, 0, echo(ident, seq), data),
            Self::EchoReply { ident, seq, data } => (ECHO_REPLY, 0, echo(ident, seq), data),
            Self::Unreachable { code, quoted } => (UNREACHABLE, code, 0, quoted),
            Self::PacketTooBig { mtu, quoted } => (PACKET_TOO_BIG, 0, mtu, quoted),
            Self::TimeExceeded { code, quoted } => (TIME_EXCEEDED, code, 0, quoted),
            Self::ParameterProblem {
                code,
                pointer,
                quoted,
            } => (PARAMETER_PROBLEM, code, pointer, quoted),
            Self::Other {
                kind,
                code,
                rest,
                body,
            } => (kind, code, rest, body),
            Self::RouterSolicitation(message) => return message.emit(src, dst, out),
            Self::RouterAdvertisement(message) => return message.emit(src, dst, out),
            Self::NeighborSolicitation(message) => return message.emit(src, dst, out),
            Self::NeighborAdvertisement(message) => return message.emit(src, dst, out),
        };
        let (header, room) = head_mut::<LEN>(out, "icmp6");
        put::<0, 2, _>(header, [kind, code]);
        put32::<4, _>(header, rest);
        room[..body.len()].copy_from_slice(body);
        let len = LEN + body.len();
        fill_checksum(src, dst, &mut out[..len]);
        len
    }
}

#[inline]
fn pseudo(src: &Ipv6Addr, dst: &Ipv6Addr, len: usize) -> Sum {
    // A message lies in a packet, whose length has 16 bits.
    Sum::pseudo_v6(src, dst, protocol::ICMPV6, len as u32)
}

/// Writes the checksum of a message that is complete otherwise.
pub(crate) fn fill_checksum(src: &Ipv6Addr, dst: &Ipv6Addr, message: &mut [u8]) {
    let len = message.len();
    let (header, body) = head_mut::<LEN>(message, "icmp6");
    put16::<2, _>(header, 0);
    let sum = pseudo(src, dst, len)
        .plus(Sum::of(header))
        .plus(Sum::of(body));
    put16::<2, _>(header, sum.finish());
}
