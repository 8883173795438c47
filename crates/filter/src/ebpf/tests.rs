//! The assembler: encodings, jumps, and programs as text.

use super::*;
use exos_testing::ebpf::disassemble;
use proptest::prelude::*;

#[test]
fn encodes_as_the_kernel_headers_do() {
    // From a dump of `bpftool prog dump xlated opcodes` notation: b7 = mov64 imm, 61 = ldx word, 2d = jgt reg.
    let cases = [
        (
            Insn::alu64(Alu::Move, Reg::R0, 2.into()),
            [0xb7, 0x00, 0, 0, 2, 0, 0, 0],
        ),
        (
            Insn::load(Size::Word, Reg::R2, Reg::R1, 4),
            [0x61, 0x12, 4, 0, 0, 0, 0, 0],
        ),
        (
            Insn::jump_if(Condition::Greater, Reg::R0, Reg::R3.into()),
            [0x2d, 0x30, 0, 0, 0, 0, 0, 0],
        ),
        (
            Insn::jump_if32(Condition::NotEqual, Reg::R0, 80.into()),
            [0x56, 0x00, 0, 0, 80, 0, 0, 0],
        ),
        (
            Insn::store(Size::Word, Reg::R10, -4, Reg::R1),
            [0x63, 0x1a, 0xfc, 0xff, 0, 0, 0, 0],
        ),
        (
            Insn::to_big_endian(Reg::R5, 16),
            [0xdc, 0x05, 0, 0, 16, 0, 0, 0],
        ),
        (
            Insn::call(Helper::RedirectMap),
            [0x85, 0, 0, 0, 51, 0, 0, 0],
        ),
        (
            Insn::load_map(Reg::R1, 7)[0],
            [0x18, 0x11, 0, 0, 7, 0, 0, 0],
        ),
        (
            Insn::store_imm(Size::Word, Reg::R10, -4, 9),
            [0x62, 0x0a, 0xfc, 0xff, 9, 0, 0, 0],
        ),
        (
            Insn::atomic_add(Reg::R7, 32, Reg::R1),
            [0xdb, 0x17, 32, 0, 0, 0, 0, 0],
        ),
        (
            Insn::fetch(Fetch::Add, Reg::R10, -32, Reg::R1),
            [0xdb, 0x1a, 0xe0, 0xff, 1, 0, 0, 0],
        ),
        (
            Insn::compare_exchange(Reg::R7, 40, Reg::R9),
            [0xdb, 0x97, 40, 0, 0xf1, 0, 0, 0],
        ),
        (
            Insn::load_imm64(Reg::R3, 0x1_0000_0002)[1],
            [0, 0, 0, 0, 1, 0, 0, 0],
        ),
        (
            Insn::call_kernel_function(77),
            [0x85, 0x20, 0, 0, 77, 0, 0, 0],
        ),
        (Insn::exit(), [0x95, 0, 0, 0, 0, 0, 0, 0]),
    ];
    for (insn, bytes) in cases {
        // The table is for little-endian machines.
        assert_eq!(
            insn.to_word().to_le(),
            u64::from_le_bytes(bytes),
            "{insn:?}"
        );
    }
}

proptest! {
    #[test]
    fn decoding_inverts_encoding(code: u8, dst in 0u8..16, src in 0u8..16, offset: i16, imm: i32) {
        let insn = Insn { code, dst, src, offset, imm };
        prop_assert_eq!(Insn::from_word(insn.to_word()), insn);
    }
}

#[test]
fn jumps_reach_their_labels_in_both_directions() {
    let mut asm = Assembler::new();
    let (start, end) = (asm.label(), asm.label());
    asm.bind(start);
    asm.jump_if(Reg::R1, Condition::Equal, 0, end);
    asm.alu(Alu::Sub, Reg::R1, 1);
    asm.jump(start);
    asm.bind(end);
    asm.exit();
    let insns = asm.finish().unwrap();
    assert_eq!([insns[0].offset, insns[2].offset], [2, -3]);
}

#[test]
fn a_jump_beyond_16_bits_is_an_error() {
    for (count, ok) in [(32767, true), (32768, false)] {
        let mut asm = Assembler::new();
        let end = asm.label();
        asm.jump(end);
        (0..count).for_each(|_| asm.set(Reg::R0, 0));
        asm.bind(end);
        asm.exit();
        assert_eq!(asm.finish().is_ok(), ok, "{count}");
    }
}

#[test]
fn every_form_is_readable() {
    let mut asm = Assembler::new();
    let end = asm.label();
    asm.load(Size::Byte, Reg::R0, Reg::R2, 14);
    asm.load(Size::Double, Reg::R0, Reg::R2, 0);
    asm.push(Insn::store(Size::Half, Reg::R10, -8, Reg::R0));
    asm.push(Insn::to_big_endian(Reg::R0, 32));
    asm.alu32(Alu::And, Reg::R0, 0x00ff_ffff);
    asm.alu(Alu::ShiftRight, Reg::R0, Reg::R1);
    asm.jump_if(Reg::R0, Condition::LessOrEqual, Reg::R3, end);
    asm.jump_if32(Reg::R0, Condition::Set, -1, end);
    asm.load_map(Reg::R1, 5);
    asm.call(Helper::MapLookupElem);
    asm.push(Insn::from_word(0xff));
    asm.jump(end);
    asm.bind(end);
    asm.exit();
    let insns = asm.finish().unwrap();
    let words: Vec<u64> = insns.iter().map(|insn| insn.to_word()).collect();
    insta::assert_snapshot!(disassemble(&words), @r"
       0: r0 = *(u8 *)(r2 +14)
       1: r0 = *(u64 *)(r2 +0)
       2: *(u16 *)(r10 -8) = r0
       3: r0 = be32 r0
       4: w0 &= 0xffffff
       5: r0 >>= r1
       6: if r0 <= r3 goto 13
       7: if w0 & -1 goto 13
       8: r1 = map[fd 5]
      10: call bpf_map_lookup_elem
      11: ?? 00000000000000ff
      12: goto 13
      13: exit
    ");
}
