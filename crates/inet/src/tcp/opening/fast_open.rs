//! Fast Open (RFC 7413): data on the SYN, by a cookie that proves an earlier round trip. Off unless
//! asked for, on either side.
//!
//! **A client** ([`Options::fast_open`](crate::tcp::Options::fast_open)) asks for a cookie with its first SYN
//! to a peer and remembers it with the peer's MSS ([`CookieCache`]). Later SYNs bring the cookie, and as
//! much of what was queued before the SYN left as fits. What the SYN-ACK does not acknowledge is sent
//! again at once. A SYN that is sent again goes without cookie and data; if that was what helped, the
//! peer is not tried again for an hour.
//!
//! **A listener** ([`ListenOptions::fast_open`](crate::tcp::ListenOptions::fast_open)) hands out a keyed hash
//! of both addresses and the epoch; cookies of the epoch before are taken, and replaced. With a good one
//! the program has connection and data with the SYN, and its answer leaves before the handshake is
//! complete, up to the initial window. So many such connections may be pending at once; beyond that, and
//! with a bad cookie, the handshake is an ordinary one. One that is reset while pending keeps its
//! place for a minute (RFC 7413 §5.1): an attacker with a cookie of its own and forged resets gains
//! nothing.
//!
//! The program must take the same request twice: a SYN may be duplicated by the network (RFC 7413 §6.1).

use std::collections::VecDeque;
use std::net::IpAddr;

use exos_wire::tcp::{FastOpenCookie, TcpFlags, TcpOptions, options_len};
use hashbrown::HashTable;

use crate::counters::Counters;
use crate::limits::{
    FAST_OPEN_BLOCKED, FAST_OPEN_CACHE_MAX, FAST_OPEN_EPOCH, FAST_OPEN_PENDING_MAX,
    FAST_OPEN_RESET_HOLD, MSS_DEFAULT_V4,
};
use crate::siphash::SipKey;
use crate::tcp::connection::{Connection, NEVER, Owed};
use crate::tcp::event::EventSet;
use crate::tcp::flow::Flow;
use crate::tcp::input::{Context, Outcome, Segment};
use crate::tcp::listener::ListenerId;
use crate::tcp::output::Outgoing;
use crate::tcp::passive::Arrived;
use crate::tcp::slab::ConnectionId;
use crate::tcp::state::State;
use crate::tcp::{Reason, Tcp};
use crate::time::Instant;

/// How a listener takes data on SYNs.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub struct FastOpen {
    /// Connections at once that have data but no complete handshake (RFC 7413 §5.1,
    /// PendingFastOpenRequests).
    pub pending_max: usize,
    /// What the cookies are made with: the same for all stacks that share an address, since a client's
    /// next connection may come to another. `None` takes the stack's own secret.
    pub secret: Option<u64>,
}

impl Default for FastOpen {
    fn default() -> Self {
        Self {
            pending_max: FAST_OPEN_PENDING_MAX,
            secret: None,
        }
    }
}

// Cookies of a listener.

/// Salt of their hash.
const SALT_FAST_OPEN: u32 = 19;

fn cookie(key: &SipKey, epoch: u64, flow: &Flow) -> FastOpenCookie {
    let hash = flow.hash_hosts(key, SALT_FAST_OPEN, epoch);
    FastOpenCookie::new(&hash.to_be_bytes()).expect("eight bytes are a cookie's length")
}

/// What a listener makes of the option on a SYN.
struct Judged {
    good: bool,
    /// To be sent with the SYN-ACK.
    offer: Option<FastOpenCookie>,
}

fn judge(key: &SipKey, now: Instant, flow: &Flow, presented: FastOpenCookie) -> Judged {
    let epoch = now.micros() / FAST_OPEN_EPOCH.as_micros() as u64;
    let current = cookie(key, epoch, flow);
    let last = epoch.checked_sub(1).map(|e| cookie(key, e, flow));
    Judged {
        good: presented == current || Some(presented) == last,
        offer: (presented != current).then_some(current),
    }
}

/// A listener's connections that have data but no complete handshake.
#[derive(Debug, Default)]
pub(in crate::tcp) struct Pending {
    count: usize,
    /// Until when those that were reset count too.
    held: VecDeque<Instant>,
}

