//! A compiled filter inside another program.

use super::{Code, Side};
use crate::ebpf::{Condition, Emit, Insn, Label, Reg, Size};
use crate::filter::Filter;
use crate::program::{Action, CompileError, ProgramMaps, Rule, compile, xdp};

/// Append the filter: to `matched` when it matches, on to the next instruction when not. The context is in r6 before
/// and after; r0 to r5 and r7 to r9 are lost.
///
/// The filter is compiled as a program of its own, that drops what matches; its returns become jumps. Its only
/// loads from the context are the packet's begin and end, which lie elsewhere in the context of traffic control.
pub(in crate::gate) fn splice(
    code: &mut Code<'_>,
    filter: &Filter,
    matched: Label,
) -> Result<(), CompileError> {
    let maps = ProgramMaps {
        xskmap_fd: -1,
        counters_fd: None,
        early_drop: None,
    };
    let rule = Rule {
        filter: filter.clone(),
        action: Action::Drop,
    };
    let program = compile(&[rule], Action::Pass, &maps)?;
    let returned = code.label();
    // The compiled code uses r6: the context waits in r9, which it does not know.
    code.set(Reg::R9, Reg::R6);
    code.set(Reg::R1, Reg::R6);
    for insn in program.insns() {
        if *insn == Insn::exit() {
            code.jump(returned);
        } else {
            code.push(context_of(code.side, *insn));
        }
    }
    code.bind(returned);
    code.set(Reg::R6, Reg::R9);
    code.asm
        .jump_if(Reg::R0, Condition::Equal, xdp::DROP, matched);
    Ok(())
}

/// The instruction, with `data` and `data_end` where `struct __sk_buff` has them.
fn context_of(side: Side, insn: Insn) -> Insn {
    for (offset, reg) in [(0, 76), (4, 80)] {
        for dst in [Reg::R2, Reg::R3] {
            if side != Side::In && insn == Insn::load(Size::Word, dst, Reg::R1, offset) {
                return Insn::load(Size::Word, dst, Reg::R1, reg);
            }
        }
    }
    insn
}
