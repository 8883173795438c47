//! The entry of a request: by a hash of its bytes, all of which are compared, as it came or without noise.
//!
//! Where a processor goes on behind the end of a request by a wrong prediction, what it reads there would choose an entry, in memory
//! that the program of the server sees (Spectre, variant 1): so places in a request are clamped.

use super::layout::{ENTRIES, REQUEST_MAX, WAYS, copy, entry, slot};
use super::shape::*;
use super::{Generator, WebHandler, mix};
use crate::ebpf::{Alu, Assembler, Condition, Emit, Label, Reg, Size};
use crate::handler::arithmetic::set_wide;

/// A request in the scratch memory: how far behind the one that came, its length's place on the stack, and how long it is at most.
#[derive(Clone, Copy)]
pub(super) struct Request {
    pub at: i16,
    pub len: i16,
    pub most: usize,
}

/// As it came.
pub(super) const WHOLE: Request = Request {
    at: 0,
    len: LEN,
    most: REQUEST_MAX,
};
impl Generator<'_> {
    /// Keeps [`HIT`] where a request has an entry.
    pub(super) fn find(&mut self, of: &WebHandler, request: Request) {
        let [again, done, none] = [(); 3].map(|()| self.label());
        let (hash, at, len, factor) = (Reg::R0, Reg::R1, Reg::R2, Reg::R3);
        let (place, spare) = (Reg::R4, Reg::R5);
        self.kept(len, request.len);
        self.jump_if(len, Condition::Equal, 0, none);
        unlink(self.asm, len);
        set_wide(self.asm, hash, of.key);
        set_wide(self.asm, factor, of.key | 1);
        self.set(at, 0);
        self.bind(again);
        self.set(place, at);
        self.clamp(place, spare, request.most as u32);
        self.kept(spare, SCRATCH);
        self.alu(Alu::Add, place, spare);
        self.load(Size::Double, place, place, request.at);
        mix(self.asm, hash, factor, place);
        self.alu(Alu::Add, at, 8);
        self.jump_if(at, Condition::GreaterOrEqual, len, done);
        self.jump_if(at, Condition::Less, request.most as i32, again);
        self.bind(done);
        self.alu(Alu::Or, hash, 1);
        self.keep(HASH, hash);
        self.alu(Alu::ShiftRight, hash, 8);
        self.alu(Alu::And, hash, (of.entries.count / WAYS - 1) as i32);
        self.alu(Alu::Mul, hash, (WAYS * of.entries.entry_len()) as i32);
        // The first of its places.
        self.keep(SPARE, hash);
        for way in 0..WAYS {
            let next = self.label();
            self.compare(of, (request, way), (next, none));
            self.jump(none);
            self.bind(next);
        }
        self.bind(none);
    }

    /// To `next` where the entry is of another hash; keeps [`HIT`] if it is of this request, else to `none`: one is compared at most, for no client finds
    /// two requests of one hash.
    fn compare(
        &mut self,
        of: &WebHandler,
        (request, way): (Request, u64),
        (next, none): (Label, Label),
    ) {
        let [again, same] = [(); 2].map(|()| self.label());
        let (at, len, ours, its, place) = (Reg::R1, Reg::R2, Reg::R3, Reg::R4, Reg::R5);
        let most = of.entries.request_max().min(request.most) as u32;
        self.kept(Reg::R1, SPARE);
        self.alu(Alu::Add, Reg::R1, (way * of.entries.entry_len()) as i32);
        self.entry_at(of, Reg::R0, Reg::R1);
        self.kept(Reg::R1, HASH);
        self.load(Size::Double, Reg::R3, Reg::R0, entry::TAG);
        self.jump_if(Reg::R1, Condition::NotEqual, Reg::R3, next);
        self.kept(len, request.len);
        unlink(self.asm, len);
        self.load(Size::Double, Reg::R3, Reg::R0, entry::REQUEST_LEN);
        self.jump_if(len, Condition::NotEqual, Reg::R3, none);
        self.set(at, 0);
        self.bind(again);
        self.set(place, at);
        self.clamp(place, ours, most);
        self.kept(ours, SCRATCH);
        self.alu(Alu::Add, ours, place);
        self.load(Size::Double, ours, ours, request.at);
        self.set(its, Reg::R0);
        self.alu(Alu::Add, its, place);
        self.load(Size::Double, its, its, of.entries.request());
        self.jump_if(ours, Condition::NotEqual, its, none);
        self.alu(Alu::Add, at, 8);
        self.jump_if(at, Condition::GreaterOrEqual, len, same);
        self.jump_if(at, Condition::Less, most as i32, again);
        self.jump(none);
        self.bind(same);
        self.kept(Reg::R1, SPARE);
        self.alu(Alu::Add, Reg::R1, (way * of.entries.entry_len()) as i32 + 1);
        self.keep(HIT, Reg::R1);
    }

    /// `dst` = the entry of the slot's last response. Loses r5.
    pub(super) fn slot_entry(&mut self, of: &WebHandler, dst: Reg) {
        let spare = Reg::R5;
        self.load(Size::Word, spare, SLOT, slot::ENTRY);
        self.entry_at(of, dst, spare);
    }

    /// `dst` = the entry at this place among them, which is lost.
    pub(super) fn entry_at(&mut self, of: &WebHandler, dst: Reg, spare: Reg) {
        let last = (of.entries.count - 1) * of.entries.entry_len();
        self.alu(Alu::And, spare, last as i32);
        self.load_map_value(dst, of.memory_fd, ENTRIES as u32);
        self.alu(Alu::Add, dst, spare);
    }

    /// Of the slot's entry the response that is up to date; keeps its version ([`OUT_VERSION`]).
    pub(super) fn choose_response(&mut self, of: &WebHandler) {
        self.slot_entry(of, Reg::R0);
        self.load(Size::Word, Reg::R1, Reg::R0, entry::VERSION);
        self.keep(OUT_VERSION, Reg::R1);
    }

    /// `dst` = the copy that was chosen. Loses r5.
    pub(super) fn copy(&mut self, of: &WebHandler, dst: Reg) {
        let place = Reg::R5;
        self.copy_place(of, place, dst);
        self.load_map_value(dst, of.memory_fd, ENTRIES as u32);
        self.alu(Alu::Add, dst, place);
    }

    /// `dst` = the place of that among the entries.
    pub(super) fn copy_place(&mut self, of: &WebHandler, dst: Reg, spare: Reg) {
        let last = (of.entries.count - 1) * of.entries.entry_len();
        self.load(Size::Word, dst, SLOT, slot::ENTRY);
        self.alu(Alu::And, dst, last as i32);
        self.kept(spare, OUT_VERSION);
        self.alu(Alu::And, spare, 1);
        self.alu(Alu::Mul, spare, of.entries.copy_len() as i32);
        self.alu(Alu::Add, dst, spare);
        self.alu(Alu::Add, dst, entry::COPIES as i32);
    }

    /// The response that the slot has sent, if that is up to date; else to `other`: what was replaced may be written over at any time.
    pub(super) fn expect_response(&mut self, of: &WebHandler, other: Label) {
        self.choose_response(of);
        self.load(Size::Word, Reg::R2, SLOT, slot::VERSION);
        self.jump_if(Reg::R1, Condition::NotEqual, Reg::R2, other);
        self.copy(of, Reg::R0);
        self.load(Size::Double, Reg::R1, Reg::R0, copy::LEN);
        self.keep(OUT_LEN, Reg::R1);
    }
}

/// What the verifier finds out of a number from here on it does not take for true of where the number was read from. Otherwise it tells
/// by that in which round a loop was left, and follows what comes next once for each.
fn unlink(asm: &mut Assembler, number: Reg) {
    asm.alu(Alu::Or, number, 0);
}
