//! A look-up in a table. The layout and the order of steps are those of [`table`](crate::table).
//!
//! The loops along the key are loops of the kernel's program: the verifier follows them to the longest key. Its last bytes are read as the
//! 8 bytes that end with it, which begin in the headers where it is short; machines have the low byte first, as those that this is made for.
//! Before and behind a loop the verifier is made to forget on which way it came there: otherwise it would follow the rest once for each
//! length of a key, each slot of a bucket and each way on which a message arrives.

use exos_filter::ebpf::{Alu, Assembler, Condition as Jump, Reg, Size};

use super::super::{Generator, KEPT, LENGTH, MESSAGE, stack};
use crate::code::{Expression, RegionKind};
use crate::limits::MESSAGE_MAX;
use crate::table::{BUCKET, BUCKETS, FACTOR, KEY, WORD};

/// The key's next bytes in the message, its end, and how many are left; and the packet's end, while it is compared.
const NEXT: Reg = Reg::R2;
const KEY_END: Reg = Reg::R3;
const LEFT: Reg = Reg::R4;
const PACKET_END: Reg = KEPT;

/// The region of a table.
#[derive(Clone, Copy)]
struct Where {
    start: u32,
    count: u32,
    key_max: u32,
}

/// What waits on the stack: the key's beginning, the entry, its version.
fn begin() -> i16 {
    stack::intermediate(0)
}
fn entry() -> i16 {
    stack::intermediate(1)
}
fn version() -> i16 {
    stack::intermediate(2)
}

