//! A handler as a program that the kernel runs on each packet.
//!
//! ```text
//! packet ── arrive: UDP, whole, for us, its checksum right? ── body ──┬── leave: headers turned around, checksum ── out
//!                     └── no ───────────┐                  give up ───┤
//!                                       └── the filter <──────────────┘
//! ```
//!
//! The message is the datagram's payload. What the handler gives up goes to the filter, or to the gate of a shared interface, as it came,
//! and so to the program. A reply
//! cannot fail behind an effect: before the body begins a frame is made as long as the longest one that may be longer than its message; where none
//! is, a frame is only cut.
//!
//! Registers: r6 context, r7 the message, r8 its length, r9 whatever a step has to keep over calls; what else is kept waits
//! [on the stack](stack).

mod addresses;
mod arrive;
mod body;
mod ends;
mod leave;
mod nospec;
mod room;
mod stack;
mod sum;

use addresses::Addresses;
use std::net::{IpAddr, Ipv4Addr};

use exos_filter::Program;
use exos_filter::ebpf::{Alu, Assembler, Condition, Emit, Helper, Label, Reg, Size};
use exos_filter::handler::forward::WayOut;
use exos_filter::handler::{self, Behind};
use exos_filter::program::xdp;
use exos_wire::Mac;

use crate::check::Checked;
use crate::code::VariableId;
use crate::limits::MESSAGE_MAX;
use crate::memory::Layout;

/// A handler of the datagrams that come to a port of ours, in the kernel.
#[derive(Clone, Debug)]
pub struct InKernel<'a> {
    /// What is done.
    pub handler: &'a Checked,
    /// The descriptor of its memory: an array of one value of [`Layout::bytes`].
    pub memory_fd: i32,
    /// The interface's hardware address.
    pub mac: Mac,
    /// Our addresses, at most [`ADDRESSES_MAX`](crate::limits::ADDRESSES_MAX); none where a gate looks at them, and only what is for us
    /// comes here.
    pub addresses: Vec<IpAddr>,
    /// Addresses that no answer may go to: of broadcasts.
    pub not_from: Vec<Ipv4Addr>,
    /// The port.
    pub port: u16,
    /// Packets may come from a kernel on this machine, with a checksum that is still to be made.
    pub may_be_partial: bool,
    /// How replies leave; never as [`WayOut::Buffers`].
    pub way_out: WayOut,
}

impl handler::Handler for InKernel<'_> {
    fn name(&self) -> &'static str {
        "exos_ash"
    }

    fn program(&self, prog_array_fd: i32, counters_fd: i32) -> Program {
        self.before(Behind::Filter {
            prog_array_fd,
            counters_fd,
        })
    }
}

impl InKernel<'_> {
    /// The program of a slot of a shared interface: what `outcomes_fd` has is where it goes on
    /// ([`exos_filter::gate::handling`]).
    pub fn in_gate(&self, outcomes_fd: i32) -> Program {
        self.before(Behind::Gate {
            outcomes_fd,
            counts: None,
            steps: None,
        })
    }

    /// Whether messages come over IPv4, and over IPv6.
    fn versions(&self) -> [bool; 2] {
        let ours = &self.addresses;
        [IpAddr::is_ipv4, IpAddr::is_ipv6].map(|is| ours.is_empty() || ours.iter().any(is))
    }

    /// Where all messages begin in their packets, if they come over one version of IP.
    fn start(&self) -> Option<i32> {
        match self.versions() {
            [true, true] => None,
            [has_v4, _] => Some(if has_v4 { START_MIN } else { START_MAX }),
        }
    }

    fn before(&self, behind: Behind) -> Program {
        let mut asm = Assembler::new();
        let labels = Labels::new(&mut asm);
        let mut generator = Generator {
            of: self,
            layout: Layout::of(self.handler.handler()),
            behind,
            asm,
            labels,
            loops: Vec::new(),
            others: Vec::new(),
            needed: 0,
            are_headers_known: true,
            bare: false,
            held: None,
            addresses: Addresses::of(self.handler.handler()),
        };
        generator.arrive();
        generator.block(&self.handler.handler().body);
        // The kernel takes no instructions that nothing leads to.
        if generator.asm.is_target(labels.leave) {
            generator.leave();
        }
        if generator.asm.is_target(labels.leave_unknown) {
            generator.bind(labels.leave_unknown);
            generator.set(Reg::R4, 0);
            generator.jump(labels.leave);
        }
        generator.add_others();
        if generator.asm.is_target(labels.give_up) {
            generator.give_up();
        }
        generator.pass_on();
        if generator.asm.is_target(labels.wrong) {
            generator.bind(labels.wrong);
            generator.set(Reg::R0, xdp::DROP);
            generator.exit();
        }
        let insns = generator.asm.finish();
        Program::new(insns.expect("a handler's instructions and addresses are limited"))
    }
}

/// What there is to say where the kernel refuses a handler's program because its verifier would not come to an end (`E2BIG`).
pub const TOO_MANY_WAYS: &str = "the handler has too many ways for the kernel's verifier; have fewer conditions stand before what \
     looks for a place, a row or a key, or takes bytes through pipes, and fewer pipes";

/// Where a message begins at the earliest: behind the headers of IPv4.
const START_MIN: i32 = 42;
/// Where it begins at the latest: behind the headers of IPv6.
const START_MAX: i32 = 62;
/// A power of two beyond how much later it may begin: behind IPv6's, 20 bytes.
const LATER_END: i32 = 32;

