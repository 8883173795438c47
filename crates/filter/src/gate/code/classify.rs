//! Code that finds whose a packet is: keys, lookups, fragments. Who of several slots gets it is found by `member`.

use super::{
    CELL, Code, DESTINATION, DESTINATION_PORT, ETHERNET, FRAGMENT, FRAGMENT_KEY, FRAGMENT_VALUE,
    IDENTIFIER, IP, IS_V6, KEY, PROTOCOL, SHAPES, SOURCE, SOURCE_PORT, Unlearned, fragment,
};
use crate::ebpf::{Alu, Condition, Emit, Helper, Insn, Label, Reg, Size};
use crate::gate::layout::{AddressFlags, FlowKey, Shape};

/// Offset of the grant's number in [`crate::gate::FlowValue`].
const GRANT: i16 = 4;
/// Offset of the grant's number in [`crate::gate::layout::FragmentValue`], behind its key.
const FRAGMENT_GRANT: i16 = FlowKey::LEN as i16;
/// Offset of the other end's port there.
const FRAGMENT_PORT: i16 = FRAGMENT_GRANT + 4;
/// Offset of the local port in [`crate::gate::FlowKey`].
const LOCAL_PORT: i16 = 32;

/// Which end of the packet is this machine's.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::gate) enum Local {
    /// The source: who sends it?
    Source,
    /// The destination: who gets it?
    Destination,
}

impl Local {
    /// Where the program keeps our port, and the other end's.
    const fn ports(self) -> (Unlearned, Unlearned) {
        match self {
            Self::Source => (SOURCE_PORT, DESTINATION_PORT),
            Self::Destination => (DESTINATION_PORT, SOURCE_PORT),
        }
    }
}

