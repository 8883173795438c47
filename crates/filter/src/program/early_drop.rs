//! Early drop: which packets for a socket are dropped before its receive ring is full.
//!
//! Anyone who floods a socket faster than its program takes packets fills the ring, and from then on what others send is lost
//! as often as the flood. So the ring's last places are kept for what is dear. Fragments get the first quarter of it,
//! acknowledgements without data half (the next one says as much), SYNs three quarters (who means it sends it again); all
//! else, segments with data and the ends of connections among it, every place. A ring that its program keeps up with stays
//! nearly empty, and nothing is dropped.
//!
//! How full a ring is stands in the kernel's structure of the socket, which is read by way of the map: its layout is the
//! running kernel's ([`ReceiveRing`]). What has a VLAN tag or IPv4 options is not looked at.
//!
//! Registers: r6 context, r7 the class, which is its limit in quarters; all others are lost.

use super::compiled::{Counter, xdp};
use super::emitter::{CONTEXT, Emitter};
use super::rules::{EarlyDrop, ReceiveRing, SlotCounters};
use crate::ebpf::{Alu, Condition, Emit, Insn, Label, Reg, Size, half};
use crate::gate::Counter as Gate;
use crate::layers::{IPV4, IPV6};
use crate::packet::{ANY_FRAGMENT, Bytes, ETHERTYPE, NETWORK};
use exos_wire::protocol::{FRAGMENT, TCP};

/// Classes by their limits, in quarters of the ring, and what is counted of each.
const CLASSES: [(i32, Counter, Gate); 3] = [
    (1, Counter::EarlyDropFragment, Gate::RxEarlyDropFragment),
    (2, Counter::EarlyDropAck, Gate::RxEarlyDropAck),
    (3, Counter::EarlyDropSyn, Gate::RxEarlyDropSyn),
];
const CLASS: Reg = Reg::R7;
const SAVED_CONTEXT: Reg = Reg::R6;
/// FIN, SYN, RST and ACK (RFC 9293 §3.1).
const FLAGS: i32 = 0x17;
const SYN: i32 = 0x02;
const ACK: i32 = 0x10;

