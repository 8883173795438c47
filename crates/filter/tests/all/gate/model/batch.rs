//! What becomes of a frame that a slot's holder sends without the ring.

use super::{Counter, Decision, IPV4, IPV6, Model, Packet, Part, SlotKind, refuse};

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

    /// In order as far as it was looked at, and a fragment, or what no exact grant covers.
    fn is_for_the_ring(&mut self, frame: &[u8], slot: u32) -> bool {
        let own = self.slots[slot as usize];
        if own.kind == SlotKind::None || frame.len() < 34 || frame[6..12] != own.mac {
            return false;
        }
        let ethertype = u16::from_be_bytes([frame[12], frame[13]]);
        if ethertype != IPV4 && ethertype != IPV6 {
            return false;
        }
        let Ok(packet) = Packet::parse(frame, ethertype == IPV6, true) else {
            return false;
        };
        if packet.part != Part::Whole {
            return true;
        }
        Self::forbidden(&packet).is_none() && self.classify(&packet, Some(slot)).is_none()
    }
}
