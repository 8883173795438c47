//! Requests answered in the kernel, with what the server answered to the same bytes before, or to the same without noise.
//!
//! The server says: to a segment with just these bytes goes this response, which closes the connection or does not. What a client may say
//! in many ways, and what that means, is so for the server to know. Of HTTP the program knows which lines of a request no answer depends
//! on ([`lines`]): what has no entry is looked for once more without these. Of TCP the program knows the common cases ([`cases`]): connections begin by a cookie that comes back
//! ([`SynHandler`]), with the handshake's acknowledgement, or with the first request where that was lost. A response is one segment, and is sent again when its request comes again: so there are no
//! timers. Whatever else comes goes up, and the connection with it: its numbers and options are put into a ring that
//! the server reads before it looks at the segment ([`layout`]).
//!
//! A connection is the kernel's or the server's. Segments of one may come on several processors: who has the slot's lock
//! has its connection, and what finds it locked is dropped, as by a wire.
//!
//! IPv4 and IPv6 differ where segments arrive and where they leave; between, addresses are in IPv6's form. Registers: r6 context,
//! r7 frame, r8 the slot, r9 as told at each step; what is needed later waits on the stack ([`shape`]).

mod answer;
mod arrive;
mod begin;
mod cases;
mod cookie;
mod find;
pub mod layout;
mod leave;
pub mod lines;
mod reduce;
mod report;
mod room;
mod second_stage;
mod shape;
mod slot;
mod unacknowledged;
mod unusual;
mod write;

use super::attached::Handler;
use super::behind::Behind;
use super::syn::SynHandler;
use crate::ebpf::{Alu, Assembler, Condition, Emit, Insn, Label, Reg, Size};
use crate::gate::steps::Steps;
use crate::handler::arithmetic::set_wide;
use crate::program::{Counter, Program};
use layout::{Entries, Rings, SLOT_COUNT, SLOT_LEN, SLOTS};
pub use second_stage::SecondStage;
pub(crate) use second_stage::announced;
use shape::{ADDRESSES, CONTEXT, COUNTER, MILLIS, PORTS, SLOT, SLOT_AT};

/// Answers SYNs, and requests that there are entries of.
#[derive(Clone, Debug)]
pub struct WebHandler {
    /// What answers SYNs.
    pub syn: SynHandler,
    /// What it answers with.
    pub entries: Entries,
    /// How many connections a peer may have, here and in the server together; a million at most count as limited.
    pub peer_connections: Option<u32>,
    /// Where it hands connections up, behind [`Entries::memory_len`] bytes, or with reports [`Entries::memory_len_with_reports`].
    pub rings: Rings,
    /// An array of one value of [`Rings::memory_len`] bytes.
    pub memory_fd: i32,
    /// An array, for each CPU, of one value of [`WebHandler::SCRATCH_LEN`] bytes.
    pub scratch_fd: i32,
    /// Of the hashes of [`layout`].
    pub key: u64,
    /// Where packets cannot grow enough: what makes them longer.
    pub second_stage: Option<SecondStage>,
    /// The server hears of each answer when its response was taken.
    pub reports: bool,
    /// Requests are HTTP's: what has no entry is looked for without noise, too ([`lines`]).
    pub http: bool,
}

/// Steps of a segment: hashes of its ends, locks, what stands in the slot, headers that leave (measured: 60 ns without an answer, 120 of a
/// SYN, 220 of a request).
const STEPS_OF_SLOT: u32 = 220;
/// As many bytes of a response are copied in a step.
const RESPONSE_OF_STEP: usize = 32;

/// Where things lead.
struct Labels {
    syn: Label,
    unusual: Label,
    pass: Label,
    drop_unlocked: Label,
    /// The slot is another processor's.
    locked: Label,
    /// These unlock the slot.
    pass_locked: Label,
    taken: Label,
    drop: Label,
    done: Label,
    answer: Label,
    send_response: Label,
    finish: Label,
    acknowledge: Label,
    hand_up: Label,
}

struct Generator<'a> {
    asm: &'a mut Assembler,
    labels: Labels,
    behind: Behind,
}

impl WebHandler {
    /// A request, and a word of zeros behind it; the same without noise, and lines for the log.
    pub const SCRATCH_LEN: usize = reduce::SCRATCH_LEN;

