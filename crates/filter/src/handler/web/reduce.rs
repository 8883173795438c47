//! A request without noise, as [`lines`](super::lines) says, for one that has no entry with just its bytes.
//!
//! In rounds of eight bytes: each is stored where its line goes, and how far that place moves on says whether it stays there. A word is
//! looked at as eight bytes at once: what is found in it is the first byte of some kind, by the carries of a subtraction (Knuth 4A, 7.1.3),
//! which are right up to there.
//!
//! All that is kept between rounds is in the scratch memory or masked at the beginning of a round, so that the verifier follows each
//! round once. The masks are there for mistaken ways, too: they end in the scratch memory, which holds nothing but requests.

use super::find::Request;
use super::layout::{LOGGED_MAX, REQUEST_MAX};
use super::lines::{COUNT, LINES_MAX, LOGGED, REDUCED_MAX};
use super::shape::*;
use super::{Generator, WebHandler};
use crate::ebpf::{Alu, Assembler, Condition, Emit, Label, Reg, Size};
use crate::handler::arithmetic::set_wide;

/// Where in the scratch memory the request is put together, and the lines for the log are: each may be as long as what came, with a word more.
const REDUCED: i16 = 0;
pub(super) const LOGGED_LINES: i16 = AREA;
const AREA: i16 = REQUEST_MAX as i16 + 16;

/// Words, from where the request is in the scratch memory: where the next byte goes of what is put together, and of lines for the log.
const ENDS: i16 = 2 * AREA - REQUEST_AT;
/// Bytes from the first of these to that of the line: 0 or 8.
const WHICH: i16 = ENDS + 16;
/// All ones where the line stays, else 0.
const STAYS: i16 = ENDS + 24;
/// 1 until the colon behind the line's name, where that is looked for.
const IN_NAME: i16 = ENDS + 32;
/// Lines that there may be more.
const LINES_LEFT: i16 = ENDS + 40;

/// Of a place in the scratch memory, before what a round adds.
const PLACE_MASK: i16 = 0xfff;
/// More than a round adds, with what it reads from there.
const ROUND_MAX: i16 = 40;
/// Where the request is that came: last, so that nothing is behind it.
pub(super) const REQUEST_AT: i16 = PLACE_MASK + 1 + ROUND_MAX;
pub(super) const SCRATCH_LEN: usize = REQUEST_AT as usize + REQUEST_MAX + ROUND_MAX as usize;
const _: () = assert!(LINES_LEFT + 8 <= 0);

/// What is put together, as a request to be found.
const REQUEST_REDUCED: Request = Request {
    at: REDUCED - REQUEST_AT,
    len: REDUCED_LEN,
    most: REDUCED_MAX,
};

/// What the verifier would follow all rounds for once for each family, with timestamps and without. It forgets what it knows of these.
const TOLD_APART: [i16; 4] = [LEN, HEADER, HEADERS, STAMPS];

/// Each takes a word at least, and the last word of each line is not whole.
const ROUNDS: i32 = (REQUEST_MAX / 8 + LINES_MAX) as i32;
/// Steps that it takes at most: of any request, with a look whether the sender has done a handshake, and of each 64 bytes of one
/// (measured: 64 of what is short; and what is left is hashed and compared).
pub(super) const STEPS: i32 = 100;
pub(super) const STEPS_OF_64: i32 = 70;

/// Where the request is.
const REQUEST: Reg = Reg::R9;
const AT: Reg = Reg::R8;
/// Where the next byte goes.
const TO: Reg = Reg::R1;
/// 1 in each byte.
const ONES: Reg = Reg::R2;
const WORD: Reg = Reg::R0;
const COUNT_OF_BYTES: Reg = Reg::R5;

const LINE_END: i32 = u16::from_ne_bytes(*b"\r\n") as i32;

