//! What others begin, and what remains when all is over: SYNs to listeners, and TIME-WAIT.
//!
//! A segment that belongs to no connection comes here. A SYN to a listener makes a half-open
//! connection, counted against the listener's backlog. With a full backlog it is answered with a
//! cookie, and nothing is kept (`cookie`): an acknowledgement that brings the cookie back makes the
//! connection then. Half-open connections that have not been answered when their timer runs out give
//! way meanwhile, so that a flood holds the backlog for a second and not for a minute. A listener that
//! wants no cookies gives up the longest-standing half-open connection instead, when that has had its
//! time. A SYN to a connection in TIME-WAIT may take its place; the rest is answered without any state,
//! or not at all.

use exos_wire::SeqNumber;
use exos_wire::tcp::{TcpFlags, TcpOptions, Timestamps};

use crate::counters::Counters;
use crate::limits::{HALF_OPEN_GRACE, ISS_BEYOND, RTO_INITIAL};
use crate::tcp::connection::Connection;
use crate::tcp::cookie::Kept;
use crate::tcp::event::Reason;
use crate::tcp::flow::Flow;
use crate::tcp::id::ConnectionId;
use crate::tcp::listener::{SynCookies, Taker};
use crate::tcp::memory::Pressure;
use crate::tcp::output::{Burst, Outgoing};
use crate::tcp::receiver::Owed;
use crate::tcp::reply::Reply;
use crate::tcp::segment::Segment;
use crate::tcp::state::{Event as StateEvent, State};
use crate::tcp::time_wait::Waiting;
use crate::tcp::{Local, Tcp};
use crate::time::Instant;

/// A segment that belongs to no connection, and what goes with it.
#[derive(Copy, Clone)]
pub(in crate::tcp) struct Arrived<'a> {
    pub now: Instant,
    pub flow: Flow,
    /// `flow`'s, in the tables of connections and of those in TIME-WAIT.
    pub hash: u32,
    pub seg: &'a Segment<'a>,
    pub local: Local,
}

/// Whether an acknowledgement brings a cookie of ours back.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
enum Redeemed {
    /// It does, and has been seen to.
    Yes,
    /// It brings none that is right.
    Wrong,
    /// None is expected.
    No,
}

impl Connection {
    /// A peer opens it, and the handshake is not complete: it counts against its listener's backlog.
    pub(in crate::tcp) fn is_half_open(&self) -> bool {
        self.state == State::SynReceived && !self.active
    }
}

impl Tcp {
    /// RFC 9293 §3.10.7.2: a listener, or nobody. Returns through counters, replies and events.
    ///
    /// `after` is the last sequence number of a connection in TIME-WAIT whose place a new one takes:
    /// the new one's begin beyond it (RFC 1122 §4.2.2.13).
    pub(in crate::tcp) fn in_listen(
        &mut self,
        arrived: Arrived<'_>,
        after: Option<SeqNumber>,
        counters: &mut Counters,
    ) {
        let Arrived { now, flow, seg, .. } = arrived;
        if self.among_others && !seg.opens() {
            return self.leave_to_others(arrived, counters);
        }
        // First: a reset is for nothing that exists.
        if seg.has(TcpFlags::RST) {
            counters.drop_tcp_no_connection += 1;
            return;
        }
        let at = match self.taker(&flow) {
            Taker::OtherShare => {
                // Another stack has, or makes, the connection: it is not for us to deny it.
                counters.drop_tcp_other_share += 1;
                return;
            }
            Taker::Listener(at) => at,
            Taker::Nobody => return self.stray(now, flow, seg, counters),
        };
        // Second: an ACK is of no connection, unless it brings one that we have not kept.
        if seg.has(TcpFlags::ACK) {
            return match self.redeem(arrived, at, counters) {
                Redeemed::Yes => {}
                // Data may be the second segment of an honest peer whose first was lost: that comes again, so it
                // is not reset.
                Redeemed::Wrong if !seg.payload.is_empty() => {}
                Redeemed::Wrong | Redeemed::No => self.stray(now, flow, seg, counters),
            };
        }
        // Third: a SYN opens a connection. Fourth: what has neither is dropped.
        if !seg.has(TcpFlags::SYN) {
            counters.drop_tcp_no_connection += 1;
            return;
        }
        if seg.has(TcpFlags::FIN) {
            // Nobody opens and finishes in one: scanners do, and are not answered, as in Linux.
            counters.drop_tcp_syn_fin += 1;
            return;
        }
        self.in_listen_syn(arrived, at, after, counters);
    }

