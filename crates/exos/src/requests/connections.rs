//! The connections that the kernel's part has: those that it hands up, those on which nothing comes, and those that the stack has, which
//! may not begin there.

mod fate;
mod joined;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::Ordering::{AcqRel, Relaxed, Release};

use exos_buf::{Buffer, Slice};
use exos_filter::handler::WebHandler;
use exos_filter::handler::web::layout::{self, Entries, handed, slot};
use exos_inet::limits::REPLIES_MAX;
use exos_inet::tcp::{BegunConnection, ConnectionId, Flow, ListenerId};
use exos_inet::{Duration, Instant, JoinedSegment, Stack};
use exos_wire::tcp::cookie::TIMESTAMP_BITS;

use super::memory::Memory;
use super::reports::{Named, Reports, hear, instant, take_begun};
use super::room::PeerRoom;
use super::sent::{Sent, SentResponse};
use super::shared::lock;
use super::table::Table;
use fate::{Fate, FateOf, fate, last_fate, sent};

/// How long slots of connections that the stack has stay closed without word of it.
const CLOSED: Duration = Duration::from_secs(4);
/// Connections that are reset at once: each may take three resets, of which the stack has room for [`REPLIES_MAX`].
const RESETS_AT_ONCE: usize = REPLIES_MAX / 4;

/// Where they go.
#[derive(Debug)]
pub(super) struct Connections {
    listener: ListenerId,
    key: u64,
    entries: Entries,
    /// Where connections of each peer are limited.
    peers: Option<PeerRoom>,
    /// Those whose connections are seen to here: this one, and at the end those of its interface that are not there any more.
    cores: Vec<usize>,
    /// Those of its interface.
    own: Range<u64>,
    /// Where the ring begins that this core reads.
    ring: u64,
    /// The slot that is looked at next.
    next: u64,
    taken: u64,
    /// Of connections that were taken on.
    sent: VecDeque<Sent>,
    /// What came in fragments, and may begin a connection that no other core has.
    asked_about: Vec<JoinedSegment>,
}

/// What each look at them has.
pub(super) struct Turn<'a> {
    pub(super) memory: &'a Memory,
    pub(super) table: &'a Mutex<Table>,
    pub(super) now: Instant,
    pub(super) stack: &'a mut Stack,
    pub(super) reports: &'a mut Reports,
}

/// An answer that goes with its connection.
struct Answer {
    sent: SentResponse,
    /// Which it is, and when its request came, where that is reported.
    reported: Option<(Named, Instant)>,
}

impl Turn<'_> {
    /// Whether the stack has a connection between these ends.
    fn has(&self, flow: &Flow) -> bool {
        let found = self
            .stack
            .tcp
            .connection_between(flow.local(), flow.remote());
        found.is_some()
    }

    /// A response that was sent, and has this length; one that was forgotten has none.
    fn response(&self, sent: SentResponse, len: usize) -> Option<Slice> {
        let (entry, version) = sent.response;
        let table = lock(self.table);
        let bytes = table
            .response(entry, version)
            .filter(|bytes| bytes.len() == len)?;
        Some(Buffer::from(bytes.to_vec()).into())
    }
}

impl Connections {
    /// Those of a core.
    pub(super) fn new(
        listener: ListenerId,
        handler: &WebHandler,
        peers: Option<PeerRoom>,
        core: usize,
    ) -> Self {
        Self {
            listener,
            key: handler.key,
            entries: handler.entries,
            peers,
            cores: vec![core],
            own: handler.rings.own(),
            ring: handler.rings.at(core as u64),
            next: 0,
            taken: 0,
            sent: VecDeque::new(),
            asked_about: Vec::new(),
        }
    }

    pub(super) fn listener(&self) -> ListenerId {
        self.listener
    }

    /// Sees to the connections of these cores, too, where they had this one's interface: others' leave by theirs alone.
    pub(super) fn take_over(&mut self, cores: Vec<usize>) {
        let own = |core: &usize| self.own.contains(&(*core as u64));
        self.cores.extend(cores.into_iter().filter(own));
    }

    /// Takes on what was handed up.
    pub(super) fn take_on(&mut self, turn: &mut Turn<'_>) {
        let memory = turn.memory;
        while memory.get(self.ring + layout::HANDED) != self.taken {
            let place = (self.taken % layout::RING_COUNT) * layout::HANDED_LEN;
            let at = self.ring + layout::RING + place;
            // Its number is given before it is written, on a processor that does nothing else meanwhile.
            while memory.get(at) != self.taken + 1 {
                std::hint::spin_loop();
            }
            let rest = [
                handed::NUMBERS,
                handed::STAMPS,
                handed::KEPT,
                handed::FIRST,
                handed::TIME,
            ];
            let mut begun = begun(memory, at + handed::ENDS, rest.map(|field| at + field));
            begun.closes = memory.half(at + handed::END) != begun.snd_nxt;
            turn.stack.tcp.add_room();
            match self.handed_answer(memory, at) {
                None => self.give(turn, &begun, None).is_some(),
                Some(answer) => self.take_on_with(turn, &begun, answer),
            };
            self.taken += 1;
            memory.set(self.ring + layout::TAKEN, self.taken);
        }
    }

