//! What becomes of a frame that a slot's holder sends without the ring.

use super::{Counter, Decision, IPV4, IPV6, Model, Packet, Part, Slot, SlotKind, To, refuse};

impl Model {
    /// What the batch program of `slot`, made for the interface `ifindex`, does with a frame; None: it is given back.
    pub fn handle_batch(
        &mut self,
        frame: &[u8],
        slot: u32,
        ifindex: u32,
        now: u64,
    ) -> Option<Decision> {
        if self.config.taps != 0 {
            return None;
        }
        if self.slots[slot as usize].ifindex != ifindex {
            let refused = refuse(0, Counter::NoRing);
            return Some(self.settle(refused));
        }
        if self.is_for_the_ring(frame, slot) {
            return None;
        }
        Some(self.handle_outgoing(frame, ifindex, now))
    }

    /// What the program of live frames does; None: it is given back, too what is for this machine.
    pub fn handle_live(&mut self, frame: &[u8], slot: u32, now: u64) -> Option<Decision> {
        if self.config.taps != 0 {
            return None;
        }
        let Slot { kind, ifindex, .. } = self.slots[slot as usize];
        if kind != SlotKind::Veth {
            let refused = refuse(slot, Counter::NoRing);
            return Some(self.settle(refused));
        }
        if self.is_for_this_machine(frame, slot) {
            return None;
        }
        self.handle_batch(frame, slot, ifindex, now)
    }

    /// In order as far as it was looked at, and a fragment, or what no exact grant covers.
    fn is_for_the_ring(&self, frame: &[u8], slot: u32) -> bool {
        let Some(packet) = self.in_order(frame, slot) else {
            return false;
        };
        if packet.part != Part::Whole {
            return true;
        }
        let mut trial = self.clone();
        Self::forbidden(&packet).is_none() && trial.classify(&packet, Some(slot)).is_none()
    }

    /// Allowed, and its destination is the host or another slot.
    fn is_for_this_machine(&self, frame: &[u8], slot: u32) -> bool {
        let Some(packet) = self.in_order(frame, slot) else {
            return false;
        };
        let mut trial = self.clone();
        trial.check(frame, &packet, slot).is_ok() && trial.route(&packet) != To::Wire
    }

    /// The packet of a frame that is one of the slot's by all that is looked at before its addresses.
    fn in_order(&self, frame: &[u8], slot: u32) -> Option<Packet> {
        let own = self.slots[slot as usize];
        if own.kind == SlotKind::None || frame.len() < 34 || frame[6..12] != own.mac {
            return None;
        }
        let ethertype = u16::from_be_bytes([frame[12], frame[13]]);
        if ethertype != IPV4 && ethertype != IPV6 {
            return None;
        }
        Packet::parse(frame, ethertype == IPV6, true).ok()
    }
}
