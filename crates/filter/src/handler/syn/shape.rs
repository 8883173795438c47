//! The SYNs that are answered, byte by byte, and where the program keeps what it knows of one: in registers and on the stack.

use crate::ebpf::Reg;
use crate::handler::forward::Shape as Headers;
use crate::packet::Bytes;
use exos_wire::tcp;

/// TCP over IPv4, and over IPv6, without options and extension headers.
pub(in crate::handler) const FAMILIES: [Headers; 2] = [
    Headers {
        ipv6: false,
        tcp: true,
    },
    Headers {
        ipv6: true,
        tcp: true,
    },
];

/// Where things wait on the stack: words of eight bytes. An address is two of them; IPv4's is in IPv6's form (RFC 4291 §2.5.5.2).
pub(in crate::handler) const LOCAL: i16 = -16;
pub(in crate::handler) const REMOTE: i16 = -32;
pub(in crate::handler) const PORTS: i16 = -40;
pub(in crate::handler) const EPOCH: i16 = -48;
pub(in crate::handler) const SAID: i16 = -56;
pub(in crate::handler) const MILLIS: i16 = -64;
pub(in crate::handler) const ISS: i16 = -72;
pub(in crate::handler) const COUNTER: i16 = -80;

pub(in crate::handler) const CONTEXT: Reg = Reg::R6;
pub(in crate::handler) const FRAME: Reg = Reg::R7;
/// All of the packet.
pub(in crate::handler) const PACKET: Bytes = Bytes {
    start: FRAME,
    end: Reg::R9,
};

/// Don't Fragment, identification 0 (RFC 6864 §4.1).
pub(in crate::handler) const ATOMIC: u32 = 0x4000;
pub(in crate::handler) const SYN_ACK: u32 = 0x12;
pub(in crate::handler) const MSS_OPTION: u32 = 0x0204_0000;
pub(in crate::handler) const NOPS_AND_SACK: u32 = 0x0101_0402;
pub(in crate::handler) const SACK_AND_TIMESTAMPS: u32 = 0x0402_080a;
pub(in crate::handler) const SCALE_OPTION: u32 = 0x0103_0300;

pub(in crate::handler) const SCALE_MAX: i32 = 14;

/// What a SYN of a shape offers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Offers {
    /// An MSS and nothing else.
    Mss,
    /// That, selective acknowledgements and Windows's window scale, which a cookie without timestamps keeps.
    Scaled,
    /// All of Linux's options.
    All,
}

/// One of the shapes.
#[derive(Clone, Copy)]
pub(super) struct Shape {
    pub headers: Headers,
    pub offers: Offers,
}

impl Shape {
    /// Words of the TCP header.
    pub(super) const fn words(self) -> usize {
        match self.offers {
            Offers::Mss => 6,
            Offers::Scaled => 8,
            Offers::All => 10,
        }
    }

    /// Where the TCP header begins.
    pub(super) const fn tcp(self) -> usize {
        self.headers.upper()
    }

    pub(super) const fn options(self) -> usize {
        self.tcp() + tcp::LEN
    }

    pub(super) const fn frame_len(self) -> usize {
        self.tcp() + 4 * self.words()
    }
}
