//! The answer, written over the SYN in its frame.

use super::settings::SynHandler;
use super::shape::{
    ATOMIC, CHECKSUM, DESTINATION, FRAME, ISS, MSS_OPTION, OPTIONS, PORTS, SACK_AND_TIMESTAMPS,
    SAID, SCALE_OPTION, SOURCE, SYN_ACK, Shape, TCP, kept,
};
use crate::ebpf::{Alu, Assembler, Reg, Size};
use crate::handler::arithmetic::{fold, get, half, put, put_known, set_wide};
use crate::packet::NETWORK as IP;
use exos_wire::protocol;

impl SynHandler {
    /// Ethernet and IPv4 of the answer. Leaves our address in r4 and the peer's in r5.
    pub(super) fn write_before_tcp(&self, asm: &mut Assembler, shape: Shape) {
        let (sum, local, remote) = (Reg::R8, Reg::R4, Reg::R5);
        asm.load(Size::Word, Reg::R1, FRAME, 6);
        asm.load(Size::Half, Reg::R2, FRAME, 10);
        asm.store(Size::Word, FRAME, 0, Reg::R1);
        asm.store(Size::Half, FRAME, 4, Reg::R2);
        let [m0, m1, m2, m3, m4, m5] = self.mac.0;
        put_known(asm, FRAME, 6, u32::from_be_bytes([m0, m1, m2, m3]));
        let last = half(u16::from_be_bytes([m4, m5]));
        asm.store_imm(Size::Half, FRAME, 10, last);
        let first = 0x4500_0000 | u32::from(self.recipe.class) << 16 | u32::from(shape.total_len());
        let tcp = u32::from(protocol::TCP);
        let hops = u32::from(self.recipe.hop_limit) << 24 | tcp << 16;
        let known = u64::from(first) + u64::from(ATOMIC) + u64::from(hops);
        get(asm, local, FRAME, DESTINATION);
        get(asm, remote, FRAME, SOURCE);
        set_wide(asm, sum, known);
        asm.alu(Alu::Add, sum, local);
        asm.alu(Alu::Add, sum, remote);
        fold(asm, sum, Reg::R1);
        asm.alu(Alu::Xor, sum, 0xffff);
        asm.alu32(Alu::Or, sum, hops as i32);
        put_known(asm, FRAME, IP, first);
        put_known(asm, FRAME, IP + 4, ATOMIC);
        put(asm, FRAME, IP + 8, sum);
        for (at, address) in [(SOURCE, local), (DESTINATION, remote)] {
            asm.set(Reg::R1, address);
            put(asm, FRAME, at, Reg::R1);
        }
    }

    /// TCP of the answer; the timestamp is in r9.
    pub(super) fn write_tcp(&self, asm: &mut Assembler, shape: Shape) {
        let (sum, word) = (Reg::R8, Reg::R1);
        let offset_flags_window =
            (shape.words() as u32) << 28 | SYN_ACK << 16 | u32::from(self.recipe.window);
        let mut known = vec![(TCP + 12, offset_flags_window), (TCP + 16, 0)];
        known.push((OPTIONS, MSS_OPTION | u32::from(self.recipe.mss)));
        if shape == Shape::Full {
            known.push((OPTIONS + 4, SACK_AND_TIMESTAMPS));
            known.push((OPTIONS + 16, SCALE_OPTION | u32::from(self.recipe.scale)));
        }
        let length = 4 * shape.words() as u64 + u64::from(protocol::TCP);
        let all: u64 = known.iter().map(|&(_, word)| u64::from(word)).sum();
        set_wide(asm, sum, all + length);
        asm.alu(Alu::Add, sum, Reg::R4);
        asm.alu(Alu::Add, sum, Reg::R5);
        for (at, value) in known {
            put_known(asm, FRAME, at, value);
        }
        kept(asm, word, PORTS);
        asm.alu(Alu::ShiftRight, word, 32);
        asm.alu32(Alu::And, word, 0xffff);
        asm.alu32(Alu::Or, word, (u32::from(self.recipe.port) << 16) as i32);
        add_and_put(asm, TCP);
        kept(asm, word, ISS);
        add_and_put(asm, TCP + 4);
        kept(asm, word, SAID);
        asm.alu(Alu::ShiftRight, word, 32);
        asm.alu32(Alu::Add, word, 1);
        add_and_put(asm, TCP + 8);
        if shape == Shape::Full {
            get(asm, word, FRAME, OPTIONS + 8);
            add_and_put(asm, OPTIONS + 12);
            asm.set(word, Reg::R9);
            add_and_put(asm, OPTIONS + 8);
        }
        fold(asm, sum, word);
        asm.alu(Alu::Xor, sum, 0xffff);
        asm.to_big_endian(sum, 16);
        asm.store(Size::Half, FRAME, CHECKSUM, sum);
    }
}

/// Adds the word in r1 to the sum in r8, and writes it.
fn add_and_put(asm: &mut Assembler, at: usize) {
    asm.alu(Alu::Add, Reg::R8, Reg::R1);
    put(asm, FRAME, at, Reg::R1);
}
