//! What others begin, and what remains when all is over: listeners and TIME-WAIT.
//!
//! A segment that belongs to no connection comes here. A SYN to a listener makes a half-open
//! connection, counted against the listener's backlog, where the longest-standing one makes room when
//! it has had its time; one to a connection in TIME-WAIT may take its
//! place; the rest is answered without any state, or not at all.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

use exos_wire::SeqNumber;
use exos_wire::tcp::{TcpFlags, Timestamps};

use super::connection::{Connection, Options, Owed, Reason};
use super::flow::Flow;
use super::input::Segment;
use super::reply::Reply;
use super::slab::ConnectionId;
use super::state::Event as StateEvent;
use super::time_wait::Waiting;
use super::{Local, OpenError, Tcp};
use crate::counters::Counters;
use crate::limits::{BACKLOG, HALF_OPEN_GRACE, ISS_BEYOND};
use crate::time::Instant;

/// A listener's identity.
#[derive(Copy, Clone, Debug, Eq, PartialEq, Hash)]
pub struct ListenerId(u32);

/// What a listener takes.
#[derive(Clone, Debug)]
pub struct ListenOptions {
    /// For the connections that it makes.
    pub connection: Options,
    /// Half-open connections at once.
    pub backlog: usize,
}

impl Default for ListenOptions {
    fn default() -> Self {
        Self {
            connection: Options::default(),
            backlog: BACKLOG,
        }
    }
}

/// Who takes connections to a port.
pub(super) struct Listener {
    id: ListenerId,
    /// `None` listens on every address of the stack.
    address: Option<IpAddr>,
    pub(super) port: u16,
    options: ListenOptions,
    half_open: usize,
    /// When each half-open connection began, oldest first. Those that have ended since stay in it
    /// until they come to its front, or are so many that they are thrown out.
    begun: VecDeque<(Instant, ConnectionId)>,
}

impl Listener {
    /// Whether a connection to `to` is this listener's.
    fn takes(&self, to: SocketAddr) -> bool {
        self.port == to.port() && self.address.is_none_or(|a| a == to.ip())
    }
}

impl Tcp {
    /// Take connections to `port`, on one address or on all.
    pub fn listen(
        &mut self,
        address: Option<IpAddr>,
        port: u16,
        options: ListenOptions,
    ) -> Result<ListenerId, OpenError> {
        if self
            .listeners
            .iter()
            .any(|l| l.port == port && l.address == address)
        {
            return Err(OpenError::PortTaken);
        }
        let id = ListenerId(self.next_listener);
        self.next_listener += 1;
        self.listeners.push(Listener {
            id,
            address,
            port,
            options,
            half_open: 0,
            begun: VecDeque::new(),
        });
        // The most specific first, so that the search takes it.
        self.listeners.sort_by_key(|l| l.address.is_none());
        Ok(id)
    }

    /// Take no further connections; those that stand go on.
    pub fn close_listener(&mut self, id: ListenerId) {
        self.listeners.retain(|l| l.id != id);
    }

    /// RFC 9293 §3.10.7.2: a listener, or nobody. Returns through counters, replies and events.
    ///
    /// `after` is the last sequence number of a connection in TIME-WAIT whose place a new one takes:
    /// the new one's begin beyond it (RFC 1122 §4.2.2.13).
    pub(super) fn in_listen(
        &mut self,
        now: Instant,
        flow: Flow,
        seg: &Segment<'_>,
        local: Local,
        after: Option<SeqNumber>,
        counters: &mut Counters,
    ) {
        // First: a reset is for nothing that exists.
        if seg.has(TcpFlags::RST) {
            counters.drop_tcp_no_connection += 1;
            return;
        }
        let full = self.index.len() >= self.connections_max;
        let to = flow.local();
        let listener = self.listeners.iter().position(|l| l.takes(to));
        // Second: an ACK is of no connection; third: a SYN opens one.
        let Some(at) = listener.filter(|_| seg.has(TcpFlags::SYN) && !seg.has(TcpFlags::ACK))
        else {
            counters.drop_tcp_no_connection += 1;
            // Fourth: what has neither is dropped where somebody listens.
            if listener.is_none() || seg.has(TcpFlags::ACK) {
                self.replies
                    .push(Reply::reset_for(flow, seg), now, counters);
            }
            return;
        };
        if full {
            counters.drop_tcp_connections_full += 1;
            return;
        }
        let listener = &self.listeners[at];
        if listener.half_open >= listener.options.backlog && !self.make_room(now, at, counters) {
            counters.drop_tcp_backlog_full += 1;
            return;
        }
        let options = self.listeners[at].options.connection.clone();
        let mut opening = self.opening(now, flow, local);
        if let Some(last) = after.filter(|&last| opening.iss.le(last)) {
            opening.iss = last + ISS_BEYOND;
        }
        let mut connection = Connection::accept(opening, &options);
        connection.listener = Some(self.listeners[at].id);
        connection.learn_from_syn(now, seg.seq, seg.window, &seg.options);
        let id = self.insert(connection);
        self.remember_begun(now, at, id);
        self.settle(id);
    }

