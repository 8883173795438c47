//! Options in another order, or fewer of them: macOS's and iOS's, Windows's, the BSDs'.
//!
//! They are walked by words, as all known systems align them, and what is found is written where the code of a [`Shape`] reads
//! it. Of two of a kind the later counts, as for the stack. With timestamps there must be all of them; without, a cookie keeps Windows's, or the MSS alone.
//!
//! ```text
//! 02 04 MSS MSS   01 03 03 scale   04 02 08 0a stamp echo   01 01 08 0a stamp echo
//! 01 01 04 02     04 02 00 00 (the last word)               01 01 01 01
//! ```

use super::expect::expect_room;
use super::settings::SynHandler;
use super::shape::{
    CONTEXT, FRAME, ISS, MILLIS, MSS_OPTION, NOPS_AND_SACK, Offers, PACKET, SACK_AND_TIMESTAMPS,
    SAID, SCALE_MAX, SCALE_OPTION, Shape,
};
use crate::ebpf::{Alu, Assembler, Condition, Emit, Helper, Label, Reg, Size};
use crate::handler::arithmetic::{add_words, expect_header_sum, half};
use crate::handler::forward::Shape as Headers;
use crate::packet::NETWORK as IP;
use exos_wire::tcp::cookie::{SCALED_BY, SCALED_MSS};
use exos_wire::{ipv4, protocol, tcp};

/// What has been found: a bit for each.
const FOUND: Reg = Reg::R0;
const MSS: i32 = 1;
const SCALE: i32 = 2;
const SACK: i32 = 4;
const STAMP: i32 = 8;
const ALL: i32 = MSS | SCALE | SACK | STAMP;

/// Values wait in places that the answer needs later.
const MSS_AT: i16 = SAID;
const SCALE_AT: i16 = ISS;
const STAMP_AT: i16 = MILLIS;

/// As [`SynHandler::expect_checksum`] takes them.
const SUM: Reg = Reg::R3;
const PSEUDO: Reg = Reg::R4;
/// How many words of options there are.
const WORDS: Reg = Reg::R5;
/// Words of options at most: macOS has the most of those that are known.
const OPTIONS_MAX: usize = 6;

/// ECN is asked for, in either way (RFC 3168 §6.1.1, RFC 9768 §3.1.1).
const ASKS_FOR_ECN: u16 = 0x01c0;
const SYN: u16 = 0x02;

/// "No operation" twice, and what stands behind them.
const NOPS: i32 = 0x0101_0101;
const NOPS_AND_STAMP: i32 = 0x0101_080a;
const SACK_AND_END: i32 = 0x0402_0000;

impl SynHandler {
    /// A SYN whose options are others than those of the shapes, to the code of the one that answers it (`known`, as [`Offers`] rise)
    /// with its options as there.
    pub(super) fn arrange_options(
        &self,
        asm: &mut Assembler,
        headers: Headers,
        known: [Label; 3],
        other: Label,
    ) {
        let read = asm.label();
        self.expect_lengths(asm, headers, other);
        walk(asm, headers, read, other);
        asm.bind(read);
        // The verifier does not know the quotient: otherwise it follows each way to find the same.
        asm.alu(Alu::Div, FOUND, 1);
        self.expect_checksum(asm, headers, other);
        self.choose(asm, headers, known, other);
    }