    /// What goes with a connection that was handed up, whose slot still says what the log wants: it is closed.
    fn handed_answer(&self, memory: &Memory, at: u64) -> Option<Answer> {
        let (version, entry) = memory.halves(at + handed::SENT);
        if version == 0 {
            return None;
        }
        let begun = memory.get(at + handed::BEGUN);
        let reported = (begun != 0).then(|| {
            let ends = [0, 8, 16, 24].map(|word| memory.get(at + handed::ENDS + word));
            let ports = memory.half(at + handed::ENDS + 32);
            let slot = slot_of(self.key, ends, ports);
            let named = Named {
                note: memory.half(at + handed::NOTE),
                ..Named::of_slot(self.entries, memory, slot)
            };
            (named, instant(begun))
        });
        Some(Answer {
            sent: SentResponse {
                response: (entry, version),
                una: memory.half(at + handed::UNA),
            },
            reported,
        })
    }

    /// The stack has the connection from now on, and its room.
    fn give(
        &self,
        turn: &mut Turn<'_>,
        begun: &BegunConnection,
        sent: Option<Slice>,
    ) -> Option<ConnectionId> {
        let (now, listener) = (turn.now, self.listener);
        let made = turn.stack.take_on(now, listener, begun, sent);
        if made.is_none() {
            self.is_over(begun);
        }
        made
    }

    fn is_over(&self, begun: &BegunConnection) {
        if let Some(peers) = &self.peers {
            peers.leave(begun.flow.remote().ip(), false);
        }
    }

    /// Nobody has the connection any more; its peer has heard of what was sent from `una` on, or of a part of it.
    fn reset(&self, stack: &mut Stack, begun: &BegunConnection, una: u32) {
        for next in begun.may_expect(una) {
            stack.reset_begun(begun.flow, next);
        }
        self.is_over(begun);
    }

    /// Takes on a connection with an answer that is not acknowledged. False where its peer is reset in place of that.
    fn take_on_with(
        &mut self,
        turn: &mut Turn<'_>,
        begun: &BegunConnection,
        answer: Answer,
    ) -> bool {
        let (memory, now) = (turn.memory, turn.now);
        let Answer { sent, reported } = answer;
        let len = begun.snd_nxt.wrapping_sub(sent.una) as usize;
        let response = turn.response(sent, len);
        let made = match response {
            Some(response) => self.give(turn, begun, Some(response)),
            None => {
                self.reset(turn.stack, begun, sent.una);
                None
            }
        };
        match (made, reported) {
            (Some(connection), reported) => {
                reported.iter().for_each(|_| hear(memory));
                self.sent.push_back(Sent {
                    connection,
                    len,
                    closes: begun.closes,
                    reported,
                });
            }
            (None, Some((named, asked))) => {
                turn.reports
                    .lose(begun.flow.remote().ip(), named, asked, now)
            }
            (None, None) => {}
        }
        made.is_some()
    }

    /// A response that went with its connection.
    pub(super) fn poll_sent(&mut self) -> Option<Sent> {
        self.sent.pop_front()
    }

    /// Once a second: keeps those that the stack has from beginning in the kernel, and sees to those that nothing comes on.
    pub(super) fn turn(&mut self, turn: &mut Turn<'_>) {
        // A program that does not ask does not want to know.
        self.sent.clear();
        self.take_on(turn);
        close_slots(self.key, turn);
        // The next look begins with what is left.
        let _ = self.each_slot(turn, fate);
    }

    /// The stack takes on those that stand, and the others are over. True while there may be more: once what that has queued has left.
    #[must_use]
    pub(super) fn end(&mut self, turn: &mut Turn<'_>) -> bool {
        self.take_on(turn);
        self.each_slot(turn, last_fate)
    }

    /// Does to the connections of slots what is to become of them, from where the last look ended, until as many are reset as may be at
    /// once. True when there may be more.
    #[must_use]
    fn each_slot(&mut self, turn: &mut Turn<'_>, fate: FateOf) -> bool {
        let mut left = RESETS_AT_ONCE;
        for _ in 0..layout::SLOT_COUNT {
            let at = layout::SLOTS + self.next * layout::SLOT_LEN;
            self.next = (self.next + 1) % layout::SLOT_COUNT;
            left -= usize::from(self.see_to(turn, at, fate));
            if left == 0 {
                return true;
            }
        }
        false
    }

