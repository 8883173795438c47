//! Segments that came in fragments: they come to the stack past the kernel's part, which sees whole packets alone.
//!
//! On several cores each joins them, and that takes them in which has their connection. One that brings a cookie back whose connection nobody
//! has, for the handshake's acknowledgement was lost, begins it on the interface's first core, once the others have said that they have none.

use exos_inet::{Concern, JoinedSegment};

use super::fate::as_it_is;
use super::*;

/// How often it is tried to lock a slot. What a processor does with one takes it a microsecond.
const TRIES: u32 = 10_000;

impl Connections {
    /// Takes in a segment that was joined of fragments, behind its connection if the kernel's part has that. Meanwhile the slot is locked: so no
    /// connection begins there that begins here. Where it cannot be locked the segment is lost, as on a wire.
    pub(in crate::requests) fn take_in(&mut self, turn: &mut Turn<'_>, joined: Box<JoinedSegment>) {
        let (memory, flow) = (turn.memory, joined.flow());
        let (ends, ports) = ends(&flow);
        let at = slot_of(self.key, ends, ports);
        let lock = memory.word(at + slot::LOCK);
        let locks = |_| lock.compare_exchange_weak(0, 1, AcqRel, Relaxed).is_ok();
        if !(0..TRIES).any(locks) {
            return;
        }
        // It may have been handed up since the frame before: a processor that hands one up holds its slot, and waits for no other.
        self.take_on(turn);
        if turn.has(&flow) || self.comes_to_stack(turn, at, &joined) {
            self.give_joined(turn, at, joined);
        }
        if turn.has(&flow) {
            close(turn, at);
        }
        lock.store(0, Release);
    }

    /// The stack takes in a segment, or the others are asked whose it is: meanwhile its connection does not begin in the slot, which is locked.
    fn give_joined(&mut self, turn: &mut Turn<'_>, at: u64, joined: Box<JoinedSegment>) {
        let now = turn.now;
        if !joined.is_shared() {
            return turn.stack.handle_joined(now, &joined);
        }
        let is_first = self.cores[0] as u64 == self.own.start;
        let concern = turn.stack.handle_joined_among(now, &joined);
        if is_first && matches!(concern, Concern::Begins(_)) {
            close(turn, at);
            self.asked_about.push(*joined);
        }
    }

    /// What the other cores are to be asked about since this was last called.
    pub(in crate::requests) fn take_asked_about(&mut self) -> Vec<JoinedSegment> {
        std::mem::take(&mut self.asked_about)
    }

    /// Whether the stack, which does not have its connection, takes in the segment. Where the slot has that, it is the stack's from now on: as
    /// with a whole packet that the kernel's part does not read. That part drops such a packet in LAST_ACK, for what it hands up says nothing
    /// of the peer's FIN; here the stack is told of it. What does not acknowledge what it may comes again.
    fn comes_to_stack(&mut self, turn: &mut Turn<'_>, at: u64, joined: &JoinedSegment) -> bool {
        let memory = turn.memory;
        let state = memory.get(at + slot::STATE) as i32;
        let (ends, ports) = ends(&joined.flow());
        let words = [0, 8, 16, 24].map(|word| memory.get(at + slot::ENDS + word));
        let is_its = (words, memory.half(at + slot::PORTS)) == (ends, ports);
        if state == slot::FREE || !is_its {
            return true;
        }
        let (una, nxt) = sent(memory, at);
        if state == slot::DONE || state == slot::FINISHED && una == nxt {
            // What it began with, late, begins nothing, and to what has come nothing is to be said. All else the stack answers as what belongs
            // to nobody.
            let [first, rcv] = [slot::FIRST, slot::RCV].map(|field| memory.half(at + field));
            let has_come = |end: u32| end.wrapping_sub(first) <= rcv.wrapping_sub(first);
            return joined.seq() != Some(first) && !joined.data_end().is_some_and(has_come);
        }
        let core = (memory.half(at + slot::WINDOW) >> slot::CORE_SHIFT) as usize;
        let acknowledges = |ack: u32| ack.wrapping_sub(una) <= nxt.wrapping_sub(una);
        self.cores.contains(&core)
            && joined.ack().is_some_and(acknowledges)
            && !self.take(turn, at, as_it_is(memory, at))
    }
}

/// No connection begins in a slot for a while.
fn close(turn: &Turn<'_>, at: u64) {
    turn.memory
        .set(at + slot::CLOSED, (turn.now + CLOSED).millis());
}