    /// SYN, and a header whose length fits IP's. Leaves how many words of options it has; begins the sums.
    fn expect_lengths(&self, asm: &mut Assembler, headers: Headers, other: Label) {
        let (first, length, spare) = (Reg::R1, Reg::R1, Reg::R2);
        let ignored = if self.may_decline { ASKS_FOR_ECN } else { 0 };
        if !headers.ipv6 {
            expect_header_sum(asm, FRAME, IP, other);
        }
        asm.load(Size::Half, first, FRAME, headers.upper() + 12);
        asm.to_big_endian(first, 16);
        asm.set(spare, first);
        asm.alu(Alu::And, spare, i32::from(0x0fff & !ignored));
        asm.jump_if(spare, Condition::NotEqual, i32::from(SYN), other);
        asm.alu(Alu::ShiftRight, first, 12);
        asm.set(WORDS, first);
        asm.alu(Alu::Sub, WORDS, (tcp::LEN / 4) as i32);
        asm.jump_if(WORDS, Condition::Greater, OPTIONS_MAX as i32, other);
        asm.alu(Alu::ShiftLeft, length, 2);
        let length_at = if headers.ipv6 { IP + 4 } else { IP + 2 };
        asm.load(Size::Half, spare, FRAME, length_at);
        asm.to_big_endian(spare, 16);
        if !headers.ipv6 {
            asm.alu(Alu::Sub, spare, ipv4::LEN as i32);
        }
        asm.jump_if(spare, Condition::NotEqual, length, other);
        asm.to_big_endian(length, 16);
        asm.set(SUM, length);
        asm.alu(Alu::Add, SUM, half(u16::from(protocol::TCP)));
        let (addresses, words) = (headers.addresses(), headers.address_words());
        add_words(asm, SUM, FRAME, addresses, words);
        asm.set(PSEUDO, SUM);
        add_words(asm, SUM, FRAME, headers.upper(), tcp::LEN / 4);
    }

    /// The shape that has what was found, and the values where it reads them.
    fn choose(&self, asm: &mut Assembler, headers: Headers, known: [Label; 3], other: Label) {
        let [short, scaled, full] = known;
        let [stamped, has_mss] = [(); 2].map(|()| asm.label());
        let shape = |offers| Shape { headers, offers };
        asm.jump_if(FOUND, Condition::Set, STAMP, stamped);
        if self.may_decline {
            expect_scaled(asm, has_mss);
            cut(asm, shape(Offers::Scaled), other);
            asm.jump(scaled);
        } else {
            asm.jump_if(FOUND, Condition::NotEqual, MSS, other);
        }
        asm.bind(has_mss);
        asm.alu(Alu::And, FOUND, MSS);
        asm.jump_if(FOUND, Condition::Equal, 0, other);
        cut(asm, shape(Offers::Mss), other);
        put_mss(asm, shape(Offers::Mss));
        asm.jump(short);
        asm.bind(stamped);
        asm.jump_if(FOUND, Condition::NotEqual, ALL, other);
        cut(asm, shape(Offers::All), other);
        put_mss(asm, shape(Offers::All));
        let options = shape(Offers::All).options();
        for (size, from, to) in [(Size::Word, STAMP_AT, 8), (Size::Byte, SCALE_AT, 19)] {
            asm.kept(Reg::R1, from);
            asm.store(size, FRAME, options + to, Reg::R1);
        }
        asm.jump(full);
    }
}

/// To `other` unless a SYN without timestamps offers what a cookie keeps of Windows's. Loses r1.
fn expect_scaled(asm: &mut Assembler, other: Label) {
    asm.jump_if(FOUND, Condition::NotEqual, MSS | SCALE | SACK, other);
    asm.kept(Reg::R1, SCALE_AT);
    asm.jump_if(Reg::R1, Condition::NotEqual, i32::from(SCALED_BY), other);
    asm.kept(Reg::R1, MSS_AT);
    asm.alu(Alu::And, Reg::R1, 0xffff);
    asm.jump_if(Reg::R1, Condition::Less, i32::from(SCALED_MSS), other);
}

/// Reads the options, to `read`. The steps stand one behind the other, because of a loop the verifier follows each round in each way.
fn walk(asm: &mut Assembler, headers: Headers, read: Label, other: Label) {
    let steps = [(); OPTIONS_MAX + 1].map(|()| asm.label());
    asm.set(FOUND, 0);
    // So that ways differ less for the verifier.
    for value in [MSS_AT, SCALE_AT, STAMP_AT] {
        asm.keep(value, FOUND);
    }
    for (step, label) in steps.into_iter().enumerate() {
        asm.bind(label);
        asm.jump_if(WORDS, Condition::Equal, step as i32, read);
        let next = |words| steps.get(step + words).copied();
        let Some(one) = next(1) else {
            break;
        };
        let last = asm.label();
        let at = headers.upper() + tcp::LEN + 4 * step;
        read_word(asm, step, at, [one, next(3).unwrap_or(other), last, other]);
        asm.bind(last);
        asm.jump_if(WORDS, Condition::NotEqual, step as i32 + 1, other);
        asm.alu(Alu::Or, FOUND, SACK);
        asm.jump(read);
    }
    asm.jump(other);
}