    /// What it counts.
    pub const COUNTS: [Counter; 10] = [
        Counter::Answered,
        Counter::SentAgain,
        Counter::Done,
        Counter::Left,
        Counter::HandedUp,
        Counter::DropLocked,
        Counter::DropHandUpFull,
        Counter::DropUnfit,
        Counter::Lengthened,
        Counter::NotLengthened,
    ];

    /// Headers of IPv6 and TCP, with timestamps.
    pub const HEADERS_LEN: usize = 72;

    /// Where it hands up the connections of each core, and with it how long its memory is.
    pub const fn rings(entries: Entries, reports: bool, cores: u32) -> Rings {
        let before = match reports {
            true => entries.memory_len_with_reports(),
            false => entries.memory_len(),
        };
        Rings::new(cores, before)
    }

    /// Steps that a segment takes at most, beside what the gate takes of each by its length
    /// ([`handling`](crate::gate::handling)), and the handler itself before it looks for a request without noise: its headers are read, its
    /// slot is found, read and written, and a response is copied.
    pub const fn steps(entries: Entries) -> u32 {
        STEPS_OF_SLOT + (entries.response_max / RESPONSE_OF_STEP) as u32
    }

    /// The program of a slot of a shared interface: what `outcomes_fd` has is where it goes on
    /// ([`handling`](crate::gate::handling)). It counts in its memory ([`Rings::counts`]): as its first core.
    pub fn in_gate(&self, outcomes_fd: i32, steps: Steps) -> Program {
        self.before(self.gate(outcomes_fd, Some(steps)))
    }

    /// Where there is a second stage, its program beside that.
    pub fn second_stage_in_gate(&self, outcomes_fd: i32) -> Option<Program> {
        self.completing(self.gate(outcomes_fd, None))
    }

    fn gate(&self, outcomes_fd: i32, steps: Option<Steps>) -> Behind {
        let counts = self.rings.counts(self.rings.own().start);
        Behind::Gate {
            outcomes_fd,
            counts: Some((self.memory_fd, counts as u32)),
            steps,
        }
    }

    fn completing(&self, behind: Behind) -> Option<Program> {
        let second_stage = self.second_stage.as_ref()?;
        Some(second_stage.program(self.entries, self.memory_fd, behind))
    }

    fn before(&self, behind: Behind) -> Program {
        let mut asm = Assembler::new();
        let mut label = || asm.label();
        let labels = Labels {
            syn: label(),
            unusual: label(),
            pass: label(),
            drop_unlocked: label(),
            locked: label(),
            pass_locked: label(),
            taken: label(),
            drop: label(),
            done: label(),
            answer: label(),
            send_response: label(),
            finish: label(),
            acknowledge: label(),
            hand_up: label(),
        };
        let (syn, pass) = (labels.syn, labels.pass);
        let mut code = Generator {
            asm: &mut asm,
            labels,
            behind,
        };
        code.arrive(self);
        code.read(self);
        code.lock(self);
        code.cases(self);
        code.answer(self);
        code.leave(self);
        code.unusual(self);
        code.hand_up(self);
        code.drop();
        asm.bind(syn);
        asm.set(Reg::R1, CONTEXT);
        self.syn.answer_syn(&mut asm, pass, behind);
        asm.bind(pass);
        behind.pass_on(&mut asm, CONTEXT);
        let insns = asm.finish();
        Program::new(insns.expect("jumps within a few thousand instructions"))
    }
}

impl Handler for WebHandler {
    fn name(&self) -> &'static str {
        "exos_web"
    }

    fn program(&self, prog_array_fd: i32, counters_fd: i32) -> Program {
        self.before(Behind::Filter {
            prog_array_fd,
            counters_fd,
        })
    }

    fn second_stage(&self, counters_fd: i32) -> Option<Program> {
        self.completing(Behind::Filter {
            prog_array_fd: -1,
            counters_fd,
        })
    }
}

impl Emit for Generator<'_> {
    fn asm(&mut self) -> &mut Assembler {
        self.asm
    }
}

