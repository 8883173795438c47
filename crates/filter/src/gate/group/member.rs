//! Code that finds which member of a group a flow is with.
//!
//! ```text
//! TCP: remembered, and a member still? ── yes ── that one (unless a SYN begins another connection, and it has ended)
//!   └─ no, and all else: the bucket of the flow's hash ── its member; of a SYN it is remembered
//! ```
//!
//! Both ways go by it: what a member sends must be of a flow that is with it.

use super::{
    BUCKET, BUCKETS, FACTOR, FLOW_ENDED, FLOW_SINCE, MEMBER_SHIFT, MEMBERS, MEMBERS_MAX, NO_MEMBER,
    SEED, SINCE,
};
use crate::ebpf::{Alu, Condition, Emit, Insn, Label, Reg, Size};
use crate::gate::code::classify::Local;
use crate::gate::code::parse::OFFSET;
use crate::gate::code::{
    CELL, Code, FRAGMENT, FRAGMENT_VALUE, ICMP_TYPE, NO_TYPE, PROTOCOL, QUOTED_DESTINATION, SENDER,
    fragment,
};
use crate::gate::limits::GROUPS_MAX;
use exos_wire::protocol::TCP;

/// The flow's whole key, 40 bytes: where parsing had quoted addresses and a target.
const MEMBER_KEY: i16 = QUOTED_DESTINATION;
/// A [`super::MemberFlow`] to be stored: fragments are done.
const MEMBER_FLOW: i16 = FRAGMENT_VALUE;
/// One byte: the flags of TCP, 0 of what has none. Of its value the verifier is to learn nothing ([`Unlearned`](crate::gate::code::Unlearned)).
const FLAGS: i16 = FLAGS_WORD + 1;
const FLAGS_WORD: i16 = -512;

/// Bits of [`FLAGS`] (RFC 9293 §3.1).
const FIN: i32 = 0x01;
const SYN: i32 = 0x02;
const RST: i32 = 0x04;
const ACK: i32 = 0x10;

