//! How connections end: given up, over, in TIME-WAIT, forgotten.

use exos_wire::tcp::{TcpFlags, TcpOptions, Timestamps};

use crate::counters::Counters;
use crate::tcp::endpoint::tcp::Tcp;
use crate::tcp::receiving::acknowledgements::Owed;
use crate::tcp::shared::context::Outcome;
use crate::tcp::shared::reply::Reply;
use crate::tcp::table::time_wait::Waiting;
use crate::tcp::values::event::Reason;
use crate::tcp::values::flow::Flow;
use crate::tcp::values::id::ConnectionId;
use crate::tcp::values::state::{Action, Event as StateEvent};
use crate::time::Instant;

impl Tcp {
    /// Do as the connection's outcome says.
    #[inline]
    pub(super) fn conclude(
        &mut self,
        now: Instant,
        id: ConnectionId,
        outcome: Outcome,
        counters: &mut Counters,
    ) {
        match outcome {
            Outcome::Keep => {}
            Outcome::Close(reason) => self.close(id, reason),
            Outcome::TimeWait => self.start_time_wait(now, id, counters),
        }
        self.settle(id);
    }

    /// Give a connection up.
    pub(super) fn reset(&mut self, id: ConnectionId, counters: &mut Counters) {
        let Some(c) = self.slab.get_mut(id) else {
            return;
        };
        let (half_open, listener) = (c.is_half_open(), c.listener());
        if c.follow(StateEvent::Abort) == Some(Action::SendRstRelease) {
            let reset = c.reset();
            // Our own doing, one for each connection: no rate limits it.
            self.replies.push_due(reset, counters);
        }
        counters.tcp_aborted += 1;
        if half_open {
            self.listeners.half_open_ended(listener);
        }
        self.close(id, Reason::Aborted);
        self.settle(id);
    }

    /// Both sides are finished: what must still be remembered moves to the TIME-WAIT table.
    pub(super) fn start_time_wait(
        &mut self,
        now: Instant,
        id: ConnectionId,
        counters: &mut Counters,
    ) {
        let hash = self.slab.hash_at(id.slot());
        let Some(c) = self.slab.get(id) else {
            return;
        };
        let waiting = Waiting {
            flow: *c.flow(),
            hash,
            snd_nxt: c.sender.queue().max(),
            rcv_nxt: c.receiver.rcv_nxt(),
            ts_recent: c
                .sender
                .agreed()
                .timestamps
                .then_some(c.receiver.ts_recent()),
            ts_offset: c.sender.agreed().ts_offset,
            expires_ms: 0,
        };
        let receiver = &c.receiver;
        let owed = receiver.acks().owed() != Owed::Nothing
            || receiver.acks().last_sent() != receiver.rcv_nxt();
        if self.time_wait.insert(now, waiting) {
            self.ports.may_have_become_free();
            counters.tcp_time_wait_evicted += 1;
        }
        if owed {
            let reply = time_wait_ack(now, &waiting);
            self.replies.push_due(reply, counters);
        }
        self.close(id, Reason::Done);
    }

    /// The connection is over: out of the index, and the program hears of it.
    pub(super) fn close(&mut self, id: ConnectionId, reason: Reason) {
        let Some(entry) = self.slab.entry_mut(id) else {
            return;
        };
        if entry.closed {
            return;
        }
        entry.closed = true;
        let c = &mut entry.connection;
        let ended = self.ports.wants_notes().then(|| *c.flow());
        let heard = c.close(reason, entry.announced);
        self.unindex(id);
        if let Some(flow) = ended {
            self.note_end(&flow);
        }
        if !heard {
            // A half-open connection that nobody was told of.
            self.forget(id);
        }
    }

    /// Segments of this connection are nobody's any more.
    pub(super) fn unindex(&mut self, id: ConnectionId) {
        self.index.remove(self.slab.hash_at(id.slot()), id.slot());
        let connection = self.slab.get(id).filter(|it| it.is_taken_on());
        if let Some(connection) = connection {
            self.room.taken_on_is_over(connection.flow());
        }
    }

    /// The connection's slot and memory are free.
    pub(super) fn forget(&mut self, id: ConnectionId) {
        if let Some(entry) = self.slab.entry_mut(id) {
            entry
                .connection
                .receiver
                .queue_mut()
                .release(&mut self.memory);
            self.recycled.recycle(&mut entry.connection);
            self.slab.remove(id);
        }
    }

    /// A connection that is nobody's any more has left its pair, unless it waits in TIME-WAIT.
    #[cold]
    fn note_end(&mut self, flow: &Flow) {
        if !self.is_taken(flow) {
            self.ports.has_become_free(flow.local());
        }
    }
}

/// What a connection in TIME-WAIT answers.
pub(super) fn time_wait_ack(now: Instant, waiting: &Waiting) -> Reply {
    let timestamps = waiting.ts_recent.map(|echo| Timestamps {
        value: (now.millis() as u32).wrapping_add(waiting.ts_offset),
        echo,
    });
    let options = TcpOptions {
        timestamps,
        ..TcpOptions::NONE
    };
    Reply {
        flow: waiting.flow,
        seq: waiting.snd_nxt,
        ack: waiting.rcv_nxt,
        flags: TcpFlags::ACK,
        window: 0,
        options,
    }
}