impl Emitter<'_> {
    /// Drops the packet if it is of a class whose part of the ring is full; goes on with the context where it was.
    pub(super) fn drop_early(&mut self, how: &EarlyDrop) {
        let [decide, go] = [(); 2].map(|()| self.label());
        self.set(SAVED_CONTEXT, CONTEXT);
        self.classify(decide, go);
        self.bind(decide);
        self.backlog(&how.ring, go);
        self.alu(Alu::ShiftLeft, Reg::R8, 2);
        self.alu(Alu::Mul, Reg::R9, CLASS);
        self.jump_if(Reg::R8, Condition::Less, Reg::R9, go);
        match how.count {
            Some(counters) => self.count_for(counters),
            None if self.maps.counters_fd.is_some() => {
                self.set(Reg::R6, xdp::DROP);
                let before = Counter::EarlyDropFragment as i32 - 1;
                self.alu(Alu::Add, CLASS, before);
                self.count_and_exit();
            }
            None => self.leave(),
        }
        self.bind(go);
        self.set(CONTEXT, SAVED_CONTEXT);
    }

    fn leave(&mut self) {
        self.set(Reg::R0, xdp::DROP);
        self.exit();
    }

    /// Add one to the class's counter of a slot, and drop the packet. The value is this CPU's own: no atomics.
    fn count_for(&mut self, counters: SlotCounters) {
        let missing = self.label();
        let slot = counters.slot as i32;
        self.store_imm(Size::Word, Reg::R10, -4, slot);
        self.look_up(counters.map_fd, -4, missing);
        let before = Gate::RxEarlyDropFragment as i32 - 1;
        self.alu(Alu::Add, CLASS, before);
        self.alu(Alu::ShiftLeft, CLASS, 3);
        self.alu(Alu::Add, Reg::R0, CLASS);
        self.add_to(Reg::R0, 0, 1);
        self.bind(missing);
        self.leave();
    }

    /// The class in its register and to `decide`, or to `go`.
    fn classify(&mut self, decide: Label, go: Label) {
        let [v4, v6, tcp, fragment] = [(); 4].map(|()| self.label());
        let (frame, len, header) = (Reg::R2, Reg::R4, Reg::R5);
        let packet = Bytes {
            start: frame,
            end: Reg::R3,
        };
        packet.open(&mut self.asm, SAVED_CONTEXT);
        packet.expect(&mut self.asm, NETWORK + 20 + 20, header, go);
        self.load(Size::Half, Reg::R0, frame, ETHERTYPE);
        for (kind, label) in [(IPV4, v4), (IPV6, v6)] {
            self.jump_if(Reg::R0, Condition::Equal, half(kind), label);
        }
        self.jump(go);

        self.bind(v4);
        self.load(Size::Byte, Reg::R0, frame, NETWORK);
        self.jump_if(Reg::R0, Condition::NotEqual, 0x45, go);
        self.load(Size::Half, Reg::R0, frame, NETWORK + 6);
        self.jump_if(Reg::R0, Condition::Set, half(ANY_FRAGMENT), fragment);
        self.load(Size::Byte, Reg::R0, frame, NETWORK + 9);
        self.jump_if(Reg::R0, Condition::NotEqual, i32::from(TCP), go);
        self.load(Size::Half, len, frame, NETWORK + 2);
        self.to_big_endian(len, 16);
        self.alu(Alu::Sub, len, 20);
        self.set(header, frame);
        self.alu(Alu::Add, header, (NETWORK + 20) as i32);
        self.jump(tcp);

        self.bind(v6);
        packet.expect(&mut self.asm, NETWORK + 40 + 20, header, go);
        self.load(Size::Byte, Reg::R0, frame, NETWORK + 6);
        self.jump_if(Reg::R0, Condition::Equal, i32::from(FRAGMENT), fragment);
        self.jump_if(Reg::R0, Condition::NotEqual, i32::from(TCP), go);
        self.load(Size::Half, len, frame, NETWORK + 4);
        self.to_big_endian(len, 16);
        self.set(header, frame);
        self.alu(Alu::Add, header, (NETWORK + 40) as i32);

        self.bind(tcp);
        self.classify_segment((header, len), decide, go);
        self.bind(fragment);
        self.set(CLASS, CLASSES[0].0);
    }

    /// A segment of `len` bytes.
    fn classify_segment(&mut self, (header, len): (Reg, Reg), decide: Label, go: Label) {
        self.load(Size::Byte, Reg::R0, header, 13);
        self.alu(Alu::And, Reg::R0, FLAGS);
        self.set(CLASS, CLASSES[2].0);
        self.jump_if(Reg::R0, Condition::Equal, SYN, decide);
        self.jump_if(Reg::R0, Condition::NotEqual, ACK, go);
        self.load(Size::Byte, Reg::R0, header, 12);
        self.alu(Alu::ShiftRight, Reg::R0, 4);
        self.alu(Alu::ShiftLeft, Reg::R0, 2);
        self.jump_if(Reg::R0, Condition::NotEqual, len, go);
        self.set(CLASS, CLASSES[1].0);
        self.jump(decide);
    }

    /// What waits in the ring of the queue's socket in r8, and its places in r9; to `go` when there is no socket.
    fn backlog(&mut self, ring: &ReceiveRing, go: Label) {
        // struct xdp_md: rx_queue_index.
        self.load(Size::Word, Reg::R1, SAVED_CONTEXT, 16);
        self.store(Size::Word, Reg::R10, -4, Reg::R1);
        self.look_up(self.maps.xskmap_fd, -4, go);
        self.set(Reg::R1, Reg::R0);
        self.set(Reg::R2, ring.socket_type);
        self.push(Insn::call_kernel_function(ring.cast_function));
        let mut read = |size, to, from, at| self.load(size, to, from, at);
        read(Size::Double, Reg::R1, Reg::R0, ring.rx);
        read(Size::Word, Reg::R8, Reg::R1, ring.produced);
        read(Size::Word, Reg::R9, Reg::R1, ring.entries);
        read(Size::Double, Reg::R1, Reg::R1, ring.ring);
        read(Size::Word, Reg::R1, Reg::R1, ring.consumed);
        self.alu32(Alu::Sub, Reg::R8, Reg::R1);
        // Nothing was read.
        self.jump_if(Reg::R9, Condition::Equal, 0, go);
    }
}

const _: () = {
    let mut at = 0;
    while at < CLASSES.len() {
        let (class, counter, of_slot) = CLASSES[at];
        assert!(counter as i32 == Counter::EarlyDropFragment as i32 - 1 + class);
        assert!(of_slot as i32 == Gate::RxEarlyDropFragment as i32 - 1 + class);
        at += 1;
    }
};
