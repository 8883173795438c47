//! The short way in of what comes seldom: data for which there is no room in the receive buffer yet, as the first of a
//! connection; the FIN that is expected next, with data or without; the acknowledgement of ours; and what comes
//! before either once the connection is being closed.
//!
//! Rule: as `short_in`'s.

use exos_wire::tcp::TcpFlags;

use crate::counters::Counters;
use crate::tcp::Tcp;
use crate::tcp::connection::Connection;
use crate::tcp::input::{Context, Outcome};
use crate::tcp::short_in::{Short, Taken};
use crate::tcp::short_ways::Way;
use crate::tcp::slab::ConnectionId;
use crate::tcp::state::State;
use crate::time::Instant;

impl Tcp {
    /// Take in a segment that `short_in` has left, if it is one of these.
    pub(in crate::tcp) fn take_seldom(
        &mut self,
        now: Instant,
        id: ConnectionId,
        seg: &Short<'_>,
        counters: &mut Counters,
    ) -> Taken {
        let Some(c) = self.slab.get_mut(id).filter(|c| c.expects_seldom(seg)) else {
            return Taken::General(id);
        };
        let progress = seg.ack != c.snd_una;
        let mut cx = Context {
            now,
            counters,
            replies: &mut self.replies,
            memory: &mut self.memory,
        };
        let Some(outcome) = c.take_seldom(seg, progress, &mut cx) else {
            return Taken::General(id);
        };
        self.found = Some(id);
        counters.tcp_segments_received += 1;
        self.taken.count(Way::Seldom);
        self.conclude(now, id, outcome, counters);
        self.see_to_rest(now, id);
        if self.memory.wants_relief() {
            self.relieve(counters);
        }
        Taken::Yes(progress)
    }
}

impl Connection {
    /// As `expects`, in any state in which both sides know each other, whether or not there is room in the buffer, and
    /// with a FIN.
    #[inline]
    fn expects_seldom(&self, seg: &Short<'_>) -> bool {
        let room = (self.rcv_edge - self.rcv_nxt).max(0) as usize;
        let same_window = u32::from(seg.window) << self.snd_scale == self.snd_wnd;
        let says = usize::from(has_fin(seg)) + seg.payload.len();
        // The FIN may lie at the right edge, what is before it must not (RFC 9293 §3.10.7.4, first).
        let acceptable = self.state.can_receive() && room > 0 && seg.payload.len() <= room;
        self.state.is_synchronized()
            && seg.seq == self.rcv_nxt
            && (says == 0 || acceptable)
            && (seg.payload.is_empty() || !self.discarding)
            && (seg.ack != self.snd_una || (same_window && says > 0))
            && self.receive.beyond().is_none()
            && self.is_untroubled(seg)
    }

    /// Take it in; `None`, and nothing is changed, when what it acknowledges must go the general way.
    #[inline]
    fn take_seldom(
        &mut self,
        seg: &Short<'_>,
        progress: bool,
        cx: &mut Context<'_>,
    ) -> Option<Outcome> {
        let acked_fin = progress && self.take_plain_ack(cx.now, seg)?;
        if acked_fin {
            self.hear(cx.now, seg);
            let outcome = self.fin_acknowledged(cx);
            if outcome != Outcome::Keep {
                return Some(outcome);
            }
        }
        if !seg.payload.is_empty() && self.state == State::FinWait2 {
            // The peer of a half-closed connection is at work.
            self.wait_for_fin(cx.now);
        }
        self.take_next(cx.now, seg, cx.memory);
        Some(match has_fin(seg) {
            true => self.fin_received(cx),
            false => Outcome::Keep,
        })
    }
}

#[inline]
fn has_fin(seg: &Short<'_>) -> bool {
    seg.flags.0 & TcpFlags::FIN.0 != 0
}