impl Generator<'_> {
    /// Of the request in the scratch memory, behind which there are zeros; keeps [`HIT`](super::shape::HIT), and how many bytes of lines
    /// there are for the log.
    pub(super) fn find_reduced(&mut self, of: &WebHandler) {
        let [again, next, ended, none] = [(); 4].map(|()| self.label());
        self.begin_to_reduce(none);
        self.bind(again);
        self.store_word(none);
        self.count_to_control();
        self.follow_name(none);
        self.go_on(next);
        self.end_line(none);
        self.begin_line((ended, none));
        self.bind(next);
        self.kept(Reg::R3, ROUND);
        self.alu(Alu::Add, Reg::R3, 1);
        self.keep(ROUND, Reg::R3);
        self.jump_if(Reg::R3, Condition::Less, ROUNDS, again);
        self.jump(none);
        self.bind(ended);
        self.end_head(none);
        self.find(of, REQUEST_REDUCED);
        self.bind(none);
    }

    fn begin_to_reduce(&mut self, none: Label) {
        self.kept(Reg::R3, LEN);
        self.jump_if(Reg::R3, Condition::Equal, 0, none);
        self.kept(REQUEST, SCRATCH);
        for known in TOLD_APART.into_iter().chain(ADDRESSES) {
            self.kept(Reg::R3, known);
            self.store(Size::Double, REQUEST, ENDS, Reg::R3);
            self.load(Size::Double, Reg::R3, REQUEST, ENDS);
            self.keep(known, Reg::R3);
        }
        self.set(AT, 0);
        self.set(TO, i32::from(REDUCED));
        set_wide(self.asm, ONES, 0x0101_0101_0101_0101);
        // The first line counts.
        for (at, value) in [(ENDS, REDUCED), (ENDS + 8, LOGGED_LINES), (STAYS, -1)] {
            self.store_imm(Size::Double, REQUEST, at, value.into());
        }
        for (at, value) in [(WHICH, 0), (IN_NAME, 0), (LINES_LEFT, LINES_MAX as i32)] {
            self.store_imm(Size::Double, REQUEST, at, value);
        }
        self.store_imm(Size::Double, Reg::R10, ROUND, 0);
        // The first line is none that is empty.
        self.load(Size::Half, Reg::R3, REQUEST, 0);
        self.jump_if(Reg::R3, Condition::Equal, LINE_END, none);
    }

    /// The next word, to where its line goes. To `none` behind the request, where no place is: that is for the verifier.
    fn store_word(&mut self, none: Label) {
        let place = Reg::R3;
        self.jump_if(AT, Condition::Greater, REQUEST_MAX as i32, none);
        self.clamp(AT, place, REQUEST_MAX as u32 + 1);
        self.alu(Alu::And, TO, i32::from(PLACE_MASK));
        place_at(self.asm, place, AT);
        self.load(Size::Double, WORD, place, 0);
        place_at(self.asm, place, TO);
        self.store(Size::Double, place, -REQUEST_AT, WORD);
    }

    /// How many bytes of the word stand before the first control byte.
    fn count_to_control(&mut self) {
        let (below, is, spare) = (Reg::R4, Reg::R3, COUNT_OF_BYTES);
        // Less than a space, and none of the upper half.
        each(self.asm, is, 0x20);
        self.set(below, WORD);
        self.alu(Alu::Sub, below, is);
        self.set(is, WORD);
        self.alu(Alu::Xor, is, -1);
        self.alu(Alu::And, below, is);
        // Or a delete.
        each(self.asm, is, 0x7f);
        self.alu(Alu::Xor, is, WORD);
        self.set(spare, is);
        self.alu(Alu::Sub, spare, ONES);
        self.alu(Alu::Xor, is, -1);
        self.alu(Alu::And, spare, is);
        self.alu(Alu::Or, below, spare);
        first_byte(self.asm, below, COUNT_OF_BYTES, is);
    }

    /// To `none` where the line's name, if it is looked at, has another byte than it may. Loses the word.
    fn follow_name(&mut self, none: Label) {
        let [goes_on, done] = [(); 2].map(|()| self.label());
        let (lower, outside, spare) = (Reg::R3, Reg::R4, COUNT_OF_BYTES);
        self.load(Size::Double, Reg::R3, REQUEST, IN_NAME);
        self.jump_if(Reg::R3, Condition::Equal, 0, done);
        self.keep(SPARE, COUNT_OF_BYTES);
        each(self.asm, lower, 0x20);
        self.alu(Alu::Or, lower, WORD);
        each(self.asm, spare, 0x7f);
        self.alu(Alu::And, lower, spare);
        // The upper bit of each is turned by what is not less: two times behind a range, once in it.
        self.set(outside, -1);
        for least in [b'-', b'-' + 1, b'0', b'9' + 1, b'a', b'z' + 1] {
            each(self.asm, spare, 0x80 - i32::from(least));
            self.alu(Alu::Add, spare, lower);
            self.alu(Alu::Xor, outside, spare);
        }
        self.alu(Alu::Or, outside, WORD);
        let place = lower;
        first_byte(self.asm, outside, place, spare);
        self.jump_if(place, Condition::Equal, 8, goes_on);
        self.alu(Alu::Add, place, AT);
        self.alu(Alu::Add, place, REQUEST);
        self.load(Size::Byte, Reg::R4, place, 0);
        self.jump_if(Reg::R4, Condition::NotEqual, i32::from(b':'), none);
        self.store_imm(Size::Double, REQUEST, IN_NAME, 0);
        self.bind(goes_on);
        self.kept(COUNT_OF_BYTES, SPARE);
        self.bind(done);
    }

    /// Behind what was counted; to `next` where the line goes on in another word.
    fn go_on(&mut self, next: Label) {
        let stays = Reg::R3;
        self.alu(Alu::Add, AT, COUNT_OF_BYTES);
        self.load(Size::Double, stays, REQUEST, STAYS);
        self.alu(Alu::And, stays, COUNT_OF_BYTES);
        self.alu(Alu::Add, TO, stays);
        self.jump_if(COUNT_OF_BYTES, Condition::Equal, 8, next);
    }

    /// The line ends here, or to `none`.
    fn end_line(&mut self, none: Label) {
        let (place, wrong, spare) = (Reg::R3, Reg::R4, Reg::R5);
        // All in one comparison: each costs the verifier a way in each round.
        place_at(self.asm, place, AT);
        self.load(Size::Half, wrong, place, 0);
        self.alu(Alu::Xor, wrong, LINE_END);
        self.load(Size::Double, spare, REQUEST, IN_NAME);
        self.alu(Alu::Or, wrong, spare);
        self.load(Size::Double, spare, REQUEST, LINES_LEFT);
        self.alu(Alu::Sub, spare, 1);
        self.store(Size::Double, REQUEST, LINES_LEFT, spare);
        self.alu(Alu::ShiftRight, spare, 63);
        self.alu(Alu::Or, wrong, spare);
        self.jump_if(wrong, Condition::NotEqual, 0, none);
        place_at(self.asm, place, TO);
        self.store_imm(Size::Half, place, -REQUEST_AT, LINE_END);
        self.load(Size::Double, spare, REQUEST, STAYS);
        self.alu(Alu::And, spare, 2);
        self.alu(Alu::Add, TO, spare);
        self.alu(Alu::Add, AT, 2);
        end_of_line(self.asm, place);
        self.store(Size::Double, place, ENDS, TO);
    }

    /// What the line is for that begins here; to `ended` where that is the empty one, to `none` where it has no name.
    fn begin_line(&mut self, (ended, none): (Label, Label)) {
        let [counts, logged, begun] = [(); 3].map(|()| self.label());
        let (first, second, spare) = (WORD, Reg::R4, Reg::R5);
        place_at(self.asm, Reg::R3, AT);
        self.load(Size::Double, first, Reg::R3, 0);
        self.load(Size::Double, second, Reg::R3, 8);
        self.set(spare, first);
        self.alu(Alu::And, spare, 0xffff);
        self.jump_if(spare, Condition::Equal, LINE_END, ended);
        each(self.asm, spare, 0x20);
        self.alu(Alu::Or, first, spare);
        self.alu(Alu::Or, second, spare);
        for prefix in LOGGED {
            expect_other(self.asm, prefix, logged);
        }
        let (short, long): (Vec<&[u8]>, Vec<&[u8]>) = COUNT.iter().partition(|it| it.len() <= 4);
        for prefix in long {
            expect_other(self.asm, prefix, counts);
        }
        expect_none_of(self.asm, &short, counts);
        expect_none_of(self.asm, &[b":"], none);
        for (kind, (stays, in_name, which)) in [
            (None, (0, 1, 0)),
            (Some(counts), (-1, 0, 0)),
            (Some(logged), (-1, 0, 8)),
        ] {
            kind.into_iter().for_each(|kind| self.bind(kind));
            for (at, value) in [(STAYS, stays), (IN_NAME, in_name), (WHICH, which)] {
                self.store_imm(Size::Double, REQUEST, at, value);
            }
            self.jump(begun);
        }
        self.bind(begun);
        end_of_line(self.asm, Reg::R3);
        self.load(Size::Double, TO, Reg::R3, ENDS);
    }

    /// All lines have been read, and the empty one stands where the request ends, or to `none`. Keeps how long the parts are.
    fn end_head(&mut self, none: Label) {
        let (place, len) = (Reg::R3, Reg::R4);
        self.alu(Alu::Add, AT, 2);
        self.kept(len, LEN);
        self.jump_if(AT, Condition::NotEqual, len, none);
        self.load(Size::Double, TO, REQUEST, ENDS);
        self.alu(Alu::And, TO, i32::from(PLACE_MASK));
        place_at(self.asm, place, TO);
        self.store_imm(Size::Half, place, -REQUEST_AT, LINE_END);
        self.store_imm(Size::Double, place, 2 - REQUEST_AT, 0);
        self.alu(Alu::Sub, TO, i32::from(REDUCED) - 2);
        self.jump_if(TO, Condition::Greater, REDUCED_MAX as i32, none);
        self.keep(REDUCED_LEN, TO);
        self.load(Size::Double, len, REQUEST, ENDS + 8);
        self.alu(Alu::Sub, len, i32::from(LOGGED_LINES));
        self.jump_if(len, Condition::Greater, LOGGED_MAX as i32, none);
        self.keep(LOGGED_BYTES, len);
    }
}

