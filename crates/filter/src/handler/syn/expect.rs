//! What a SYN that is answered looks like: everything else goes on to the filter.

use super::settings::SynHandler;
use super::shape::{
    CHECKSUM, CONTEXT, DESTINATION, FRAME, MSS_OPTION, OPTIONS, PACKET, SACK_AND_TIMESTAMPS,
    SCALE_MAX, SCALE_OPTION, SOURCE, Shape, TCP,
};
use crate::ebpf::{Assembler, Condition, Label, Reg, Size};
use crate::handler::arithmetic::{add_words, expect_half, expect_word, fold, get, half};
use crate::layers::IPV4;
use crate::packet::{ETHERTYPE, NETWORK as IP, expect_station};
use exos_wire::protocol;

impl SynHandler {
    /// A SYN to us in Ethernet, IPv4 and TCP headers without anything unusual. Leaves the end of the frame in r9.
    pub(super) fn expect_syn(&self, asm: &mut Assembler, other: Label, full: Label) {
        self.expect_segment(asm, other);
        expect_room(asm, Shape::Bare, other);
        // The header's length, and SYN alone.
        asm.load(Size::Half, Reg::R1, FRAME, TCP + 12);
        let shape = |shape: Shape| half((shape.words() as u16) << 12 | 0x02);
        asm.jump_if(Reg::R1, Condition::Equal, shape(Shape::Full), full);
        asm.jump_if(Reg::R1, Condition::NotEqual, shape(Shape::Bare), other);
    }

    /// A segment to the port, in headers without anything unusual before TCP's. Leaves the end of the frame in r9.
    pub(in crate::handler) fn expect_segment(&self, asm: &mut Assembler, other: Label) {
        asm.set(CONTEXT, Reg::R1);
        PACKET.open(asm, CONTEXT);
        PACKET.expect(asm, OPTIONS, Reg::R1, other);
        expect_station(asm, FRAME, self.mac, other);
        // From one host, not a group.
        asm.load(Size::Byte, Reg::R1, FRAME, 6);
        asm.jump_if(Reg::R1, Condition::Set, 1, other);
        expect_half(asm, FRAME, ETHERTYPE, IPV4, other);
        asm.load(Size::Byte, Reg::R1, FRAME, IP);
        asm.jump_if(Reg::R1, Condition::NotEqual, 0x45, other);
        // No fragment.
        asm.load(Size::Half, Reg::R1, FRAME, IP + 6);
        asm.jump_if(Reg::R1, Condition::Set, half(0xbfff), other);
        asm.load(Size::Byte, Reg::R1, FRAME, IP + 9);
        let tcp = i32::from(protocol::TCP);
        asm.jump_if(Reg::R1, Condition::NotEqual, tcp, other);
        self.expect_addresses(asm, other);
        asm.load(Size::Half, Reg::R1, FRAME, TCP);
        asm.jump_if(Reg::R1, Condition::Equal, 0, other);
        expect_half(asm, FRAME, TCP + 2, self.recipe.port, other);
    }

    /// To an address of ours, from one that a host may have.
    fn expect_addresses(&self, asm: &mut Assembler, other: Label) {
        let ours = asm.label();
        get(asm, Reg::R1, FRAME, DESTINATION);
        for address in &self.addresses {
            asm.jump_if32(Reg::R1, Condition::Equal, address.to_bits() as i32, ours);
        }
        asm.jump(other);
        asm.bind(ours);
        asm.load(Size::Byte, Reg::R1, FRAME, SOURCE);
        for network in [0, 127] {
            asm.jump_if(Reg::R1, Condition::Equal, network, other);
        }
        asm.jump_if(Reg::R1, Condition::GreaterOrEqual, 224, other);
        get(asm, Reg::R1, FRAME, SOURCE);
        for address in &self.not_from {
            asm.jump_if32(Reg::R1, Condition::Equal, address.to_bits() as i32, other);
        }
    }

    /// Right checksums, of IPv4 and TCP.
    pub(super) fn expect_sums(&self, asm: &mut Assembler, shape: Shape, other: Label) {
        let (sum, spare, right) = (Reg::R3, Reg::R2, asm.label());
        expect_half(asm, FRAME, IP + 2, shape.total_len(), other);
        asm.set(sum, 0);
        add_words(asm, sum, FRAME, IP, 5);
        fold(asm, sum, spare);
        asm.jump_if(sum, Condition::NotEqual, 0xffff, other);
        let length = (4 * shape.words()) as u16;
        let pseudo = half(u16::from(protocol::TCP)) + half(length);
        asm.set(sum, pseudo);
        add_words(asm, sum, FRAME, SOURCE, 2);
        asm.set(Reg::R4, sum);
        add_words(asm, sum, FRAME, TCP, shape.words());
        fold(asm, sum, spare);
        if self.may_be_partial {
            asm.jump_if(sum, Condition::Equal, 0xffff, right);
            fold(asm, Reg::R4, spare);
            asm.load(Size::Half, Reg::R1, FRAME, CHECKSUM);
            asm.jump_if(Reg::R1, Condition::NotEqual, Reg::R4, other);
        } else {
            asm.jump_if(sum, Condition::NotEqual, 0xffff, other);
        }
        asm.bind(right);
    }
}

/// The frame, whose end is in r9, is long enough.
pub(super) fn expect_room(asm: &mut Assembler, shape: Shape, other: Label) {
    PACKET.expect(asm, shape.frame_len(), Reg::R1, other);
}

pub(super) fn expect_options(asm: &mut Assembler, shape: Shape, other: Label) {
    expect_half(asm, FRAME, OPTIONS, (MSS_OPTION >> 16) as u16, other);
    if shape == Shape::Full {
        expect_word(asm, FRAME, OPTIONS + 4, SACK_AND_TIMESTAMPS, other);
        expect_half(asm, FRAME, OPTIONS + 16, (SCALE_OPTION >> 16) as u16, other);
        asm.load(Size::Byte, Reg::R1, FRAME, OPTIONS + 18);
        asm.jump_if(
            Reg::R1,
            Condition::NotEqual,
            (SCALE_OPTION >> 8 & 0xff) as i32,
            other,
        );
        // More than that is a mistake (RFC 7323 §2.3), which the stack mends.
        asm.load(Size::Byte, Reg::R1, FRAME, OPTIONS + 19);
        asm.jump_if(Reg::R1, Condition::Greater, SCALE_MAX, other);
    }
}
