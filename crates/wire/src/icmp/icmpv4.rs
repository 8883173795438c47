//! ICMP for IPv4 (RFC 792).
//!
//! ```text
//!  0      1      2          4                8
//!  | type | code | checksum | rest of header | body
//! ```
//!
//! `rest` is identifier and sequence number of an echo, the next hop's MTU of "fragmentation
//! needed" (RFC 1191), the gateway of a redirect, the pointer of a parameter problem. The body of
//! an error quotes the packet that caused it, cut short: read it with [`crate::quoted`].

use std::net::Ipv4Addr;
use std::ops::Deref;

use super::view::echo;
pub use super::view::{IcmpView, LEN};
use crate::bytes::{head_mut, put, put16, put32};
use crate::{Sum, WireError};

/// Type: answer to an echo request.
pub const ECHO_REPLY: u8 = 0;
/// Type: the packet could not be delivered; the code says why.
pub const UNREACHABLE: u8 = 3;
/// Type: use another gateway.
pub const REDIRECT: u8 = 5;
/// Type: asks for an echo reply.
pub const ECHO_REQUEST: u8 = 8;
/// Type: the time to live or the time for reassembly ran out.
pub const TIME_EXCEEDED: u8 = 11;
/// Type: a field of the header is wrong.
pub const PARAMETER_PROBLEM: u8 = 12;

/// Code of [`UNREACHABLE`]: nobody speaks the protocol.
pub const UNREACHABLE_PROTOCOL: u8 = 2;
/// Code of [`UNREACHABLE`]: nobody listens at the port.
pub const UNREACHABLE_PORT: u8 = 3;
/// Code of [`UNREACHABLE`]: it would have to be fragmented, and must not.
pub const UNREACHABLE_FRAGMENTATION_NEEDED: u8 = 4;
/// Code of [`TIME_EXCEEDED`]: in transit.
pub const TIME_EXCEEDED_TTL: u8 = 0;
/// Code of [`TIME_EXCEEDED`]: while waiting for fragments.
pub const TIME_EXCEEDED_REASSEMBLY: u8 = 1;

/// A received message.
#[derive(Clone, Copy, Debug)]
pub struct Icmpv4View<'a>(IcmpView<'a>);

impl<'a> Deref for Icmpv4View<'a> {
    type Target = IcmpView<'a>;

    #[inline]
    fn deref(&self) -> &IcmpView<'a> {
        &self.0
    }
}

impl<'a> Icmpv4View<'a> {
    /// Reads a message: the whole payload of the IPv4 packet.
    ///
    /// # Errors
    /// [`WireError::Truncated`].
    #[inline]
    pub fn parse(message: &'a [u8]) -> Result<Self, WireError> {
        IcmpView::parse(message, "icmp").map(Self)
    }

    /// True when the message is intact.
    #[inline]
    #[must_use]
    pub fn checksum_ok(&self) -> bool {
        Sum::of(self.header())
            .plus(Sum::of(self.body()))
            .is_intact()
    }

    /// The packet that an error is about, cut short; empty for what is no error.
    #[inline]
    #[must_use]
    pub fn quoted(&self) -> &'a [u8] {
        match self.kind() {
            UNREACHABLE | REDIRECT | TIME_EXCEEDED | PARAMETER_PROBLEM => self.body(),
            _ => &[],
        }
    }

    /// The message as a value.
    #[must_use]
    pub fn message(&self) -> Icmpv4<'a> {
        let (code, quoted) = (self.code(), self.body());
        match (self.kind(), code) {
            (ECHO_REQUEST, 0) => Icmpv4::EchoRequest {
                ident: self.ident(),
                seq: self.seq(),
                data: self.body(),
            },
            (ECHO_REPLY, 0) => Icmpv4::EchoReply {
                ident: self.ident(),
                seq: self.seq(),
                data: self.body(),
            },
            (UNREACHABLE, _) => Icmpv4::Unreachable {
                code,
                mtu: self.mtu(),
                quoted,
            },
            (TIME_EXCEEDED, _) => Icmpv4::TimeExceeded { code, quoted },
            (PARAMETER_PROBLEM, _) => Icmpv4::ParameterProblem {
                code,
                pointer: self.header()[4],
                quoted,
            },
            (REDIRECT, _) => Icmpv4::Redirect {
                code,
                gateway: self.rest().into(),
                quoted,
            },
            (kind, code) => Icmpv4::Other {
                kind,
                code,
                rest: self.rest(),
                body: self.body(),
            },
        }
    }

    /// RFC 1191 §4: routers older than it leave the field zero.
    fn mtu(&self) -> Option<u16> {
        let mtu = self.seq();
        (self.code() == UNREACHABLE_FRAGMENTATION_NEEDED && mtu != 0).then_some(mtu)
    }
}

/// A message, received or to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Icmpv4<'a> {
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
        /// The next hop's MTU, with [`UNREACHABLE_FRAGMENTATION_NEEDED`] and if known.
        mtu: Option<u16>,
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
        /// 0: the pointer says where.
        code: u8,
        /// Offset of the offending byte.
        pointer: u8,
        /// The packet's beginning.
        quoted: &'a [u8],
    },
    /// There is a better gateway.
    Redirect {
        /// For the network (0) or the host (1); with the type of service, 2 and 3.
        code: u8,
        /// The better gateway.
        gateway: Ipv4Addr,
        /// The packet's beginning.
        quoted: &'a [u8],
    },
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

impl<'a> Icmpv4<'a> {
    /// Bytes that [`Self::emit`] writes.
    #[must_use]
    pub fn message_len(&self) -> usize {
        LEN + self.parts().3.len()
    }

    /// Writes the message with its checksum and returns its length.
    ///
    /// # Panics
    /// When `out` is shorter than [`Self::message_len`].
    pub fn emit(&self, out: &mut [u8]) -> usize {
        let (kind, code, rest, body) = self.parts();
        let (header, room) = head_mut::<LEN>(out, "icmp");
        put::<0, 2, _>(header, [kind, code]);
        put16::<2, _>(header, 0);
        put32::<4, _>(header, rest);
        room[..body.len()].copy_from_slice(body);
        let checksum = Sum::of(header).plus(Sum::of(body)).finish();
        put16::<2, _>(header, checksum);
        LEN + body.len()
    }

    /// Type, code, second half of the header, body.
    fn parts(&self) -> (u8, u8, u32, &'a [u8]) {
        match *self {
            Self::EchoRequest { ident, seq, data } => (ECHO_REQUEST, 0, echo(ident, seq), data),
            Self::EchoReply { ident, seq, data } => (ECHO_REPLY, 0, echo(ident, seq), data),
            Self::Unreachable { code, mtu, quoted } => {
                (UNREACHABLE, code, mtu.unwrap_or(0).into(), quoted)
            }
            Self::TimeExceeded { code, quoted } => (TIME_EXCEEDED, code, 0, quoted),
            Self::ParameterProblem {
                code,
                pointer,
                quoted,
            } => (PARAMETER_PROBLEM, code, u32::from(pointer) << 24, quoted),
            Self::Redirect {
                code,
                gateway,
                quoted,
            } => (REDIRECT, code, gateway.to_bits(), quoted),
            Self::Other {
                kind,
                code,
                rest,
                body,
            } => (kind, code, rest, body),
        }
    }
}
