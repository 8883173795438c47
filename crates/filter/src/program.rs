//! Rules compiled to a program, for XDP or for traffic control.
//!
//! The program takes the action of the first rule whose filter matches. It parses the packet once, splits into
//! sections by what the packet is (not IP, IPv4, IPv6; malformed, fragment, whole), and in each section tests only
//! what is still open there, with common beginnings of neighbouring conjunctions tested once and many values of one word
//! found by halving:
//!
//! ```text
//! length, type, VLAN ──┬─ too short ── tests of the frame only
//!                      ├─ other type ─ tests of type, frame, network header
//!                      ├─ IPv4 ─ header length, fragment? ─┬ malformed ┬ fragment ┬ whole
//!                      └─ IPv6 ─ walk over extension headers ─┘ (the same three)
//! ```
//!
//! A section whose verdict is already decided is a jump to that verdict: a filter for one TCP port costs nothing on
//! ARP packets. Rules of the same action may be tested in another order than given; that changes no verdict.
//!
//! The programs need Linux 5.18 (bounded loops are not used; `BPF_F_XDP_HAS_FRAGS` is the loader's choice) and load
//! without BTF; with early drop they need Linux 6.2 and BTF. Agreement with the interpreter is tested in
//! `tests/all/kernel_agreement.rs`.
//!
//! Registers, from the first instruction to the verdict: r1 context; r2 frame, moved on by a VLAN tag, so that the
//! network header is at r2 + 14; r3 end of the packet; r4 frame as it came; r5 type, in memory order; r6 transport
//! header; r7 protocol (IPv6); r0 and r8 scratch.

pub(crate) mod classifier;
mod compiled;
mod dispatcher;
mod early_drop;
mod emit;
mod emitter;
mod plan;
mod rules;
mod sections;
mod switch;
mod verdicts;

use crate::limits::INSNS_MAX;

pub use compiled::xdp;
pub use compiled::{CompileError, Counter, Program};
pub use dispatcher::{dispatcher, stamping_dispatcher};
pub use rules::{Action, EarlyDrop, ProgramMaps, ReceiveRing, Rule, SlotCounters};

use emitter::Hook;

/// Compile rules to a program: the first rule that matches decides, `otherwise` when none does.
pub fn compile(
    rules: &[Rule],
    otherwise: Action,
    maps: &ProgramMaps,
) -> Result<Program, CompileError> {
    compile_for(rules, otherwise, maps, Hook::Xdp)
}

/// Compile rules to a program of traffic control, for the ingress of an interface: what is for a socket it marks, and the
/// host's stack leaves that alone. A packet socket of one protocol sees the mark. Frames of a VLAN pass.
///
/// It needs Linux 5.18, as the program for XDP.
pub fn compile_classifier(
    rules: &[Rule],
    otherwise: Action,
    mark: u32,
    counters_fd: Option<i32>,
) -> Result<Program, CompileError> {
    let maps = ProgramMaps {
        xskmap_fd: -1,
        counters_fd,
        early_drop: None,
    };
    compile_for(rules, otherwise, &maps, Hook::Ingress { mark })
}

fn compile_for(
    rules: &[Rule],
    otherwise: Action,
    maps: &ProgramMaps,
    hook: Hook,
) -> Result<Program, CompileError> {
    let insns = sections::program(rules, otherwise, maps, hook)?;
    if insns.len() > INSNS_MAX {
        return Err(CompileError);
    }
    Ok(Program::new(insns))
}
