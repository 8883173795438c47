//! The interpreter that tests run programs in computes what the kernel does (`BPF_PROG_TEST_RUN`): programs of random
//! instructions, of all kinds that the assembler has, on numbers that come with the packet, on the stack and in memory that
//! is shared. Needs the privilege to load programs; without it each test says that it was skipped.

use crate::common;

use std::sync::atomic::{AtomicU64, Ordering};

use common::Random;
use exos_filter::ebpf::{Alu, Assembler, Condition, Emit, Fetch, Helper, Insn, Operand, Reg, Size};
use exos_host::bpf::{Map, MappedArray, Prog, permitted};
use exos_testing::ebpf;

/// Registers with numbers; r6 points at the packet, r7 at a value of the array.
const NUMBERS: [Reg; 8] = [
    Reg::R0,
    Reg::R1,
    Reg::R2,
    Reg::R3,
    Reg::R4,
    Reg::R5,
    Reg::R8,
    Reg::R9,
];
const SIZES: [Size; 4] = [Size::Byte, Size::Half, Size::Word, Size::Double];
/// Bytes of a value, and of the stack that is used.
const VALUE_LEN: usize = 32;
const STACK: i16 = -40;
/// The packet begins with this many bytes that the kernel looks at, then come the numbers.
const AT: usize = 16;
/// What a program returns that has come to its end.
const DONE: u32 = 3;
const PACKET_LEN: usize = AT + 8 * NUMBERS.len();

const ALU: [Alu; 11] = [
    Alu::Add,
    Alu::Sub,
    Alu::Mul,
    Alu::Div,
    Alu::Or,
    Alu::And,
    Alu::ShiftLeft,
    Alu::ShiftRight,
    Alu::Xor,
    Alu::SignedShiftRight,
    Alu::Remainder,
];
const CONDITIONS: [Condition; 10] = [
    Condition::Equal,
    Condition::Greater,
    Condition::GreaterOrEqual,
    Condition::Set,
    Condition::NotEqual,
    Condition::SignedGreater,
    Condition::Less,
    Condition::LessOrEqual,
    Condition::SignedLess,
    Condition::SignedLessOrEqual,
];

/// A number of those at which something changes.
fn number(random: &mut Random) -> u64 {
    let near: [u64; 8] = [
        0,
        1,
        64,
        0x7fff_ffff,
        0x8000_0000,
        0xffff_ffff,
        1 << 63,
        u64::MAX,
    ];
    match random.below(3) {
        0 => random.next(),
        1 => random.next() >> random.below(64),
        _ => random.pick(&near),
    }
}

/// What is computed with: a register, or a constant that the kernel lets pass.
fn operand(random: &mut Random, op: Alu, is_wide: bool) -> Operand {
    if random.one_in(2) {
        return random.pick(&NUMBERS).into();
    }
    let constant = number(random) as i32;
    Operand::Imm(match op {
        Alu::ShiftLeft | Alu::ShiftRight | Alu::SignedShiftRight => {
            constant & if is_wide { 63 } else { 31 }
        }
        Alu::Div | Alu::Remainder => constant | 1,
        _ => constant,
    })
}

/// Adds an instruction, or a few that belong together.
fn add(asm: &mut Assembler, random: &mut Random) {
    let [dst, src] = [(); 2].map(|()| random.pick(&NUMBERS));
    let (is_wide, size) = (random.one_in(2), random.pick(&SIZES));
    // Packets are no place for what is atomic.
    let (base, begin) = match random.below(2) {
        0 => (Reg::R10, STACK),
        _ => (Reg::R7, 0),
    };
    let at = |len: usize, random: &mut Random| begin + (len * random.below(VALUE_LEN / len)) as i16;
    match random.below(12) {
        0..4 => {
            let op = random.pick(&ALU);
            let operand = operand(random, op, is_wide);
            asm.push(match is_wide {
                true => Insn::alu64(op, dst, operand),
                false => Insn::alu32(op, dst, operand),
            });
        }
        4 => {
            let operand = operand(random, Alu::Move, is_wide);
            asm.push(match is_wide {
                true => Insn::alu64(Alu::Move, dst, operand),
                false => Insn::alu32(Alu::Move, dst, operand),
            });
        }
        5 => {
            let bits = random.pick(&[16, 32, 64]);
            asm.push(match random.one_in(2) {
                true => Insn::to_big_endian(dst, bits),
                false => Insn::to_little_endian(dst, bits),
            });
        }
        6 => {
            let (over, condition) = (asm.label(), random.pick(&CONDITIONS));
            let operand = operand(random, Alu::Move, is_wide);
            match is_wide {
                true => asm.jump_if(dst, condition, operand, over),
                false => asm.jump_if32(dst, condition, operand, over),
            }
            asm.alu(Alu::Add, src, 1);
            asm.bind(over);
        }
        7 => Insn::load_imm64(dst, number(random))
            .into_iter()
            .for_each(|insn| asm.push(insn)),
        8 => asm.push(Insn::load(size, dst, base, at(len(size), random))),
        9 => asm.push(Insn::store(size, base, at(len(size), random), src)),
        10 => {
            let value = number(random) as i32;
            asm.push(Insn::store_imm(size, base, at(len(size), random), value));
        }
        _ => {
            let at = at(8, random);
            add_atomic(asm, random, base, at, src);
        }
    }
}

