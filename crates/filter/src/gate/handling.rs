//! Handlers of slots: programs of the slot's own, each of which gets the datagrams or segments of one port before they are delivered.
//!
//! ```text
//! incoming ── the slot, within its share ─┬─ has a handler of this port, and steps and sending left ── handlers[slot, place]
//!                                         └─ else ── deliver                                              │
//!                                                      ^── GaveUp ── outcomes[...] <──────────────────────┘
//!                                                            Done, Transmitted, Redirected, Announced ── counted, charged ── out
//! ```
//!
//! A handler is not written by the slot's holder but made by the daemon (`exos_ash`, or [`WebHandler`](crate::handler::WebHandler)): it
//! reads its own messages, changes its own memory, and ends in one of the gate's programs ([`outcome`]). What it sends goes back where a message came from, which the tables let the
//! slot send: the look-ups are the same both ways. Steps, which are nanoseconds of some processor, are taken from the slot's bucket beforehand: the
//! most that a message can take, and what its arrival takes by its length; the handler of requests takes more before it does what few need ([`Steps`](super::steps::Steps)). A
//! reply is charged to the share of sending by its length when it leaves, or dropped where nothing of that is left. Datagrams do not
//! reach the handler then, but the program. A slot whose datagrams somebody copies has them delivered, so that all of them are seen.
//!
//! A handler of TCP has connections that the slot's program knows nothing of. So its segments are not delivered past it: what it may not
//! see now is dropped, as by a wire, and comes again; and of those that it deals with no copies are made. Fragments alone are: the program
//! joins them, and asks for the connection in the memory that both have. It sees them also where
//! nothing may be sent: most are acknowledgements of what the program sends, which go on to it. ICMP errors about them are the program's.

use exos_wire::protocol::TCP;

use super::code::share::SLOT_TX;
use super::code::{
    ARRIVED, Amount, CELL, CHARGE, Code, DESTINATION_PORT, FRAGMENT, HANDLED, HANDLED_PLACE,
    ICMP_TYPE, LENGTH, NO_TYPE, PROTOCOL, RESULT, SLOT, Side, TAPS, VERDICT, fragment, scratch,
};
use super::counter::Counter;
use super::incoming::CONFIG_TAPS;
use super::layout::{Handled, LINK_TX};
use super::limits::HANDLERS_MAX;
use super::maps::MapFds;
use super::outcome::Outcome;
use super::tap::Verdict;
use crate::ebpf::{Alu, Assembler, Condition, Emit, Helper, Label, Reg, Size};
use crate::handler::web::announced;
use crate::handler::web::layout::REQUEST_MAX;
use crate::program::classifier::{self, field};
use crate::program::{Program, xdp};

/// Offset in [`super::Slot`].
const HAS_HANDLERS: i16 = 14;
/// Offsets in [`Handled`].
const OF_PROTOCOL: i16 = 2;
const REPLIES: i16 = 3;
const STEPS: i16 = 4;
/// Of its first word, what says whose messages it gets.
const WHOSE: i32 = i32::from_ne_bytes([0xff, 0xff, 0xff, 0]);
/// Steps until a message of a handler has been looked at and summed, and of each 64 bytes of its frame (measured: 30 ns with one of 58 bytes,
/// 91 with one of 1,442).
const ARRIVAL: i32 = 30;
const ARRIVAL_OF_64: i32 = 3;
/// Of each 64 bytes of a segment: the handler of requests sums, hashes and compares all that it carries (27 ns), unless that is more than
/// a request may be.
const SEGMENT_OF_64: i32 = 30;
/// The longest frame of a segment that is read: a tag, and the longest headers of IPv4 or IPv6 and of TCP.
const READ_FRAME_MAX: i32 = REQUEST_MAX as i32 + 18 + 60 + 60;
/// Offset in [`super::Config`].
const CONFIG_IFINDEX: i16 = 4;

/// What a message counts that was answered, whether the reply leaves or not.
const ANSWERED: [(Counter, Amount); 3] = [
    (Counter::RxPackets, Amount::One),
    (Counter::RxBytes, Amount::Arrived),
    (Counter::HandlerAnswered, Amount::One),
];

/// The program that a handler with this outcome goes on in.
pub fn outcome(maps: &MapFds, outcome: Outcome) -> Program {
    let mut code = Code::new(maps, Side::In);
    let lost = code.label();
    code.clear_ends();
    code.lookup_index(maps.scratch, Side::In.scratch_index(), lost);
    code.resume_field(SLOT, scratch::SLOT);
    code.resume_field(LENGTH, scratch::LENGTH);
    match outcome {
        Outcome::GaveUp => code.gave_up(lost),
        Outcome::Done => code.done(Counter::HandlerDone),
        Outcome::Transmitted | Outcome::Redirected | Outcome::Announced => {
            code.answered(outcome, lost);
        }
    }
    // Nobody got it.
    code.bind(lost);
    code.set(Reg::R0, xdp::DROP);
    code.exit();
    Program::new(code.close())
}