const CONTEXT: Reg = Reg::R6;
const MESSAGE: Reg = Reg::R7;
const LENGTH: Reg = Reg::R8;
const KEPT: Reg = Reg::R9;

/// Where all ways meet.
#[derive(Clone, Copy)]
struct Labels {
    /// The message is given up, whole.
    give_up: Label,
    /// The packet goes on to the filter as it is.
    filter: Label,
    /// A reply of r9 bytes is where the message was; r4 is the sum of its datagram and pseudo header without its checksum, in memory order and
    /// not folded, 0 where that is not known.
    leave: Label,
    /// Likewise, and its sum is not known.
    leave_unknown: Label,
    /// What cannot be: a step that was provided for fails.
    wrong: Label,
}

impl Labels {
    fn new(asm: &mut Assembler) -> Self {
        Self {
            give_up: asm.label(),
            filter: asm.label(),
            leave: asm.label(),
            leave_unknown: asm.label(),
            wrong: asm.label(),
        }
    }
}

struct Generator<'a> {
    of: &'a InKernel<'a>,
    layout: Layout,
    behind: Behind,
    asm: Assembler,
    labels: Labels,
    /// What is behind each repetition that is open.
    loops: Vec<Label>,
    /// Bytes of the message that the verifier knows to be there.
    needed: i32,
    /// Whether the verifier knows of all replies so far that what stands before the message is there.
    are_headers_known: bool,
    /// What becomes an address, and whether what is being computed does not.
    addresses: Addresses,
    bare: bool,
    /// The place that is in r9, until the statement that comes next has changed it.
    held: Option<VariableId>,
    /// Where datagrams of other lengths than the likely one are summed, and where it goes on from there.
    others: Vec<[Label; 2]>,
}

impl Emit for Generator<'_> {
    fn asm(&mut self) -> &mut Assembler {
        &mut self.asm
    }
}

impl Generator<'_> {
    /// `dst` = the packet's end.
    fn end_of_packet(&mut self, dst: Reg) {
        self.load(Size::Word, dst, CONTEXT, 4);
    }

    /// The message's pointer again, once a call has moved the packet's end. r1 is lost.
    fn find_message(&mut self) {
        self.load(Size::Word, MESSAGE, CONTEXT, 0);
        if let Some(start) = self.of.start() {
            return self.alu(Alu::Add, MESSAGE, start);
        }
        // What stands before the message is known to be there at least.
        self.alu(Alu::Add, MESSAGE, START_MIN);
        self.load_start(Reg::R1);
        self.alu(Alu::Sub, Reg::R1, START_MIN);
        self.alu(Alu::Add, MESSAGE, Reg::R1);
    }

    /// `dst` = where the message begins in the packet.
    fn load_start(&mut self, dst: Reg) {
        match self.of.start() {
            Some(start) => self.set(dst, start),
            None => self.kept(dst, stack::START),
        }
    }

    /// The message's pointer again, of which the verifier knows no more than that it is behind the headers of one of two versions: it
    /// follows what comes next once. r1 is lost.
    fn find_any_message(&mut self) {
        let later = Reg::R1;
        self.load(Size::Word, MESSAGE, CONTEXT, 0);
        self.alu(Alu::Add, MESSAGE, START_MIN);
        self.kept(later, stack::START);
        // Of a zero the verifier knows each part: it becomes none.
        self.alu(Alu::Sub, later, START_MIN - LATER_END);
        self.forget(later);
        self.alu(Alu::And, later, LATER_END - 1);
        self.alu(Alu::Add, MESSAGE, later);
    }

    /// Has the verifier know no more of the message's length than that it is one: it follows what comes next once, not for each way on
    /// which packets come here.
    fn forget_length(&mut self) {
        self.forget(LENGTH);
        self.expect_length();
    }

    fn expect_length(&mut self) {
        let most = i32::from(MESSAGE_MAX);
        self.jump_if(LENGTH, Condition::Greater, most, self.labels.wrong);
    }

    /// Has the verifier know of a number of 16 bits only that it is one: of a part of a word on the stack it knows nothing.
    fn forget(&mut self, number: Reg) {
        self.alu(Alu::ShiftLeft, number, 16);
        self.keep(stack::KEY, number);
        self.load(Size::Half, number, Reg::R10, stack::KEY + 2);
    }

    /// Makes the packet end `length` bytes behind the message's beginning, or goes to `failed`. Packet pointers but the message's are lost,
    /// and r0 to r5.
    ///
    /// The verifier follows the call first: what it knows behind that, nothing of the packet's end, is so without the call, too.
    fn set_length(&mut self, length: Reg, failed: Label) {
        let as_it_is = self.label();
        let delta = Reg::R2;
        self.set(delta, MESSAGE);
        self.alu(Alu::Add, delta, length);
        self.end_of_packet(Reg::R1);
        self.alu(Alu::Sub, delta, Reg::R1);
        self.jump_if(delta, Condition::Equal, 0, as_it_is);
        self.move_end(failed);
        self.bind(as_it_is);
    }

    /// Moves the packet's end by r2 bytes, or goes to `failed`.
    fn move_end(&mut self, failed: Label) {
        self.set(Reg::R1, CONTEXT);
        self.call(Helper::XdpAdjustTail);
        self.jump_if(Reg::R0, Condition::NotEqual, 0, failed);
        self.find_message();
    }

    /// The message goes to the program as it came.
    fn give_up(&mut self) {
        self.bind(self.labels.give_up);
        if self.of.handler.longest_reply().is_some() {
            self.find_message();
            self.set_length(LENGTH, self.labels.filter);
        }
        self.jump(self.labels.filter);
    }
}
