//! Packets with IP options or extension headers: their connections go up before them.
//!
//! Of such a packet nothing is answered. It is looked at as far as it takes to see that it belongs to a connection that stands, and acknowledges
//! what that may: then the stack has the connection, with what the slot says, and looks at the packet itself. All others go up alone, as
//! if there were no handler: SYNs, and fragments, which the stack joins before it looks for their connection in the slot itself.

use super::layout::slot;
use super::shape::*;
use super::{Generator, WebHandler};
use crate::ebpf::{Alu, Assembler, Condition, Emit, Label, Reg, Size, half};
use crate::handler::arithmetic::get;
use crate::handler::forward::Shape as Headers;
use crate::packet::{
    self, ANY_FRAGMENT, Bytes, LATER_FRAGMENT, NETWORK as IP, Walk, WalkEnds, WalksHeaders,
};
use exos_wire::{ipv4, ipv6, protocol, tcp};

/// TCP's header; until that is found, how far it is behind the frame's first byte.
const UPPER: Reg = Reg::R8;
/// Of an IPv6 fragment header, at 2: there are more behind it.
const MORE_FRAGMENTS: u16 = 1;
/// The header that the walk is at, and its kind.
const HEADER_AT: Reg = Reg::R4;
const KIND: Reg = Reg::R3;

/// The first of ours that is not acknowledged, and the next.
const UNA: Reg = Reg::R1;
const NXT: Reg = Reg::R5;

impl Generator<'_> {
    /// To what becomes of it with a segment of a connection to the port; all else passes.
    pub(super) fn arrive_unusual(&mut self, of: &WebHandler, headers: Headers) {
        let pass = self.labels.pass;
        match headers.ipv6 {
            true => walk_ipv6(self.asm, pass),
            false => walk_ipv4(self.asm, pass),
        }
        self.alu(Alu::Add, UPPER, FRAME);
        let segment = Bytes {
            start: UPPER,
            ..PACKET
        };
        segment.expect(self.asm, tcp::LEN, Reg::R1, pass);
        of.syn.expect_addresses(self.asm, headers, pass);
        self.load(Size::Half, Reg::R1, UPPER, 0);
        self.jump_if(Reg::R1, Condition::Equal, 0, pass);
        self.load(Size::Half, Reg::R1, UPPER, 2);
        self.jump_if(Reg::R1, Condition::NotEqual, half(of.syn.recipe.port), pass);
        self.load(Size::Byte, Reg::R1, UPPER, 13);
        self.alu(Alu::And, Reg::R1, SYN | ACK_FLAG);
        self.jump_if(Reg::R1, Condition::NotEqual, ACK_FLAG, pass);
        get(self.asm, Reg::R1, UPPER, 8);
        self.keep(ACK, Reg::R1);
        for at in [UP_SENT, UP_BEGUN] {
            self.store_imm(Size::Double, Reg::R10, at, 0);
        }
        self.note_core(of);
        of.syn.look(self.asm, headers, (UPPER, 0));
        self.jump(self.labels.unusual);
    }

    /// What becomes of it.
    pub(super) fn unusual(&mut self, of: &WebHandler) {
        let (acked, out, state) = (Reg::R2, Reg::R3, Reg::R4);
        let (hand_up, stands) = (self.labels.hand_up, self.label());
        let pass = self.labels.pass_locked;
        self.bind(self.labels.unusual);
        self.lock(of);
        self.expect_known(pass);
        self.load(Size::Double, state, SLOT, slot::STATE);
        self.jump_if(state, Condition::Equal, slot::DONE, pass);
        self.load(Size::Word, UNA, SLOT, slot::UNA);
        self.load(Size::Word, NXT, SLOT, slot::NXT);
        self.kept(acked, ACK);
        self.alu32(Alu::Sub, acked, UNA);
        self.set(out, NXT);
        self.alu32(Alu::Sub, out, UNA);
        self.jump_if(acked, Condition::Greater, out, pass);
        // Its FIN, which may have come for the last time, is in the slot alone: the server, which looks for what is not acknowledged, says it
        // to the stack.
        self.jump_if(state, Condition::Equal, slot::LAST_ACK, self.labels.drop);
        self.jump_if(out, Condition::NotEqual, 0, stands);
        // Nobody reads what comes behind our FIN.
        self.jump_if(state, Condition::NotEqual, slot::OPEN, pass);
        self.bind(stands);
        self.load(Size::Word, Reg::R2, SLOT, slot::RCV);
        self.keep(UP_RCV, Reg::R2);
        self.keep(UP_NXT, NXT);
        self.hand_up_unread(hand_up);
    }
}

