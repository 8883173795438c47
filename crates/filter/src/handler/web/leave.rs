//! What leaves: responses, bare acknowledgements, the peer's FIN answered; and what is handed up.

use super::layout::{HANDED, HANDED_LEN, RING, RING_COUNT, RING_LEN, TAKEN, copy, handed, slot};
use super::shape::*;
use super::write::header_len;
use super::{Generator, WebHandler};
use crate::ebpf::{Alu, Assembler, Condition, Emit, Fetch, Helper, Insn, Label, Reg, Size};
use crate::limits::{AT_ONCE, CLOSED_MS};
use crate::program::Counter;

impl Generator<'_> {
    /// Has the packet be as long as the response's, now or in the second stage. To `other`, with the packet as it was, where it cannot be.
    pub(super) fn make_room(&mut self, of: &WebHandler, other: Label) {
        let has_room = self.label();
        let by = Reg::R2;
        self.store_imm(Size::Double, Reg::R10, IS_SHORT, 0);
        self.kept(Reg::R1, OUT_LEN);
        let most = of.entries.response_max;
        self.jump_if(Reg::R1, Condition::Greater, most as i32, other);
        // The memory says it, and it says how much of that is read.
        self.clamp(Reg::R1, by, most as u32 + 1);
        self.keep(OUT_LEN, Reg::R1);
        self.set(by, Reg::R1);
        self.kept(Reg::R3, HEADERS);
        self.alu(Alu::Add, by, Reg::R3);
        self.kept(Reg::R3, FRAME_LEN);
        self.alu(Alu::Sub, by, Reg::R3);
        self.set(Reg::R1, CONTEXT);
        self.call(Helper::XdpAdjustTail);
        self.jump_if(Reg::R0, Condition::Equal, 0, has_room);
        match &of.second_stage {
            Some(_) => self.announce(other),
            None => self.jump(other),
        }
        self.bind(has_room);
    }

    /// From what the slot says to the packet.
    pub(super) fn leave(&mut self, of: &WebHandler) {
        let [send, closes] = [(); 2].map(|()| self.label());
        self.bind(self.labels.send_response);
        self.copy(of, Reg::R0);
        self.load(Size::Double, Reg::R1, Reg::R0, copy::SUM);
        self.keep(OUT_SUM, Reg::R1);
        self.load(Size::Word, Reg::R1, SLOT, slot::UNA);
        self.keep(OUT_SEQ, Reg::R1);
        self.store_imm(Size::Double, Reg::R10, OUT_FLAGS, ACK_FLAG | PSH);
        self.load(Size::Double, Reg::R1, SLOT, slot::STATE);
        self.jump_if(Reg::R1, Condition::Equal, slot::OPEN, send);
        self.store_imm(Size::Double, Reg::R10, OUT_FLAGS, ACK_FLAG | PSH | FIN);
        self.jump(send);

        self.bind(self.labels.finish);
        self.store_imm(Size::Double, Reg::R10, OUT_FLAGS, ACK_FLAG | FIN);
        self.load(Size::Word, Reg::R1, SLOT, slot::NXT);
        self.alu32(Alu::Sub, Reg::R1, 1);
        self.jump(closes);
        self.bind(self.labels.acknowledge);
        self.store_imm(Size::Double, Reg::R10, OUT_FLAGS, ACK_FLAG);
        self.load(Size::Word, Reg::R1, SLOT, slot::NXT);
        self.bind(closes);
        self.keep(OUT_SEQ, Reg::R1);
        for place in [OUT_LEN, OUT_SUM, IS_SHORT] {
            self.store_imm(Size::Double, Reg::R10, place, 0);
        }
        // Padding goes.
        self.kept(Reg::R2, HEADERS);
        self.kept(Reg::R1, FRAME_LEN);
        self.alu(Alu::Sub, Reg::R2, Reg::R1);
        self.set(Reg::R1, CONTEXT);
        self.call(Helper::XdpAdjustTail);
        self.jump_if(Reg::R0, Condition::NotEqual, 0, self.labels.drop);
        self.bind(send);
        self.send(of);
    }

    fn send(&mut self, of: &WebHandler) {
        let written = self.label();
        self.load(Size::Word, Reg::R1, SLOT, slot::RCV);
        self.keep(OUT_ACK, Reg::R1);
        self.load(Size::Word, FRAME, CONTEXT, 0);
        for (headers, _) in of.syn.families(self.asm) {
            for stamped in [false, true] {
                let next = self.label();
                let len = (headers.upper() + header_len(stamped)) as i32;
                self.kept(Reg::R1, HEADERS);
                self.jump_if(Reg::R1, Condition::NotEqual, len, next);
                self.write(of, headers, stamped);
                self.jump(written);
                self.bind(next);
            }
        }
        self.jump(self.labels.drop);
        self.bind(written);
        if let Some(second_stage) = &of.second_stage {
            self.pass_to(of, second_stage);
        }
        self.copy_response(of);
        self.behind.count(self.asm, COUNTER, Counter::Answered);
        unlock(self.asm);
        self.behind.transmit(self.asm, CONTEXT, of.syn.way_out);
    }

    fn copy_response(&mut self, of: &WebHandler) {
        let none = self.label();
        self.kept(Reg::R4, OUT_LEN);
        self.jump_if(Reg::R4, Condition::Less, 1, none);
        self.copy(of, Reg::R3);
        self.alu(Alu::Add, Reg::R3, copy::BYTES as i32);
        self.set(Reg::R1, CONTEXT);
        self.kept(Reg::R2, HEADERS);
        self.kept(Reg::R4, OUT_LEN);
        self.jump_if(Reg::R4, Condition::Less, 1, none);
        let most = of.entries.response_max;
        self.jump_if(Reg::R4, Condition::Greater, most as i32, none);
        self.call(Helper::XdpStoreBytes);
        self.jump_if(Reg::R0, Condition::NotEqual, 0, self.labels.drop);
        self.bind(none);
    }

    /// The connection is the server's from here on.
    pub(super) fn hand_up(&mut self, of: &WebHandler) {
        self.bind(self.labels.hand_up);
        self.expect_room_to_hand_up(of);
        self.behind.count(self.asm, COUNTER, Counter::HandedUp);
        self.report_handed_up(of);
        self.tell_of_connection(of);
        self.bind(self.labels.pass_locked);
        self.behind.count(self.asm, COUNTER, Counter::Left);
        unlock(self.asm);
        self.jump(self.labels.pass);
    }

    /// `ring` = the beginning of the ring of the core that the segment's queue belongs to. Loses `offset`.
    fn find_ring(&mut self, of: &WebHandler, ring: Reg, offset: Reg) {
        let cores = of.rings.cores() as i32;
        if cores == 1 {
            self.load_map_value(ring, of.memory_fd, 0);
            return;
        }
        let found = self.label();
        self.kept(offset, CORE);
        // The verifier does not know what a remainder comes to.
        self.jump_if(offset, Condition::GreaterOrEqual, cores, self.labels.drop);
        self.load_map_value(ring, of.memory_fd, 0);
        self.jump_if(offset, Condition::Equal, 0, found);
        self.alu(Alu::Sub, offset, 1);
        self.alu(Alu::Mul, offset, RING_LEN as i32);
        self.load_map_value(ring, of.memory_fd, of.rings.at(1) as u32);
        self.alu(Alu::Add, ring, offset);
        self.bind(found);
    }

    /// Drops the segment where the ring is full.
    fn expect_room_to_hand_up(&mut self, of: &WebHandler) {
        let (ring, has_room) = (Reg::R3, self.label());
        self.find_ring(of, ring, Reg::R1);
        self.load(Size::Double, Reg::R1, ring, HANDED);
        self.load(Size::Double, Reg::R2, ring, TAKEN);
        self.alu(Alu::Sub, Reg::R1, Reg::R2);
        let most = RING_COUNT as i32 - AT_ONCE;
        self.jump_if(Reg::R1, Condition::LessOrEqual, most, has_room);
        self.behind
            .count(self.asm, COUNTER, Counter::DropHandUpFull);
        unlock(self.asm);
        self.jump(self.labels.drop_unlocked);
        self.bind(has_room);
    }

    /// Writes the connection into the ring, and closes its slot for a while.
    fn tell_of_connection(&mut self, of: &WebHandler) {
        let (ring, number, place) = (Reg::R3, Reg::R4, Reg::R5);
        self.find_ring(of, ring, place);
        self.set(number, 1);
        self.push(Insn::fetch(Fetch::Add, ring, HANDED as i16, number));
        self.set(place, number);
        self.alu(Alu::And, place, (RING_COUNT - 1) as i32);
        self.alu(Alu::Mul, place, HANDED_LEN as i32);
        self.alu(Alu::Add, ring, RING as i32);
        self.alu(Alu::Add, ring, place);
        write_handed(self.asm, ring);
        self.store_imm(Size::Double, SLOT, slot::STATE, slot::FREE);
        self.kept(Reg::R1, MILLIS);
        self.alu(Alu::Add, Reg::R1, CLOSED_MS);
        self.store(Size::Double, SLOT, slot::CLOSED, Reg::R1);
        self.alu(Alu::Add, number, 1);
        self.push(Insn::fetch(
            Fetch::Swap,
            ring,
            handed::NUMBER as i16,
            number,
        ));
    }
}