    fn remember_begun(&mut self, now: Instant, at: usize, id: ConnectionId) {
        let (slab, listener) = (&self.slab, &mut self.listeners[at]);
        listener.half_open += 1;
        listener.begun.push_back((now, id));
        // At least half of them have ended then, so this costs each of them a constant share.
        if listener.begun.len() > 2 * listener.options.backlog {
            listener.begun.retain(|&(_, id)| slab.is_half_open(id));
        }
    }

    /// Give up the oldest half-open connection of a listener with a full backlog; false when it has
    /// not yet had the time to answer ([`HALF_OPEN_GRACE`]).
    ///
    /// A flood of SYNs from addresses that never answer then costs honest clients some of their
    /// attempts, not a minute without service until the flood's connections run out of time.
    fn make_room(&mut self, now: Instant, at: usize, counters: &mut Counters) -> bool {
        let (slab, listener) = (&self.slab, &mut self.listeners[at]);
        let ended = |&(_, id): &(Instant, ConnectionId)| !slab.is_half_open(id);
        while listener.begun.front().is_some_and(ended) {
            listener.begun.pop_front();
        }
        let oldest = listener.begun.front();
        let Some(&(_, id)) = oldest.filter(|(begun, _)| now - *begun >= HALF_OPEN_GRACE) else {
            return false;
        };
        listener.begun.pop_front();
        listener.half_open -= 1;
        counters.tcp_half_open_replaced += 1;
        if let Some(c) = self.slab.get_mut(id) {
            c.follow(StateEvent::GiveUp);
        }
        self.close(id, Reason::TimedOut);
        true
    }

    /// A half-open connection of this listener stands, or is over. The listener may be gone.
    pub(super) fn half_open_ended(&mut self, id: Option<ListenerId>) {
        if let Some(l) = self.listeners.iter_mut().find(|l| Some(l.id) == id) {
            l.half_open -= 1;
        }
    }

    /// RFC 9293 §3.10.7.4 for TIME-WAIT; false when a new connection may begin (RFC 6191 §2).
    pub(super) fn in_time_wait(
        &mut self,
        now: Instant,
        flow: &Flow,
        seg: &Segment<'_>,
        local: Local,
        counters: &mut Counters,
    ) -> bool {
        let Some(&waiting) = self.time_wait.get(flow) else {
            return false;
        };
        if seg.has(TcpFlags::RST) {
            // RFC 1337: a reset does not cut the wait short.
            counters.drop_tcp_out_of_window += 1;
            return true;
        }
        if seg.has(TcpFlags::SYN) && !seg.has(TcpFlags::ACK) {
            let newer = match (waiting.ts_recent, seg.options.timestamps) {
                (Some(old), Some(new)) if new.value != old => {
                    (new.value.wrapping_sub(old) as i32) > 0
                }
                _ => seg.seq.gt(waiting.rcv_nxt),
            };
            if newer {
                counters.tcp_time_wait_reused += 1;
                self.time_wait.remove(flow);
                self.in_listen(now, *flow, seg, local, Some(waiting.snd_nxt), counters);
                return true;
            }
        }
        if seg.has(TcpFlags::FIN) {
            self.time_wait.restart(now, flow);
        } else if seg.is_empty() && seg.seq == waiting.rcv_nxt && !seg.has(TcpFlags::SYN) {
            // The last acknowledgement, or one again: nothing to say.
            return true;
        }
        let reply = time_wait_ack(now, &waiting);
        if seg.has(TcpFlags::FIN) && seg.seq + seg.len() == waiting.rcv_nxt {
            // Its last acknowledgement from us was lost.
            self.replies.push_due(reply, counters);
        } else {
            self.replies.push(reply, now, counters);
        }
        true
    }

    /// Both sides are finished: what must still be remembered moves to the TIME-WAIT table.
    pub(super) fn start_time_wait(
        &mut self,
        now: Instant,
        id: ConnectionId,
        counters: &mut Counters,
    ) {
        let Some(c) = self.slab.get_mut(id) else {
            return;
        };
        let ts_recent = c.timestamps.then_some(c.ts_recent);
        let (flow, seqs, ts) = (
            *c.flow(),
            (c.snd_nxt.max(c.snd_una), c.rcv_nxt),
            (ts_recent, c.ts_offset),
        );
        let owed = c.ack_owed != Owed::Nothing || c.last_ack_sent != c.rcv_nxt;
        if self.time_wait.insert(now, flow, seqs, ts) {
            counters.tcp_time_wait_evicted += 1;
        }
        if owed && let Some(waiting) = self.time_wait.get(&flow) {
            self.replies.push_due(time_wait_ack(now, waiting), counters);
        }
        self.close(id, Reason::Done);
    }
}

/// What a connection in TIME-WAIT answers.
fn time_wait_ack(now: Instant, waiting: &Waiting) -> Reply {
    let timestamps = waiting.ts_recent.map(|echo| Timestamps {
        value: (now.millis() as u32).wrapping_add(waiting.ts_offset),
        echo,
    });
    Reply {
        flow: waiting.flow,
        seq: waiting.snd_nxt,
        ack: waiting.rcv_nxt,
        flags: TcpFlags::ACK,
        window: 0,
        timestamps,
    }
}
