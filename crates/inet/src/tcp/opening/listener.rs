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

use crate::limits::{BACKLOG, SYN_COOKIE_EPOCH};
use crate::siphash::SipKey;
use crate::tcp::flow::Flow;
use crate::tcp::id::ConnectionId;
use crate::tcp::options::Options;
use crate::tcp::{OpenError, Tcp};
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
    /// time ([`HALF_OPEN_GRACE`](crate::limits::HALF_OPEN_GRACE)).
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
}

impl Default for ListenOptions {
    fn default() -> Self {
        Self {
            connection: Options::default(),
            backlog: BACKLOG,
            syn_cookies: SynCookies::default(),
            share: None,
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
    pub begun: VecDeque<(Instant, ConnectionId)>,
    /// When a cookie was handed out last.
    pub cookie_at: Option<Instant>,
    /// Somebody else answers its SYNs, with cookies.
    pub offloaded: bool,
}

impl Listener {
    /// Whether connections to `to` are this listener's, shares apart.
    fn takes(&self, to: SocketAddr) -> bool {
        self.port == to.port() && self.address.is_none_or(|a| a == to.ip())
    }

    /// Whether this flow is of its share.
    fn shares(&self, flow: &Flow) -> bool {
        self.options
            .share
            .is_none_or(|s| s.index_of_flow(flow) == s.index)
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

impl Tcp {
    /// Take connections to `port`, on one address or on all.
    ///
    /// # Panics
    /// When the options name a share that does not exist (`index >= of`).
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
            .listeners
            .iter()
            .any(|l| l.port == port && l.address == address && !stands_aside(l))
        {
            return Err(OpenError::PortTaken);
        }
        let id = ListenerId(self.next_listener);
        self.next_listener = id.0.checked_add(1).expect("four billion listeners");
        self.listeners.push(Listener {
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
        self.listeners.sort_by_key(|l| l.address.is_none());
        Ok(id)
    }

    /// Take no further connections; those that stand go on.
    pub fn close_listener(&mut self, id: ListenerId) {
        self.listeners.retain(|l| l.id != id);
        self.ports.may_have_become_free();
    }

    /// Whose a flow is: of those that listen most specifically, the one whose share it is.
    pub(in crate::tcp) fn taker(&self, flow: &Flow) -> Taker {
        let to = flow.local();
        let Some(first) = self.listeners.iter().position(|l| l.takes(to)) else {
            return Taker::Nobody;
        };
        let address = self.listeners[first].address;
        self.listeners[first..]
            .iter()
            .position(|l| l.address == address && l.port == to.port() && l.shares(flow))
            .map_or(Taker::OtherShare, |n| Taker::Listener(first + n))
    }

    /// A half-open connection of this listener stands, or is over. The listener may be gone.
    pub(in crate::tcp) fn half_open_ended(&mut self, id: Option<ListenerId>) {
        if let Some(l) = self.listeners.iter_mut().find(|l| Some(l.id) == id) {
            l.half_open -= 1;
        }
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

    fn listen(tcp: &mut Tcp, share: Option<Share>) -> Result<ListenerId, OpenError> {
        let options = ListenOptions {
            share,
            ..ListenOptions::default()
        };
        tcp.listen(None, 80, options)
    }

    #[test]
    fn a_port_is_taken_unless_shares_are_apart() {
        let mut tcp = Tcp::new(Instant::START, 1, 10);
        let first = listen(&mut tcp, Some(share(0, 2))).unwrap();
        assert!(listen(&mut tcp, Some(share(1, 2))).is_ok());
        for other in [
            None,
            Some(share(0, 2)),
            Some(share(1, 2)),
            Some(share(2, 3)),
        ] {
            assert_eq!(listen(&mut tcp, other), Err(OpenError::PortTaken));
        }
        let another_key = Share {
            key: 4,
            ..share(1, 2)
        };
        assert!(listen(&mut tcp, Some(another_key)).is_err());
        tcp.close_listener(first);
        assert!(listen(&mut tcp, Some(share(0, 2))).is_ok());
    }

    /// A flow is the most specific listeners' business, also when it is of another stack's share.
    #[test]
    fn shares_do_not_fall_back_to_the_wildcard() {
        let mut tcp = Tcp::new(Instant::START, 1, 10);
        let address: IpAddr = "10.0.0.1".parse().unwrap();
        let options = ListenOptions {
            share: Some(share(1, 2)),
            ..ListenOptions::default()
        };
        let all = tcp.listen(None, 80, ListenOptions::default()).unwrap();
        let own = tcp.listen(Some(address), 80, options).unwrap();
        let (mut ours, mut elsewhere) = (0, 0);
        for port in 1..200 {
            let remote = SocketAddr::new("10.0.0.2".parse().unwrap(), port);
            match tcp.taker(&Flow::new(SocketAddr::new(address, 80), remote)) {
                Taker::Listener(at) => {
                    assert_eq!(tcp.listeners[at].id, own);
                    ours += 1;
                }
                Taker::OtherShare => elsewhere += 1,
                Taker::Nobody => panic!("somebody listens"),
            }
            let other = "10.0.0.9:80".parse().unwrap();
            let Taker::Listener(at) = tcp.taker(&Flow::new(other, remote)) else {
                panic!("the wildcard takes it");
            };
            assert_eq!(tcp.listeners[at].id, all);
        }
        assert!(ours > 50 && elsewhere > 50, "{ours} {elsewhere}");
    }
}
