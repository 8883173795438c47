//! Fields of the stack frame, and how the verifier is kept from telling by them which way led somewhere.

use crate::ebpf::{Assembler, Emit, Reg, Size};

/// A number on the stack, by its distance from r10: 8 bytes.
pub(in crate::gate) trait Field: Copy {
    /// `reg = field`.
    fn get(self, asm: &mut Assembler, reg: Reg);
    /// `field = reg`.
    fn put(self, asm: &mut Assembler, reg: Reg);
    /// `field = value`.
    fn put_imm(self, asm: &mut Assembler, value: i32);
}

impl Field for i16 {
    fn get(self, asm: &mut Assembler, reg: Reg) {
        asm.kept(reg, self);
    }

    fn put(self, asm: &mut Assembler, reg: Reg) {
        asm.keep(self, reg);
    }

    fn put_imm(self, asm: &mut Assembler, value: i32) {
        asm.store_imm(Size::Double, Reg::R10, self, value);
    }
}

/// A number of whose value the verifier learns nothing, whatever is put there.
///
/// It remembers what was put on the stack and what later comparisons say of it, and follows what comes where ways meet once for each
/// combination of such fields that decides a jump: after the headers have been read, hundreds of times. Of a part of 8 bytes that
/// does not begin where they do it knows nothing, unless all of them are zero. So the number is in the upper part, and below it 1.
#[derive(Clone, Copy)]
pub(in crate::gate) struct Unlearned {
    at: i16,
    size: Size,
}

impl Unlearned {
    /// A number of 16 bits, in 8 bytes of its own.
    pub(in crate::gate) const fn half(at: i16) -> Self {
        let size = Size::Half;
        Self { at, size }
    }

    /// A number of 32 bits, in 8 bytes of its own.
    pub(in crate::gate) const fn word(at: i16) -> Self {
        let size = Size::Word;
        Self { at, size }
    }

    /// Where the number begins.
    const fn place(self) -> i16 {
        match self.size {
            Size::Half => self.at + 2,
            _ => self.at + 4,
        }
    }
}

const _: () = assert!(
    cfg!(target_endian = "little"),
    "the upper part lies behind the lower"
);

impl Field for Unlearned {
    fn get(self, asm: &mut Assembler, reg: Reg) {
        asm.load(self.size, reg, Reg::R10, self.place());
    }

    fn put(self, asm: &mut Assembler, reg: Reg) {
        asm.store(self.size, Reg::R10, self.place(), reg);
    }

    fn put_imm(self, asm: &mut Assembler, value: i32) {
        let all = match self.size {
            Size::Half => {
                let value = u16::try_from(value).expect("16 bits");
                (u32::from(value) << 16 | 1).cast_signed()
            }
            _ => {
                assert_eq!(value, 0, "an instruction has no room for others");
                1
            }
        };
        asm.store_imm(Size::Double, Reg::R10, self.at, all);
    }
}
