//! Room for connections: what each takes where it begins, and gives back where it is over. It goes up with its connection.
//!
//! Of the limit of all it is one of what is left; of a peer's limit, one more in the peer's word ([`peer`]).

use super::layout::{PEER_COUNT, PEERS, ROOM, peer, slot};
use super::shape::*;
use super::{Generator, WebHandler, mix};
use crate::ebpf::{Alu, Assembler, Condition, Emit, Fetch, Insn, Label, Reg, Size};
use crate::handler::arithmetic::set_wide;

/// A peer's word, and the peer's tag there, once they are found.
const WORD: Reg = Reg::R4;
const TAG: Reg = Reg::R1;

impl Generator<'_> {
    /// Takes the room of a connection. To `up` where there is none.
    pub(super) fn take_room(&mut self, of: &WebHandler, up: Label) {
        let [full, has_room] = [(); 2].map(|()| self.label());
        self.add_room(of, -1);
        let before = Reg::R1;
        self.jump_if(before, Condition::SignedLessOrEqual, 0, full);
        if let Some(most) = of.peer_connections {
            self.take_room_of_peer(of, most, full);
        }
        self.jump(has_room);
        self.bind(full);
        self.add_room(of, 1);
        self.jump(up);
        self.bind(has_room);
    }

    /// The connection of the slot, if one stands, is over.
    pub(super) fn end(&mut self, of: &WebHandler, state: i32) {
        let over = self.label();
        self.load(Size::Double, Reg::R1, SLOT, slot::STATE);
        self.alu(Alu::Sub, Reg::R1, slot::OPEN);
        let last = slot::LAST_ACK - slot::OPEN;
        self.jump_if(Reg::R1, Condition::Greater, last, over);
        self.add_room(of, 1);
        if of.peer_connections.is_some() {
            let halves = [slot::ENDS + 16, slot::ENDS + 24];
            self.find_peer(of, |asm, to, half| {
                asm.load(Size::Double, to, SLOT, halves[half]);
            });
            self.set(Reg::R1, -1);
            self.push(Insn::fetch(Fetch::Add, WORD, 0, Reg::R1));
        }
        self.bind(over);
        self.set_state(state);
    }

    /// Adds to the room of all. r1 is how much there was.
    fn add_room(&mut self, of: &WebHandler, by: i32) {
        self.load_map_value(Reg::R2, of.memory_fd, ROOM as u32);
        self.set(Reg::R1, by);
        self.push(Insn::fetch(Fetch::Add, Reg::R2, 0, Reg::R1));
    }

    /// Counts a connection of the peer. To `full` where it has as many as it may, where others have its word, and where that changes
    /// meanwhile: the server decides then.
    fn take_room_of_peer(&mut self, of: &WebHandler, most: u32, full: Label) {
        let [none, swap] = [(); 2].map(|()| self.label());
        let (before, now, spare) = (Reg::R0, Reg::R3, Reg::R5);
        self.find_peer(of, |asm, to, half| asm.kept(to, ADDRESSES[2 + half]));
        self.load(Size::Double, before, WORD, 0);
        self.set(spare, before);
        self.alu(Alu::ShiftRight, spare, peer::BESIDE_SHIFT as i32);
        self.alu(Alu::And, spare, peer::MOST as i32);
        self.jump_if(spare, Condition::NotEqual, 0, full);
        self.set(now, before);
        self.alu(Alu::And, now, peer::MOST as i32);
        self.jump_if(now, Condition::Equal, 0, none);
        let most = u64::from(most).min(peer::MOST);
        self.jump_if(now, Condition::GreaterOrEqual, most as i32, full);
        self.set(now, before);
        self.alu(Alu::ShiftRight, now, peer::TAG_SHIFT as i32);
        self.jump_if(now, Condition::NotEqual, TAG, full);
        self.set(now, before);
        self.jump(swap);
        self.bind(none);
        self.set(now, TAG);
        self.alu(Alu::ShiftLeft, now, peer::TAG_SHIFT as i32);
        self.bind(swap);
        self.alu(Alu::Add, now, 1);
        self.set(spare, before);
        self.push(Insn::compare_exchange(WORD, 0, now));
        self.jump_if(Reg::R0, Condition::NotEqual, spare, full);
    }

    /// Of the peer whose address `load` has in halves: [`WORD`] and [`TAG`]. Loses r2, r3 and r5.
    fn find_peer(&mut self, of: &WebHandler, load: impl Fn(&mut Assembler, Reg, usize)) {
        let (hash, factor, half, place) = (TAG, Reg::R2, Reg::R3, Reg::R5);
        let network = self.label();
        load(self.asm, half, 0);
        self.jump_if(half, Condition::NotEqual, 0, network);
        load(self.asm, half, 1);
        self.bind(network);
        set_wide(self.asm, hash, of.key);
        set_wide(self.asm, factor, of.key | 1);
        mix(self.asm, hash, factor, half);
        self.set(place, hash);
        let bits = PEER_COUNT.ilog2() as i32;
        self.alu(Alu::ShiftRight, place, 64 - bits);
        self.alu(Alu::ShiftLeft, place, 3);
        self.load_map_value(WORD, of.memory_fd, PEERS as u32);
        self.alu(Alu::Add, WORD, place);
        self.alu(Alu::ShiftLeft, TAG, bits);
        self.alu(Alu::ShiftRight, TAG, peer::TAG_SHIFT as i32);
    }
}