impl Pending {
    fn len(&mut self, now: Instant) -> usize {
        while self.held.front().is_some_and(|&until| until <= now) {
            self.held.pop_front();
        }
        self.count + self.held.len()
    }
}

// A client's cookies.

/// What a client knows of a peer.
#[derive(Copy, Clone, Debug)]
struct Known {
    peer: IpAddr,
    cookie: Option<FastOpenCookie>,
    mss: u16,
    /// Not to be tried until then.
    blocked_until: Instant,
}

/// Cookies of peers, and peers that are not to be tried; the oldest goes first.
pub(in crate::tcp) struct CookieCache {
    entries: HashTable<Known>,
    order: VecDeque<IpAddr>,
    key: SipKey,
}

fn hash_of(key: &SipKey, peer: IpAddr) -> u64 {
    let octets = match peer {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    };
    let n = u128::from_be_bytes(octets);
    key.hash(&[(n >> 64) as u64, n as u64])
}

impl CookieCache {
    pub fn new(key: SipKey) -> Self {
        Self {
            entries: HashTable::new(),
            order: VecDeque::new(),
            key,
        }
    }

    fn get(&self, peer: IpAddr) -> Option<&Known> {
        let hash = hash_of(&self.key, peer);
        self.entries.find(hash, |k| k.peer == peer)
    }

    fn put(&mut self, known: Known) {
        let (hash, key) = (hash_of(&self.key, known.peer), self.key);
        if let Some(found) = self.entries.find_mut(hash, |k| k.peer == known.peer) {
            *found = known;
            return;
        }
        if self.order.len() >= FAST_OPEN_CACHE_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            let hash = hash_of(&key, oldest);
            if let Ok(found) = self.entries.find_entry(hash, |k| k.peer == oldest) {
                found.remove();
            }
        }
        self.entries
            .insert_unique(hash, known, |k| hash_of(&key, k.peer));
        self.order.push_back(known.peer);
    }
}

// Of one connection.

/// What a connection does with the option: while it is being opened.
#[derive(Clone, Debug, Default)]
pub(in crate::tcp) struct Early {
    /// Sent with the first SYN or SYN-ACK.
    option: Option<FastOpenCookie>,
    /// The peer's MSS as remembered: what bounds a client's first data.
    mss: u16,
    /// A client's: what the peer answered.
    answer: Option<Answer>,
}

#[derive(Copy, Clone, Debug)]
struct Answer {
    cookie: Option<FastOpenCookie>,
    mss: u16,
    /// It took a SYN without the option.
    only_without: bool,
}

impl Connection {
    /// The option for the first SYN or SYN-ACK.
    pub(in crate::tcp) fn fast_open_option(&self) -> Option<FastOpenCookie> {
        self.rare.as_deref()?.early.option
    }

    /// Forty bytes are all there is for options: the longest cookie leaves no room for a wish.
    pub(in crate::tcp) fn make_room_for_cookie(&self, options: &mut TcpOptions) {
        if options_len(options) > 40 {
            options.user_timeout = None;
        }
    }

    /// How much of the queue a SYN with `options` takes along.
    pub(in crate::tcp) fn data_on_syn(&self, options: &TcpOptions) -> usize {
        if options.fast_open.is_none_or(|c| c.is_request()) {
            return 0;
        }
        let most = self.rare.as_deref().map_or(0, |r| r.early.mss);
        let room = usize::from(most.min(self.mss_announced)).saturating_sub(options_len(options));
        self.send.len().min(room)
    }

    /// A client's SYN was answered, with the acknowledgement number `seg.ack`. What it took of the data
    /// is done with, the rest counts as not sent.
    pub(in crate::tcp) fn fast_open_answered(
        &mut self,
        seg: &Segment<'_>,
        retried: bool,
        cx: &mut Context<'_>,
    ) {
        let Some(rare) = &mut self.rare else { return };
        if rare.early.option.is_none() {
            return;
        }
        rare.early.answer = Some(Answer {
            cookie: seg.options.fast_open.filter(|c| !c.is_request()),
            mss: seg.options.mss.unwrap_or(MSS_DEFAULT_V4),
            only_without: retried,
        });
        if self.snd_max.gt(self.snd_una) {
            if seg.ack.gt(self.snd_una) {
                cx.counters.tcp_fast_open_taken += 1;
                self.advance_una(seg.ack);
            } else {
                cx.counters.tcp_fast_open_not_taken += 1;
            }
            (self.snd_max, self.snd_nxt) = (self.snd_una, self.snd_una);
        }
    }

