//! What arrives is given to its connection, and the tables follow: segments, and what ICMP says of those that left.

use exos_wire::SeqNumber;
use exos_wire::tcp::TcpFlags;

use crate::counters::Counters;
use crate::icmp;
use crate::tcp::endpoint::passive::Arrived;
use crate::tcp::endpoint::tcp::Tcp;
use crate::tcp::endpoint::time_wait::Waits;
use crate::tcp::shared::context::{Context, Outcome};
use crate::tcp::values::event::Reason;
use crate::tcp::values::flow::Flow;
use crate::tcp::values::id::ConnectionId;
use crate::tcp::values::local::Local;
use crate::tcp::values::segment::Segment;
use crate::tcp::values::state::{Event as StateEvent, State};
use crate::time::Instant;

impl Tcp {
    /// Take in a segment from `flow.remote()` to `flow.local()`. True when it acknowledges something new:
    /// then the peer hears us, and so does the neighbour on the way to it.
    pub fn handle_segment(
        &mut self,
        now: Instant,
        flow: Flow,
        seg: &Segment<'_>,
        local: Local,
        counters: &mut Counters,
    ) -> bool {
        counters.tcp_segments_received += 1;
        let hash = flow.table_hash(&self.key);
        if let Some(id) = self.find(&flow, hash) {
            self.found = Some(id);
            return self.deliver(now, id, seg, counters);
        }
        if self.handed_over.has(now, &flow, !seg.has(TcpFlags::SYN)) {
            counters.drop_tcp_handed_over += 1;
            return false;
        }
        let arrived = Arrived {
            now,
            flow,
            hash,
            seg,
            local,
        };
        match self.in_time_wait(arrived, counters) {
            Waits::SeenTo => {}
            Waits::No => self.listen_to(arrived, None, counters),
            Waits::Opens(after) => self.listen_to(arrived, after, counters),
        }
        false
    }

    /// A segment that belongs to no connection, or begins another in its place.
    fn listen_to(
        &mut self,
        arrived: Arrived<'_>,
        after: Option<SeqNumber>,
        counters: &mut Counters,
    ) {
        if let Some(id) = self.in_listen(arrived, after, counters) {
            self.deliver(arrived.now, id, arrived.seg, counters);
        }
    }

    pub(super) fn deliver(
        &mut self,
        now: Instant,
        id: ConnectionId,
        seg: &Segment<'_>,
        counters: &mut Counters,
    ) -> bool {
        let Some(entry) = self.slab.entry_mut(id).filter(|e| !e.closed) else {
            return false;
        };
        let c = &mut entry.connection;
        c.receiver.set_pressure(self.memory.pressure());
        if !self.fast_paths || !c.predicts(seg) {
            return self.deliver_by_steps(now, id, seg, counters);
        }
        let progress = seg.ack != c.sender.queue().una();
        let mut cx = Context {
            now,
            counters,
            replies: &mut self.replies,
            memory: &mut self.memory,
        };
        c.take_predicted(seg, &mut cx);
        self.queues.settle(id, entry);
        self.queues.see_to_rest(now, id, entry);
        if self.memory.wants_pruning() {
            self.prunable
                .prune(&mut self.slab, &mut self.memory, counters);
        }
        progress
    }

    #[inline(never)]
    fn deliver_by_steps(
        &mut self,
        now: Instant,
        id: ConnectionId,
        seg: &Segment<'_>,
        counters: &mut Counters,
    ) -> bool {
        if self.offloads_syns
            && let Some(arrived) = self.replaces(now, id, seg, counters)
        {
            self.listen_to(arrived, None, counters);
            return false;
        }
        let Some(entry) = self.slab.entry_mut(id).filter(|e| !e.closed) else {
            return false;
        };
        let c = &mut entry.connection;
        let acknowledged = c.sender.queue().una();
        let half_open = c.is_half_open();
        if self.addresses_shared && half_open && !c.is_answered_by(seg) {
            // A SYN that was repeated may have gone to another stack, which has answered it again.
            self.belongs_elsewhere = true;
            return false;
        }
        let outcome = c.handle_segment(
            seg,
            &mut Context {
                now,
                counters,
                replies: &mut self.replies,
                memory: &mut self.memory,
            },
        );
        let progress = c.sender.queue().una().gt(acknowledged);
        let begins_to_hold = c.receiver.queue_mut().begins_to_hold();
        let opened = half_open && c.state() != State::SynReceived;
        if outcome == Outcome::Keep {
            self.queues.settle(id, entry);
            self.queues.see_to_rest(now, id, entry);
        }
        if opened {
            let listener = entry.connection.listener();
            self.listeners.half_open_ended(listener);
        }
        if outcome != Outcome::Keep {
            self.conclude(now, id, outcome, counters);
        }
        if begins_to_hold {
            self.prunable.note(id, &self.slab);
        }
        if self.memory.wants_pruning() {
            self.prunable
                .prune(&mut self.slab, &mut self.memory, counters);
        }
        progress
    }

    /// Take in a segment of a connection that was found by [`Self::find_key`]. True as for
    /// `handle_segment`.
    #[inline]
    pub(crate) fn handle_known(
        &mut self,
        now: Instant,
        id: ConnectionId,
        seg: &Segment<'_>,
        counters: &mut Counters,
    ) -> bool {
        counters.tcp_segments_received += 1;
        self.found = Some(id);
        self.deliver(now, id, seg, counters)
    }

    /// An ICMP error says that the peer of `flow` cannot be reached (RFC 1122 §4.2.3.9).
    ///
    /// It is heard only when `seq` is in flight (RFC 5927 §4.1). Only a hard error for a connection that
    /// is not standing yet ends it; any other is remembered, and retransmission goes on.
    pub fn handle_unreachable(
        &mut self,
        now: Instant,
        flow: &Flow,
        seq: SeqNumber,
        reason: icmp::Reason,
        hard: bool,
    ) {
        let Some(id) = self.find(flow, flow.table_hash(&self.key)) else {
            return;
        };
        let Some(c) = self.slab.get_mut(id) else {
            return;
        };
        if !c.sender.queue().is_in_flight(seq) {
            return;
        }
        if hard && c.state() == State::SynSent {
            c.follow(StateEvent::GiveUp);
            self.close(id, Reason::Unreachable);
            self.settle(id);
        } else if c.is_active() || c.state().is_synchronized() {
            c.liveness.remember_error(now, reason);
        } else {
            // Of a half-open connection nothing more is kept: it may be a stranger's.
            c.syn_ack_is_unwanted();
        }
    }

    /// An ICMP error says that packets to the peer of `flow` must be smaller (RFC 1191, RFC 8201):
    /// `mss` is what then fits a segment, options not taken off.
    pub fn handle_too_big(&mut self, now: Instant, flow: &Flow, seq: SeqNumber, mss: u16) {
        let Some(id) = self.find(flow, flow.table_hash(&self.key)) else {
            return;
        };
        let Some(c) = self.slab.get_mut(id) else {
            return;
        };
        if c.sender.queue().is_in_flight(seq) && c.sender.shrink_segments(now, mss, flow.is_ipv6())
        {
            self.settle(id);
        }
    }
}
