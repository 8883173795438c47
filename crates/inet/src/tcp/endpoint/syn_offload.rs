//! SYNs that somebody else answers for us, with our cookies: a program in the kernel, before packets reach the stack.
//!
//! It has the secret and the [`Recipe`], keeps nothing and asks nothing, so their SYN-ACKs are those that we
//! would have sent with a cookie. We see a connection first when its peer acknowledges one. So a listener whose SYNs
//! are answered elsewhere believes cookies all the time, and one more thing changes: the answer to a SYN cannot depend
//! on what is known of its four-tuple. A peer that uses the four-tuple of a connection again that we still have, in
//! TIME-WAIT or because it never told us of its end, gets a SYN-ACK for a new one. When it brings the cookie back it has
//! proved that it opens again, and the old connection is over (in place of RFC 9293 §3.10.7.4's challenge and RFC
//! 6191's look at the SYN).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use exos_wire::SeqNumber;
use exos_wire::tcp::cookie::{Recipe, SynAck};
use exos_wire::tcp::{TcpFlags, TcpOptions, Timestamps};

use crate::counters::Counters;
use crate::limits::{MSS_DEFAULT_V4, SYN_COOKIE_EPOCH};
use crate::tcp::connection::Connection;
use crate::tcp::endpoint::lookup::SALT_SEQUENCE;
use crate::tcp::endpoint::passive::Arrived;
use crate::tcp::endpoint::tcp::Tcp;
use crate::tcp::opening::cookie::{Kept, SALT_COOKIE};
use crate::tcp::opening::listeners::ListenerId;
use crate::tcp::values::event::Reason;
use crate::tcp::values::flow::Flow;
use crate::tcp::values::id::ConnectionId;
use crate::tcp::values::local::Local;
use crate::tcp::values::outgoing::{Burst, Outgoing};
use crate::tcp::values::segment::Segment;
use crate::time::Instant;

impl Tcp {
    /// Somebody answers SYNs to a listener from now on, with this. `None` where they could not answer as we do: there is
    /// no such listener, or it offers less or more options than MSS, SACK, timestamps and scale. `locals` are what is so over
    /// IPv4, and over IPv6.
    pub(crate) fn offload_syns(
        &mut self,
        now: Instant,
        id: ListenerId,
        locals: [Local; 2],
    ) -> Option<Recipe> {
        let at = self.listeners.position(id)?;
        let port = self.listeners.at(at).port;
        let host = |last| Ipv4Addr::new(192, 0, 2, last);
        let flow = |ours: IpAddr, theirs: IpAddr| {
            Flow::new(SocketAddr::new(ours, port), SocketAddr::new(theirs, 1))
        };
        let v4 = flow(host(1).into(), host(2).into());
        let [ours, theirs] = [1, 2].map(|last| Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, last));
        let v6 = flow(ours.into(), theirs.into());
        let recipe = Recipe {
            port,
            key: self.key.words(),
            cookie_salt: SALT_COOKIE,
            sequence_salt: SALT_SEQUENCE,
            epoch_us: SYN_COOKIE_EPOCH.as_micros() as u32,
            v4: self.usual_syn_ack(now, at, v4, locals[0])?,
            v6: self.usual_syn_ack(now, at, v6, locals[1])?,
        };
        self.listeners.at_mut(at).offloaded = true;
        self.offloads_syns = true;
        Some(recipe)
    }

    /// What the listener in place `at` answers to a SYN with all usual options; `None` if that has not all of them, and no others.
    fn usual_syn_ack(&self, now: Instant, at: usize, flow: Flow, local: Local) -> Option<SynAck> {
        let listener = self.listeners.at(at);
        let options = &listener.options.connection;
        let offered = TcpOptions {
            mss: Some(MSS_DEFAULT_V4),
            window_scale: Some(0),
            sack_permitted: true,
            timestamps: Some(Timestamps { value: 1, echo: 0 }),
            ..TcpOptions::NONE
        };
        let opening = self.opening(now, flow, local);
        let mut embryo = Connection::accept(opening, options, listener.id);
        embryo.learn_from_syn(now, SeqNumber(0), 0, &offered);
        let mut answer = Outgoing::NONE;
        embryo.poll_segment(now, Burst::Bytes(0), &mut answer);
        let scale = answer.options.window_scale?;
        answer.options.timestamps?;
        let usual = TcpOptions {
            mss: Some(local.mss),
            window_scale: Some(scale),
            sack_permitted: true,
            timestamps: answer.options.timestamps,
            ..TcpOptions::NONE
        };
        (answer.options == usual).then_some(SynAck {
            mss: local.mss,
            window: answer.window,
            scale,
            hop_limit: answer.ip.hop_limit,
            class: answer.ip.traffic_class(0),
        })
    }

    /// Nobody does any more; cookies that are under way are good as long as they would have been.
    pub(crate) fn stop_offloading_syns(&mut self, now: Instant, id: ListenerId) {
        if let Some(at) = self.listeners.position(id) {
            let listener = self.listeners.at_mut(at);
            listener.offloaded = false;
            listener.cookie_at = Some(now);
        }
        self.offloads_syns = self.listeners.offload(None);
    }

    /// Whether a segment, of no connection that we know or saying something else than that, brings back a cookie, given out by who answers
    /// for us.
    pub(super) fn opens_anew(&self, now: Instant, flow: &Flow, seg: &Segment<'_>) -> bool {
        let only_acknowledges =
            seg.has(TcpFlags::ACK) && !seg.has(TcpFlags::SYN) && !seg.has(TcpFlags::RST);
        self.offloads_syns
            && only_acknowledges
            && self.listeners.offload(Some(flow.local_port()))
            && Kept::redeem(&self.key, now, flow, seg).is_some()
    }

    /// A segment of a connection that we have, which acknowledges what was never sent on it: where it opens another, the one
    /// that we have is over, and it is to be given to a listener.
    pub(super) fn replaces<'a>(
        &mut self,
        now: Instant,
        id: ConnectionId,
        seg: &'a Segment<'a>,
        counters: &mut Counters,
    ) -> Option<Arrived<'a>> {
        let c = self.slab.get(id)?;
        let is_ours = seg.ack.le(c.sender.queue().max()) && seg.ack.ge(c.sender.queue().una())
            // What it began with, late.
            || seg.seq == c.receiver.irs() + 1;
        let (flow, local) = (
            *c.flow(),
            Local {
                mss: c.receiver.mss_announced(),
            },
        );
        if is_ours || !self.opens_anew(now, &flow, seg) {
            return None;
        }
        let hash = self.slab.hash_at(id.slot());
        counters.tcp_connections_replaced += 1;
        self.close(id, Reason::Reset);
        self.settle(id);
        Some(Arrived {
            now,
            flow,
            hash,
            seg,
            local,
        })
    }
}
