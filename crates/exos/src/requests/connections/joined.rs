//! Segments that came in fragments: they come to the stack past the kernel's part, which sees whole packets alone.

use exos_inet::JoinedSegment;

use super::fate::as_it_is;
use super::*;

/// How often it is tried to lock a slot. What a processor does with one takes it a microsecond.
const TRIES: u32 = 10_000;

impl Connections {
    /// Takes in a segment that was joined of fragments, behind its connection if the kernel's part has that. Meanwhile the slot is locked: so no
    /// connection begins there that begins here. Where it cannot be locked the segment is lost, as on a wire.
    pub(in crate::requests) fn take_in(&mut self, turn: &mut Turn<'_>, joined: &JoinedSegment) {
        let (memory, now, flow) = (turn.memory, turn.now, joined.flow());
        let (ends, ports) = ends(&flow);
        let at = slot_of(self.key, ends, ports);
        let lock = memory.word(at + slot::LOCK);
        let locks = |_| lock.compare_exchange_weak(0, 1, AcqRel, Relaxed).is_ok();
        if !(0..TRIES).any(locks) {
            return;
        }
        // It may have been handed up since the frame before: a processor that hands one up holds its slot, and waits for no other.
        self.take_on(turn);
        let is_had = |turn: &Turn<'_>| {
            let between = turn
                .stack
                .tcp
                .connection_between(flow.local(), flow.remote());
            between.is_some()
        };
        if is_had(turn) || self.comes_to_stack(turn, at, joined) {
            turn.stack.handle_joined(now, joined);
        }
        if is_had(turn) {
            memory.set(at + slot::CLOSED, (now + CLOSED).millis());
        }
        lock.store(0, Release);
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
