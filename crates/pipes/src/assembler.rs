//! The few x86-64 instructions that a loop is made of, as bytes: AVX2 on registers of 256 bits, and what goes around it in general
//! registers. (Intel, *Software Developer's Manual*, volume 2.)

use Base::Frame;

/// A register of 256 bits, 0 to 15.
#[derive(Clone, Copy)]
pub(crate) struct Vector(pub u8);

/// What an address is relative to: a parameter of the function, in its register.
#[derive(Clone, Copy)]
pub(crate) enum Base {
    /// The source, in `rdi`.
    From = 7,
    /// The destination, in `rsi`.
    To = 6,
    /// What the caller shares with the function, in `rdx`.
    Frame = 2,
    /// Operands of 256 bits, in `rcx`.
    Constants = 1,
}

/// A place in memory.
pub(crate) type Place = (Base, u32);

/// A register or memory, which an instruction on vectors takes last.
#[derive(Clone, Copy)]
pub(crate) enum Operand {
    Register(Vector),
    Memory(Place),
}

/// `a = b OPERATION c`.
#[derive(Clone, Copy)]
pub(crate) enum Operation {
    /// Four words of 64 bits.
    Add64 = 0xd4,
    /// Eight of 32 bits.
    Add32 = 0xfe,
    And = 0xdb,
    Or = 0xeb,
    Xor = 0xef,
    /// The sums of each eight bytes' differences.
    SumBytes = 0xf6,
    /// Bytes of each half, by their numbers.
    Shuffle = 0x00,
}

/// General registers, none of which the caller needs back.
const RAX: u8 = 0;
const R8: u8 = 8;
const R10: u8 = 10;

/// An instruction on vectors, as VEX has it: its map of opcodes, its prefix with the bits for 256 bits and for words of 64, its opcode.
struct Opcode(u8, u8, u8);

impl Opcode {
    const LOAD: Self = Self(Self::MAP_0F, 0x06, 0x6f); // vmovdqu
    const STORE: Self = Self(Self::MAP_0F, 0x06, 0x7f);
    const STORE_WORD: Self = Self(Self::MAP_0F, 0x01, 0xd6); // vmovq
    const PERMUTE: Self = Self(3, 0x85, 0x00); // vpermq

    const MAP_0F: u8 = 1;
    const MAP_0F38: u8 = 2;
    const PREFIX_66: u8 = 0x05;
}

/// Where a repetition begins.
pub(crate) struct Repeat(usize);

/// Code as far as it is written.
#[derive(Default)]
pub(crate) struct Assembler(Vec<u8>);

impl Assembler {
    pub(crate) fn finish(self) -> Vec<u8> {
        self.0
    }

    pub(crate) fn load(&mut self, to: Vector, from: Place) {
        self.vex(Opcode::LOAD, to.0, Vector(0), Operand::Memory(from));
    }

    pub(crate) fn store(&mut self, from: Vector, to: Place) {
        self.vex(Opcode::STORE, from.0, Vector(0), Operand::Memory(to));
    }

    /// Stores the first 64 bits.
    pub(crate) fn store_word(&mut self, from: Vector, to: Place) {
        self.vex(Opcode::STORE_WORD, from.0, Vector(0), Operand::Memory(to));
    }

    /// Words of 64 bits in an order that is given by two bits for each.
    pub(crate) fn permute(&mut self, to: Vector, from: Vector, order: u8) {
        self.vex(Opcode::PERMUTE, to.0, Vector(0), Operand::Register(from));
        self.0.push(order);
    }

    pub(crate) fn compute(&mut self, operation: Operation, to: Vector, a: Vector, b: Operand) {
        let map = match operation {
            Operation::Shuffle => Opcode::MAP_0F38,
            _ => Opcode::MAP_0F,
        };
        let opcode = Opcode(map, Opcode::PREFIX_66, operation as u8);
        self.vex(opcode, to.0, a, b);
    }