/// All of what is handed up but its number, to where `to` points. Loses r1.
fn write_handed(asm: &mut Assembler, to: Reg) {
    keep_ends(asm, to, handed::ENDS);
    for (size, at, from) in [
        (Size::Word, handed::NUMBERS, UP_RCV),
        (Size::Word, handed::NUMBERS + 4, UP_NXT),
        (Size::Double, handed::SENT, UP_SENT),
        (Size::Double, handed::BEGUN, UP_BEGUN),
    ] {
        asm.kept(Reg::R1, from);
        asm.store(size, to, at, Reg::R1);
    }
    for (size, at, from) in [
        (Size::Double, handed::STAMPS, slot::STAMPS),
        // The window is beside what the cookie kept.
        (Size::Double, handed::KEPT, slot::KEPT),
        (Size::Double, handed::TIME, slot::TIME),
        (Size::Word, handed::FIRST, slot::FIRST),
        (Size::Word, handed::NOTE, slot::NOTE),
        (Size::Word, handed::UNA, slot::UNA),
        (Size::Word, handed::END, slot::NXT),
    ] {
        asm.load(size, Reg::R1, SLOT, from);
        asm.store(size, to, at, Reg::R1);
    }
}

/// Who locks the slot next sees all that was written.
pub(super) fn unlock(asm: &mut Assembler) {
    asm.set(Reg::R1, 0);
    asm.push(Insn::fetch(Fetch::Swap, SLOT, slot::LOCK as i16, Reg::R1));
}
