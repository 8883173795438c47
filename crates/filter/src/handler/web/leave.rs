//! What leaves: responses, bare acknowledgements, the peer's FIN answered; and what is handed up.

use super::arrive::TIMESTAMPS;
use super::layout::{HANDED, RING, RING_COUNT, TAKEN, copy, slot};
use super::shape::*;
use super::{Generator, WebHandler};
use crate::ebpf::{Alu, Condition, Fetch, Helper, Insn, Label, Reg, Size, half};
use crate::handler::arithmetic::{fold, put, put_known, set_wide};
use crate::handler::forward::WayOut;
use crate::handler::syn::shape::ATOMIC;
use crate::packet::NETWORK as IP;
use crate::program::{Counter, xdp};
use exos_wire::protocol;

/// Connections that processors may be handing up at once.
const AT_ONCE: i32 = 128;

impl Generator<'_> {
    /// Has the packet be as long as the response's, now or in the second stage. To `other`, with the packet as it was, where it cannot be.
    pub(super) fn make_room(&mut self, of: &WebHandler, other: Label) {
        let has_room = self.asm.label();
        let by = Reg::R2;
        let asm = &mut *self.asm;
        asm.store_imm(Size::Double, Reg::R10, IS_SHORT, 0);
        kept(asm, Reg::R1, OUT_LEN);
        let most = of.entries.response_max;
        asm.jump_if(Reg::R1, Condition::Greater, most as i32, other);
        asm.set(by, Reg::R1);
        kept(asm, Reg::R3, HEADER);
        asm.alu(Alu::Add, by, Reg::R3);
        asm.alu(Alu::Add, by, BEFORE_TCP);
        kept(asm, Reg::R3, FRAME_LEN);
        asm.alu(Alu::Sub, by, Reg::R3);
        asm.set(Reg::R1, CONTEXT);
        asm.call(Helper::XdpAdjustTail);
        asm.jump_if(Reg::R0, Condition::Equal, 0, has_room);
        match &of.second_stage {
            Some(_) => self.announce(other),
            None => self.asm.jump(other),
        }
        self.asm.bind(has_room);
    }

    /// From what the slot says to the packet.
    pub(super) fn leave(&mut self, of: &WebHandler) {
        let [send, closes] = [(); 2].map(|()| self.asm.label());
        self.asm.bind(self.labels.send_response);
        self.copy(of, Reg::R0);
        let asm = &mut *self.asm;
        asm.load(Size::Double, Reg::R1, Reg::R0, copy::SUM as i16);
        keep(asm, OUT_SUM, Reg::R1);
        asm.load(Size::Word, Reg::R1, SLOT, slot::UNA as i16);
        keep(asm, OUT_SEQ, Reg::R1);
        asm.store_imm(Size::Double, Reg::R10, OUT_FLAGS, ACK_FLAG | PSH);
        asm.load(Size::Double, Reg::R1, SLOT, slot::STATE as i16);
        asm.jump_if(Reg::R1, Condition::NotEqual, slot::FINISHED, send);
        asm.store_imm(Size::Double, Reg::R10, OUT_FLAGS, ACK_FLAG | PSH | FIN);
        asm.jump(send);

        asm.bind(self.labels.finish);
        asm.store_imm(Size::Double, Reg::R10, OUT_FLAGS, ACK_FLAG | FIN);
        asm.load(Size::Word, Reg::R1, SLOT, slot::NXT as i16);
        asm.alu32(Alu::Sub, Reg::R1, 1);
        asm.jump(closes);
        asm.bind(self.labels.acknowledge);
        asm.store_imm(Size::Double, Reg::R10, OUT_FLAGS, ACK_FLAG);
        asm.load(Size::Word, Reg::R1, SLOT, slot::NXT as i16);
        asm.bind(closes);
        keep(asm, OUT_SEQ, Reg::R1);
        for place in [OUT_LEN, OUT_SUM, IS_SHORT] {
            asm.store_imm(Size::Double, Reg::R10, place, 0);
        }
        // Padding goes.
        kept(asm, Reg::R2, HEADER);
        asm.alu(Alu::Add, Reg::R2, BEFORE_TCP);
        kept(asm, Reg::R1, FRAME_LEN);
        asm.alu(Alu::Sub, Reg::R2, Reg::R1);
        asm.set(Reg::R1, CONTEXT);
        asm.call(Helper::XdpAdjustTail);
        asm.jump_if(Reg::R0, Condition::NotEqual, 0, self.labels.drop);
        self.asm.bind(send);
        self.send(of);
    }

    fn send(&mut self, of: &WebHandler) {
        let [stamped, written] = [(); 2].map(|()| self.asm.label());
        let asm = &mut *self.asm;
        of.syn.clock(asm, FAMILIES[0]);
        keep(asm, CLOCK, Reg::R0);
        asm.load(Size::Word, Reg::R1, SLOT, slot::RCV as i16);
        keep(asm, OUT_ACK, Reg::R1);
        asm.load(Size::Word, FRAME, CONTEXT, 0);
        kept(asm, Reg::R1, HEADER);
        asm.jump_if(Reg::R1, Condition::NotEqual, 20, stamped);
        self.write(of, false);
        self.asm.jump(written);
        self.asm.bind(stamped);
        self.write(of, true);
        self.asm.bind(written);
        self.count_answer();
        if let Some(second_stage) = &of.second_stage {
            self.pass_to(of, second_stage);
        }
        self.copy_response(of);
        let asm = &mut *self.asm;
        unlock(asm);
        match of.syn.way_out {
            WayOut::Transmit => asm.set(Reg::R0, xdp::TX),
            WayOut::Redirect(interface) | WayOut::Buffers(interface) => {
                asm.set(Reg::R1, interface as i32);
                asm.set(Reg::R2, 0);
                asm.call(Helper::Redirect);
            }
        }
        asm.exit();
    }

    /// The headers.
    fn write(&mut self, of: &WebHandler, stamped: bool) {
        let says = of.syn.says(FAMILIES[0]);
        let header: i32 = if stamped { 32 } else { 20 };
        let (sum, total, word) = (Reg::R9, Reg::R3, Reg::R1);
        let asm = &mut *self.asm;
        asm.load(Size::Word, Reg::R2, CONTEXT, 4);
        asm.set(Reg::R1, FRAME);
        asm.alu(Alu::Add, Reg::R1, BEFORE_TCP + header);
        asm.jump_if(Reg::R1, Condition::Greater, Reg::R2, self.labels.drop);
        asm.load(Size::Word, Reg::R1, Reg::R10, PEER_MAC);
        asm.store(Size::Word, FRAME, 0, Reg::R1);
        asm.load(Size::Half, Reg::R1, Reg::R10, PEER_MAC + 4);
        asm.store(Size::Half, FRAME, 4, Reg::R1);
        let [m0, m1, m2, m3, m4, m5] = of.syn.mac.0;
        put_known(asm, FRAME, 6, u32::from_be_bytes([m0, m1, m2, m3]));
        asm.store_imm(Size::Half, FRAME, 10, half(u16::from_be_bytes([m4, m5])));
        asm.store_imm(Size::Half, FRAME, 12, half(0x0800));
        kept(asm, total, OUT_LEN);
        asm.alu(Alu::Add, total, 20 + header);
        let first = 0x4500_0000 | u32::from(says.class) << 16;
        let tcp = u32::from(protocol::TCP);
        let hops = u32::from(says.hop_limit) << 24 | tcp << 16;
        set_wide(
            asm,
            sum,
            u64::from(first) + u64::from(ATOMIC) + u64::from(hops),
        );
        asm.alu(Alu::Add, sum, total);
        kept(asm, Reg::R4, PAIR);
        asm.alu32(Alu::Move, Reg::R5, Reg::R4);
        asm.alu(Alu::ShiftRight, Reg::R4, 32);
        asm.alu(Alu::Add, sum, Reg::R4);
        asm.alu(Alu::Add, sum, Reg::R5);
        fold(asm, sum, Reg::R1);
        asm.alu(Alu::Xor, sum, 0xffff);
        asm.alu32(Alu::Or, sum, hops as i32);
        put(asm, FRAME, IP + 8, sum);
        asm.set(word, total);
        asm.alu32(Alu::Or, word, first as i32);
        put(asm, FRAME, IP, word);
        put_known(asm, FRAME, IP + 4, ATOMIC);
        // TCP: the pseudo header's sum, and each word as it is written.
        asm.set(sum, total);
        asm.alu(Alu::Sub, sum, 20 - i32::from(protocol::TCP));
        for (at, address) in [(IP + 12, Reg::R4), (IP + 16, Reg::R5)] {
            asm.alu(Alu::Add, sum, address);
            put(asm, FRAME, at, address);
        }
        keep(asm, PSEUDO_SUM, sum);
        kept(asm, word, OUT_SUM);
        asm.alu(Alu::Add, sum, word);
        kept(asm, word, PORTS);
        asm.alu(Alu::ShiftRight, word, 32);
        asm.alu(Alu::Add, sum, word);
        put(asm, FRAME, TCP, word);
        for (place, at) in [(OUT_SEQ, TCP + 4), (OUT_ACK, TCP + 8)] {
            kept(asm, word, place);
            asm.alu(Alu::Add, sum, word);
            put(asm, FRAME, at, word);
        }
        kept(asm, word, OUT_FLAGS);
        asm.alu(Alu::ShiftLeft, word, 16);
        let scale = if stamped { says.scale } else { 0 };
        let window = u32::from(says.window) >> scale;
        asm.alu32(Alu::Or, word, ((header as u32 / 4) << 28 | window) as i32);
        asm.alu(Alu::Add, sum, word);
        put(asm, FRAME, TCP + 12, word);
        if stamped {
            set_wide(asm, word, u64::from(TIMESTAMPS));
            asm.alu(Alu::Add, sum, word);
            put(asm, FRAME, OPTIONS, word);
            kept(asm, word, CLOCK);
            asm.alu(Alu::Add, sum, word);
            put(asm, FRAME, OPTIONS + 4, word);
            asm.load(Size::Word, word, Reg::R10, STAMPS);
            asm.alu(Alu::Add, sum, word);
            put(asm, FRAME, OPTIONS + 8, word);
        }
        fold(asm, sum, Reg::R1);
        keep(asm, SEGMENT_SUM, sum);
        asm.alu(Alu::Xor, sum, 0xffff);
        asm.alu(Alu::ShiftLeft, sum, 16);
        put(asm, FRAME, TCP + 16, sum);
    }

    fn copy_response(&mut self, of: &WebHandler) {
        let none = self.asm.label();
        kept(self.asm, Reg::R4, OUT_LEN);
        self.asm.jump_if(Reg::R4, Condition::Less, 1, none);
        self.copy(of, Reg::R3);
        let asm = &mut *self.asm;
        asm.alu(Alu::Add, Reg::R3, copy::BYTES as i32);
        asm.set(Reg::R1, CONTEXT);
        kept(asm, Reg::R2, HEADER);
        asm.alu(Alu::Add, Reg::R2, BEFORE_TCP);
        kept(asm, Reg::R4, OUT_LEN);
        asm.jump_if(Reg::R4, Condition::Less, 1, none);
        let most = of.entries.response_max;
        asm.jump_if(Reg::R4, Condition::Greater, most as i32, none);
        asm.call(Helper::XdpStoreBytes);
        asm.jump_if(Reg::R0, Condition::NotEqual, 0, self.labels.drop);
        asm.bind(none);
    }

    /// The value is this CPU's own and XDP does not nest: no atomics.
    fn count_answer(&mut self) {
        let missing = self.asm.label();
        let asm = &mut *self.asm;
        asm.store_imm(Size::Word, Reg::R10, COUNTER, Counter::Answered as i32);
        asm.look_up(self.counters_fd, COUNTER, missing);
        asm.add_to(Reg::R0, 0, 1);
        asm.bind(missing);
    }

    /// The connection is the server's from here on.
    pub(super) fn hand_up(&mut self, of: &WebHandler) {
        self.asm.bind(self.labels.hand_up);
        let (ring, number, place) = (Reg::R3, Reg::R4, Reg::R5);
        let asm = &mut *self.asm;
        asm.load_map_value(ring, of.memory_fd, 0);
        asm.load(Size::Double, Reg::R1, ring, HANDED as i16);
        asm.load(Size::Double, Reg::R2, ring, TAKEN as i16);
        asm.alu(Alu::Sub, Reg::R1, Reg::R2);
        let most = RING_COUNT as i32 - AT_ONCE;
        asm.jump_if(Reg::R1, Condition::Greater, most, self.labels.drop);
        asm.set(number, 1);
        asm.push(Insn::fetch(Fetch::Add, ring, HANDED as i16, number));
        asm.set(place, number);
        asm.alu(Alu::And, place, (RING_COUNT - 1) as i32);
        asm.alu(Alu::ShiftLeft, place, 6);
        asm.load_map_value(ring, of.memory_fd, RING as u32);
        asm.alu(Alu::Add, ring, place);
        for (to, from) in [(8, PAIR), (16, PORTS)] {
            kept(asm, Reg::R1, from);
            asm.store(Size::Double, ring, to, Reg::R1);
        }
        for (to, from) in [(24, UP_RCV), (28, UP_NXT)] {
            kept(asm, Reg::R1, from);
            asm.store(Size::Word, ring, to, Reg::R1);
        }
        for (to, from) in [(32, slot::STAMPS), (40, slot::KEPT), (48, slot::WINDOW)] {
            asm.load(Size::Double, Reg::R1, SLOT, from as i16);
            asm.store(Size::Double, ring, to, Reg::R1);
        }
        asm.store_imm(Size::Double, SLOT, slot::STATE as i16, slot::FREE);
        kept(asm, Reg::R1, MILLIS);
        asm.alu(Alu::Add, Reg::R1, super::cases::CLOSED_MS);
        asm.store(Size::Double, SLOT, slot::CLOSED as i16, Reg::R1);
        asm.alu(Alu::Add, number, 1);
        asm.push(Insn::fetch(Fetch::Swap, ring, 0, number));
        self.asm.bind(self.labels.pass_locked);
        unlock(self.asm);
        self.asm.jump(self.labels.pass);
    }
}

/// Whoever locks the slot next sees all that was written.
pub(super) fn unlock(asm: &mut crate::ebpf::Assembler) {
    asm.set(Reg::R1, 0);
    asm.push(Insn::fetch(Fetch::Swap, SLOT, slot::LOCK as i16, Reg::R1));
}
