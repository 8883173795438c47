//! What holds on mistaken ways, too: a processor goes on before it knows how a comparison comes out, and reads what a handler would never
//! have read (Spectre, variant 1). What is read so becomes no address, by arithmetic without a jump.
//!
//! The kernel's verifier adds none of it: the daemon's privileges (PERFMON, or SYS_ADMIN) say that programs are trusted. Without them it does,
//! for arrays; but it refuses all programs that compute where in a packet something is ("prohibited for !root").
//!
//! - A number of a place is less than its region has (`Assembler::clamp`).
//! - The message's length is no more than the packet has, and a number of the message is 0 where it is not in that length, unless nothing
//!   of it becomes an address or decides a jump ([`addresses`](super::addresses)).
//! - A part of the message is empty where it is not in that length.
//!
//! All other comparisons may come out wrongly: ways that only a wrong prediction takes are ways of the handler, and on each of those a
//! variable has a value of its own kind.

use exos_filter::ebpf::{Alu, Emit, Reg};

use super::{Generator, LENGTH, MESSAGE};

impl Generator<'_> {
    /// `dst` = how far it is from the message's beginning to the packet's end.
    pub(super) fn bytes_to_end(&mut self, dst: Reg) {
        self.end_of_packet(dst);
        self.alu(Alu::Sub, dst, MESSAGE);
    }

    /// Has the message be no longer than the packet. r1 is lost.
    pub(super) fn clamp_length(&mut self) {
        let missing = Reg::R1;
        self.bytes_to_end(missing);
        self.alu(Alu::Sub, missing, LENGTH);
        self.alu(Alu::SignedShiftRight, missing, 63);
        self.alu(Alu::Xor, missing, -1);
        self.alu(Alu::And, LENGTH, missing);
    }

    /// Makes the last byte of a part, a number of 33 bits at most, all ones where the message has it, else 0.
    pub(super) fn mask_of_part(&mut self, last: Reg) {
        self.alu(Alu::Sub, last, LENGTH);
        self.alu(Alu::SignedShiftRight, last, 63);
    }

    /// Makes a part of the message empty that it does not have. `spare` is lost.
    pub(super) fn clamp_part(&mut self, from: Reg, bytes: Reg, spare: Reg) {
        self.alu32(Alu::Move, from, from);
        self.alu32(Alu::Move, bytes, bytes);
        self.set(spare, from);
        self.alu(Alu::Add, spare, bytes);
        self.alu(Alu::Sub, spare, 1);
        self.mask_of_part(spare);
        self.alu(Alu::And, from, spare);
        self.alu(Alu::And, bytes, spare);
    }
}