fn add_atomic(asm: &mut Assembler, random: &mut Random, base: Reg, at: i16, src: Reg) {
    match random.below(4) {
        0 => asm.push(Insn::atomic_add(base, at, src)),
        1 => asm.push(Insn::fetch(Fetch::Add, base, at, src)),
        2 => asm.push(Insn::compare_exchange(base, at, src)),
        // One that finds what it expects.
        _ => {
            asm.push(Insn::load(Size::Double, Reg::R0, base, at));
            asm.push(Insn::compare_exchange(base, at, src));
        }
    }
}

const fn len(size: Size) -> usize {
    match size {
        Size::Byte => 1,
        Size::Half => 2,
        Size::Word => 4,
        Size::Double => 8,
    }
}

/// A program of these numbers: it reads them out of the packet, does this and that with them, and writes them back.
fn program(random: &mut Random, array_fd: i32) -> Vec<Insn> {
    let mut asm = Assembler::new();
    let out = asm.label();
    asm.load(Size::Word, Reg::R6, Reg::R1, 0);
    asm.load(Size::Word, Reg::R2, Reg::R1, 4);
    asm.set(Reg::R3, Reg::R6);
    asm.alu(Alu::Add, Reg::R3, PACKET_LEN as i32);
    asm.jump_if(Reg::R3, Condition::Greater, Reg::R2, out);
    for at in (STACK..STACK + VALUE_LEN as i16).step_by(8) {
        asm.push(Insn::store_imm(Size::Double, Reg::R10, at, 0));
    }
    asm.push(Insn::store_imm(Size::Word, Reg::R10, -4, 1));
    asm.set(Reg::R2, Reg::R10);
    asm.alu(Alu::Add, Reg::R2, -4);
    asm.load_map(Reg::R1, array_fd);
    asm.call(Helper::MapLookupElem);
    asm.jump_if(Reg::R0, Condition::Equal, 0, out);
    asm.set(Reg::R7, Reg::R0);
    for (n, register) in NUMBERS.into_iter().enumerate() {
        asm.load(Size::Double, register, Reg::R6, AT + 8 * n);
    }
    (0..30).for_each(|_| add(&mut asm, random));
    for (n, register) in NUMBERS.into_iter().enumerate() {
        let at = (AT + 8 * n) as i16;
        asm.push(Insn::store(Size::Double, Reg::R6, at, register));
    }
    asm.set(Reg::R0, DONE as i32);
    asm.exit();
    asm.bind(out);
    asm.set(Reg::R0, 0);
    asm.exit();
    asm.finish().expect("a short program")
}

/// Runs a program in both, which have to agree: on the verdict, the packet, and what is in the array afterwards.
fn compare(insns: &[Insn], maps: (&MappedArray, &Map), value_len: usize, packet: &[u8]) -> u32 {
    let (array, slots) = maps;
    let words: Vec<u64> = insns.iter().map(|insn| insn.to_word()).collect();
    let prog = Prog::load(&words, "random", false)
        .unwrap_or_else(|e| panic!("{}\n{}\n{e}", ebpf::disassemble(&words), e.log));
    let copy = |word: &AtomicU64| AtomicU64::new(word.load(Ordering::Relaxed));
    let memory: Vec<AtomicU64> = array.words().iter().map(copy).collect();
    let known = vec![
        (
            array.raw_fd(),
            ebpf::Map::Array {
                words: &memory,
                value_len,
            },
        ),
        (slots.raw_fd(), ebpf::Map::Programs),
    ];
    let mut ours = ebpf::Run::new(packet, 0);
    let verdict = ebpf::Program::new(&words, known).finish(&mut ours);
    let theirs = prog.test_run(packet).unwrap();
    let after = |words: &[AtomicU64]| -> Vec<u64> {
        let values = words.iter().map(|word| word.load(Ordering::Relaxed));
        values.collect()
    };
    assert_eq!(
        (verdict, ours.packet(), after(&memory)),
        (theirs.verdict, &*theirs.packet, after(array.words())),
        "of {packet:02x?}\n{}",
        ebpf::disassemble(&words)
    );
    verdict
}