impl Code<'_> {
    /// The slot whose grant covers the packet, in r0; to `none` when there is no such grant.
    ///
    /// A first fragment's grant is remembered, a later one's looked up; one whose first fragment was not seen can
    /// still be found by grants that name no port, or by [`Self::sole_owner`].
    pub(in crate::gate) fn classify(&mut self, local: Local, none: Label) {
        let found = self.label();
        self.get(Reg::R9, SHAPES);
        if self.side.takes_fragments() {
            self.later_fragment(local, found);
        }
        self.flow_key(local, KEY);
        for shape in Shape::ALL {
            let next = self.label();
            self.mask_key(shape);
            self.set(Reg::R1, Reg::R9);
            self.alu(Alu::And, Reg::R1, shape as i32);
            self.jump_if(Reg::R1, Condition::Equal, 0, next);
            self.lookup_then(self.maps.flows, KEY, found);
            self.bind(next);
        }
        self.jump(none);
        self.bind(found);
        self.load(Size::Word, Reg::R9, Reg::R0, 0);
        if self.side.takes_fragments() {
            self.first_fragment(local);
        }
        let one = self.label();
        // The highest bit: a group.
        self.jump_if32(Reg::R9, Condition::SignedGreater, -1, one);
        self.find_member(local);
        self.bind(one);
        self.set(Reg::R0, Reg::R9);
    }

    /// A later fragment: to `found` as [`Self::follow_first`], or on with fewer shapes in r9.
    fn later_fragment(&mut self, local: Local, found: Label) {
        let other = self.label();
        self.get(Reg::R1, FRAGMENT);
        self.jump_if(Reg::R1, Condition::NotEqual, fragment::LATER, other);
        self.fragment_key(local);
        self.follow_first(local, found);
        self.alu(
            Alu::And,
            Reg::R9,
            Shape::Protocol as i32 | Shape::Address as i32,
        );
        self.bind(other);
    }

    /// Of a first fragment the grant is remembered whose value is at r0.
    fn first_fragment(&mut self, local: Local) {
        let other = self.label();
        self.get(Reg::R1, FRAGMENT);
        self.jump_if(Reg::R1, Condition::NotEqual, fragment::FIRST, other);
        self.fragment_key(local);
        self.remember_fragment(local);
        self.bind(other);
    }

    /// To `found` with the value in r0 when the grant of the packet's first fragment is still held, or on.
    /// Its ports are those of the first one then.
    fn follow_first(&mut self, local: Local, found: Label) {
        let nobody = self.label();
        let (ours, theirs) = local.ports();
        self.lookup(self.maps.fragments, FRAGMENT_KEY, nobody);
        for at in (0..LOCAL_PORT).step_by(8) {
            self.load(Size::Double, Reg::R1, Reg::R0, at);
            self.put(KEY + at, Reg::R1);
        }
        // In parts, as the key of a whole packet is made: to the verifier it is like one.
        for at in (LOCAL_PORT..FRAGMENT_GRANT).step_by(2) {
            self.load(Size::Half, Reg::R1, Reg::R0, at);
            self.write(Size::Half, KEY + at, Reg::R1);
        }
        self.load(Size::Word, Reg::R1, Reg::R0, FRAGMENT_GRANT);
        self.write(Size::Word, CELL, Reg::R1);
        self.load(Size::Half, Reg::R1, Reg::R0, FRAGMENT_PORT);
        self.write(Size::Word, CELL + 4, Reg::R1);
        self.lookup(self.maps.flows, KEY, nobody);
        self.load(Size::Word, Reg::R1, Reg::R0, GRANT);
        self.read(Size::Word, Reg::R2, CELL);
        self.jump_if(Reg::R1, Condition::NotEqual, Reg::R2, nobody);
        self.read(Size::Half, Reg::R1, KEY + LOCAL_PORT);
        self.put(ours, Reg::R1);
        self.read(Size::Word, Reg::R1, CELL + 4);
        self.put(theirs, Reg::R1);
        self.jump(found);
        self.bind(nobody);
    }

    /// In r0 the slot of a later fragment of whose packet no grant is known: the one that alone has ports of the
    /// destination; else to `none`.
    pub(in crate::gate) fn sole_owner(&mut self, none: Label) {
        self.get(Reg::R1, FRAGMENT);
        self.jump_if(Reg::R1, Condition::NotEqual, fragment::LATER, none);
        self.copy_address(DESTINATION, KEY);
        self.get(Reg::R1, PROTOCOL);
        self.write(Size::Word, KEY + 16, Reg::R1);
        self.lookup(self.maps.sole_owners, KEY, none);
        self.load(Size::Word, Reg::R0, Reg::R0, 0);
    }

    /// To `found` with the value in r0, or on.
    fn lookup_then(&mut self, map: i32, key: i16, found: Label) {
        let missing = self.label();
        self.lookup(map, key, missing);
        self.jump(found);
        self.bind(missing);
    }

    /// [`crate::gate::FlowKey`] of the packet.
    pub(in crate::gate) fn flow_key(&mut self, local: Local, key: i16) {
        let (ours, theirs) = match local {
            Local::Source => (SOURCE, DESTINATION),
            Local::Destination => (DESTINATION, SOURCE),
        };
        let ports = local.ports();
        for (address, port, at) in [(ours, ports.0, 0), (theirs, ports.1, 1)] {
            self.copy_address(address, key + at * 16);
            self.get(Reg::R1, port);
            self.write(Size::Half, key + LOCAL_PORT + at * 2, Reg::R1);
        }
        self.get(Reg::R1, PROTOCOL);
        self.write(Size::Word, key + 36, Reg::R1);
    }

    /// Clear what the shape does not name; the shapes before it have cleared theirs.
    fn mask_key(&mut self, shape: Shape) {
        let mut zero = |size, at| {
            self.store_imm(size, Reg::R10, KEY + at, 0);
        };
        match shape {
            Shape::Exact => {}
            Shape::Port => {
                zero(Size::Double, 16);
                zero(Size::Double, 24);
                zero(Size::Half, 34);
            }
            Shape::Protocol => zero(Size::Half, 32),
            Shape::Address => zero(Size::Word, 36),
        }
    }

    /// [`crate::gate::FragmentKey`] of the packet, a fragment. Uses r1.
    fn fragment_key(&mut self, local: Local) {
        self.copy_address(SOURCE, FRAGMENT_KEY);
        self.copy_address(DESTINATION, FRAGMENT_KEY + 16);
        self.get(Reg::R1, IDENTIFIER);
        self.write(Size::Word, FRAGMENT_KEY + 32, Reg::R1);
        self.get(Reg::R1, PROTOCOL);
        self.write(Size::Byte, FRAGMENT_KEY + 36, Reg::R1);
        let sending = Insn::store_imm(
            Size::Byte,
            Reg::R10,
            FRAGMENT_KEY + 37,
            (local == Local::Source).into(),
        );
        self.push(sending);
        for at in [0, 2, 4] {
            self.read(Size::Half, Reg::R1, ETHERNET + at);
            self.write(Size::Half, FRAGMENT_KEY + 38 + at, Reg::R1);
        }
        self.store_imm(Size::Word, Reg::R10, FRAGMENT_KEY + 44, 0);
        if local == Local::Source {
            self.hops();
        }
    }

    /// The hop limit of a fragment into its key.
    fn hops(&mut self) {
        let [v4, read] = [(); 2].map(|()| self.label());
        self.get(Reg::R1, IS_V6);
        self.jump_if(Reg::R1, Condition::Equal, 0, v4);
        self.read(Size::Byte, Reg::R1, IP + 7);
        self.jump(read);
        self.bind(v4);
        self.read(Size::Byte, Reg::R1, IP + 8);
        self.bind(read);
        self.write(Size::Byte, FRAGMENT_KEY + 44, Reg::R1);
    }

    /// The later fragments of this packet belong to the grant that was found: its key on the stack, its value at r0.
    fn remember_fragment(&mut self, local: Local) {
        self.load(Size::Word, Reg::R1, Reg::R0, GRANT);
        self.write(Size::Word, FRAGMENT_VALUE + FRAGMENT_GRANT, Reg::R1);
        self.get(Reg::R1, local.ports().1);
        self.write(Size::Word, FRAGMENT_VALUE + FRAGMENT_PORT, Reg::R1);
        for at in (0..FRAGMENT_GRANT).step_by(8) {
            self.get(Reg::R1, KEY + at);
            self.put(FRAGMENT_VALUE + at, Reg::R1);
        }
        let fragments = self.maps.fragments;
        self.insert(fragments, FRAGMENT_KEY, FRAGMENT_VALUE);
    }

    /// Nobody gets what has just been remembered of a packet, by either of its ends.
    pub(in crate::gate) fn forget_fragment(&mut self) {
        if !self.side.takes_fragments() {
            return;
        }
        let nothing = self.label();
        self.get(Reg::R1, FRAGMENT);
        self.jump_if(Reg::R1, Condition::NotEqual, fragment::FIRST, nothing);
        for local in [Local::Source, Local::Destination] {
            self.fragment_key(local);
            self.delete_fragment();
        }
        self.bind(nothing);
    }

    fn delete_fragment(&mut self) {
        self.load_map(Reg::R1, self.maps.fragments);
        self.stack(Reg::R2, FRAGMENT_KEY);
        self.call(Helper::MapDeleteElem);
    }

    /// To `yes` when the address on the stack has these flags.
    pub(in crate::gate) fn if_address(&mut self, at: i16, flags: AddressFlags, yes: Label) {
        let no = self.label();
        self.lookup(self.maps.addresses, at, no);
        self.load(Size::Word, Reg::R1, Reg::R0, 0);
        self.jump_if(Reg::R1, Condition::Set, flags.0 as i32, yes);
        self.bind(no);
    }
}
