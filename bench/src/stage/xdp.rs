//! Programs of XDP that answer frames by sending them back, written by hand.

use exos_filter::Program;
use exos_filter::ebpf::{Alu, Assembler, Condition, Emit, Label, Reg, Size};
use exos_filter::program::xdp;

/// A program that sends frames of this length or more back, after `answer` has made answers of them; what jumps to its label is passed, as all
/// shorter frames are. The register is the frame's; `answer` may use all others.
pub(crate) fn answering(least: usize, answer: impl FnOnce(&mut Assembler, Reg, Label)) -> Program {
    let mut asm = Assembler::new();
    let (frame, pass) = (Reg::R7, asm.label());
    asm.load(Size::Word, frame, Reg::R1, 0);
    asm.load(Size::Word, Reg::R3, Reg::R1, 4);
    asm.set(Reg::R1, frame);
    asm.alu(Alu::Add, Reg::R1, least as i32);
    asm.jump_if(Reg::R1, Condition::Greater, Reg::R3, pass);
    answer(&mut asm, frame, pass);
    asm.set(Reg::R0, xdp::TX);
    asm.exit();
    asm.bind(pass);
    asm.set(Reg::R0, xdp::PASS);
    asm.exit();
    Program::new(asm.finish().expect("a short program"))
}

/// Has what is at two places of a frame change places.
pub(crate) fn swap(asm: &mut Assembler, frame: Reg, size: Size, a: usize, b: usize) {
    asm.load(size, Reg::R1, frame, a);
    asm.load(size, Reg::R2, frame, b);
    asm.store(size, frame, a, Reg::R2);
    asm.store(size, frame, b, Reg::R1);
}

/// Has a frame's link addresses change places.
pub(crate) fn turn_around(asm: &mut Assembler, frame: Reg) {
    swap(asm, frame, Size::Word, 0, 6);
    swap(asm, frame, Size::Half, 4, 10);
}