impl Generator<'_> {
    /// Nothing more becomes of a segment.
    fn drop(&mut self) {
        let unlock = self.label();
        let behind = self.behind;
        self.bind(self.labels.taken);
        behind.count(self.asm, COUNTER, Counter::Done);
        self.jump(unlock);
        self.bind(self.labels.drop);
        behind.count(self.asm, COUNTER, Counter::DropUnfit);
        self.bind(unlock);
        leave::unlock(self.asm);
        self.jump(self.labels.drop_unlocked);
        self.bind(self.labels.locked);
        behind.count(self.asm, COUNTER, Counter::DropLocked);
        self.bind(self.labels.drop_unlocked);
        behind.drop(self.asm, CONTEXT);
    }

    /// To `pass` with a SYN whose slot is closed, so that its connection never has a cookie and need not close the slot for longer: where
    /// many begin a second, slots would not open again. Where the slot still has what went before between the same ends, a cookie that
    /// comes back takes the slot from that; what the server says to a SYN would not.
    fn expect_open_slot(&mut self, of: &WebHandler) {
        let open = self.label();
        self.find_slot(of);
        self.kept(Reg::R1, MILLIS);
        self.load(Size::Double, Reg::R2, SLOT, layout::slot::CLOSED);
        self.jump_if(Reg::R1, Condition::GreaterOrEqual, Reg::R2, open);
        self.expect_known(self.labels.pass);
        self.bind(open);
    }

    /// To `other` unless the slot has, or had last, a connection between the ends of this one.
    fn expect_known(&mut self, other: Label) {
        for (ours, its) in ADDRESSES.into_iter().zip((layout::slot::ENDS..).step_by(8)) {
            self.kept(Reg::R1, ours);
            self.load(Size::Double, Reg::R2, SLOT, its);
            self.jump_if(Reg::R1, Condition::NotEqual, Reg::R2, other);
        }
        self.kept(Reg::R1, PORTS);
        self.alu(Alu::ShiftRight, Reg::R1, 32);
        self.load(Size::Word, Reg::R2, SLOT, layout::slot::PORTS);
        self.jump_if(Reg::R1, Condition::NotEqual, Reg::R2, other);
        self.load(Size::Double, Reg::R1, SLOT, layout::slot::STATE);
        self.jump_if(Reg::R1, Condition::Equal, layout::slot::FREE, other);
    }

    /// Has the slot of the connection be in its register.
    fn find_slot(&mut self, of: &WebHandler) {
        let (hash, factor, spare) = (Reg::R1, Reg::R2, Reg::R3);
        set_wide(self.asm, hash, of.key);
        set_wide(self.asm, factor, of.key | 1);
        self.kept(spare, PORTS);
        self.alu(Alu::Xor, hash, spare);
        for word in &ADDRESSES[1..] {
            self.kept(spare, *word);
            mix(self.asm, hash, factor, spare);
        }
        self.alu(Alu::ShiftRight, hash, 64 - SLOT_COUNT.ilog2() as i32);
        self.alu(Alu::ShiftLeft, hash, SLOT_LEN.ilog2() as i32);
        if of.reports && of.http {
            self.keep(SLOT_AT, hash);
        }
        self.load_map_value(SLOT, of.memory_fd, SLOTS as u32);
        self.alu(Alu::Add, SLOT, hash);
    }

    /// Locks the slot of the connection; what finds it locked is dropped.
    fn lock(&mut self, of: &WebHandler) {
        self.find_slot(of);
        self.set(Reg::R0, 0);
        self.set(Reg::R1, 1);
        self.push(Insn::compare_exchange(
            SLOT,
            layout::slot::LOCK as i16,
            Reg::R1,
        ));
        self.jump_if(Reg::R0, Condition::NotEqual, 0, self.labels.locked);
    }
}

/// One step of a hash over words of eight bytes, as [`layout`] says. The word is lost.
fn mix(asm: &mut Assembler, hash: Reg, factor: Reg, word: Reg) {
    asm.alu(Alu::Xor, hash, word);
    for _ in 0..2 {
        asm.alu(Alu::Mul, hash, factor);
        asm.set(word, hash);
        asm.alu(Alu::ShiftRight, word, 29);
        asm.alu(Alu::Xor, hash, word);
    }
}
