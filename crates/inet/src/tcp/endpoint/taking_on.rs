//! Connections that somebody else has begun for a listener with our cookies, answered for a while, and gives up to us: a program
//! in the kernel (`exos_filter::handler::web`). All that came on them was answered. So they are as if they had begun now, at other
//! sequence numbers, and had sent what is not acknowledged; but what they began with may come again.

use exos_buf::Slice;
use exos_wire::SeqNumber;
use exos_wire::tcp::{TcpFlags, TcpOptions, Timestamps};

use crate::counters::Counters;
use crate::tcp::endpoint::passive::{Arrived, Redeemed};
use crate::tcp::endpoint::tcp::Tcp;
use crate::tcp::opening::cookie::Kept;
use crate::tcp::opening::listeners::ListenerId;
use crate::tcp::shared::reply::Reply;
use crate::tcp::values::ecn::Ecn;
use crate::tcp::values::flow::Flow;
use crate::tcp::values::id::ConnectionId;
use crate::tcp::values::local::Local;
use crate::tcp::values::segment::Segment;
use crate::time::Instant;

/// A connection that is given up to the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BegunConnection {
    /// Whose it is.
    pub flow: Flow,
    /// The sequence number of the peer's first byte.
    pub first: u32,
    /// The next sequence number of the peer.
    pub rcv_nxt: u32,
    /// Our next one, or our FIN's where that has left; what is before it is acknowledged, or comes with the connection.
    pub snd_nxt: u32,
    /// Our FIN has left, at `snd_nxt`, and is not acknowledged.
    pub closes: bool,
    /// When what is not acknowledged has left: it is due again as if it had left the stack then.
    pub sent_at: Instant,
    /// The peer has finished: its FIN came at `rcv_nxt`.
    pub finished: bool,
    /// The window that the peer last announced, as it stands in its segments.
    pub window: u16,
    /// The index of its MSS in a cookie (`exos_wire::tcp::cookie::MSS_TABLE`).
    pub mss_index: u8,
    /// With timestamps: the options that a cookie keeps in one, and the peer's last timestamp.
    pub stamps: Option<(u32, u32)>,
}

impl BegunConnection {
    /// The numbers that its peer may expect next, where `una` is the first that it has not acknowledged.
    pub fn may_expect(&self, una: u32) -> impl Iterator<Item = u32> {
        let data = (una != self.snd_nxt).then_some(self.snd_nxt);
        let end = self.closes.then(|| self.snd_nxt.wrapping_add(1));
        [Some(una), data, end].into_iter().flatten()
    }

    /// What the peer would say now, without data.
    fn segment(&self, ack: SeqNumber, flags: TcpFlags) -> Segment<'static> {
        // What it echoed last may be old, and measures no round trip.
        let timestamps = self.stamps.map(|(_, value)| Timestamps { value, echo: 0 });
        Segment {
            seq: SeqNumber(self.rcv_nxt),
            ack,
            flags,
            window: self.window,
            options: TcpOptions {
                timestamps,
                ..TcpOptions::NONE
            },
            ecn: Ecn::NotEct,
            payload: &[],
        }
    }
}

impl Tcp {
    /// The connection is ours from now on, if we do not have it; one of before that waits makes room, unless what this one began with is
    /// that one's, late: then it is not made. `sent` was sent last, and is not acknowledged. Where there is no such listener, or no room, its peer is reset.
    pub(crate) fn take_on(
        &mut self,
        now: Instant,
        id: ListenerId,
        (begun, sent): (&BegunConnection, Option<Slice>),
        local: Local,
        counters: &mut Counters,
    ) -> Option<ConnectionId> {
        let hash = begun.flow.table_hash(&self.key);
        if self.find(&begun.flow, hash).is_some() || !self.wait_is_over(begun, hash, counters) {
            return None;
        }
        let una = SeqNumber(begun.snd_nxt) - sent.as_ref().map_or(0, Slice::len) as u32;
        let at = self.listeners.position(id);
        let Some(made) =
            at.and_then(|at| self.make_begun((now, hash), at, (begun, una), local, counters))
        else {
            for next in begun.may_expect(una.0) {
                self.reset_begun(begun.flow, next, counters);
            }
            return None;
        };
        // Before our FIN: it may be that the peer has finished first.
        if begun.finished {
            let fin = begun.segment(una, TcpFlags(TcpFlags::ACK.0 | TcpFlags::FIN.0));
            self.deliver(now, made, &fin, counters);
        }
        if let Some(c) = self.slab.get_mut(made) {
            c.sent_by_others((now, begun.sent_at), sent, begun.closes);
            self.settle(made);
        }
        Some(made)
    }

    /// Nobody has the connection any more: its peer is reset, if this is the next number that it expects.
    pub(crate) fn reset_begun(&mut self, flow: Flow, next: u32, counters: &mut Counters) {
        let reset = Reply {
            flow,
            seq: SeqNumber(next),
            ack: SeqNumber(0),
            flags: TcpFlags::RST,
            window: 0,
            options: TcpOptions::NONE,
        };
        self.replies.push_due(reset, counters);
    }

    /// A connection of the listener in place `at` on which nothing from `una` on was sent; `None` where there is no room.
    fn make_begun(
        &mut self,
        (now, hash): (Instant, u32),
        at: usize,
        (begun, una): (&BegunConnection, SeqNumber),
        local: Local,
        counters: &mut Counters,
    ) -> Option<ConnectionId> {
        let seg = begun.segment(una, TcpFlags::ACK);
        let bits = begun.stamps.map(|(bits, ..)| bits);
        let kept = Kept::from_parts(usize::from(begun.mss_index), bits, seg.options.timestamps);
        let arrived = Arrived {
            now,
            flow: begun.flow,
            hash,
            seg: &seg,
            local,
        };
        let Redeemed::Made(made) = self.make(arrived, at, &kept, counters) else {
            return None;
        };
        if let Some(c) = self.slab.get_mut(made) {
            c.begun_by_others(SeqNumber(begun.first));
        }
        self.deliver(now, made, &seg, counters);
        counters.tcp_taken_on += 1;
        Some(made)
    }
}