    /// Of several stacks with one address this is not the one that knows the connection, unless the segment brings a
    /// cookie back.
    fn leave_to_others(&mut self, arrived: Arrived<'_>, counters: &mut Counters) {
        let acknowledges = arrived.seg.has(TcpFlags::ACK) && !arrived.seg.has(TcpFlags::RST);
        let redeemed = match self.taker(&arrived.flow) {
            Taker::Listener(at) if acknowledges => self.redeem(arrived, at, counters),
            _ => Redeemed::No,
        };
        if redeemed != Redeemed::Yes {
            self.unknown = true;
        }
    }

    /// What belongs to nobody is reset (RFC 9293 §3.10.7.1), at a bounded rate.
    fn stray(&mut self, now: Instant, flow: Flow, seg: &Segment<'_>, counters: &mut Counters) {
        counters.drop_tcp_no_connection += 1;
        self.replies
            .push(Reply::reset_for(flow, seg), now, counters);
    }

    /// A SYN to the listener in place `at`.
    fn in_listen_syn(
        &mut self,
        arrived: Arrived<'_>,
        at: usize,
        after: Option<SeqNumber>,
        counters: &mut Counters,
    ) {
        let Arrived { now, seg, .. } = arrived;
        if self.index.len() >= self.connections_max {
            counters.drop_tcp_connections_full += 1;
            return;
        }
        if self.memory.pressure() == Pressure::Full {
            counters.drop_tcp_memory_syn += 1;
            return;
        }
        let listener = &self.listeners[at];
        let full = listener.half_open >= listener.options.backlog;
        let cookies = listener.options.syn_cookies;
        match cookies {
            SynCookies::WhenFull if full => return self.answer_with_cookie(arrived, at, counters),
            SynCookies::Always => return self.answer_with_cookie(arrived, at, counters),
            SynCookies::Never if full && !self.make_room(now, at, counters) => {
                counters.drop_tcp_backlog_full += 1;
                return;
            }
            SynCookies::WhenFull | SynCookies::Never => {}
        }
        let mut connection = self.embryo(arrived, at, |iss| match after {
            Some(last) if iss.le(last) => last + ISS_BEYOND,
            _ => iss,
        });
        connection.learn_from_syn(now, seg.seq, seg.window, &seg.options);
        connection.learn_ecn_from_syn(seg.asks_for_ecn());
        self.recycled.reuse(&mut connection);
        let id = self.insert(connection, arrived.hash);
        self.remember_begun(now, at, id);
        self.settle(id);
    }

    /// A connection in SYN-RECEIVED of the listener in place `at`, in no table yet. `iss` may choose
    /// another initial sequence number than the one proposed to it.
    #[inline(always)]
    fn embryo(
        &self,
        arrived: Arrived<'_>,
        at: usize,
        iss: impl FnOnce(SeqNumber) -> SeqNumber,
    ) -> Connection {
        let listener = &self.listeners[at];
        let mut opening = self.opening(arrived.now, arrived.flow, arrived.local);
        opening.iss = iss(opening.iss);
        let mut connection = Connection::accept(opening, &listener.options.connection);
        connection.listener = Some(listener.id);
        connection
    }

    /// Answer a SYN without keeping anything: one segment for one.
    ///
    /// The SYN-ACK is that of the connection which this would have been, so that a peer cannot tell.
    fn answer_with_cookie(&mut self, arrived: Arrived<'_>, at: usize, counters: &mut Counters) {
        let Arrived {
            now,
            flow,
            seg,
            local,
            ..
        } = arrived;
        if !self.cookie_rate.take(now) {
            counters.drop_tcp_backlog_full += 1;
            return;
        }
        let kept = Kept::of(&seg.options, seg.asks_for_ecn(), local.mss_default(&flow));
        let iss = kept.sequence(&self.key, now, &flow, seg.seq);
        let mut embryo = self.embryo(arrived, at, |_| iss);
        embryo.learn_from_syn(now, seg.seq, seg.window, &kept.options);
        embryo.learn_ecn_from_syn(kept.ecn);
        let mut syn_ack = Outgoing::NONE;
        let sends = embryo.poll_segment(now, Burst::Bytes(0), &mut syn_ack);
        assert!(sends, "a new half-open connection sends its SYN-ACK");
        let mut options = syn_ack.options;
        if let Some(t) = &mut options.timestamps {
            t.value = kept.timestamp(t.value);
        }
        self.listeners[at].cookie_at = Some(now);
        counters.tcp_syn_cookies_sent += 1;
        let reply = Reply {
            flow,
            seq: syn_ack.seq,
            ack: syn_ack.ack,
            flags: syn_ack.flags,
            window: syn_ack.window,
            options,
        };
        self.replies.push_due(reply, counters);
    }