/// `dst` = this many bytes behind the beginning of the request.
fn place_at(asm: &mut Assembler, dst: Reg, place: Reg) {
    asm.set(dst, place);
    asm.alu(Alu::Add, dst, REQUEST);
}

/// `dst` = where the end of the line's bytes is said, less [`ENDS`].
fn end_of_line(asm: &mut Assembler, dst: Reg) {
    asm.load(Size::Double, dst, REQUEST, WHICH);
    asm.alu(Alu::And, dst, 8);
    asm.alu(Alu::Add, dst, REQUEST);
}

/// `dst` = the number, which is less than 128, in each byte.
fn each(asm: &mut Assembler, dst: Reg, number: i32) {
    asm.set(dst, ONES);
    asm.alu(Alu::Mul, dst, number);
}

/// `count` = how many bytes stand before the first whose upper bit is set; 8 where none is. Loses `bytes` and `spare`.
fn first_byte(asm: &mut Assembler, bytes: Reg, count: Reg, spare: Reg) {
    asm.set(spare, ONES);
    asm.alu(Alu::ShiftLeft, spare, 7);
    asm.alu(Alu::And, bytes, spare);
    // What is below the lowest bit.
    asm.set(count, bytes);
    asm.alu(Alu::Sub, count, 1);
    asm.alu(Alu::Xor, bytes, -1);
    asm.alu(Alu::And, count, bytes);
    asm.alu(Alu::ShiftRight, count, 7);
    asm.alu(Alu::And, count, ONES);
    asm.alu(Alu::Mul, count, ONES);
    asm.alu(Alu::ShiftRight, count, 56);
    // Which the verifier does not find out.
    asm.alu(Alu::And, count, 15);
}

