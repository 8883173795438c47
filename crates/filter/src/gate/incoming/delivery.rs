//! Where what arrives goes once its slot is known: within its share, to its handler, its interface or memory, or the queue's socket.

use crate::ebpf::{Condition, Emit, Helper, Label, Reg, Size};
use crate::gate::code::share::SLOT_RX;
use crate::gate::code::{Amount, CELL, Code, RESULT, SLOT, Side, VERDICT};
use crate::gate::counter::Counter;
use crate::gate::layout::{LINK_RX, SlotKind};
use crate::gate::tap::Verdict;
use crate::program::xdp;

impl Code<'_> {
    /// To the slot in its field, if it has something to go to and a share left.
    pub(super) fn deliver(&mut self) {
        self.find_slot();
        let over = self.refuse(Counter::RxOverShare);
        self.police(SLOT_RX, LINK_RX, over);
        if self.side == Side::In {
            self.try_handler();
        }
        self.hand_over();
    }

    /// r7 = the entry of the slot in its field.
    pub(in crate::gate) fn find_slot(&mut self) {
        let no_ring = self.refuse(Counter::NoRing);
        self.lookup_field(self.maps.slots, SLOT, no_ring);
        self.set(Reg::R7, Reg::R0);
        self.load(Size::Word, Reg::R1, Reg::R7, 0);
        self.jump_if(Reg::R1, Condition::Equal, 0, no_ring);
    }

    /// To the slot that r7 points to.
    pub(in crate::gate) fn hand_over(&mut self) {
        let [sent, daemon, named] = [(); 3].map(|()| self.label());
        if self.side == Side::In {
            self.redirect_to_slot(sent);
        } else {
            let no_ring = self.refuse(Counter::NoRing);
            self.redirect_from_host(no_ring);
        }
        self.bind(sent);
        self.count(
            SLOT,
            &[
                (Counter::RxPackets, Amount::One),
                (Counter::RxBytes, Amount::Length),
            ],
        );
        self.get(Reg::R1, SLOT);
        self.jump_if(Reg::R1, Condition::Equal, 0, daemon);
        self.put_imm(VERDICT, i32::from(Verdict::Slot.to_byte()));
        self.jump(named);
        self.bind(daemon);
        self.put_imm(VERDICT, i32::from(Verdict::Daemon.to_byte()));
        self.bind(named);
        self.finish();
    }

    /// Into memory that the slot's holder has for it, by the device map, or to the socket of the queue if that is the slot's.
    fn redirect_to_slot(&mut self, sent: Label) {
        let [direct, check] = [(); 2].map(|()| self.label());
        let (no_ring, wrong_queue) = (
            self.refuse(Counter::NoRing),
            self.refuse(Counter::WrongQueue),
        );
        self.load(Size::Word, Reg::R1, Reg::R7, 0);
        self.jump_if(Reg::R1, Condition::Equal, SlotKind::Direct as i32, direct);
        self.put_into_arrivals(sent);
        self.get(Reg::R2, SLOT);
        self.redirect(self.maps.ports, xdp::DROP);
        self.jump(check);
        self.bind(direct);
        // struct xdp_md: rx_queue_index.
        self.load(Size::Word, Reg::R7, Reg::R6, 16);
        self.write(Size::Word, CELL, Reg::R7);
        self.lookup(self.maps.queue_owner, CELL, wrong_queue);
        self.load(Size::Word, Reg::R1, Reg::R0, 0);
        self.get(Reg::R2, SLOT);
        self.jump_if(Reg::R1, Condition::NotEqual, Reg::R2, wrong_queue);
        self.set(Reg::R2, Reg::R7);
        self.redirect(self.maps.sockets, xdp::DROP);
        self.bind(check);
        self.jump_if(Reg::R0, Condition::NotEqual, xdp::REDIRECT, no_ring);
        self.put(RESULT, Reg::R0);
        self.jump(sent);
    }

    /// Out of the slot's interface; sockets of queues cannot be reached from here.
    fn redirect_from_host(&mut self, no_ring: Label) {
        self.load(Size::Word, Reg::R1, Reg::R7, 4);
        self.jump_if(Reg::R1, Condition::Equal, 0, no_ring);
        self.set(Reg::R2, 0);
        self.call(Helper::Redirect);
        self.put(RESULT, Reg::R0);
    }
}