    /// An ACK to a listener: false when it is a stray to be reset, else it has been seen to.
    fn redeem(&mut self, arrived: Arrived<'_>, at: usize, counters: &mut Counters) -> Redeemed {
        let Arrived { now, flow, seg, .. } = arrived;
        if seg.has(TcpFlags::SYN) || !self.listeners[at].expects_cookies(now) {
            return Redeemed::No;
        }
        let Some(kept) = Kept::redeem(&self.key, now, &flow, seg) else {
            counters.drop_tcp_cookie += 1;
            return Redeemed::Wrong;
        };
        if self.index.len() >= self.connections_max {
            counters.drop_tcp_connections_full += 1;
            return Redeemed::Yes;
        }
        let mut connection = self.embryo(arrived, at, |_| seg.ack - 1);
        connection.learn_from_syn(now, seg.seq - 1, seg.window, &kept.options);
        connection.learn_ecn_from_syn(kept.ecn);
        connection.sender.syn_ack_has_left();
        counters.tcp_syn_cookies_accepted += 1;
        let id = self.insert(connection, arrived.hash);
        // Half open only until the next line.
        self.listeners[at].half_open += 1;
        self.deliver(now, id, seg, counters);
        Redeemed::Yes
    }

    /// True when a half-open connection whose timer has run out is to make room instead of asking
    /// again: its listener has handed out cookies in the meantime, and answers another SYN of that peer
    /// with one too.
    pub(in crate::tcp) fn half_open_is_in_the_way(&self, now: Instant, c: &Connection) -> bool {
        self.listeners
            .iter()
            .find(|l| Some(l.id) == c.listener)
            .and_then(|l| l.cookie_at)
            .is_some_and(|at| now - at < RTO_INITIAL)
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

    /// RFC 9293 §3.10.7.4 for TIME-WAIT; false when a new connection may begin (RFC 6191 §2).
    pub(in crate::tcp) fn in_time_wait(
        &mut self,
        arrived: Arrived<'_>,
        counters: &mut Counters,
    ) -> bool {
        let Arrived {
            now,
            flow,
            hash,
            seg,
            ..
        } = arrived;
        let Some(&waiting) = self.time_wait.get(hash, &flow) else {
            return false;
        };
        if seg.has(TcpFlags::RST) {
            // RFC 1337: a reset does not cut the wait short.
            counters.drop_tcp_out_of_window += 1;
            return true;
        }
        let opens = seg.has(TcpFlags::SYN) && !seg.has(TcpFlags::ACK) && !seg.has(TcpFlags::FIN);
        if opens {
            let newer = match (waiting.ts_recent, seg.options.timestamps) {
                (Some(old), Some(new)) if new.value != old => {
                    (new.value.wrapping_sub(old) as i32) > 0
                }
                _ => seg.seq.gt(waiting.rcv_nxt),
            };
            if newer {
                counters.tcp_time_wait_reused += 1;
                self.time_wait.remove(hash, &flow);
                self.in_listen(arrived, Some(waiting.snd_nxt), counters);
                return true;
            }
        }
        if seg.ack != waiting.snd_nxt && self.opens_anew(now, &flow, seg) {
            counters.tcp_time_wait_reused += 1;
            self.time_wait.remove(hash, &flow);
            self.in_listen(arrived, None, counters);
            return true;
        }
        let fin_again = seg.has(TcpFlags::FIN)
            && !seg.has(TcpFlags::SYN)
            && seg.seq + seg.len() == waiting.rcv_nxt;
        // Data that it repeats before its FIN says the same: our last acknowledgement was lost.
        let data_again =
            !seg.payload.is_empty() && seg.end().le(waiting.rcv_nxt) && seg.ack == waiting.snd_nxt;
        if fin_again || data_again {
            self.time_wait.restart(now, hash, &flow);
        } else if seg.is_empty() && seg.seq == waiting.rcv_nxt && !seg.has(TcpFlags::SYN) {
            // The last acknowledgement, or one again: nothing to say.
            return true;
        }
        let reply = time_wait_ack(now, &waiting);
        if fin_again {
            // Its last acknowledgement from us was lost.
            self.replies.push_due(reply, counters);
        } else {
            self.replies.push(reply, now, counters);
        }
        true
    }

    /// Both sides are finished: what must still be remembered moves to the TIME-WAIT table.
    pub(in crate::tcp) fn start_time_wait(
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
            snd_nxt: c.sender.next(),
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
        let owed =
            receiver.owed() != Owed::Nothing || receiver.last_ack_sent() != receiver.rcv_nxt();
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
}

/// What a connection in TIME-WAIT answers.
fn time_wait_ack(now: Instant, waiting: &Waiting) -> Reply {
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
