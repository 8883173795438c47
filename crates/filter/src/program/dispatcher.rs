//! The program that stays attached, and calls the one that is exchanged.

use super::compiled::{Program, xdp};
use super::rules::Action;
use crate::ebpf::{Alu, Assembler, Condition, Emit, Helper, Reg, Size};

/// The program to be attached once: it calls the program in slot 0 of `prog_array_fd`, and takes `fallback` while
/// that slot is empty. Exchanging the slot is atomic and does not disturb the interface.
///
/// Load both with the same choice about fragments: the kernel keeps programs of the two kinds apart.
///
/// Panics when `fallback` is [`Action::RedirectToSocket`]: the dispatcher has no sockets.
pub fn dispatcher(prog_array_fd: i32, fallback: Action) -> Program {
    let verdict = call_verdict(fallback);
    let mut asm = Assembler::new();
    // r1 is the context already.
    asm.load_map(Reg::R2, prog_array_fd);
    asm.alu32(Alu::Move, Reg::R3, 0);
    asm.call(Helper::TailCall);
    asm.set(Reg::R0, verdict);
    asm.exit();
    let insns = asm.finish().expect("there are no jumps");
    Program::new(insns)
}

/// What a dispatcher says when there is nothing to call.
fn call_verdict(fallback: Action) -> i32 {
    match fallback {
        Action::Pass => xdp::PASS,
        Action::Drop => xdp::DROP,
        Action::RedirectToSocket => panic!("a dispatcher has no sockets to redirect to"),
    }
}

/// A dispatcher that also writes, before each packet as its metadata, the time at which it came: 8 bytes, nanoseconds of the
/// monotonic clock, in the machine's byte order. Takes `fallback` also for packets of a driver that has no room
/// for metadata.
///
/// Panics as [`dispatcher`] does.
pub fn stamping_dispatcher(prog_array_fd: i32, fallback: Action) -> Program {
    let call = dispatcher(prog_array_fd, fallback);
    let mut asm = Assembler::new();
    let [unstamped, stamped] = [asm.label(), asm.label()];
    asm.alu(Alu::Move, Reg::R6, Reg::R1);
    asm.call(Helper::KtimeGetNs);
    asm.alu(Alu::Move, Reg::R7, Reg::R0);
    asm.alu(Alu::Move, Reg::R1, Reg::R6);
    asm.alu(Alu::Move, Reg::R2, -STAMP_LEN);
    asm.call(Helper::XdpAdjustMeta);
    asm.jump_if(Reg::R0, Condition::NotEqual, 0, unstamped);
    // struct xdp_md: data, data_end, data_meta.
    asm.load(Size::Word, Reg::R1, Reg::R6, 8);
    asm.load(Size::Word, Reg::R2, Reg::R6, 0);
    asm.alu(Alu::Move, Reg::R3, Reg::R1);
    asm.alu(Alu::Add, Reg::R3, STAMP_LEN);
    // Never taken: for the verifier.
    asm.jump_if(Reg::R3, Condition::Greater, Reg::R2, unstamped);
    asm.store(Size::Double, Reg::R1, 0, Reg::R7);
    asm.jump(stamped);
    asm.bind(unstamped);
    asm.set(Reg::R0, call_verdict(fallback));
    asm.exit();
    asm.bind(stamped);
    asm.alu(Alu::Move, Reg::R1, Reg::R6);
    call.insns().iter().for_each(|insn| asm.push(*insn));
    let insns = asm.finish().expect("the jumps are short");
    Program::new(insns)
}

/// Bytes of a time before a packet.
const STAMP_LEN: i32 = 8;