    /// A listener's connection with a good cookie: it has its data now, and may answer.
    fn begin_early(&mut self, seg: &Segment<'_>, cx: &mut Context<'_>) {
        self.early = true;
        let text = Segment {
            seq: seg.seq + 1,
            flags: TcpFlags(seg.flags.0 & !TcpFlags::SYN.0),
            ..seg.clone()
        };
        self.handle_text(&text, cx);
        self.tell(EventSet::ACCEPTED);
    }

    /// The SYN-ACK of such a connection acknowledges the data too.
    pub(in crate::tcp) fn syn_ack_pays(&mut self) {
        self.last_ack_sent = self.rcv_nxt;
        (self.ack_owed, self.ack_at) = (Owed::Nothing, NEVER);
    }

    /// Data before the handshake is complete: an initial window at most.
    pub(in crate::tcp) fn poll_early(&mut self, now: Instant) -> Option<Outgoing> {
        if !self.early || self.snd_nxt == self.iss {
            return None;
        }
        let sent = (self.snd_max - self.data_start()).max(0) as u32;
        let window = self.snd_wnd.min(self.congestion.window());
        let available = (self.send_end() - self.snd_max).max(0) as u32;
        let len = available
            .min(window.saturating_sub(sent))
            .min(u32::from(self.mss));
        if len == 0 {
            return None;
        }
        // The SYN-ACK's acknowledgement comes with that of the data, or after it.
        self.syn_again = true;
        let range = sent as usize..(sent + len) as usize;
        Some(self.segment(now, self.snd_max, range, false))
    }
}

// Of the stack.

impl Tcp {
    /// A connection is being opened that would like to send with its SYN.
    pub(in crate::tcp) fn prepare_fast_open(&self, now: Instant, c: &mut Connection) {
        let known = self.cookies.get(c.flow().remote().ip()).copied();
        if known.is_some_and(|k| now < k.blocked_until) {
            return;
        }
        let early = &mut c.rare_mut().early;
        early.option = Some(FastOpenCookie::REQUEST);
        if let Some(known) = known
            && let Some(cookie) = known.cookie
        {
            (early.option, early.mss) = (Some(cookie), known.mss);
        }
    }

    /// A SYN of ours was answered, or may have been: remember what there is to know of the peer.
    pub(in crate::tcp) fn conclude_fast_open(&mut self, now: Instant, id: ConnectionId) {
        let Some(c) = self.slab.get_mut(id).filter(|c| c.rare.is_some()) else {
            return;
        };
        let peer = c.flow().remote().ip();
        let Some(answer) = c.rare_mut().early.answer.take() else {
            return;
        };
        c.rare_mut().early.option = None;
        if answer.only_without {
            self.cookies.put(Known {
                peer,
                cookie: None,
                mss: answer.mss,
                blocked_until: now + FAST_OPEN_BLOCKED,
            });
        } else if answer.cookie.is_some() {
            self.cookies.put(Known {
                peer,
                cookie: answer.cookie,
                mss: answer.mss,
                blocked_until: Instant::START,
            });
        }
    }

