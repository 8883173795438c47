//! Rules compiled to an XDP program.
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

mod early_drop;
mod emit;
mod plan;
mod sections;
mod switch;
mod verdicts;

use crate::counters::counters;
use crate::ebpf::{Alu, Assembler, Condition, Helper, Insn, Reg, Size, disassemble};
use crate::filter::Filter;
use crate::limits::INSNS_MAX;
use std::fmt;

pub use early_drop::{EarlyDrop, ReceiveRing, SlotCounters};

/// What to do with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Action {
    /// Leave it to the kernel's own stack.
    Pass,
    /// Drop it.
    Drop,
    /// Give it to the AF_XDP socket of the queue that it came in on. When that queue has no socket, the program's
    /// `otherwise` action is taken (`Pass` if that is `RedirectToSocket` as well).
    RedirectToSocket,
}

/// A filter and what to do with packets that match it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Which packets.
    pub filter: Filter,
    /// What to do with them.
    pub action: Action,
}

/// Descriptors of the maps that a program uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgramMaps {
    /// An XSKMAP, indexed by receive queue. Not looked at when no action is [`Action::RedirectToSocket`].
    pub xskmap_fd: i32,
    /// A per-CPU array of [`Counter::COUNT`] values of 8 bytes, indexed by [`Counter`]. None: nothing is counted.
    pub counters_fd: Option<i32>,
    /// With it, packets that can be spared are dropped before a socket's ring is full. None: they are not.
    pub early_drop: Option<EarlyDrop>,
}

counters! {
    /// What a program counts: one packet each.
    Counter(u32), u32;
    /// Passed to the kernel by a rule or by `otherwise`.
    Pass: "xdp_pass",
    /// Dropped by a rule or by `otherwise`.
    Drop: "xdp_drop",
    /// Given to a socket.
    Redirect: "xdp_redirect",
    /// Meant for a socket, but the queue had none.
    NoSocket: "xdp_no_socket",
    /// Answered in the kernel by a [handler](crate::handler).
    Answered: "xdp_answered",
    /// Fragments dropped because a quarter of the socket's ring was full.
    EarlyDropFragment: "xdp_early_drop_fragment",
    /// Acknowledgements without data dropped because half of it was.
    EarlyDropAck: "xdp_early_drop_ack",
    /// SYNs dropped because three quarters of it were.
    EarlyDropSyn: "xdp_early_drop_syn",
}

/// Instructions, ready to load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    insns: Vec<Insn>,
}

/// The program would have more than [`INSNS_MAX`] instructions, or jumps further than an instruction can.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompileError;

impl Program {
    pub(crate) const fn new(insns: Vec<Insn>) -> Self {
        Self { insns }
    }

    /// The instructions.
    pub fn insns(&self) -> &[Insn] {
        &self.insns
    }

    /// The instructions as bpf(2) takes them.
    pub fn words(&self) -> Vec<u64> {
        self.insns.iter().map(|insn| insn.to_word()).collect()
    }

    /// The instructions as text.
    pub fn disassemble(&self) -> String {
        disassemble(&self.insns)
    }
}

/// Verdicts of XDP programs (`enum xdp_action`).
pub(crate) mod xdp {
    pub(crate) const DROP: i32 = 1;
    pub(crate) const PASS: i32 = 2;
    /// Out by the interface that it came in by.
    pub(crate) const TX: i32 = 3;
    pub(crate) const REDIRECT: i32 = 4;
}

/// Compile rules to a program: the first rule that matches decides, `otherwise` when none does.
pub fn compile(
    rules: &[Rule],
    otherwise: Action,
    maps: &ProgramMaps,
) -> Result<Program, CompileError> {
    let insns = sections::program(rules, otherwise, maps)?;
    if insns.len() > INSNS_MAX {
        return Err(CompileError);
    }
    Ok(Program { insns })
}

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
    Program { insns }
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
    let Program { insns: call } = dispatcher(prog_array_fd, fallback);
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
    call.into_iter().for_each(|insn| asm.push(insn));
    let insns = asm.finish().expect("the jumps are short");
    Program { insns }
}

/// Bytes of a time before a packet.
const STAMP_LEN: i32 = 8;

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the rules need more than {INSNS_MAX} instructions: use fewer or simpler rules"
        )
    }
}

impl std::error::Error for CompileError {}
