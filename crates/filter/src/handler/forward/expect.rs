//! What a packet looks like that is forwarded: everything else goes on to the filter.

use super::settings::ForwardHandler;
use super::shape::{CONTEXT, END, FRAME, LENGTH, PACKET, Shape};
use crate::ebpf::{Alu, Assembler, Condition, Emit, Label, Reg, Size};
use crate::handler::arithmetic::{expect_header_sum, half};
use crate::packet::{ANY_FRAGMENT, ETHERTYPE, NETWORK as IP, expect_ipv6, expect_station};
use crate::program::classifier;
use exos_wire::ethernet::{ETHERTYPE_IPV4, ETHERTYPE_IPV6};
use exos_wire::{ipv4, ipv6, udp};

/// SYN, FIN and RST.
const CHANGES: i32 = 0x07;

impl ForwardHandler {
    /// A frame to us, with the family's type.
    pub(super) fn expect_frame(&self, asm: &mut Assembler, families: [Label; 2], other: Label) {
        asm.set(CONTEXT, Reg::R1);
        if self.is_of_buffers() {
            let tag = classifier::field::VLAN_PRESENT;
            asm.load(Size::Word, Reg::R2, CONTEXT, tag);
            asm.jump_if(Reg::R2, Condition::NotEqual, 0, other);
            PACKET.open_buffer(asm, CONTEXT);
        } else {
            PACKET.open(asm, Reg::R1);
        }
        PACKET.expect(asm, IP + ipv4::LEN + udp::LEN, Reg::R1, other);
        expect_station(asm, FRAME, self.own().mac, other);
        asm.load(Size::Half, Reg::R1, FRAME, ETHERTYPE);
        for (ethertype, family) in [ETHERTYPE_IPV4, ETHERTYPE_IPV6].into_iter().zip(families) {
            asm.jump_if(Reg::R1, Condition::Equal, half(ethertype), family);
        }
        asm.jump(other);
    }

    /// A whole packet, with a hop left after this one. Leaves the number of the protocol that it carries in r1, and keeps
    /// how long that is.
    pub(super) fn expect_header(&self, asm: &mut Assembler, ipv6: bool, other: Label) {
        let (length, header_len) = (Reg::R2, if ipv6 { ipv6::LEN } else { ipv4::LEN });
        let shape = Shape { ipv6, tcp: false };
        if ipv6 {
            PACKET.expect(asm, IP + ipv6::LEN, Reg::R1, other);
            asm.load(Size::Byte, Reg::R1, FRAME, IP);
            expect_ipv6(asm, Reg::R1, other);
            asm.load(Size::Half, length, FRAME, IP + 4);
        } else {
            asm.load(Size::Byte, Reg::R1, FRAME, IP);
            asm.jump_if(Reg::R1, Condition::NotEqual, 0x45, other);
            asm.load(Size::Half, Reg::R1, FRAME, IP + 6);
            asm.jump_if(Reg::R1, Condition::Set, half(ANY_FRAGMENT), other);
            // RFC 1812 §5.2.2: a forwarder verifies the header's checksum.
            expect_header_sum(asm, FRAME, IP, other);
            asm.load(Size::Half, length, FRAME, IP + 2);
        }
        asm.load(Size::Byte, Reg::R1, FRAME, shape.hops());
        asm.jump_if(Reg::R1, Condition::LessOrEqual, 1, other);
        asm.to_big_endian(length, 16);
        if !ipv6 {
            asm.jump_if(length, Condition::Less, header_len as i32, other);
            asm.alu(Alu::Sub, length, header_len as i32);
        }
        // For the verifier, which has not followed where it came from.
        asm.alu(Alu::And, length, 0xffff);
        asm.keep(LENGTH, length);
        if self.is_of_buffers() {
            // What headers are followed by may lie in other pieces.
            asm.alu(Alu::Add, length, (IP + header_len) as i32);
            asm.load(Size::Word, Reg::R1, CONTEXT, classifier::field::LEN);
            asm.jump_if(length, Condition::Greater, Reg::R1, other);
        } else {
            asm.set(Reg::R1, FRAME);
            asm.alu(Alu::Add, Reg::R1, (IP + header_len) as i32);
            asm.alu(Alu::Add, Reg::R1, length);
            asm.jump_if(Reg::R1, Condition::Greater, END, other);
        }
        let protocol = if ipv6 { IP + 6 } else { IP + 9 };
        asm.load(Size::Byte, Reg::R1, FRAME, protocol);
    }
}

/// Goes to the shape of the protocol in r1.
pub(super) fn choose_protocol(asm: &mut Assembler, shapes: &[(Shape, Label)]) {
    for (shape, here) in shapes {
        let protocol = i32::from(shape.protocol());
        asm.jump_if(Reg::R1, Condition::Equal, protocol, *here);
    }
}

/// A whole header of TCP or UDP, of a segment that changes nothing of how its connection stands.
pub(super) fn expect_upper(asm: &mut Assembler, shape: Shape, other: Label) {
    asm.kept(Reg::R2, LENGTH);
    let at_least = shape.upper_len() as i32;
    asm.jump_if(Reg::R2, Condition::Less, at_least, other);
    PACKET.expect(asm, shape.upper() + shape.upper_len(), Reg::R1, other);
    if shape.tcp {
        asm.load(Size::Byte, Reg::R1, FRAME, shape.upper() + 13);
        asm.jump_if(Reg::R1, Condition::Set, CHANGES, other);
    }
}
