//! The SYNs that are answered, byte by byte, and where the program keeps what it knows of one: in registers and on the stack.

use crate::ebpf::{Assembler, Reg, Size};
use crate::packet::{Bytes, NETWORK as IP};

/// Where things lie in the frame.
pub(in crate::handler) const SOURCE: usize = IP + 12;
pub(in crate::handler) const DESTINATION: usize = IP + 16;
pub(in crate::handler) const TCP: usize = IP + 20;
pub(in crate::handler) const CHECKSUM: usize = TCP + 16;
pub(in crate::handler) const OPTIONS: usize = TCP + 20;

/// Where things wait on the stack: words of eight bytes.
pub(in crate::handler) const LOCAL: i16 = -8;
pub(in crate::handler) const REMOTE: i16 = -16;
pub(in crate::handler) const PORTS: i16 = -24;
pub(in crate::handler) const EPOCH: i16 = -32;
pub(in crate::handler) const SAID: i16 = -40;
pub(in crate::handler) const PAIR: i16 = -48;
pub(in crate::handler) const MILLIS: i16 = -56;
pub(in crate::handler) const ISS: i16 = -64;
pub(in crate::handler) const COUNTER: i16 = -72;

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
pub(in crate::handler) const SACK_AND_TIMESTAMPS: u32 = 0x0402_080a;
pub(in crate::handler) const SCALE_OPTION: u32 = 0x0103_0300;

pub(in crate::handler) const SCALE_MAX: i32 = 14;

/// The two shapes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::handler) enum Shape {
    /// An MSS and nothing else.
    Bare,
    /// Linux's.
    Full,
}

impl Shape {
    /// Words of the TCP header.
    pub(in crate::handler) const fn words(self) -> usize {
        match self {
            Self::Bare => 6,
            Self::Full => 10,
        }
    }

    pub(in crate::handler) const fn frame_len(self) -> usize {
        TCP + 4 * self.words()
    }

    /// The IPv4 packet's length.
    pub(in crate::handler) const fn total_len(self) -> u16 {
        (20 + 4 * self.words()) as u16
    }
}

pub(in crate::handler) fn keep(asm: &mut Assembler, at: i16, src: Reg) {
    asm.store(Size::Double, Reg::R10, at, src);
}

pub(in crate::handler) fn kept(asm: &mut Assembler, dst: Reg, at: i16) {
    asm.load(Size::Double, dst, Reg::R10, at);
}