#[test]
fn it_computes_what_the_kernel_does() {
    if let Err(error) = permitted() {
        return common::skipped(&format!("it_computes_what_the_kernel_does: {error}"));
    }
    let array = MappedArray::new("numbers", VALUE_LEN, 3).unwrap();
    let slots = Map::prog_array(1).unwrap();
    let mut random = Random(1);
    for _ in 0..8000 {
        let insns = program(&mut random, array.raw_fd());
        let mut packet = vec![0; AT];
        (0..NUMBERS.len()).for_each(|_| packet.extend(number(&mut random).to_ne_bytes()));
        for word in array.words() {
            word.store(number(&mut random), Ordering::Relaxed);
        }
        let verdict = compare(&insns, (&array, &slots), VALUE_LEN, &packet);
        assert_eq!(verdict, DONE, "it has been to the end");
    }
}

/// A program that calls each helper, all of which have to do with this number, and says what comes of it: the verdict is the
/// sum of what it has read and of the packet's length, and in the array is whether it could be read.
fn helpers(at: i32, array_fd: i32, slots_fd: i32) -> Vec<Insn> {
    let (context, sum, result) = (Reg::R6, Reg::R8, Reg::R9);
    let mut asm = Assembler::new();
    let missing = asm.label();
    let point = |asm: &mut Assembler, register: Reg, at: i32| {
        asm.set(register, Reg::R10);
        asm.alu(Alu::Add, register, at);
    };
    asm.set(context, Reg::R1);
    asm.push(Insn::store_imm(Size::Double, Reg::R10, -8, 0));
    asm.set(Reg::R2, at);
    point(&mut asm, Reg::R3, -8);
    asm.set(Reg::R4, 5);
    asm.call(Helper::XdpLoadBytes);
    asm.set(result, Reg::R0);
    asm.set(Reg::R1, 0);
    asm.set(Reg::R2, 0);
    point(&mut asm, Reg::R3, -8);
    asm.set(Reg::R4, 8);
    asm.set(Reg::R5, at << 24);
    asm.call(Helper::CsumDiff);
    // Kernels fold it more or less far.
    asm.alu32(Alu::Move, sum, Reg::R0);
    for _ in 0..2 {
        asm.set(Reg::R1, sum);
        asm.alu(Alu::ShiftRight, Reg::R1, 16);
        asm.alu(Alu::And, sum, 0xffff);
        asm.alu(Alu::Add, sum, Reg::R1);
    }
    asm.set(Reg::R1, context);
    asm.load_map(Reg::R2, slots_fd);
    asm.set(Reg::R3, at % 2);
    asm.call(Helper::TailCall);
    asm.set(Reg::R1, context);
    asm.call(Helper::XdpGetBuffLen);
    asm.alu(Alu::ShiftLeft, Reg::R0, 16);
    asm.alu(Alu::Add, sum, Reg::R0);
    asm.push(Insn::store_imm(Size::Word, Reg::R10, -4, at % 5));
    point(&mut asm, Reg::R2, -4);
    asm.load_map(Reg::R1, array_fd);
    asm.call(Helper::MapLookupElem);
    asm.jump_if(Reg::R0, Condition::Equal, 0, missing);
    asm.push(Insn::store(Size::Double, Reg::R0, 0, result));
    asm.bind(missing);
    asm.set(Reg::R0, sum);
    asm.exit();
    asm.finish().expect("a short program")
}

/// Helpers give what the kernel's do, also where there is nothing to give: behind the end of the packet, beyond the array, and
/// where there is no program to go on to.
#[test]
fn helpers_do_what_the_kernels_do() {
    if let Err(error) = permitted() {
        return common::skipped(&format!("helpers_do_what_the_kernels_do: {error}"));
    }
    let array = MappedArray::new("numbers", 8, 3).unwrap();
    let slots = Map::prog_array(1).unwrap();
    let packet: Vec<u8> = (0..96u8).map(|n| n.wrapping_mul(37)).collect();
    for at in 0..120 {
        let insns = helpers(at, array.raw_fd(), slots.raw_fd());
        array.words()[0].store(7, Ordering::Relaxed);
        compare(&insns, (&array, &slots), 8, &packet);
    }
}
