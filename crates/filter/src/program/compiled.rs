//! What comes of compiling: instructions, ready to load, and what they count and say.

use crate::counters::counters;
use crate::ebpf::Insn;
use crate::limits::INSNS_MAX;
use std::fmt;

counters! {
    /// What a program counts. Each packet counts as one of these, and also as those whose text says so.
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
    /// Dealt with in the kernel by a [handler](crate::handler) that had nothing to answer.
    Done: "xdp_done",
    /// Answers that were made longer in traffic control, which count as answered, too.
    Lengthened: "tc_lengthened",
    /// Answers that could not be made longer there, and were dropped; they count as answered, too.
    NotLengthened: "tc_not_lengthened",
    /// Fragments dropped because a quarter of the socket's ring was full.
    EarlyDropFragment: "xdp_early_drop_fragment",
    /// Acknowledgements without data dropped because half of it was.
    EarlyDropAck: "xdp_early_drop_ack",
    /// SYNs dropped because three quarters of it were.
    EarlyDropSyn: "xdp_early_drop_syn",
    /// Segments that the [handler](crate::handler::WebHandler) of requests left to the program, their connections looked up.
    Left: "xdp_left",
    /// Connections that it handed up, each with a segment that counts as left, too.
    HandedUp: "xdp_handed_up",
    /// Responses that it sent again, which count as answered, too.
    SentAgain: "xdp_sent_again",
    /// Segments that it dropped because another processor had their connection.
    DropLocked: "xdp_drop_locked",
    /// Segments that it dropped because the ring of connections handed up was full.
    DropHandUpFull: "xdp_drop_hand_up_full",
    /// Segments of its connections that it dropped because they said nothing that it could act on, or nothing new.
    DropUnfit: "xdp_drop_unfit",
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
    /// Of instructions that the kernel has still to judge.
    pub const fn new(insns: Vec<Insn>) -> Self {
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
}

/// Verdicts of XDP programs (`enum xdp_action`).
pub mod xdp {
    /// It is nobody's any more.
    pub const DROP: i32 = 1;
    /// To the host's stack.
    pub const PASS: i32 = 2;
    /// Out by the interface that it came in by.
    pub const TX: i32 = 3;
    /// To where the program has said.
    pub const REDIRECT: i32 = 4;
}

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the rules need more than {INSNS_MAX} instructions: use fewer or simpler rules"
        )
    }
}

impl std::error::Error for CompileError {}
