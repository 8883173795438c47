//! Listeners: who takes connections to a port, how many may be half open, and which share of them.
//!
//! **Sharing.** Several listeners may stand on one address and port when each takes its own share of
//! the flows, told by a keyed hash of the four-tuple ([`Share`]). They may be in one stack, or one in
//! each of several stacks (one per core) to which the same packets come, or whichever packets a device
//! spreads by a hash of its own. Stacks share nothing: one that sees a segment of another's share
//! neither takes nor resets it. Where a device brings each flow to one stack only, no share is needed.
//!
//! **A full backlog.** See `passive` for what happens then; a listener remembers when it was full last,
//! for SYN cookies are believed only after that.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU32;

use crate::limits::{BACKLOG, HALF_OPEN_GRACE, RTO_INITIAL, SYN_COOKIE_EPOCH};
use crate::siphash::SipKey;
use crate::tcp::values::event::OpenError;
use crate::tcp::values::flow::Flow;
use crate::tcp::values::id::ConnectionId;
use crate::tcp::values::options::Options;
use crate::time::Instant;

/// A listener's identity.
#[derive(Copy, Clone, Debug, Eq, PartialEq, Hash)]
pub struct ListenerId(NonZeroU32);

/// When SYNs are answered with a cookie instead of a half-open connection (RFC 4987 §3.6).
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq)]
pub enum SynCookies {
    /// While the backlog is full.
    #[default]
    WhenFull,
    /// Never: with a full backlog the oldest half-open connection makes room, when it has had its
    /// time ([`HALF_OPEN_GRACE`]).
    Never,
    /// Always: nothing is kept before the handshake is complete.
    Always,
}

/// Which of the flows to an address and port a listener takes.
///
/// All listeners that share an address and port have the same `of` and `key`, and an `index` each.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub struct Share {
    /// This listener's number, below `of`.
    pub index: u32,
    /// How many share.
    pub of: u32,
    /// The hash's key; secret where peers must not choose which stack they burden.
    pub key: u64,
}

impl Share {
    /// The share that a flow between `local`, the listener's end, and `remote` belongs to: for those
    /// who bring packets to stacks.
    pub fn index_of(&self, local: SocketAddr, remote: SocketAddr) -> u32 {
        self.index_of_flow(&Flow::new(local, remote))
    }

    fn index_of_flow(&self, flow: &Flow) -> u32 {
        let hash = flow.hash(&SipKey::from_seed(self.key), SALT_SHARE);
        // The upper half, scaled to the number of shares.
        (((hash >> 32) * u64::from(self.of)) >> 32) as u32
    }

    fn is_beside(&self, other: &Self) -> bool {
        (self.of, self.key) == (other.of, other.key) && self.index != other.index
    }
}

/// Salt of the hash that shares are told by.
const SALT_SHARE: u32 = 17;

/// What a listener takes.
#[derive(Clone, Debug)]
pub struct ListenOptions {
    /// For the connections that it makes.
    pub connection: Options,
    /// Half-open connections at once.
    pub backlog: usize,
    /// What to do when there are so many.
    pub syn_cookies: SynCookies,
    /// Only these of the flows; `None` takes all.
    pub share: Option<Share>,
    /// Of a listener on every address: none of IPv4 (`IPV6_V6ONLY`).
    pub v6_only: bool,
}

impl Default for ListenOptions {
    fn default() -> Self {
        Self {
            connection: Options::default(),
            backlog: BACKLOG,
            syn_cookies: SynCookies::default(),
            share: None,
            v6_only: false,
        }
    }
}

/// Who takes connections to a port.
pub(in crate::tcp) struct Listener {
    pub id: ListenerId,
    /// `None` listens on every address of the stack.
    address: Option<IpAddr>,
    pub port: u16,
    pub options: ListenOptions,
    pub half_open: usize,
    /// When each half-open connection began, oldest first. Those that have ended since stay in it
    /// until they come to its front, or are so many that they are thrown out.
    begun: VecDeque<(Instant, ConnectionId)>,
    /// When a cookie was handed out last.
    pub cookie_at: Option<Instant>,
    /// Somebody else answers its SYNs, with cookies.
    pub offloaded: bool,
}

impl Listener {
    /// Where it listens; `None` for all addresses.
    pub fn address(&self) -> Option<IpAddr> {
        self.address
    }

    /// Whether connections to `to` are this listener's, shares apart.
    fn takes(&self, to: SocketAddr) -> bool {
        let takes_all = || !self.options.v6_only || to.is_ipv6();
        self.port == to.port() && self.address.map_or_else(takes_all, |a| a == to.ip())
    }

    /// Whether this flow is of its share.
    fn shares(&self, flow: &Flow) -> bool {
        self.options
            .share
            .is_none_or(|s| s.index_of_flow(flow) == s.index)
    }

