//! Where what a slot may send goes: the wire, the host or another slot, within the shares of both, and how it is counted.

use super::MAC;
use crate::ebpf::{Condition, Emit, Helper, Label, Reg, Size};
use crate::gate::code::classify::Local;
use crate::gate::code::share::{SLOT_RX, SLOT_TX};
use crate::gate::code::{
    Amount, Code, DESTINATION, ETHERNET, PEER, RESULT, SENDER, SLOT, Side, VERDICT,
};
use crate::gate::counter::Counter;
use crate::gate::layout::{AddressFlags, LINK_RX, LINK_TX, SlotKind};
use crate::gate::tap::Verdict;

/// `bpf_redirect`: to the ingress of the device.
const INGRESS: i32 = 1;
const SENT: (Counter, Amount) = (Counter::TxPackets, Amount::One);
const SENT_BYTES: (Counter, Amount) = (Counter::TxBytes, Amount::Length);

/// Where allowed packets go.
#[derive(Clone, Copy)]
pub(in crate::gate) struct Ends {
    wire: Label,
    host: Label,
    slot: Label,
}

impl Ends {
    pub(in crate::gate) fn new(code: &mut Code<'_>) -> Self {
        let [wire, host, slot] = [(); 3].map(|()| code.label());
        Self { wire, host, slot }
    }

    /// What is for this machine goes to `here`.
    pub(in crate::gate) fn to_wire_alone(code: &mut Code<'_>, here: Label) -> Self {
        let wire = code.label();
        Self {
            wire,
            host: here,
            slot: here,
        }
    }
}

impl Code<'_> {
    /// The daemon's ARP: to the host if the frame is for the device's own address, which is the host's.
    pub(super) fn by_station(&mut self, ends: Ends) {
        let no_ring = self.refuse(Counter::NoRing);
        self.lookup_index(self.maps.config, 0, no_ring);
        for at in [0, 2, 4] {
            self.read(Size::Half, Reg::R1, ETHERNET + at);
            self.load(Size::Half, Reg::R2, Reg::R0, MAC + at);
            self.jump_if(Reg::R1, Condition::NotEqual, Reg::R2, ends.wire);
        }
        self.jump(ends.host);
    }

    /// What is allowed goes its way.
    pub(in crate::gate) fn send(&mut self, ends: Ends) {
        self.route(ends);
        self.send_to_wire(ends.wire);
        if self.side == Side::Live {
            return;
        }
        self.send_to_host(ends.host);
        self.send_to_slot(ends.slot);
    }

    /// By the destination: a slot of this machine, the host, or the wire.
    fn route(&mut self, ends: Ends) {
        let [none, ours] = [(); 2].map(|()| self.label());
        self.classify(Local::Destination, none);
        self.put(PEER, Reg::R0);
        self.jump(ends.slot);
        self.bind(none);
        self.if_address(DESTINATION, AddressFlags::HOST, ends.host);
        self.if_address(DESTINATION, AddressFlags::OURS_ALONE, ours);
        self.jump(ends.wire);
        self.bind(ours);
        self.put_imm(PEER, 0);
        if self.side.takes_fragments() {
            self.sole_owner(ends.slot);
            self.put(PEER, Reg::R0);
        }
        self.jump(ends.slot);
    }

    /// Charge the sender.
    fn charge_sender(&mut self) {
        let [over, charged] = [(); 2].map(|()| self.label());
        let no_ring = self.refuse(Counter::NoRing);
        self.lookup_field(self.maps.slots, SENDER, no_ring);
        self.set(Reg::R7, Reg::R0);
        self.police(SLOT_TX, LINK_TX, over);
        self.jump(charged);
        self.refuse_unsent(over, Counter::TxOverShare);
        self.bind(charged);
    }

    /// What is dropped at last although it may be sent opens no way for later fragments.
    fn refuse_unsent(&mut self, label: Label, counter: Counter) {
        self.bind(label);
        self.forget_fragment();
        let refused = self.refuse(counter);
        self.jump(refused);
    }

    fn send_to_wire(&mut self, label: Label) {
        self.bind(label);
        self.charge_sender();
        self.count(SENDER, &[SENT, SENT_BYTES]);
        self.send_to_device(0, Verdict::Wire);
    }

    fn send_to_host(&mut self, label: Label) {
        self.bind(label);
        self.charge_sender();
        self.count(
            SENDER,
            &[SENT, SENT_BYTES, (Counter::TxToHost, Amount::One)],
        );
        self.send_to_device(INGRESS, Verdict::Host);
    }

    fn send_to_device(&mut self, flags: i32, verdict: Verdict) {
        if self.side == Side::Live {
            return self.send_live();
        }
        let no_ring = self.refuse(Counter::NoRing);
        self.lookup_index(self.maps.config, 0, no_ring);
        self.load(Size::Word, Reg::R1, Reg::R0, 4);
        self.set(Reg::R2, flags);
        self.redirect_with(verdict);
    }

    /// Out of r1 with the flags r2.
    fn redirect_with(&mut self, verdict: Verdict) {
        if self.side == Side::Batch {
            return self.send_clone();
        }
        self.call(Helper::Redirect);
        self.put(RESULT, Reg::R0);
        self.put_imm(VERDICT, i32::from(verdict.to_byte()));
        self.finish();
    }

    /// Another slot, within its share of what arrives; what it refuses is counted for it.
    fn send_to_slot(&mut self, label: Label) {
        let [no_ring, over] = [(); 2].map(|()| self.label());
        self.bind(label);
        self.charge_sender();
        self.get(Reg::R1, PEER);
        self.put(SLOT, Reg::R1);
        self.lookup_field(self.maps.slots, SLOT, no_ring);
        self.set(Reg::R7, Reg::R0);
        self.load(Size::Word, Reg::R1, Reg::R7, 0);
        self.jump_if(Reg::R1, Condition::Equal, SlotKind::None as i32, no_ring);
        self.load(Size::Word, Reg::R1, Reg::R7, 4);
        self.jump_if(Reg::R1, Condition::Equal, 0, no_ring);
        self.police(SLOT_RX, LINK_RX, over);
        self.count(
            SLOT,
            &[
                (Counter::RxPackets, Amount::One),
                (Counter::RxBytes, Amount::Length),
            ],
        );
        self.get(Reg::R1, SENDER);
        self.put(SLOT, Reg::R1);
        self.count(
            SENDER,
            &[SENT, SENT_BYTES, (Counter::TxToSlot, Amount::One)],
        );
        self.load(Size::Word, Reg::R1, Reg::R7, 4);
        self.set(Reg::R2, 0);
        self.redirect_with(Verdict::Slot);
        self.refuse_unsent(no_ring, Counter::NoRing);
        self.refuse_unsent(over, Counter::RxOverShare);
    }
}