/// The program of traffic control at the device's ingress: to the second stage of the slot that a packet is announced for
/// ([`SecondStage`](crate::handler::web::SecondStage)), which knows by its own mark whether that is so. All others go on.
pub fn ingress(maps: &MapFds) -> Program {
    let mut asm = Assembler::new();
    let next = asm.label();
    let (context, slot, metadata, frame) = (Reg::R1, Reg::R3, Reg::R4, Reg::R5);
    asm.load(Size::Word, metadata, context, field::DATA_META);
    asm.load(Size::Word, frame, context, field::DATA);
    asm.set(slot, metadata);
    asm.alu(Alu::Add, slot, announced::LEN);
    asm.jump_if(slot, Condition::Greater, frame, next);
    asm.load(Size::Word, slot, metadata, announced::SLOT);
    asm.load_map(Reg::R2, maps.second_stages);
    asm.call(Helper::TailCall);
    asm.bind(next);
    asm.set(Reg::R0, classifier::NEXT);
    asm.exit();
    Program::new(asm.finish().expect("a few instructions"))
}

impl Code<'_> {
    /// To the handler of the slot that r7 points to, if this is a message for it; else behind this, r7 as it was. Uses r8 and r9.
    pub(super) fn try_handler(&mut self) {
        let [deliver, skipped, seen] = [(); 3].map(|()| self.label());
        self.load(Size::Byte, Reg::R1, Reg::R7, HAS_HANDLERS);
        self.jump_if(Reg::R1, Condition::Equal, 0, deliver);
        self.get(Reg::R1, FRAGMENT);
        self.jump_if(Reg::R1, Condition::NotEqual, fragment::WHOLE, deliver);
        // An error has the port and the protocol of what it is about.
        self.get(Reg::R1, ICMP_TYPE);
        self.jump_if(Reg::R1, Condition::NotEqual, NO_TYPE, deliver);
        self.find_handler(deliver);
        self.get(Reg::R1, PROTOCOL);
        self.jump_if(Reg::R1, Condition::Equal, i32::from(TCP), seen);
        self.get(Reg::R1, TAPS);
        self.jump_if(Reg::R1, Condition::NotEqual, 0, deliver);
        self.bind(seen);
        self.afford(skipped);
        self.call_handler(deliver);
        self.bind(skipped);
        let dropped = self.refuse(Counter::HandlerDropped);
        self.get(Reg::R1, PROTOCOL);
        self.jump_if(Reg::R1, Condition::Equal, i32::from(TCP), dropped);
        self.count(SLOT, &[(Counter::HandlerSkipped, Amount::One)]);
        self.bind(deliver);
    }

    /// Which handler of the slot has the packet's protocol and port, in [`HANDLED`], and its place; to `none` where it has none of them.
    fn find_handler(&mut self, none: Label) {
        let found = self.label();
        let (one, wanted, place) = (Reg::R1, Reg::R2, Reg::R3);
        self.lookup_field(self.maps.handling, SLOT, none);
        self.get(one, DESTINATION_PORT);
        // As free places have.
        self.jump_if(one, Condition::Equal, 0, none);
        self.get(wanted, PROTOCOL);
        self.store_imm(Size::Word, Reg::R10, CELL, 0);
        self.write(Size::Half, CELL, one);
        self.write(Size::Byte, CELL + OF_PROTOCOL, wanted);
        self.read(Size::Word, wanted, CELL);
        for at in 0..HANDLERS_MAX {
            self.load(Size::Word, one, Reg::R0, (at * Handled::LEN) as i16);
            self.alu(Alu::And, one, WHOSE);
            self.set(place, at as i32);
            self.jump_if(one, Condition::Equal, wanted, found);
        }
        self.jump(none);
        self.bind(found);
        self.put(HANDLED_PLACE, place);
        self.alu(Alu::Mul, place, Handled::LEN as i32);
        self.alu(Alu::Add, Reg::R0, place);
        self.load(Size::Double, one, Reg::R0, 0);
        self.put(HANDLED, one);
    }

    /// To `none` where it has gone.
    fn call_handler(&mut self, none: Label) {
        self.lookup_index(self.maps.scratch, Side::In.scratch_index(), none);
        self.leave(SLOT, scratch::SLOT);
        self.leave(LENGTH, scratch::LENGTH);
        self.set(Reg::R1, Reg::R6);
        self.load_map(Reg::R2, self.maps.handlers);
        self.get(Reg::R3, SLOT);
        self.alu(Alu::Mul, Reg::R3, HANDLERS_MAX as i32);
        self.get(Reg::R0, HANDLED_PLACE);
        self.alu(Alu::Add, Reg::R3, Reg::R0);
        self.call(Helper::TailCall);
        self.jump(none);
    }

    /// Takes the handler's steps, and looks whether anything may be sent, if it answers datagrams; else to `skipped`. Uses r8.
    fn afford(&mut self, skipped: Label) {
        let affordable = self.label();
        self.lookup_field(self.maps.handler_budgets, SLOT, skipped);
        self.set(Reg::R8, Reg::R0);
        self.steps_of_length();
        self.read(Size::Word, Reg::R2, HANDLED + STEPS);
        self.alu(Alu::Add, Reg::R1, Reg::R2);
        self.put(CHARGE, Reg::R1);
        self.spend(0, skipped);
        self.read(Size::Byte, Reg::R1, HANDLED + REPLIES);
        self.jump_if(Reg::R1, Condition::Equal, 0, affordable);
        self.get(Reg::R1, PROTOCOL);
        self.jump_if(Reg::R1, Condition::Equal, i32::from(TCP), affordable);
        // How much, the reply's length tells.
        self.put_imm(CHARGE, 0);
        self.police(SLOT_TX, LINK_TX, skipped);
        self.bind(affordable);
    }

    /// r1 = the steps that a packet takes by its length; r2 is lost.
    fn steps_of_length(&mut self) {
        let [datagram, short, counted] = [(); 3].map(|()| self.label());
        self.get(Reg::R2, PROTOCOL);
        self.get(Reg::R1, LENGTH);
        self.jump_if(Reg::R2, Condition::NotEqual, i32::from(TCP), datagram);
        self.jump_if(Reg::R1, Condition::LessOrEqual, READ_FRAME_MAX, short);
        self.set(Reg::R1, READ_FRAME_MAX);
        self.bind(short);
        self.alu(Alu::Mul, Reg::R1, SEGMENT_OF_64);
        self.jump(counted);
        self.bind(datagram);
        self.alu(Alu::Mul, Reg::R1, ARRIVAL_OF_64);
        self.bind(counted);
        self.alu(Alu::ShiftRight, Reg::R1, 6);
        self.alu(Alu::Add, Reg::R1, ARRIVAL);
    }

    fn gave_up(&mut self, lost: Label) {
        self.count(SLOT, &[(Counter::HandlerGaveUp, Amount::One)]);
        self.lookup_index(self.maps.config, 0, lost);
        self.load(Size::Word, Reg::R1, Reg::R0, CONFIG_TAPS);
        self.put(TAPS, Reg::R1);
        self.find_slot();
        self.hand_over();
    }

    /// The message has been dealt with; LENGTH is its frame's.
    fn done(&mut self, how: Counter) {
        self.count(
            SLOT,
            &[
                (Counter::RxPackets, Amount::One),
                (Counter::RxBytes, Amount::Length),
                (how, Amount::One),
            ],
        );
        self.finish_with(xdp::DROP, Verdict::Slot);
    }

    /// The message has been dealt with, and the frame is the reply, which may be more than the slot's share.
    fn answered(&mut self, outcome: Outcome, lost: Label) {
        let over = self.label();
        self.get(Reg::R1, LENGTH);
        self.put(ARRIVED, Reg::R1);
        match outcome {
            Outcome::Announced => self.announce(lost),
            _ => self.measure(),
        }
        self.find_slot();
        self.police(SLOT_TX, LINK_TX, over);
        let sent = [
            (Counter::TxPackets, Amount::One),
            (Counter::TxBytes, Amount::Length),
        ];
        self.count(SLOT, &[&ANSWERED[..], &sent].concat());
        self.put_imm(VERDICT, i32::from(Verdict::Slot.to_byte()));
        match outcome {
            Outcome::Redirected => {
                self.lookup_index(self.maps.config, 0, lost);
                self.load(Size::Word, Reg::R1, Reg::R0, CONFIG_IFINDEX);
                self.set(Reg::R2, 0);
                self.call(Helper::Redirect);
                self.put(RESULT, Reg::R0);
            }
            Outcome::Announced => self.put_imm(RESULT, xdp::PASS),
            _ => self.put_imm(RESULT, xdp::TX),
        }
        self.finish();
        self.bind(over);
        self.count(SLOT, &ANSWERED);
        let dropped = self.refuse(Counter::TxOverShare);
        self.jump(dropped);
    }

    /// Says whose second stage is to complete the frame, and takes the length that it will have.
    fn announce(&mut self, lost: Label) {
        let (metadata, frame, bytes) = (Reg::R1, Reg::R2, Reg::R3);
        // struct xdp_md: data, data_meta.
        self.load(Size::Word, metadata, Reg::R6, 8);
        self.load(Size::Word, frame, Reg::R6, 0);
        self.set(Reg::R3, metadata);
        self.alu(Alu::Add, Reg::R3, announced::LEN);
        self.jump_if(Reg::R3, Condition::Greater, frame, lost);
        self.get(Reg::R3, SLOT);
        self.store(Size::Word, metadata, announced::SLOT, Reg::R3);
        self.load(Size::Half, Reg::R0, metadata, announced::BEGIN);
        self.load(Size::Word, bytes, metadata, announced::BYTES);
        self.alu(Alu::Add, Reg::R0, bytes);
        self.put(LENGTH, Reg::R0);
        self.weigh();
    }
}