    /// A half-open connection has begun.
    pub fn remember_begun(
        &mut self,
        now: Instant,
        id: ConnectionId,
        is_half_open: impl Fn(ConnectionId) -> bool,
    ) {
        self.half_open += 1;
        self.begun.push_back((now, id));
        // At least half of them have ended then, so this costs each of them a constant share.
        if self.begun.len() > 2 * self.options.backlog {
            self.begun.retain(|&(_, id)| is_half_open(id));
        }
    }

    /// Let go of the oldest half-open connection; `None` when it has not yet had the time to answer
    /// ([`HALF_OPEN_GRACE`]).
    pub fn take_oldest(
        &mut self,
        now: Instant,
        is_half_open: impl Fn(ConnectionId) -> bool,
    ) -> Option<ConnectionId> {
        while self.begun.front().is_some_and(|&(_, id)| !is_half_open(id)) {
            self.begun.pop_front();
        }
        let oldest = self.begun.front();
        let &(_, id) = oldest.filter(|(begun, _)| now - *begun >= HALF_OPEN_GRACE)?;
        self.begun.pop_front();
        self.half_open -= 1;
        Some(id)
    }

    /// True while a cookie of this listener may be on its way back.
    pub fn expects_cookies(&self, now: Instant) -> bool {
        self.offloaded
            || self
                .cookie_at
                .is_some_and(|at| now - at < SYN_COOKIE_EPOCH.saturating_mul(2))
    }
}

/// Whose a flow without a connection is.
pub(in crate::tcp) enum Taker {
    /// That of the listener in this place.
    Listener(usize),
    /// Its port is listened on, but the flow is of another stack's share.
    OtherShare,
    /// Nobody listens.
    Nobody,
}

/// All listeners of a stack.
pub(in crate::tcp) struct Listeners {
    /// The most specific first.
    list: Vec<Listener>,
    next: NonZeroU32,
}

impl Default for Listeners {
    fn default() -> Self {
        Self {
            list: Vec::new(),
            next: NonZeroU32::MIN,
        }
    }
}

impl Listeners {
    /// Take connections to `port`, on one address or on all.
    pub fn listen(
        &mut self,
        address: Option<IpAddr>,
        port: u16,
        options: ListenOptions,
    ) -> Result<ListenerId, OpenError> {
        if let Some(share) = options.share {
            assert!(share.index < share.of, "there is no such share: {share:?}");
        }
        let stands_aside = |l: &Listener| match (l.options.share, options.share) {
            (Some(a), Some(b)) => a.is_beside(&b),
            _ => false,
        };
        if self
            .list
            .iter()
            .any(|l| l.port == port && l.address == address && !stands_aside(l))
        {
            return Err(OpenError::PortTaken);
        }
        let id = ListenerId(self.next);
        self.next = id.0.checked_add(1).expect("four billion listeners");
        self.list.push(Listener {
            id,
            address,
            port,
            options,
            half_open: 0,
            begun: VecDeque::new(),
            cookie_at: None,
            offloaded: false,
        });
        // The most specific first, so that the search takes it.
        self.list.sort_by_key(|l| l.address.is_none());
        Ok(id)
    }

    /// Take no further connections; those that stand go on.
    pub fn close(&mut self, id: ListenerId) {
        self.list.retain(|l| l.id != id);
    }

    /// Whose a flow is: of those that listen most specifically, the one whose share it is.
    pub fn taker(&self, flow: &Flow) -> Taker {
        let to = flow.local();
        let Some(first) = self.list.iter().position(|l| l.takes(to)) else {
            return Taker::Nobody;
        };
        let address = self.list[first].address;
        self.list[first..]
            .iter()
            .position(|l| l.address == address && l.port == to.port() && l.shares(flow))
            .map_or(Taker::OtherShare, |n| Taker::Listener(first + n))
    }

    /// A half-open connection of this listener stands, or is over. The listener may be gone.
    pub fn half_open_ended(&mut self, id: Option<ListenerId>) {
        if let Some(l) = self.list.iter_mut().find(|l| Some(l.id) == id) {
            l.half_open -= 1;
        }
    }

    /// Where a listener is found by its number.
    pub fn position(&self, id: ListenerId) -> Option<usize> {
        self.list.iter().position(|l| l.id == id)
    }

    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = &Listener> {
        self.list.iter()
    }

    /// That in place `at`.
    pub fn at(&self, at: usize) -> &Listener {
        &self.list[at]
    }

    /// That in place `at`, to change it.
    pub fn at_mut(&mut self, at: usize) -> &mut Listener {
        &mut self.list[at]
    }

    /// Somebody listens on this port, of whatever address.
    pub fn listen_on(&self, port: u16) -> bool {
        self.list.iter().any(|l| l.port == port)
    }

