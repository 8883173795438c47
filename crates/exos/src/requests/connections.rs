//! The connections that the kernel's part has: those that it hands up, those on which nothing comes, and those that the stack has, which
//! may not begin there.

use std::net::SocketAddr;
use std::sync::atomic::Ordering::{AcqRel, Relaxed, Release};

use exos_filter::handler::web::layout::{self, handed, slot};
use exos_inet::tcp::{BegunConnection, Flow, ListenerId};
use exos_inet::{Duration, Instant, Stack};
use exos_wire::tcp::cookie::TIMESTAMP_BITS;

use super::memory::Memory;
use super::reports::Reports;

/// How long slots of connections that the stack has stay closed without word of it.
const CLOSED: Duration = Duration::from_secs(4);
/// A connection on which nothing has come for so long becomes the stack's.
const QUIET: Duration = Duration::from_secs(5);
/// A connection whose response nobody has acknowledged for so long, or whose peer does not end it, is reset.
pub(super) const FORGOTTEN: Duration = Duration::from_secs(60);

/// Where they go.
#[derive(Debug)]
pub(super) struct Connections {
    listener: ListenerId,
    key: u64,
    taken: u64,
}

/// What is to become of a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    GoesOn,
    TakenOn,
    Reset,
}

impl Connections {
    pub(super) fn new(listener: ListenerId, key: u64) -> Self {
        Self {
            listener,
            key,
            taken: 0,
        }
    }

    pub(super) fn listener(&self) -> ListenerId {
        self.listener
    }

    /// Takes on what was handed up.
    pub(super) fn take_on(&mut self, memory: &Memory, now: Instant, stack: &mut Stack) {
        while memory.get(layout::HANDED) != self.taken {
            let at = layout::RING + (self.taken % layout::RING_COUNT) * layout::HANDED_LEN;
            // Its number is given before it is written, on a processor that does nothing else meanwhile.
            while memory.get(at) != self.taken + 1 {
                std::hint::spin_loop();
            }
            let rest = [handed::NUMBERS, handed::STAMPS, handed::KEPT, handed::FIRST];
            let begun = begun(memory, at + handed::ENDS, rest.map(|field| at + field));
            stack.take_on(now, self.listener, &begun, None);
            self.taken += 1;
            memory.set(layout::TAKEN, self.taken);
        }
    }

    /// Once a second: keeps those that the stack has from beginning in the kernel, and sees to those that nothing comes on.
    pub(super) fn turn(
        &self,
        memory: &Memory,
        now: Instant,
        stack: &mut Stack,
        reports: &mut Reports,
    ) {
        self.close_slots(memory, now, stack);
        self.each_slot(memory, now, stack, reports, fate);
    }

    /// The stack takes on all that stand; the others are over.
    pub(super) fn end(
        &self,
        memory: &Memory,
        now: Instant,
        stack: &mut Stack,
        reports: &mut Reports,
    ) {
        self.each_slot(memory, now, stack, reports, last_fate);
    }

    /// No connection begins in the kernel where the stack has one.
    fn close_slots(&self, memory: &Memory, now: Instant, stack: &Stack) {
        let until = (now + CLOSED).millis();
        for id in stack.tcp.connections_where(|_| true) {
            let Some(connection) = stack.tcp.connection(id) else {
                continue;
            };
            let (local, remote) = (connection.flow().local(), connection.flow().remote());
            let ends = layout::ends(local.ip(), remote.ip());
            let ports = u32::from(local.port()) << 16 | u32::from(remote.port());
            let number = layout::slot_of(self.key, ends, ports);
            let at = layout::SLOTS + number * layout::SLOT_LEN;
            memory.set(at + slot::CLOSED, until);
        }
    }