impl Generator<'_> {
    /// r0 = the word under the key that the message has there.
    pub(super) fn look_up(&mut self, number: usize, from: &Expression, length: &Expression) {
        let region = &self.of.handler.handler().regions[number];
        let RegionKind::Table(key_max) = region.kind else {
            unreachable!("checked: a table");
        };
        let table = Where {
            start: self.layout.start(number),
            count: region.count,
            key_max,
        };
        self.word(from, 0);
        let waiting = stack::intermediate(0);
        self.asm.store(Size::Double, Reg::R10, waiting, Reg::R0);
        self.word(length, 1);
        self.forget_length();
        self.key(table);
        self.hash();
        self.slot(table);
        self.compare(table);
    }

    /// Where the key is; r0 = r4 = its length. The message is given up if it has none.
    fn key(&mut self, table: Where) {
        let give_up = self.labels.give_up;
        let asm = &mut self.asm;
        asm.set(LEFT, Reg::R0);
        asm.jump_if(LEFT, Jump::Less, 1, give_up);
        asm.jump_if(LEFT, Jump::Greater, table.key_max as i32, give_up);
        asm.load(Size::Double, NEXT, Reg::R10, begin());
        asm.jump_if(NEXT, Jump::Greater, i32::from(MESSAGE_MAX), give_up);
        asm.set(Reg::R1, NEXT);
        asm.alu(Alu::Add, Reg::R1, LEFT);
        asm.jump_if(Reg::R1, Jump::Greater, LENGTH, give_up);
        self.clamp_part(NEXT, LEFT, Reg::R1);
        let asm = &mut self.asm;
        asm.store(Size::Double, Reg::R10, begin(), NEXT);
        asm.alu(Alu::Add, NEXT, MESSAGE);
        asm.set(KEY_END, NEXT);
        asm.alu(Alu::Add, KEY_END, LEFT);
        self.end_of_packet(PACKET_END);
        self.asm
            .jump_if(KEY_END, Jump::Greater, PACKET_END, give_up);
    }

    /// r0 = the hash; r4 = the head that its slot has.
    fn hash(&mut self) {
        let hash = Reg::R0;
        self.asm.set(Reg::R5, LEFT);
        self.along_the_key(|generator| {
            generator.asm.alu(Alu::Xor, hash, Reg::R1);
            mix(&mut generator.asm, hash);
        });
        self.forget(Reg::R5);
        let asm = &mut self.asm;
        mix(asm, hash);
        asm.set(LEFT, hash);
        asm.alu(Alu::And, LEFT, !0xffff);
        asm.alu(Alu::Or, LEFT, Reg::R5);
    }

    /// Has r1 be each of the key's words, one after the other, the last followed by zeros. r2, r4 and r9 are lost. Where the loop goes on
    /// by a mistaken prediction a word is 0.
    fn along_the_key(&mut self, each: impl Fn(&mut Self)) {
        let [again, rest, over] = [(); 3].map(|()| self.asm.label());
        let (give_up, word, is_left) = (self.labels.give_up, Reg::R1, KEPT);
        let asm = &mut self.asm;
        asm.bind(again);
        asm.jump_if(LEFT, Jump::Less, 8, rest);
        asm.set(word, NEXT);
        asm.alu(Alu::Add, word, 8);
        self.end_of_packet(PACKET_END);
        let asm = &mut self.asm;
        asm.jump_if(word, Jump::Greater, PACKET_END, give_up);
        asm.set(is_left, 7);
        asm.alu(Alu::Sub, is_left, LEFT);
        asm.alu(Alu::SignedShiftRight, is_left, 63);
        asm.load(Size::Double, word, NEXT, 0);
        asm.alu(Alu::And, word, is_left);
        each(self);
        let asm = &mut self.asm;
        asm.alu(Alu::Add, NEXT, 8);
        asm.alu(Alu::Sub, LEFT, 8);
        asm.jump(again);
        asm.bind(rest);
        // Not a comparison with 0 for equality, of which the verifier before Linux 6.2 learns no least length.
        asm.jump_if(LEFT, Jump::Less, 1, over);
        asm.load(Size::Double, word, KEY_END, -8);
        asm.alu(Alu::ShiftLeft, LEFT, 3);
        asm.set(NEXT, 64);
        asm.alu(Alu::Sub, NEXT, LEFT);
        asm.alu(Alu::ShiftRight, word, NEXT);
        each(self);
        self.asm.bind(over);
    }

    /// r2 = the slot's head in memory, r5 = eight times its number. The message is given up if no head is r4.
    fn slot(&mut self, table: Where) {
        let found = self.asm.label();
        let (heads, at) = (Reg::R2, Reg::R5);
        let mask = table.count / BUCKET - 1;
        for bits in BUCKETS {
            let asm = &mut self.asm;
            asm.set(at, Reg::R0);
            asm.alu(Alu::ShiftRight, at, bits);
            asm.alu(Alu::And, at, mask as i32);
            asm.alu(Alu::Mul, at, 8 * BUCKET as i32);
            asm.load_map_value(heads, self.of.memory_fd, table.start);
            asm.alu(Alu::Add, heads, at);
            for _ in 0..BUCKET {
                asm.load(Size::Double, Reg::R1, heads, 0);
                asm.jump_if(Reg::R1, Jump::Equal, LEFT, found);
                asm.alu(Alu::Add, heads, 8);
                asm.alu(Alu::Add, at, 8);
            }
        }
        self.asm.jump(self.labels.give_up);
        self.asm.bind(found);
        // Where it is the verifier forgets, and follows what comes next once.
        let asm = &mut self.asm;
        asm.alu(Alu::ShiftLeft, at, 32);
        asm.store(Size::Double, Reg::R10, stack::KEY, at);
        asm.load(Size::Word, at, Reg::R10, stack::KEY + 4);
        asm.alu(Alu::And, at, 8 * (table.count as i32 - 1));
        asm.load_map_value(heads, self.of.memory_fd, table.start);
        asm.alu(Alu::Add, heads, at);
    }

    /// r0 = the word of the slot, if it is that of the key and nobody was changing it.
    fn compare(&mut self, table: Where) {
        let give_up = self.labels.give_up;
        let (found, at) = (Reg::R0, Reg::R5);
        let entries = table.start + 8 * table.count;
        let entry_len = i32::from(KEY) + table.key_max as i32;
        let asm = &mut self.asm;
        asm.alu(Alu::ShiftRight, at, 3);
        asm.alu(Alu::Mul, at, entry_len);
        asm.load_map_value(found, self.of.memory_fd, entries);
        asm.alu(Alu::Add, found, at);
        asm.store(Size::Double, Reg::R10, entry(), found);
        asm.load(Size::Double, Reg::R1, found, 0);
        asm.jump_if(Reg::R1, Jump::Set, 1, give_up);
        asm.store(Size::Double, Reg::R10, version(), Reg::R1);
        asm.load(Size::Double, Reg::R1, Reg::R2, 0);
        asm.jump_if(Reg::R1, Jump::NotEqual, LEFT, give_up);
        asm.set(at, found);
        asm.alu(Alu::Add, at, i32::from(KEY));
        asm.load(Size::Double, NEXT, Reg::R10, begin());
        asm.alu(Alu::Add, NEXT, MESSAGE);
        asm.alu(Alu::And, LEFT, 0xffff);
        asm.jump_if(LEFT, Jump::Greater, table.key_max as i32, give_up);
        self.along_the_key(|generator| {
            let asm = &mut generator.asm;
            asm.load(Size::Double, Reg::R0, at, 0);
            asm.jump_if(Reg::R0, Jump::NotEqual, Reg::R1, give_up);
            asm.alu(Alu::Add, at, 8);
        });
        let asm = &mut self.asm;
        asm.load(Size::Double, Reg::R5, Reg::R10, entry());
        asm.load(Size::Double, Reg::R0, Reg::R5, WORD);
        asm.load(Size::Double, Reg::R1, Reg::R5, 0);
        asm.load(Size::Double, Reg::R2, Reg::R10, version());
        asm.jump_if(Reg::R1, Jump::NotEqual, Reg::R2, give_up);
    }
}

/// One round of the hash. r1 is lost.
fn mix(asm: &mut Assembler, hash: Reg) {
    asm.alu(Alu::Mul, hash, FACTOR);
    asm.set(Reg::R1, hash);
    asm.alu(Alu::ShiftRight, Reg::R1, 32);
    asm.alu(Alu::Xor, hash, Reg::R1);
}