/// To `then` where a line begins as one of these, of four bytes at most, whose first word is in r0. Loses r3 and r5.
fn expect_none_of(asm: &mut Assembler, prefixes: &[&[u8]], then: Label) {
    let (any, spare) = (Reg::R3, Reg::R5);
    asm.set(any, 0);
    for prefix in prefixes {
        let mut known = [0; 4];
        known[..prefix.len()].copy_from_slice(prefix);
        let shift = 8 * (4 - prefix.len());
        asm.alu32(Alu::Move, spare, WORD);
        if shift > 0 {
            asm.alu32(Alu::ShiftLeft, spare, shift as i32);
        }
        let known = u32::from_ne_bytes(known) << shift;
        asm.alu32(Alu::Xor, spare, known as i32);
        // The sign of what is less than 0.
        asm.alu(Alu::Sub, spare, 1);
        asm.alu(Alu::Or, any, spare);
    }
    asm.jump_if(any, Condition::SignedLess, 0, then);
}

/// To `then` where a line begins so, with 8 to 16 bytes; its first two words are in r0 and r4. Loses r3 and r5.
fn expect_other(asm: &mut Assembler, prefix: &[u8], then: Label) {
    let (first, second, spare, known) = (WORD, Reg::R4, Reg::R5, Reg::R3);
    let other = asm.label();
    let mut bytes = [0; 16];
    bytes[..prefix.len()].copy_from_slice(prefix);
    let word = |at: usize| u64::from_ne_bytes(*bytes[at..].first_chunk().expect("two words"));
    set_wide(asm, known, word(0));
    if prefix.len() == 8 {
        return asm.jump_if(first, Condition::Equal, known, then);
    }
    let shift = 8 * (16 - prefix.len());
    asm.jump_if(first, Condition::NotEqual, known, other);
    asm.set(spare, second);
    asm.alu(Alu::ShiftLeft, spare, shift as i32);
    set_wide(asm, known, word(8) << shift);
    asm.jump_if(spare, Condition::Equal, known, then);
    asm.bind(other);
}