/// Reads the option at this place, which takes one word or three; to `last` with SACK and the end of all.
fn read_word(asm: &mut Assembler, step: usize, at: usize, [one, three, last, other]: [Label; 4]) {
    let [scale, sack, stamp, sack_and_stamp] = [(); 4].map(|()| asm.label());
    let (word, kind) = (Reg::R1, Reg::R2);
    PACKET.expect(asm, at + 4, word, other);
    add_word(asm, word, at);
    asm.to_big_endian(word, 32);
    for (value, to) in [
        (NOPS, one),
        (NOPS_AND_SACK as i32, sack),
        (SACK_AND_END, last),
        (NOPS_AND_STAMP, stamp),
        (SACK_AND_TIMESTAMPS as i32, sack_and_stamp),
    ] {
        asm.jump_if32(word, Condition::Equal, value, to);
    }
    asm.set(kind, word);
    asm.alu(Alu::ShiftRight, kind, 8);
    asm.jump_if(kind, Condition::Equal, (SCALE_OPTION >> 8) as i32, scale);
    asm.alu(Alu::ShiftRight, kind, 8);
    asm.jump_if(kind, Condition::NotEqual, (MSS_OPTION >> 16) as i32, other);

    asm.alu(Alu::Or, FOUND, MSS);
    asm.keep(MSS_AT, word);
    asm.jump(one);

    asm.bind(scale);
    asm.alu(Alu::Or, FOUND, SCALE);
    asm.alu(Alu::And, word, 0xff);
    // More than that is a mistake (RFC 7323 §2.3), which the stack mends.
    asm.jump_if(word, Condition::Greater, SCALE_MAX, other);
    asm.keep(SCALE_AT, word);
    asm.jump(one);

    asm.bind(sack);
    asm.alu(Alu::Or, FOUND, SACK);
    asm.jump(one);

    asm.bind(sack_and_stamp);
    asm.alu(Alu::Or, FOUND, SACK);
    asm.bind(stamp);
    asm.alu(Alu::Or, FOUND, STAMP);
    asm.jump_if(WORDS, Condition::Less, step as i32 + 3, other);
    PACKET.expect(asm, at + 12, word, other);
    add_word(asm, word, at + 4);
    asm.keep(STAMP_AT, word);
    add_word(asm, word, at + 8);
    asm.jump(three);
}

/// The next word at this place, in the packet's order, which is in the sum then.
fn add_word(asm: &mut Assembler, word: Reg, at: usize) {
    asm.load(Size::Word, word, FRAME, at);
    asm.alu(Alu::Add, SUM, word);
}

/// Has the frame be as long as the answer: options that it does not have end it.
fn cut(asm: &mut Assembler, shape: Shape, other: Label) {
    let (by, words, whole) = (Reg::R2, Reg::R1, asm.label());
    asm.load(Size::Byte, words, FRAME, shape.tcp() + 12);
    asm.alu(Alu::ShiftRight, words, 4);
    asm.set(by, shape.words() as i32);
    asm.alu(Alu::Sub, by, words);
    asm.jump_if(by, Condition::Equal, 0, whole);
    asm.alu(Alu::ShiftLeft, by, 2);
    asm.set(Reg::R1, CONTEXT);
    asm.call(Helper::XdpAdjustTail);
    asm.jump_if(Reg::R0, Condition::NotEqual, 0, other);
    PACKET.open(asm, CONTEXT);
    asm.bind(whole);
    expect_room(asm, shape, other);
}

fn put_mss(asm: &mut Assembler, shape: Shape) {
    asm.kept(Reg::R1, MSS_AT);
    asm.to_big_endian(Reg::R1, 16);
    asm.store(Size::Half, FRAME, shape.options() + 2, Reg::R1);
}
