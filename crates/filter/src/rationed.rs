//! A program that gives a socket what arrives, and no more of it than its reader has allowed.
//!
//! It is for a reader that answers for others: what strangers send it is bounded by nobody, and all that it does not get to
//! in time would push out what must be answered. So what arrives is of two classes ([`Class`]), each with a ration that the
//! reader renews when it has read. What is beyond the ration is dropped before it costs the reader anything, and neither
//! class takes the other's part.
//!
//! The rations are one value of an array ([`WORDS`] words of 64 bits, by [`admitted`] and [`dropped`]): what was let through
//! since the reader last set it to zero, and what was dropped for ever.

use crate::ebpf::{Alu, Assembler, Condition, Emit, Insn, Reg, Size, half};
use crate::packet::{Bytes, ETHERTYPE, NETWORK};
use crate::program::{Program, xdp};
use exos_wire::ethernet::{ETHERTYPE_ARP, ETHERTYPE_IPV6};
use exos_wire::protocol;

/// Words of the value that the program keeps its numbers in.
pub const WORDS: usize = 4;

/// What a frame is to the reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Class {
    /// ARP and neighbour discovery.
    Neighbours = 0,
    /// All else.
    Strays = 1,
}

/// The word with the number of frames of a class that were given to the socket since the reader set it to zero.
pub const fn admitted(class: Class) -> usize {
    class as usize
}

/// The word with the number of frames of a class that were dropped.
pub const fn dropped(class: Class) -> usize {
    DROPPED as usize / 8 + class as usize
}

/// Where the IPv6 next header and the ICMPv6 type lie in a frame without a tag.
const NEXT_HEADER: usize = NETWORK + 6;
const ICMPV6_TYPE: usize = NETWORK + 40;
/// Router solicitation to redirect (RFC 4861 §4).
const DISCOVERY: std::ops::RangeInclusive<i32> = 133..=137;
/// Where the key of the array lies on the stack.
const KEY: i16 = -4;
/// Bytes from the first word of what was let through to the first of what was dropped.
const DROPPED: i16 = 16;

/// The program. `sockets` is an XSKMAP, indexed by receive queue, `rations` an array of one value; a class gets `ration`
/// frames at most.
pub fn rationed(sockets: i32, rations: i32, ration: i32) -> Program {
    let mut asm = Assembler::new();
    let drop = asm.label();
    asm.set(Reg::R6, Reg::R1);
    classify(&mut asm);
    asm.store_imm(Size::Word, Reg::R10, KEY, 0);
    asm.look_up(rations, KEY, drop);
    // r0 points to the class's word of what was let through; that of what was dropped is two words behind.
    asm.alu(Alu::ShiftLeft, Reg::R7, 3);
    asm.alu(Alu::Add, Reg::R0, Reg::R7);
    let over = asm.label();
    // Looked at before it is added to, so that a flood writes nothing where the reader reads.
    asm.load(Size::Double, Reg::R1, Reg::R0, 0);
    asm.jump_if(Reg::R1, Condition::GreaterOrEqual, ration, over);
    asm.set(Reg::R1, 1);
    asm.push(Insn::atomic_add(Reg::R0, 0, Reg::R1));
    // struct xdp_md: rx_queue_index is its fifth word.
    asm.load(Size::Word, Reg::R2, Reg::R6, 16);
    asm.redirect(sockets, xdp::DROP);
    asm.exit();
    asm.bind(over);
    asm.set(Reg::R1, 1);
    asm.push(Insn::atomic_add(Reg::R0, DROPPED, Reg::R1));
    asm.bind(drop);
    asm.set(Reg::R0, xdp::DROP);
    asm.exit();
    Program::new(asm.finish().expect("it is short"))
}

/// Leaves the class in r7.
fn classify(asm: &mut Assembler) {
    let [found, six] = [(); 2].map(|()| asm.label());
    asm.set(Reg::R7, Class::Strays as i32);
    let frame = Bytes {
        start: Reg::R2,
        end: Reg::R3,
    };
    frame.open(asm, Reg::R6);
    frame.expect(asm, NETWORK, Reg::R4, found);
    asm.load(Size::Half, Reg::R5, frame.start, ETHERTYPE);
    asm.jump_if(Reg::R5, Condition::Equal, half(ETHERTYPE_IPV6), six);
    asm.jump_if(Reg::R5, Condition::NotEqual, half(ETHERTYPE_ARP), found);
    asm.set(Reg::R7, Class::Neighbours as i32);
    asm.jump(found);
    asm.bind(six);
    frame.expect(asm, ICMPV6_TYPE + 1, Reg::R4, found);
    asm.load(Size::Byte, Reg::R5, Reg::R2, NEXT_HEADER);
    asm.jump_if(
        Reg::R5,
        Condition::NotEqual,
        i32::from(protocol::ICMPV6),
        found,
    );
    asm.load(Size::Byte, Reg::R5, Reg::R2, ICMPV6_TYPE);
    asm.jump_if(Reg::R5, Condition::Less, *DISCOVERY.start(), found);
    asm.jump_if(Reg::R5, Condition::Greater, *DISCOVERY.end(), found);
    asm.set(Reg::R7, Class::Neighbours as i32);
    asm.bind(found);
}
