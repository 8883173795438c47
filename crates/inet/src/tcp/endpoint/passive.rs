//! What others begin: SYNs to listeners, and cookies that come back.
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
use exos_wire::tcp::TcpFlags;

use crate::counters::Counters;
use crate::limits::ISS_BEYOND;
use crate::tcp::connection::Connection;
use crate::tcp::endpoint::tcp::Tcp;
use crate::tcp::opening::cookie::Kept;
use crate::tcp::opening::listeners::{SynCookies, Taker};
use crate::tcp::shared::memory::Pressure;
use crate::tcp::shared::reply::Reply;
use crate::tcp::values::event::Reason;
use crate::tcp::values::flow::Flow;
use crate::tcp::values::id::ConnectionId;
use crate::tcp::values::local::Local;
use crate::tcp::values::outgoing::{Burst, Outgoing};
use crate::tcp::values::segment::Segment;
use crate::tcp::values::state::Event as StateEvent;
use crate::time::Instant;

/// A segment that belongs to no connection, and what goes with it.
#[derive(Copy, Clone)]
pub(super) struct Arrived<'a> {
    pub now: Instant,
    pub flow: Flow,
    /// `flow`'s, in the tables of connections and of those in TIME-WAIT.
    pub hash: u32,
    pub seg: &'a Segment<'a>,
    pub local: Local,
}

/// Whether an acknowledgement brings a cookie of ours back.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(super) enum Redeemed {
    /// It does, and this connection has been made of it.
    Made(ConnectionId),
    /// It does, and there is no room for a connection.
    Full,
    /// It brings none that is right, but may come behind one that does.
    Wrong,
    /// It asks whether a connection stands that a cookie keeps, and has been told so.
    Probe,
    /// None is expected, or it cannot come behind one that is good.
    No,
}

impl Tcp {
    /// RFC 9293 §3.10.7.2: a listener, or nobody. Returns through counters, replies and events; gives the connection that a
    /// cookie has brought back, to which the segment is to be given.
    ///
    /// `after` is the last sequence number of a connection in TIME-WAIT whose place a new one takes:
    /// the new one's begin beyond it (RFC 1122 §4.2.2.13).
    pub(super) fn in_listen(
        &mut self,
        arrived: Arrived<'_>,
        after: Option<SeqNumber>,
        counters: &mut Counters,
    ) -> Option<ConnectionId> {
        let Arrived { now, flow, seg, .. } = arrived;
        if self.addresses_shared && !seg.opens() {
            return self.leave_to_others(arrived, counters);
        }
        // First: a reset is for nothing that exists.
        if seg.has(TcpFlags::RST) {
            counters.drop_tcp_no_connection += 1;
            return None;
        }
        let at = match self.listeners.taker(&flow) {
            Taker::OtherShare => {
                // Another stack has, or makes, the connection: it is not for us to deny it.
                counters.drop_tcp_other_share += 1;
                return None;
            }
            Taker::Listener(at) => at,
            Taker::Nobody => {
                self.stray(now, flow, seg, counters);
                return None;
            }
        };
        // Second: an ACK is of no connection, unless it brings one that we have not kept.
        if seg.has(TcpFlags::ACK) {
            match self.redeem(arrived, at, counters) {
                Redeemed::Made(id) => return Some(id),
                Redeemed::Full | Redeemed::Probe => {}
                // Data may be the second segment of an honest peer whose first was lost: that comes again, so it
                // is not reset.
                Redeemed::Wrong if !seg.payload.is_empty() => {}
                Redeemed::Wrong | Redeemed::No => self.stray(now, flow, seg, counters),
            }
            return None;
        }
        // Third: a SYN opens a connection. Fourth: what has neither is dropped.
        if !seg.has(TcpFlags::SYN) {
            counters.drop_tcp_no_connection += 1;
            return None;
        }
        if seg.has(TcpFlags::FIN) {
            // Nobody opens and finishes in one: scanners do, and are not answered, as in Linux.
            counters.drop_tcp_syn_fin += 1;
            return None;
        }
        self.in_listen_syn(arrived, at, after, counters);
        None
    }