impl Code<'_> {
    /// In r9 what a grant leads to becomes the slot of the member that the flow is with. r7 is where the transport header
    /// begins; r8 is lost.
    pub(in crate::gate) fn find_member(&mut self, local: Local) {
        let [new, decided, none] = [(); 3].map(|()| self.label());
        self.alu(Alu::And, Reg::R9, GROUPS_MAX as i32 - 1);
        self.write(Size::Word, CELL, Reg::R9);
        self.lookup(self.maps.groups, CELL, none);
        self.set(Reg::R9, Reg::R0);
        self.flow_key(local, MEMBER_KEY);
        self.hash();
        self.flags();
        self.remembered(local, new, decided);
        self.bind(new);
        self.by_bucket(local, decided);
        self.bind(none);
        self.set(Reg::R9, NO_MEMBER as i32);
        self.bind(decided);
    }

    /// In r8 the flow's hash, of which the lowest bits count.
    fn hash(&mut self) {
        self.load(Size::Double, Reg::R8, Reg::R9, SEED);
        for insn in Insn::load_imm64(Reg::R2, FACTOR) {
            self.push(insn);
        }
        // The other end's address, both ports, the protocol.
        for at in [16, 24, 32] {
            self.get(Reg::R1, MEMBER_KEY + at);
            self.alu(Alu::Xor, Reg::R8, Reg::R1);
            self.alu(Alu::Mul, Reg::R8, Reg::R2);
            self.set(Reg::R1, Reg::R8);
            self.alu(Alu::ShiftRight, Reg::R1, 32);
            self.alu(Alu::Xor, Reg::R8, Reg::R1);
        }
    }

    /// [`FLAGS`] of the packet itself, not of one that it quotes.
    fn flags(&mut self) {
        let [none, loaded] = [(); 2].map(|()| self.label());
        self.put_imm(FLAGS_WORD, 1);
        for (field, value) in [(PROTOCOL, i32::from(TCP)), (ICMP_TYPE, NO_TYPE)] {
            self.get(Reg::R1, field);
            self.jump_if(Reg::R1, Condition::NotEqual, value, none);
        }
        self.get(Reg::R1, FRAGMENT);
        self.jump_if(Reg::R1, Condition::Equal, fragment::LATER, none);
        self.alu(Alu::Add, OFFSET, 13);
        self.load_bytes(OFFSET, 1, FLAGS, loaded);
        self.bind(loaded);
        self.alu(Alu::Sub, OFFSET, 13);
        self.bind(none);
    }

    /// To `decided` with the slot in r9 of a connection that is remembered, else to `new`.
    fn remembered(&mut self, local: Local, new: Label, decided: Label) {
        let taken = self.label();
        self.get(Reg::R1, PROTOCOL);
        self.jump_if(Reg::R1, Condition::NotEqual, i32::from(TCP), new);
        self.lookup(self.maps.member_flows, MEMBER_KEY, new);
        self.load(Size::Word, Reg::R1, Reg::R0, 0);
        self.alu(Alu::And, Reg::R1, MEMBERS_MAX as i32 - 1);
        self.member_at_r1();
        self.load(Size::Double, Reg::R2, Reg::R1, MEMBERS + SINCE);
        self.load(Size::Double, Reg::R3, Reg::R0, FLOW_SINCE);
        self.jump_if(Reg::R2, Condition::NotEqual, Reg::R3, new);
        match local {
            Local::Destination => {
                self.load(Size::Word, Reg::R2, Reg::R0, FLOW_ENDED);
                self.jump_if(Reg::R2, Condition::Equal, 0, taken);
                self.if_begins(new);
                self.bind(taken);
                self.load(Size::Word, Reg::R9, Reg::R1, MEMBERS);
            }
            Local::Source => {
                self.load(Size::Word, Reg::R9, Reg::R1, MEMBERS);
                self.get(Reg::R2, SENDER);
                self.jump_if(Reg::R9, Condition::NotEqual, Reg::R2, decided);
                self.read(Size::Byte, Reg::R2, FLAGS);
                self.alu(Alu::And, Reg::R2, FIN | RST);
                self.jump_if(Reg::R2, Condition::Equal, 0, decided);
                self.store_imm(Size::Word, Reg::R0, FLOW_ENDED, 1);
            }
        }
        self.jump(decided);
    }

    /// In r9 the slot whose bucket the flow is of. Of a connection that begins it is remembered, where it was decided who gets
    /// the packet.
    fn by_bucket(&mut self, local: Local, decided: Label) {
        let [begins, nobody] = [(); 2].map(|()| self.label());
        self.alu(Alu::And, Reg::R8, BUCKETS as i32 - 1);
        self.alu(Alu::Add, Reg::R8, Reg::R9);
        self.load(Size::Byte, Reg::R8, Reg::R8, BUCKET);
        self.alu(Alu::And, Reg::R8, MEMBERS_MAX as i32 - 1);
        self.set(Reg::R1, Reg::R8);
        self.member_at_r1();
        self.load(Size::Word, Reg::R9, Reg::R1, MEMBERS);
        if local == Local::Destination {
            self.load(Size::Double, Reg::R3, Reg::R1, MEMBERS + SINCE);
            // Whose place has just been left has nothing.
            self.jump_if(Reg::R3, Condition::Equal, 0, nobody);
            self.if_begins(begins);
            self.bind(nobody);
            self.jump(decided);
            self.bind(begins);
            self.write(Size::Word, MEMBER_FLOW, Reg::R8);
            self.store_imm(Size::Word, Reg::R10, MEMBER_FLOW + FLOW_ENDED, 0);
            self.put(MEMBER_FLOW + FLOW_SINCE, Reg::R3);
            let flows = self.maps.member_flows;
            self.insert(flows, MEMBER_KEY, MEMBER_FLOW);
        }
        self.jump(decided);
    }

    /// To `yes` when the segment begins a connection: SYN without ACK. r2 is lost.
    fn if_begins(&mut self, yes: Label) {
        self.read(Size::Byte, Reg::R2, FLAGS);
        self.alu(Alu::And, Reg::R2, SYN | ACK);
        self.jump_if(Reg::R2, Condition::Equal, SYN, yes);
    }

    /// r1 = where the member of this place lies, less its offset in the group that r9 points to.
    fn member_at_r1(&mut self) {
        self.alu(Alu::ShiftLeft, Reg::R1, MEMBER_SHIFT);
        self.alu(Alu::Add, Reg::R1, Reg::R9);
    }
}