    /// Does to the connection of each slot what is to become of it.
    fn each_slot(
        &self,
        memory: &Memory,
        now: Instant,
        stack: &mut Stack,
        reports: &mut Reports,
        fate: fn(&Memory, Instant, u64) -> Fate,
    ) {
        for number in 0..layout::SLOT_COUNT {
            let at = layout::SLOTS + number * layout::SLOT_LEN;
            if fate(memory, now, at) == Fate::GoesOn {
                continue;
            }
            let lock = memory.word(at + slot::LOCK);
            if lock.compare_exchange(0, 1, AcqRel, Relaxed).is_err() {
                continue;
            }
            let fate = fate(memory, now, at);
            if fate != Fate::GoesOn {
                self.take(memory, now, stack, at, fate);
                reports.end(memory, now, at);
                memory.set(at + slot::CLOSED, (now + CLOSED).millis());
                memory.set(at + slot::STATE, slot::FREE as u64);
            }
            lock.store(0, Release);
        }
    }

    /// The stack cannot send again what the kernel's part has sent: where that is not acknowledged, the peer is reset.
    fn take(&self, memory: &Memory, now: Instant, stack: &mut Stack, at: u64, fate: Fate) {
        let rest = [slot::RCV, slot::STAMPS, slot::KEPT, slot::FIRST].map(|field| at + field);
        let begun = begun(memory, at + slot::ENDS, rest);
        if fate == Fate::TakenOn {
            stack.take_on(now, self.listener, &begun, None);
            return;
        }
        let (una, nxt) = sent(memory, at);
        // It has heard of it, or not.
        stack.reset_begun(begun.flow, una);
        if una != nxt {
            stack.reset_begun(begun.flow, nxt);
        }
    }
}

/// A connection from where its addresses stand, with the ports behind them; its numbers; timestamps; what the cookie kept, with the window;
/// and the peer's first number.
fn begun(memory: &Memory, ends: u64, [numbers, stamps, kept, first]: [u64; 4]) -> BegunConnection {
    let ports = memory.half(ends + 32);
    let local = SocketAddr::new(memory.address(ends), (ports >> 16) as u16);
    let remote = SocketAddr::new(memory.address(ends + 16), ports as u16);
    let (rcv_nxt, snd_nxt) = memory.halves(numbers);
    let (value, echo) = memory.halves(stamps);
    let (kept, window) = memory.halves(kept);
    let bits = kept & 0xff;
    BegunConnection {
        flow: Flow::new(local, remote),
        first: memory.half(first),
        rcv_nxt,
        snd_nxt,
        window: window as u16,
        mss_index: (kept >> 8) as u8,
        stamps: (bits <= TIMESTAMP_BITS).then_some((bits, value, echo)),
    }
}

/// The first number of ours that the peer of a slot has not acknowledged, and the next.
fn sent(memory: &Memory, at: u64) -> (u32, u32) {
    let (_, nxt) = memory.halves(at + slot::RCV);
    let (una, _) = memory.halves(at + slot::UNA);
    (una, nxt)
}

/// While the server serves.
fn fate(memory: &Memory, now: Instant, at: u64) -> Fate {
    let state = memory.get(at + slot::STATE) as i32;
    if [slot::FREE, slot::DONE].contains(&state) {
        return Fate::GoesOn;
    }
    let (una, nxt) = sent(memory, at);
    let (bound, fate) = match state == slot::OPEN && una == nxt {
        true => (QUIET, Fate::TakenOn),
        false => (FORGOTTEN, Fate::Reset),
    };
    let since = now.millis().saturating_sub(memory.get(at + slot::TIME));
    match u128::from(since) < bound.as_millis() {
        true => Fate::GoesOn,
        false => fate,
    }
}

/// When it ends.
fn last_fate(memory: &Memory, _: Instant, at: u64) -> Fate {
    let (una, nxt) = sent(memory, at);
    match memory.get(at + slot::STATE) as i32 {
        slot::OPEN if una == nxt => Fate::TakenOn,
        slot::OPEN | slot::FINISHED | slot::LAST_ACK if una != nxt => Fate::Reset,
        _ => Fate::GoesOn,
    }
}