/// RFC 791 §3.1: behind the options, if there are any. To `other` unless TCP follows, in one packet.
fn walk_ipv4(asm: &mut Assembler, other: Label) {
    asm.load(Size::Byte, UPPER, FRAME, IP);
    packet::ipv4_options(asm, UPPER, other);
    asm.alu(Alu::Add, UPPER, (IP + ipv4::LEN) as i32);
    asm.load(Size::Half, Reg::R1, FRAME, IP + 6);
    asm.jump_if(Reg::R1, Condition::Set, half(ANY_FRAGMENT), other);
    asm.load(Size::Byte, Reg::R1, FRAME, IP + 9);
    let wanted = i32::from(protocol::TCP);
    asm.jump_if(Reg::R1, Condition::NotEqual, wanted, other);
}

/// RFC 8200 §4: behind the extension headers. To `other` unless TCP follows, in one packet.
fn walk_ipv6(asm: &mut Assembler, other: Label) {
    asm.load(Size::Byte, KIND, FRAME, IP + 6);
    asm.set(UPPER, (IP + ipv6::LEN) as i32);
    let ends = WalkEnds {
        transport: asm.label(),
        later: other,
        malformed: other,
    };
    packet::walk_extension_headers(&mut Walker { asm }, ends);
    let wanted = i32::from(protocol::TCP);
    asm.jump_if(KIND, Condition::NotEqual, wanted, other);
}

/// By pointer.
struct Walker<'a> {
    asm: &'a mut Assembler,
}

impl Emit for Walker<'_> {
    fn asm(&mut self) -> &mut Assembler {
        self.asm
    }
}

impl WalksHeaders for Walker<'_> {
    const WALK: Walk = Walk {
        next: KIND,
        offset: UPPER,
        spare: Reg::R2,
    };

    fn open_header(&mut self, malformed: Label) {
        self.set(HEADER_AT, FRAME);
        self.alu(Alu::Add, HEADER_AT, UPPER);
        let header = Bytes {
            start: HEADER_AT,
            ..PACKET
        };
        header.expect(self.asm, 8, Reg::R1, malformed);
    }

    fn read_header(&mut self, size: Size, dst: Reg, at: i16) {
        self.load(size, dst, HEADER_AT, at);
    }

    fn fragment_header(&mut self, later: Label) {
        self.read_header(Size::Half, Reg::R1, 2);
        let any = half(LATER_FRAGMENT | MORE_FRAGMENTS);
        self.jump_if32(Reg::R1, Condition::Set, any, later);
    }

    fn expect_offset(&mut self, malformed: Label) {
        self.set(Reg::R1, FRAME);
        self.alu(Alu::Add, Reg::R1, UPPER);
        self.jump_if(Reg::R1, Condition::Greater, PACKET.end, malformed);
    }

    /// As filter programs do (`program::sections`): the verifier is to forget all but that it is below 32 KiB.
    fn header_walked(&mut self) {
        self.store(Size::Half, Reg::R10, -6, UPPER);
        self.load(Size::Half, UPPER, Reg::R10, -6);
        self.alu(Alu::And, UPPER, 0x7fff);
    }
}