    /// The option on a SYN to the listener in place `at`, whose connection is about to be made.
    pub(in crate::tcp) fn fast_open(
        &mut self,
        arrived: Arrived<'_>,
        at: usize,
        connection: &mut Connection,
        counters: &mut Counters,
    ) {
        let Arrived { now, flow, seg, .. } = arrived;
        let listener = &mut self.listeners[at];
        let (Some(setup), Some(presented)) = (listener.options.fast_open, seg.options.fast_open)
        else {
            return;
        };
        let key = setup.secret.map_or(self.key, SipKey::from_seed);
        let judged = judge(&key, now, &flow, presented);
        if judged.offer.is_some() {
            connection.rare_mut().early.option = judged.offer;
        }
        if !judged.good {
            counters.tcp_fast_open_bad_cookie += u64::from(!presented.is_request());
            return;
        }
        if listener.pending.len(now) >= setup.pending_max {
            counters.tcp_fast_open_full += 1;
            return;
        }
        listener.pending.count += 1;
        counters.tcp_fast_open_accepted += 1;
        let mut cx = Context {
            now,
            counters,
            replies: &mut self.replies,
            memory: &mut self.memory,
        };
        connection.begin_early(seg, &mut cx);
    }

    /// A connection with data but no complete handshake stands, or is over.
    pub(in crate::tcp) fn early_ended(
        &mut self,
        now: Instant,
        id: Option<ListenerId>,
        outcome: Outcome,
    ) {
        if let Some(l) = self.listeners.iter_mut().find(|l| Some(l.id) == id) {
            l.pending.count -= 1;
            if outcome == Outcome::Close(Reason::Reset) {
                l.pending.held.push_back(now + FAST_OPEN_RESET_HOLD);
            }
        }
    }
}

/// Where a half-open connection stood before an event.
#[derive(Copy, Clone)]
pub(in crate::tcp) struct Before {
    pub half_open: bool,
    pub early: bool,
    pub opening: bool,
    pub listener: Option<ListenerId>,
}

impl Before {
    pub fn of(c: &Connection) -> Self {
        let state = c.state();
        Self {
            half_open: state == State::SynReceived && !c.active,
            early: c.early,
            opening: state == State::SynSent,
            listener: c.listener,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Duration;

    fn flow(host: u8, port: u16) -> Flow {
        let remote = std::net::SocketAddr::new([10, 0, 0, host].into(), port);
        Flow::new("10.0.0.1:80".parse().unwrap(), remote)
    }

    /// Good in its epoch and, with a new one in exchange, in the next; from any port of its host.
    #[test]
    fn cookies_age() {
        let key = SipKey::from_seed(1);
        let at = |epochs: u32| Instant::START + FAST_OPEN_EPOCH.saturating_mul(epochs);
        let first = judge(&key, at(5), &flow(2, 1), FastOpenCookie::REQUEST);
        assert!(!first.good);
        let cookie = first.offer.unwrap();
        let verdict = |when, flow: Flow| {
            let judged = judge(&key, when, &flow, cookie);
            (judged.good, judged.offer.is_some())
        };
        assert_eq!(verdict(at(5), flow(2, 99)), (true, false));
        assert_eq!(verdict(at(6), flow(2, 1)), (true, true));
        assert_eq!(verdict(at(7), flow(2, 1)), (false, true));
        assert_eq!(verdict(at(5), flow(3, 1)), (false, true));
        let other = judge(&SipKey::from_seed(2), at(5), &flow(2, 1), cookie);
        assert!(!other.good);
    }

    #[test]
    fn the_cache_is_bounded_and_forgets_the_oldest() {
        let mut cache = CookieCache::new(SipKey::from_seed(1));
        let peer = |n: u32| IpAddr::from(std::net::Ipv4Addr::from(n));
        let known = |n| Known {
            peer: peer(n),
            cookie: FastOpenCookie::new(&[n as u8; 8]),
            mss: 1460,
            blocked_until: Instant::START,
        };
        let many = FAST_OPEN_CACHE_MAX as u32;
        (0..many + 5).for_each(|n| cache.put(known(n)));
        cache.put(known(many));
        assert_eq!(
            (cache.entries.len(), cache.order.len()),
            (many as usize, many as usize)
        );
        assert!(cache.get(peer(4)).is_none() && cache.get(peer(5)).is_some());
    }

    #[test]
    fn those_that_were_reset_count_for_a_while() {
        let mut pending = Pending::default();
        pending
            .held
            .push_back(Instant::START + Duration::from_secs(60));
        pending.count = 2;
        assert_eq!(pending.len(Instant::START), 3);
        assert_eq!(pending.len(Instant::START + Duration::from_secs(60)), 2);
    }
}
