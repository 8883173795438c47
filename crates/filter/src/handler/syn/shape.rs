//! The SYNs that are answered, byte by byte, and where the program keeps what it knows of one: in registers and on the stack.

use crate::ebpf::{Assembler, Reg, Size};
use crate::packet::{Bytes, NETWORK as IP};

/// Where things lie in the frame.
pub(super) const SOURCE: usize = IP + 12;
pub(super) const DESTINATION: usize = IP + 16;
pub(super) const TCP: usize = IP + 20;
pub(super) const CHECKSUM: usize = TCP + 16;
pub(super) const OPTIONS: usize = TCP + 20;

/// Where things wait on the stack: words of eight bytes.
pub(super) const LOCAL: i16 = -8;
pub(super) const REMOTE: i16 = -16;
pub(super) const PORTS: i16 = -24;
pub(super) const EPOCH: i16 = -32;
pub(super) const SAID: i16 = -40;
pub(super) const PAIR: i16 = -48;
pub(super) const MILLIS: i16 = -56;
pub(super) const ISS: i16 = -64;
pub(super) const COUNTER: i16 = -72;

pub(super) const CONTEXT: Reg = Reg::R6;
pub(super) const FRAME: Reg = Reg::R7;
/// All of the packet.
pub(super) const PACKET: Bytes = Bytes {
    start: FRAME,
    end: Reg::R9,
};

/// Don't Fragment, identification 0 (RFC 6864 §4.1).
pub(super) const ATOMIC: u32 = 0x4000;
pub(super) const SYN_ACK: u32 = 0x12;
pub(super) const MSS_OPTION: u32 = 0x0204_0000;
pub(super) const SACK_AND_TIMESTAMPS: u32 = 0x0402_080a;
pub(super) const SCALE_OPTION: u32 = 0x0103_0300;

pub(super) const SCALE_MAX: i32 = 14;

/// The two shapes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// An MSS and nothing else.
    Bare,
    /// Linux's.
    Full,
}

impl Shape {
    /// Words of the TCP header.
    pub(super) const fn words(self) -> usize {
        match self {
            Self::Bare => 6,
            Self::Full => 10,
        }
    }

    pub(super) const fn frame_len(self) -> usize {
        TCP + 4 * self.words()
    }

    /// The IPv4 packet's length.
    pub(super) const fn total_len(self) -> u16 {
        (20 + 4 * self.words()) as u16
    }
}

pub(super) fn keep(asm: &mut Assembler, at: i16, src: Reg) {
    asm.store(Size::Double, Reg::R10, at, src);
}

pub(super) fn kept(asm: &mut Assembler, dst: Reg, at: i16) {
    asm.load(Size::Double, dst, Reg::R10, at);
}