    /// Shifts words of this many bytes (2, 4 or 8) to the right.
    pub(crate) fn shift_right(&mut self, bytes: usize, to: Vector, from: Vector, bits: u8) {
        let opcode = match bytes {
            2 => 0x71,
            4 => 0x72,
            _ => 0x73,
        };
        let opcode = Opcode(Opcode::MAP_0F, Opcode::PREFIX_66, opcode);
        self.vex(opcode, 2, to, Operand::Register(from));
        self.0.push(bits);
    }

    /// `hash = (hash ^ word) * prime` of each of the words at a place, where the hash is in memory.
    pub(crate) fn hash(&mut self, hash: u32, prime: u64, words: u32, bytes: usize) {
        self.general(&[0x8b], true, RAX, (Frame, hash));
        self.0.extend([0x49, 0xbb]); // mov r11, prime
        self.0.extend(prime.to_le_bytes());
        let (opcode, wide): (&[u8], bool) = match bytes {
            1 => (&[0x0f, 0xb6], false),
            2 => (&[0x0f, 0xb7], false),
            4 => (&[0x8b], false),
            _ => (&[0x8b], true),
        };
        for word in (0..32).step_by(bytes) {
            self.general(opcode, wide, R10, (Frame, words + word));
            self.0.extend([0x4c, 0x31, 0xd0]); // xor rax, r10
            self.0.extend([0x49, 0x0f, 0xaf, 0xc3]); // imul rax, r11
        }
        self.general(&[0x89], true, RAX, (Frame, hash));
    }

    /// What follows, to [`end_repeat`](Self::end_repeat), is done as many times as a word in memory says.
    pub(crate) fn repeat(&mut self, times: u32) -> Repeat {
        self.general(&[0x8b], true, R8, (Frame, times));
        self.0.extend([0x4d, 0x85, 0xc0, 0x0f, 0x84, 0, 0, 0, 0]); // test r8, r8; jz behind
        Repeat(self.0.len())
    }

    /// Source and destination are moved on by `stride` bytes each time.
    pub(crate) fn end_repeat(&mut self, Repeat(begin): Repeat, stride: u32) {
        for base in [Base::From, Base::To] {
            self.0.extend([0x48, 0x81, 0xc0 | base as u8]); // add base, stride
            self.0.extend(stride.to_le_bytes());
        }
        self.0.extend([0x49, 0xff, 0xc8, 0x0f, 0x85]); // dec r8; jnz begin
        let back = begin as i32 - (self.0.len() as i32 + 4);
        self.0.extend(back.to_le_bytes());
        let behind = (self.0.len() - begin) as i32;
        self.0[begin - 4..begin].copy_from_slice(&behind.to_le_bytes());
    }

    pub(crate) fn end_function(&mut self) {
        self.0.extend([0xc5, 0xf8, 0x77, 0xc3]); // vzeroupper; ret
    }

    /// An instruction on vectors, by VEX of three bytes. `second` is 0 where there is none.
    fn vex(&mut self, opcode: Opcode, first: u8, second: Vector, last: Operand) {
        let Opcode(map, prefix, opcode) = opcode;
        let last_register = match last {
            Operand::Register(register) => register.0,
            Operand::Memory((base, _)) => base as u8,
        };
        let high = |register: u8| u8::from(register < 8); // Inverted, as `second` is.
        let registers = (high(first) << 7) | 0x40 | (high(last_register) << 5);
        let second = (!second.0 & 15) << 3;
        self.0
            .extend([0xc4, registers | map, second | prefix, opcode]);
        match last {
            Operand::Register(_) => self.0.push(0xc0 | ((first & 7) << 3) | (last_register & 7)),
            Operand::Memory(place) => self.address(first, place),
        }
    }

    /// An instruction on a general register and memory.
    fn general(&mut self, opcode: &[u8], wide: bool, register: u8, place: Place) {
        let rex = 0x40 | (u8::from(wide) << 3) | ((register >> 3) << 2) | (place.0 as u8 >> 3);
        self.0.push(rex);
        self.0.extend(opcode);
        self.address(register, place);
    }

    fn address(&mut self, register: u8, (base, offset): Place) {
        self.0.push(0x80 | ((register & 7) << 3) | (base as u8 & 7));
        self.0.extend(offset.to_le_bytes());
    }
}