    /// The listener of that number has handed out cookies lately: what is half open may make room for others, for it
    /// answers another SYN of that peer with a cookie too.
    pub fn hand_out_cookies(&self, now: Instant, id: Option<ListenerId>) -> bool {
        self.list
            .iter()
            .find(|l| Some(l.id) == id)
            .and_then(|l| l.cookie_at)
            .is_some_and(|at| now - at < RTO_INITIAL)
    }

    /// Somebody else answers SYNs of some listener, or to this port.
    pub fn offload(&self, port: Option<u16>) -> bool {
        self.list
            .iter()
            .any(|l| l.offloaded && port.is_none_or(|port| l.port == port))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(index: u32, of: u32) -> Share {
        Share { index, of, key: 3 }
    }

    /// Shares are disjoint, cover everything and are of about equal size.
    #[test]
    fn each_flow_has_one_share() {
        let local = "10.0.0.1:80".parse().unwrap();
        let mut counts = [0; 3];
        for n in 0..3000u32 {
            let remote = SocketAddr::new(std::net::Ipv4Addr::from(n << 7).into(), n as u16);
            let index = share(0, 3).index_of(local, remote);
            assert!((0..3).all(|i| share(i, 3).index_of(local, remote) == index));
            counts[index as usize] += 1;
        }
        assert!(counts.iter().all(|c| (900..1100).contains(c)), "{counts:?}");
    }

    fn listen(listeners: &mut Listeners, share: Option<Share>) -> Result<ListenerId, OpenError> {
        let options = ListenOptions {
            share,
            ..ListenOptions::default()
        };
        listeners.listen(None, 80, options)
    }

    #[test]
    fn a_port_is_taken_unless_shares_are_apart() {
        let mut listeners = Listeners::default();
        let first = listen(&mut listeners, Some(share(0, 2))).unwrap();
        assert!(listen(&mut listeners, Some(share(1, 2))).is_ok());
        for other in [
            None,
            Some(share(0, 2)),
            Some(share(1, 2)),
            Some(share(2, 3)),
        ] {
            assert_eq!(listen(&mut listeners, other), Err(OpenError::PortTaken));
        }
        let another_key = Share {
            key: 4,
            ..share(1, 2)
        };
        assert!(listen(&mut listeners, Some(another_key)).is_err());
        listeners.close(first);
        assert!(listen(&mut listeners, Some(share(0, 2))).is_ok());
    }

    /// One of IPv6 alone leaves IPv4 to another at the same port.
    #[test]
    fn of_v6_alone_takes_no_v4() {
        let mut listeners = Listeners::default();
        let options = ListenOptions {
            v6_only: true,
            ..ListenOptions::default()
        };
        let all = listeners.listen(None, 80, options).unwrap();
        let v4 = "10.0.0.1:80".parse().unwrap();
        let flow = |local: SocketAddr| Flow::new(local, SocketAddr::new(local.ip(), 9));
        assert!(matches!(listeners.taker(&flow(v4)), Taker::Nobody));
        let own = listeners.listen(Some(v4.ip()), 80, ListenOptions::default());
        for (to, wanted) in [("10.0.0.1:80", own.unwrap()), ("[fd10::1]:80", all)] {
            let Taker::Listener(at) = listeners.taker(&flow(to.parse().unwrap())) else {
                panic!("nobody takes what is for {to}");
            };
            assert_eq!(listeners.at(at).id, wanted);
        }
    }

    /// A flow is the most specific listeners' business, also when it is of another stack's share.
    #[test]
    fn shares_do_not_fall_back_to_the_wildcard() {
        let mut listeners = Listeners::default();
        let address: IpAddr = "10.0.0.1".parse().unwrap();
        let options = ListenOptions {
            share: Some(share(1, 2)),
            ..ListenOptions::default()
        };
        let all = listeners
            .listen(None, 80, ListenOptions::default())
            .unwrap();
        let own = listeners.listen(Some(address), 80, options).unwrap();
        let (mut ours, mut elsewhere) = (0, 0);
        for port in 1..200 {
            let remote = SocketAddr::new("10.0.0.2".parse().unwrap(), port);
            match listeners.taker(&Flow::new(SocketAddr::new(address, 80), remote)) {
                Taker::Listener(at) => {
                    assert_eq!(listeners.at(at).id, own);
                    ours += 1;
                }
                Taker::OtherShare => elsewhere += 1,
                Taker::Nobody => panic!("somebody listens"),
            }
            let other = "10.0.0.9:80".parse().unwrap();
            let Taker::Listener(at) = listeners.taker(&Flow::new(other, remote)) else {
                panic!("the wildcard takes it");
            };
            assert_eq!(listeners.at(at).id, all);
        }
        assert!(ours > 50 && elsewhere > 50, "{ours} {elsewhere}");
    }
}