    /// What is to become of the connection of a slot, becomes. True where that is a reset.
    fn see_to(&mut self, turn: &mut Turn<'_>, at: u64, fate: FateOf) -> bool {
        let (memory, now) = (turn.memory, turn.now);
        let core = (memory.half(at + slot::WINDOW) >> slot::CORE_SHIFT) as usize;
        if !self.cores.contains(&core) || fate(memory, now, at) == Fate::GoesOn {
            return false;
        }
        let lock = memory.word(at + slot::LOCK);
        if lock.compare_exchange(0, 1, AcqRel, Relaxed).is_err() {
            return false;
        }
        let is_reset = self.take(turn, at, fate(memory, now, at));
        lock.store(0, Release);
        is_reset
    }

    /// Takes a connection out of its slot, which is locked. True where its peer is reset: what the stack cannot send again is not
    /// acknowledged, or the stack has no room.
    fn take(&mut self, turn: &mut Turn<'_>, at: u64, fate: Fate) -> bool {
        let (memory, now) = (turn.memory, turn.now);
        if fate == Fate::GoesOn {
            return false;
        }
        let begun = begun_in_slot(memory, at);
        turn.stack.tcp.add_room();
        let is_reset = match fate {
            Fate::GoesOn => false,
            Fate::TakenOn(sent) => match sent {
                None => self.give(turn, &begun, None).is_none(),
                Some(sent) => {
                    let answer = Answer {
                        sent,
                        reported: take_begun(memory, at)
                            .map(|begun| (Named::of_slot(self.entries, memory, at), begun)),
                    };
                    !self.take_on_with(turn, &begun, answer)
                }
            },
            Fate::Reset => {
                let (una, _) = sent(memory, at);
                self.reset(turn.stack, &begun, una);
                true
            }
        };
        turn.reports.end(memory, now, at);
        memory.set(at + slot::CLOSED, (now + CLOSED).millis());
        memory.set(at + slot::STATE, slot::FREE as u64);
        is_reset
    }
}

/// No connection begins in the kernel where the stack has one.
fn close_slots(key: u64, turn: &Turn<'_>) {
    let until = (turn.now + CLOSED).millis();
    for id in turn.stack.tcp.connections_where(|_| true) {
        let Some(connection) = turn.stack.tcp.connection(id) else {
            continue;
        };
        let (ends, ports) = ends(connection.flow());
        turn.memory
            .set(slot_of(key, ends, ports) + slot::CLOSED, until);
    }
}

/// A connection's, as slots have them.
fn ends(flow: &Flow) -> ([u64; 4], u32) {
    let (local, remote) = (flow.local(), flow.remote());
    let ports = u32::from(local.port()) << 16 | u32::from(remote.port());
    (layout::ends(local.ip(), remote.ip()), ports)
}

/// Where the slot is of a connection with these.
fn slot_of(key: u64, ends: [u64; 4], ports: u32) -> u64 {
    layout::SLOTS + layout::slot_of(key, ends, ports) * layout::SLOT_LEN
}

/// The connection of a slot.
fn begun_in_slot(memory: &Memory, at: u64) -> BegunConnection {
    let rest = [slot::RCV, slot::STAMPS, slot::KEPT, slot::FIRST, slot::TIME];
    let begun = begun(memory, at + slot::ENDS, rest.map(|field| at + field));
    let state = memory.get(at + slot::STATE) as i32;
    let (una, nxt) = sent(memory, at);
    let finished = state == slot::LAST_ACK;
    // Where all is acknowledged, so is our FIN.
    let closes = state != slot::OPEN && una != nxt;
    BegunConnection {
        finished,
        closes,
        rcv_nxt: begun.rcv_nxt.wrapping_sub(u32::from(finished)),
        snd_nxt: nxt.wrapping_sub(u32::from(closes)),
        ..begun
    }
}

/// A connection from where its addresses stand, with the ports behind them; its numbers; timestamps; what the cookie kept, with the window;
/// the peer's first number; and when something last came, in milliseconds.
fn begun(memory: &Memory, ends: u64, rest: [u64; 5]) -> BegunConnection {
    let [numbers, stamps, kept, first, time] = rest;
    let ports = memory.half(ends + 32);
    let local = SocketAddr::new(memory.address(ends), (ports >> 16) as u16);
    let remote = SocketAddr::new(memory.address(ends + 16), ports as u16);
    let (rcv_nxt, snd_nxt) = memory.halves(numbers);
    let (value, _) = memory.halves(stamps);
    let (kept, window) = memory.halves(kept);
    let bits = kept & 0xff;
    BegunConnection {
        flow: Flow::new(local, remote),
        first: memory.half(first),
        rcv_nxt,
        snd_nxt,
        closes: false,
        sent_at: Instant::from_millis(memory.get(time)),
        finished: false,
        window: window as u16,
        mss_index: (kept >> 8) as u8,
        stamps: (bits <= TIMESTAMP_BITS).then_some((bits, value)),
    }
}

#[cfg(test)]
mod tests;
