//! Instructions, and what they compute of numbers.

/// An instruction, or the second half of one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Insn {
    pub(super) code: u8,
    pub(super) dst: u8,
    pub(super) src: u8,
    pub(super) offset: i16,
    pub(super) imm: i32,
}

/// The low bits of the code: RFC 9669 §3.1.
pub(super) mod class {
    pub(in super::super) const MASK: u8 = 7;
    pub(in super::super) const LD: u8 = 0;
    pub(in super::super) const LDX: u8 = 1;
    pub(in super::super) const ST: u8 = 2;
    pub(in super::super) const STX: u8 = 3;
    pub(in super::super) const ALU32: u8 = 4;
    pub(in super::super) const JMP: u8 = 5;
    pub(in super::super) const JMP32: u8 = 6;
    pub(in super::super) const ALU64: u8 = 7;
}

/// Where the second operand of arithmetic and jumps comes from.
pub(super) mod source {
    pub(in super::super) const REGISTER: u8 = 8;
}

/// What a store does to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    Plain,
    Add,
    FetchAdd,
    CompareExchange,
}

/// What a load of 64 bits means.
pub(super) enum Wide {
    Constant(u64),
    /// By its descriptor.
    Map(i32),
    /// A byte of the value of the array with this descriptor.
    Value(i32, u32),
}

impl Insn {
    pub(super) const fn of_word(word: u64) -> Self {
        let [code, registers, o0, o1, i0, i1, i2, i3] = word.to_ne_bytes();
        let (low, high) = (registers & 15, registers >> 4);
        let (dst, src) = if cfg!(target_endian = "little") {
            (low, high)
        } else {
            (high, low)
        };
        Self {
            code,
            dst,
            src,
            offset: i16::from_ne_bytes([o0, o1]),
            imm: i32::from_ne_bytes([i0, i1, i2, i3]),
        }
    }

    /// The operation, of arithmetic and jumps.
    pub(super) const fn operation(self) -> u8 {
        self.code & 0xf0
    }

    /// RFC 9669 §4.1. None of what is unknown here: signed division, the negation.
    pub(super) fn compute<const BITS: u32>(self, left: u64, right: u64) -> Option<u64> {
        let cut = |value: u64| match BITS {
            32 => u64::from(value as u32),
            _ => value,
        };
        let (left, right) = (cut(left), cut(right));
        let shift = right as u32 % BITS;
        Some(cut(match self.operation() {
            0x00 => left.wrapping_add(right),
            0x10 => left.wrapping_sub(right),
            0x20 => left.wrapping_mul(right),
            // A division by zero is zero.
            0x30 => left.checked_div(right).unwrap_or(0),
            0x40 => left | right,
            0x50 => left & right,
            0x60 => left << shift,
            0x70 => left >> shift,
            // The rest of a division by zero is what was divided.
            0x90 => left.checked_rem(right).unwrap_or(left),
            0xa0 => left ^ right,
            0xc0 if BITS == 32 => (left as i32 >> shift) as u64,
            0xc0 => (left as i64 >> shift) as u64,
            _ => return None,
        }))
    }

    /// A quotient, or a rest.
    pub(super) fn is_division(self) -> bool {
        matches!(self.operation(), 0x30 | 0x90)
    }

    pub(super) fn is_move(self) -> bool {
        self.operation() == 0xb0
    }

    /// RFC 9669 §4.2: the low bits in another byte order, those above cleared.
    pub(super) fn swap(self) -> Option<impl Fn(u64) -> u64> {
        let is_big = match self.code {
            0xdc => true,
            0xd4 => false,
            _ => return None,
        };
        let bits = self.imm;
        if !matches!(bits, 16 | 32 | 64) {
            return None;
        }
        Some(move |value: u64| match (bits, is_big) {
            (16, true) => u64::from((value as u16).to_be()),
            (16, false) => u64::from((value as u16).to_le()),
            (32, true) => u64::from((value as u32).to_be()),
            (32, false) => u64::from((value as u32).to_le()),
            (_, true) => value.to_be(),
            (_, false) => value.to_le(),
        })
    }

    /// RFC 9669 §4.3: whether the condition of a jump holds.
    pub(super) fn compare(self, left: u64, right: u64) -> Option<bool> {
        let is_wide = self.code & class::MASK == class::JMP;
        let (left, right) = match is_wide {
            true => (left, right),
            // Grown by the sign: in order as signed and as unsigned numbers.
            false => (
                i64::from(left as i32) as u64,
                i64::from(right as i32) as u64,
            ),
        };
        Some(match self.operation() {
            0x10 => left == right,
            0x20 => left > right,
            0x30 => left >= right,
            0x40 => left & right != 0,
            0x50 => left != right,
            0x60 => left as i64 > right as i64,
            0xa0 => left < right,
            0xb0 => left <= right,
            0xc0 => (left as i64) < right as i64,
            0xd0 => left as i64 <= right as i64,
            _ => return None,
        })
    }

    pub(super) fn is_jump_always(self) -> bool {
        self.code == class::JMP
    }

    pub(super) fn is_exit(self) -> bool {
        self.code == 0x95
    }

    pub(super) fn is_call(self) -> bool {
        self.code == 0x85
    }

    /// Bytes of a load or store (RFC 9669 §5).
    pub(super) const fn len(self) -> usize {
        match self.code & 0x18 {
            0x10 => 1,
            0x08 => 2,
            0x00 => 4,
            _ => 8,
        }
    }

    /// What a load or store does; `None` where that is unknown here.
    pub(super) const fn access(self) -> Option<Access> {
        const PLAIN: u8 = 0x60;
        const ATOMIC: u8 = 0xc0;
        match (self.code & 0xe0, self.code & class::MASK, self.imm) {
            (PLAIN, ..) => Some(Access::Plain),
            (ATOMIC, class::STX, _) if self.len() != 8 => None,
            (ATOMIC, class::STX, 0x00) => Some(Access::Add),
            (ATOMIC, class::STX, 0x01) => Some(Access::FetchAdd),
            (ATOMIC, class::STX, 0xf1) => Some(Access::CompareExchange),
            _ => None,
        }
    }

    /// RFC 9669 §5.4.
    pub(super) const fn wide(self, upper: Self) -> Option<Wide> {
        const CODE: u8 = 0x18;
        match (self.code, self.src) {
            (CODE, 0) => {
                let (low, high) = (self.imm as u32 as u64, upper.imm as u32 as u64);
                Some(Wide::Constant(high << 32 | low))
            }
            (CODE, 1) => Some(Wide::Map(self.imm)),
            (CODE, 2) => Some(Wide::Value(self.imm, upper.imm as u32)),
            _ => None,
        }
    }
}
