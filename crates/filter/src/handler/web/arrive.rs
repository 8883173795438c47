//! A segment as it arrives: what the cases are told by, read and kept on the stack.

use super::layout::REQUEST_MAX;
use super::shape::*;
use super::{Generator, WebHandler};
use crate::ebpf::{Alu, Condition, Helper, Reg, Size, half};
use crate::handler::arithmetic::{add_words, expect_word, fold, get};
use crate::packet::NETWORK as IP;
use exos_wire::protocol;

/// No-operation twice, timestamps: as nearly all send them (RFC 7323, appendix A).
pub(super) const TIMESTAMPS: u32 = 0x0101_080a;

impl Generator<'_> {
    /// To the SYNs' code with SYNs; to `pass` with what is not of the port, or damaged.
    pub(super) fn arrive(&mut self, of: &WebHandler) {
        let pass = self.labels.pass;
        let v4 = self.asm.label();
        of.syn.expect_frame(self.asm, &[(FAMILIES[0], v4)], pass);
        self.asm.bind(v4);
        of.syn.expect_segment(self.asm, FAMILIES[0], pass);
        let asm = &mut *self.asm;
        asm.load(Size::Byte, Reg::R1, FRAME, TCP + 13);
        asm.jump_if(Reg::R1, Condition::Set, 0x02, self.labels.syn);
        keep(asm, FLAGS, Reg::R1);
        for (to, at) in [(SEQ, TCP + 4), (ACK, TCP + 8)] {
            get(asm, Reg::R1, FRAME, at);
            keep(asm, to, Reg::R1);
        }
        asm.load(Size::Half, Reg::R1, FRAME, TCP + 14);
        asm.to_big_endian(Reg::R1, 16);
        keep(asm, WINDOW, Reg::R1);
        asm.load(Size::Word, Reg::R1, FRAME, 6);
        asm.store(Size::Word, Reg::R10, PEER_MAC, Reg::R1);
        asm.load(Size::Half, Reg::R1, FRAME, 10);
        asm.store(Size::Half, Reg::R10, PEER_MAC + 4, Reg::R1);
        for at in [STAMPS, HIT, HEADER, CLOCK] {
            asm.store_imm(Size::Double, Reg::R10, at, 0);
        }
        asm.store_imm(Size::Double, Reg::R10, LEN, TOO_LONG);
        asm.set(Reg::R1, CONTEXT);
        asm.call(Helper::XdpGetBuffLen);
        keep(asm, FRAME_LEN, Reg::R0);
        self.shape();
        of.syn.look(self.asm, FAMILIES[0]);
        let asm = &mut *self.asm;
        kept(asm, Reg::R1, LOCAL + 8);
        asm.alu(Alu::ShiftLeft, Reg::R1, 32);
        kept(asm, Reg::R2, REMOTE + 8);
        asm.alu32(Alu::Move, Reg::R2, Reg::R2);
        asm.alu(Alu::Or, Reg::R1, Reg::R2);
        keep(asm, PAIR, Reg::R1);
    }

    /// Finds out the header's length, and so that of what it carries.
    fn shape(&mut self) {
        let [usual, stamped, known, odd] = [(); 4].map(|()| self.asm.label());
        let asm = &mut *self.asm;
        asm.load(Size::Byte, Reg::R1, Reg::R10, FLAGS);
        asm.alu(Alu::And, Reg::R1, !(FIN | PSH) & 0xff);
        asm.jump_if(Reg::R1, Condition::Equal, ACK_FLAG, usual);
        asm.alu(Alu::And, Reg::R1, !ACK_FLAG & 0xff);
        asm.jump_if(Reg::R1, Condition::NotEqual, RST, odd);
        asm.bind(usual);
        asm.load(Size::Byte, Reg::R1, FRAME, TCP + 12);
        asm.jump_if(Reg::R1, Condition::Equal, 0x80, stamped);
        asm.jump_if(Reg::R1, Condition::NotEqual, 0x50, odd);
        asm.set(Reg::R3, 20);
        asm.jump(known);
        asm.bind(stamped);
        PACKET.expect(asm, OPTIONS + 12, Reg::R1, odd);
        expect_word(asm, FRAME, OPTIONS, TIMESTAMPS, odd);
        get(asm, Reg::R1, FRAME, OPTIONS + 4);
        asm.store(Size::Word, Reg::R10, STAMPS, Reg::R1);
        get(asm, Reg::R1, FRAME, OPTIONS + 8);
        asm.store(Size::Word, Reg::R10, STAMPS + 4, Reg::R1);
        asm.set(Reg::R3, 32);
        asm.bind(known);
        asm.load(Size::Half, Reg::R1, FRAME, IP + 2);
        asm.to_big_endian(Reg::R1, 16);
        // All of it is there, and the lengths fit each other.
        kept(asm, Reg::R2, FRAME_LEN);
        asm.alu(Alu::Sub, Reg::R2, IP as i32);
        asm.jump_if(Reg::R1, Condition::Greater, Reg::R2, odd);
        asm.set(Reg::R2, Reg::R3);
        asm.alu(Alu::Add, Reg::R2, 20);
        asm.jump_if(Reg::R1, Condition::Less, Reg::R2, odd);
        asm.alu(Alu::Sub, Reg::R1, Reg::R2);
        keep(asm, LEN, Reg::R1);
        keep(asm, HEADER, Reg::R3);
        asm.bind(odd);
    }

    /// Reads what the segment carries, if it may be a request, and goes to `pass` unless the checksums are right. A
    /// segment that is not read is never answered, and says nothing that is kept.
    pub(super) fn read(&mut self, of: &WebHandler) {
        let [done, bare, right] = [(); 3].map(|()| self.asm.label());
        let (pass, wrong) = (self.labels.pass, self.labels.drop_unlocked);
        let sum = Reg::R9;
        let asm = &mut *self.asm;
        kept(asm, Reg::R1, HEADER);
        asm.jump_if(Reg::R1, Condition::Equal, 0, done);
        asm.set(sum, 0);
        add_words(asm, sum, FRAME, IP, 5);
        fold(asm, sum, Reg::R2);
        asm.jump_if(sum, Condition::NotEqual, 0xffff, pass);
        kept(asm, Reg::R4, LEN);
        asm.jump_if(Reg::R4, Condition::Greater, REQUEST_MAX as i32, done);
        asm.set(sum, 0);
        asm.jump_if(Reg::R4, Condition::Less, 1, bare);
        asm.store_imm(Size::Word, Reg::R10, COUNTER, 0);
        asm.look_up(of.scratch_fd, COUNTER, wrong);
        keep(asm, SCRATCH, Reg::R0);
        asm.set(Reg::R1, CONTEXT);
        kept(asm, Reg::R2, HEADER);
        asm.alu(Alu::Add, Reg::R2, BEFORE_TCP);
        asm.set(Reg::R3, Reg::R0);
        kept(asm, Reg::R4, LEN);
        asm.jump_if(Reg::R4, Condition::Less, 1, wrong);
        asm.jump_if(Reg::R4, Condition::Greater, REQUEST_MAX as i32, wrong);
        asm.call(Helper::XdpLoadBytes);
        asm.jump_if(Reg::R0, Condition::NotEqual, 0, pass);
        // Zeros behind it, to a whole word.
        kept(asm, Reg::R1, SCRATCH);
        kept(asm, Reg::R4, LEN);
        asm.jump_if(Reg::R4, Condition::Greater, REQUEST_MAX as i32, wrong);
        asm.alu(Alu::Add, Reg::R1, Reg::R4);
        for at in 0..8 {
            asm.store_imm(Size::Byte, Reg::R1, at, 0);
        }
        asm.set(Reg::R1, 0);
        asm.set(Reg::R2, 0);
        kept(asm, Reg::R3, SCRATCH);
        asm.alu(Alu::Add, Reg::R4, 3);
        asm.alu(Alu::And, Reg::R4, 0x3fc);
        asm.set(Reg::R5, 0);
        asm.call(Helper::CsumDiff);
        asm.alu32(Alu::Move, sum, Reg::R0);
        asm.bind(bare);
        // The pseudo header, and TCP's; lengths in the packet's order.
        PACKET_AGAIN.open(asm);
        let long = asm.label();
        let added = asm.label();
        PACKET_AGAIN.expect(asm, OPTIONS as i32, wrong);
        kept(asm, Reg::R3, HEADER);
        kept(asm, Reg::R1, LEN);
        asm.alu(Alu::Add, Reg::R1, Reg::R3);
        asm.to_big_endian(Reg::R1, 16);
        asm.alu(Alu::Add, Reg::R1, half(u16::from(protocol::TCP)));
        let pseudo = Reg::R4;
        asm.set(pseudo, Reg::R1);
        add_words(asm, pseudo, FRAME, SOURCE, 2);
        asm.alu(Alu::Add, sum, pseudo);
        asm.jump_if(Reg::R3, Condition::NotEqual, 20, long);
        add_words(asm, sum, FRAME, TCP, 5);
        asm.jump(added);
        asm.bind(long);
        PACKET_AGAIN.expect(asm, OPTIONS as i32 + 12, wrong);
        add_words(asm, sum, FRAME, TCP, 8);
        asm.bind(added);
        fold(asm, sum, Reg::R2);
        asm.jump_if(sum, Condition::Equal, 0xffff, right);
        if of.syn.may_be_partial {
            fold(asm, pseudo, Reg::R2);
            asm.load(Size::Half, Reg::R1, FRAME, CHECKSUM);
            asm.jump_if(Reg::R1, Condition::Equal, pseudo, right);
        }
        asm.jump(pass);
        asm.bind(right);
        self.find(of);
        self.asm.bind(done);
    }
}

/// The packet's pointers where r9 has something else.
struct Again;
const PACKET_AGAIN: Again = Again;

impl Again {
    fn open(&self, asm: &mut crate::ebpf::Assembler) {
        asm.load(Size::Word, FRAME, CONTEXT, 0);
    }

    /// To `short` unless there are this many bytes; r1 and r2 are lost.
    fn expect(&self, asm: &mut crate::ebpf::Assembler, len: i32, short: crate::ebpf::Label) {
        asm.load(Size::Word, Reg::R2, CONTEXT, 4);
        asm.set(Reg::R1, FRAME);
        asm.alu(Alu::Add, Reg::R1, len);
        asm.jump_if(Reg::R1, Condition::Greater, Reg::R2, short);
    }
}