    /// Of several stacks with one address this is not the one that knows the connection, unless the segment brings a
    /// cookie back. Where cookies are given out all the time, it may be one that has made the connection in another stack: then
    /// it begins one once the others have said that they have none.
    fn leave_to_others(
        &mut self,
        arrived: Arrived<'_>,
        counters: &mut Counters,
    ) -> Option<ConnectionId> {
        let acknowledges = arrived.seg.has(TcpFlags::ACK) && !arrived.seg.has(TcpFlags::RST);
        let redeemed = match self.listeners.taker(&arrived.flow) {
            Taker::Listener(at) if acknowledges && !self.offloads_syns => {
                self.redeem(arrived, at, counters)
            }
            _ => Redeemed::No,
        };
        match redeemed {
            Redeemed::Made(id) => return Some(id),
            Redeemed::Full | Redeemed::Probe => {}
            Redeemed::Wrong | Redeemed::No => {
                let Arrived { now, flow, seg, .. } = arrived;
                self.begins = self.opens_anew(now, &flow, seg).then_some(flow);
                self.belongs_elsewhere = true;
            }
        }
        None
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
        if !self.has_room() {
            counters.drop_tcp_connections_full += 1;
            return;
        }
        if self.memory.pressure() == Pressure::Full {
            counters.drop_tcp_memory_syn += 1;
            return;
        }
        let listener = self.listeners.at(at);
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
        let (listener, slab) = (self.listeners.at_mut(at), &self.slab);
        listener.remember_begun(now, id, |id| slab.is_half_open(id));
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
        let listener = self.listeners.at(at);
        let mut opening = self.opening(arrived.now, arrived.flow, arrived.local);
        opening.iss = iss(opening.iss);
        Connection::accept(opening, &listener.options.connection, listener.id)
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
        self.listeners.at_mut(at).cookie_at = Some(now);
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

    /// An ACK to a listener: whether it brings a cookie back.
    fn redeem(&mut self, arrived: Arrived<'_>, at: usize, counters: &mut Counters) -> Redeemed {
        let Arrived { now, flow, seg, .. } = arrived;
        if seg.has(TcpFlags::SYN) || !self.listeners.at(at).expects_cookies(now) {
            return Redeemed::No;
        }
        let Some(kept) = Kept::redeem(&self.key, now, &flow, seg) else {
            if self.listeners.at(at).offloaded && self.is_told_it_stands(arrived, at, counters) {
                return Redeemed::Probe;
            }
            counters.drop_tcp_cookie += 1;
            return match Kept::may_follow(now, seg) {
                true => Redeemed::Wrong,
                false => Redeemed::No,
            };
        };
        let redeemed = self.make(arrived, at, &kept, counters);
        counters.tcp_syn_cookies_accepted += u64::from(matches!(redeemed, Redeemed::Made(_)));
        redeemed
    }

    /// A peer that has nothing to say yet may ask whether its connection stands (RFC 1122 §4.2.3.6). Where somebody else
    /// answers SYNs, and the handshake's acknowledgement was lost, or refused for want of room, nobody knows the connection: it
    /// stands as long as its cookie is good, and the answer is that of the connection which it would be. False for any other segment.
    fn is_told_it_stands(
        &mut self,
        arrived: Arrived<'_>,
        at: usize,
        counters: &mut Counters,
    ) -> bool {
        let Arrived { now, flow, seg, .. } = arrived;
        if seg.has(TcpFlags::FIN) || seg.payload.len() > 1 {
            return false;
        }
        let next = Segment {
            seq: seg.seq + 1,
            payload: &[],
            ..seg.clone()
        };
        let Some(kept) = Kept::redeem(&self.key, now, &flow, &next) else {
            return false;
        };
        let mut embryo = self.embryo(arrived, at, |_| seg.ack - 1);
        embryo.learn_from_syn(now, seg.seq, seg.window, &kept.options);
        embryo.sender.syn_ack_has_left();
        let mut reply = embryo.bare(now);
        if let Some(t) = &mut reply.options.timestamps {
            t.value = kept.timestamp(t.value);
        }
        self.replies.push(reply, now, counters);
        true
    }

    /// A connection of the listener in place `at`, that begins before a segment of what a cookie has kept of it.
    pub(super) fn make(
        &mut self,
        arrived: Arrived<'_>,
        at: usize,
        kept: &Kept,
        counters: &mut Counters,
    ) -> Redeemed {
        let Arrived { now, seg, .. } = arrived;
        if !self.has_room() {
            counters.drop_tcp_connections_full += 1;
            return Redeemed::Full;
        }
        let mut connection = self.embryo(arrived, at, |_| seg.ack - 1);
        connection.learn_from_syn(now, seg.seq - 1, seg.window, &kept.options);
        connection.learn_ecn_from_syn(kept.ecn);
        connection.sender.syn_ack_has_left();
        let id = self.insert(connection, arrived.hash);
        // Half open only until it takes the segment in.
        self.listeners.at_mut(at).half_open += 1;
        Redeemed::Made(id)
    }

    /// Give up the oldest half-open connection of a listener with a full backlog; false when it has
    /// not yet had the time to answer ([`HALF_OPEN_GRACE`](crate::limits::HALF_OPEN_GRACE)).
    ///
    /// A flood of SYNs from addresses that never answer then costs honest clients some of their
    /// attempts, not a minute without service until the flood's connections run out of time.
    fn make_room(&mut self, now: Instant, at: usize, counters: &mut Counters) -> bool {
        let (slab, listener) = (&self.slab, self.listeners.at_mut(at));
        let Some(id) = listener.take_oldest(now, |id| slab.is_half_open(id)) else {
            return false;
        };
        counters.tcp_half_open_replaced += 1;
        if let Some(c) = self.slab.get_mut(id) {
            c.follow(StateEvent::GiveUp);
        }
        self.close(id, Reason::TimedOut);
        true
    }
}
