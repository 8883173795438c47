//! A look-up in a table. The layout and the order of steps are those of [`table`](crate::table).
//!
//! The loops along the key are loops of the kernel's program: the verifier follows them to the longest key. Its last bytes are read as the
//! 8 bytes that end with it, which begin in the headers where it is short; machines have the low byte first, as those that this is made for.
//! Before and behind a loop the verifier is made to forget on which way it came there: otherwise it would follow the rest once for each
//! length of a key, each slot of a bucket and each way on which a message arrives.

use exos_filter::ebpf::{Alu, Assembler, Condition as Jump, Emit, Reg, Size};

use super::super::{Generator, KEPT, LENGTH, MESSAGE, stack};
use crate::code::{Find, RegionKind};
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
    pub(super) fn find_word(&mut self, find: &Find) {
        let number = usize::from(find.table);
        let region = &self.of.handler.handler().regions[number];
        let RegionKind::Table(key_max) = region.kind else {
            unreachable!("checked: a table");
        };
        let table = Where {
            start: self.layout.start(number),
            count: region.count,
            key_max,
        };
        self.word(&find.from, 0);
        let waiting = stack::intermediate(0);
        self.keep(waiting, Reg::R0);
        self.word(&find.length, 1);
        self.forget_length();
        self.key(table);
        self.hash();
        self.slot(table);
        self.compare(table);
    }

    /// Where the key is; r0 = r4 = its length. The message is given up if it has none.
    fn key(&mut self, table: Where) {
        let give_up = self.labels.give_up;
        self.set(LEFT, Reg::R0);
        self.jump_if(LEFT, Jump::Less, 1, give_up);
        self.jump_if(LEFT, Jump::Greater, table.key_max as i32, give_up);
        self.kept(NEXT, begin());
        self.jump_if(NEXT, Jump::Greater, i32::from(MESSAGE_MAX), give_up);
        self.set(Reg::R1, NEXT);
        self.alu(Alu::Add, Reg::R1, LEFT);
        self.jump_if(Reg::R1, Jump::Greater, LENGTH, give_up);
        self.clamp_part(NEXT, LEFT, Reg::R1);
        self.keep(begin(), NEXT);
        self.alu(Alu::Add, NEXT, MESSAGE);
        self.set(KEY_END, NEXT);
        self.alu(Alu::Add, KEY_END, LEFT);
        self.end_of_packet(PACKET_END);
        self.jump_if(KEY_END, Jump::Greater, PACKET_END, give_up);
    }

    /// r0 = the hash; r4 = the head that its slot has.
    fn hash(&mut self) {
        let hash = Reg::R0;
        self.set(Reg::R5, LEFT);
        self.along_the_key(|generator| {
            generator.alu(Alu::Xor, hash, Reg::R1);
            mix(&mut generator.asm, hash);
        });
        self.forget(Reg::R5);
        mix(&mut self.asm, hash);
        self.set(LEFT, hash);
        self.alu(Alu::And, LEFT, !0xffff);
        self.alu(Alu::Or, LEFT, Reg::R5);
    }

    /// Has r1 be each of the key's words, one after the other, the last followed by zeros. r2, r4 and r9 are lost. Where the loop goes on
    /// by a mistaken prediction a word is 0.
    fn along_the_key(&mut self, each: impl Fn(&mut Self)) {
        let [again, rest, over] = [(); 3].map(|()| self.label());
        let (give_up, word, is_left) = (self.labels.give_up, Reg::R1, KEPT);
        self.bind(again);
        self.jump_if(LEFT, Jump::Less, 8, rest);
        self.set(word, NEXT);
        self.alu(Alu::Add, word, 8);
        self.end_of_packet(PACKET_END);
        self.jump_if(word, Jump::Greater, PACKET_END, give_up);
        self.set(is_left, 7);
        self.alu(Alu::Sub, is_left, LEFT);
        self.alu(Alu::SignedShiftRight, is_left, 63);
        self.load(Size::Double, word, NEXT, 0);
        self.alu(Alu::And, word, is_left);
        each(self);
        self.alu(Alu::Add, NEXT, 8);
        self.alu(Alu::Sub, LEFT, 8);
        self.jump(again);
        self.bind(rest);
        // Not a comparison with 0 for equality, of which the verifier before Linux 6.2 learns no least length.
        self.jump_if(LEFT, Jump::Less, 1, over);
        self.load(Size::Double, word, KEY_END, -8);
        self.alu(Alu::ShiftLeft, LEFT, 3);
        self.set(NEXT, 64);
        self.alu(Alu::Sub, NEXT, LEFT);
        self.alu(Alu::ShiftRight, word, NEXT);
        each(self);
        self.bind(over);
    }

    /// r2 = the slot's head in memory, r5 = eight times its number. The message is given up if no head is r4.
    fn slot(&mut self, table: Where) {
        let found = self.label();
        let (heads, at) = (Reg::R2, Reg::R5);
        let mask = table.count / BUCKET - 1;
        for bits in BUCKETS {
            self.set(at, Reg::R0);
            self.alu(Alu::ShiftRight, at, bits);
            self.alu(Alu::And, at, mask as i32);
            self.alu(Alu::Mul, at, 8 * BUCKET as i32);
            self.load_map_value(heads, self.of.memory_fd, table.start);
            self.alu(Alu::Add, heads, at);
            for _ in 0..BUCKET {
                self.load(Size::Double, Reg::R1, heads, 0);
                self.jump_if(Reg::R1, Jump::Equal, LEFT, found);
                self.alu(Alu::Add, heads, 8);
                self.alu(Alu::Add, at, 8);
            }
        }
        self.jump(self.labels.give_up);
        self.bind(found);
        // Where it is the verifier forgets, and follows what comes next once.
        self.alu(Alu::ShiftLeft, at, 32);
        self.keep(stack::KEY, at);
        self.load(Size::Word, at, Reg::R10, stack::KEY + 4);
        self.alu(Alu::And, at, 8 * (table.count as i32 - 1));
        self.load_map_value(heads, self.of.memory_fd, table.start);
        self.alu(Alu::Add, heads, at);
    }

    /// r0 = the word of the slot, if it is that of the key and nobody was changing it.
    fn compare(&mut self, table: Where) {
        let give_up = self.labels.give_up;
        let (found, at) = (Reg::R0, Reg::R5);
        let entries = table.start + 8 * table.count;
        let entry_len = i32::from(KEY) + table.key_max as i32;
        self.alu(Alu::ShiftRight, at, 3);
        self.alu(Alu::Mul, at, entry_len);
        self.load_map_value(found, self.of.memory_fd, entries);
        self.alu(Alu::Add, found, at);
        self.keep(entry(), found);
        self.load(Size::Double, Reg::R1, found, 0);
        self.jump_if(Reg::R1, Jump::Set, 1, give_up);
        self.keep(version(), Reg::R1);
        self.load(Size::Double, Reg::R1, Reg::R2, 0);
        self.jump_if(Reg::R1, Jump::NotEqual, LEFT, give_up);
        self.set(at, found);
        self.alu(Alu::Add, at, i32::from(KEY));
        self.kept(NEXT, begin());
        self.alu(Alu::Add, NEXT, MESSAGE);
        self.alu(Alu::And, LEFT, 0xffff);
        self.jump_if(LEFT, Jump::Greater, table.key_max as i32, give_up);
        self.along_the_key(|generator| {
            generator.load(Size::Double, Reg::R0, at, 0);
            generator.jump_if(Reg::R0, Jump::NotEqual, Reg::R1, give_up);
            generator.alu(Alu::Add, at, 8);
        });
        self.kept(Reg::R5, entry());
        self.load(Size::Double, Reg::R0, Reg::R5, WORD);
        self.load(Size::Double, Reg::R1, Reg::R5, 0);
        self.kept(Reg::R2, version());
        self.jump_if(Reg::R1, Jump::NotEqual, Reg::R2, give_up);
    }
}

/// One round of the hash. r1 is lost.
fn mix(asm: &mut Assembler, hash: Reg) {
    asm.alu(Alu::Mul, hash, FACTOR);
    asm.set(Reg::R1, hash);
    asm.alu(Alu::ShiftRight, Reg::R1, 32);
    asm.alu(Alu::Xor, hash, Reg::R1);
}
