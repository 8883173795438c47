//! What a loop has of one application: connections, clients that wait for one, and what was told of it.
//!
//! A client waits in `waiting` or in `ready`. [`Group::wake`] moves those for whom there is room from the one to the other,
//! and is to be called after whatever makes room.

use std::collections::VecDeque;

use exos_inet::tcp::ConnectionId;
use exos_inet::{Duration, Instant};

use super::groups::GroupId;
use super::permits::{AllPermits, LoopPermits};
use super::shares::{Shares, share_of};
use crate::applications::application::Address;
use crate::limits::{APPLICATION_WAITING_MAX, CLIENT_SHARE, TUNNELS_MAX, WARNINGS_MAX};
use crate::site::rules::access::peer::Peer;

/// Those to one application.
#[derive(Default)]
pub(super) struct Group {
    pub(super) open: usize,
    pub(super) idle: Vec<Idle>,
    /// Whose requests the others carry.
    pub(super) shares: Shares,
    /// Connections that speak another protocol: they carry no request any more, and may stand for hours.
    tunnels: usize,
    /// Whose they are.
    tunnel_shares: Shares,
    /// For requests that it has at once, where it has a process for each.
    permits: Option<LoopPermits>,
    pub(super) waiting: VecDeque<Waiting>,
    /// Those of them that may ask, and were not named yet: room is kept for them.
    pub(super) ready: VecDeque<Waiting>,
    /// Whose requests had permits last.
    recent: [Option<Peer>; CLIENT_SHARE - 1],
    /// Its own queue is full: nobody asks before.
    pub(super) full_until: Option<Instant>,
    /// It has failed: others are asked before, if there are any.
    pub(super) rests_until: Option<Instant>,
    /// Its last answer was of HTTP/1.0.
    pub(super) is_old: bool,
    /// When it was last told that something is wrong with it.
    told_at: Option<Instant>,
    /// Since when lines of its own were told, and how many.
    warned: Option<(Instant, usize)>,
}

/// What a connection or a request that was left had of its group.
#[derive(Clone, Copy, Debug)]
pub(super) struct Left {
    pub(super) group: GroupId,
    /// Whose request it carried, if that is counted.
    pub(super) peer: Option<Peer>,
    /// It spoke another protocol.
    pub(super) is_tunnel: bool,
}

/// A connection that is kept without a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Idle {
    pub(super) connection: ConnectionId,
    pub(super) since: Instant,
    /// How long it is kept, if not for as long as it stands.
    pub(super) until: Option<Instant>,
}

/// A client that waits, and how many connections there may be with its own.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    pub(super) client: ConnectionId,
    /// Whom it is counted as, if it is.
    pub(super) peer: Option<Peer>,
    pub(super) connections: usize,
}

impl Group {
    /// Those to the application there.
    pub(super) fn of(address: &Address, permits: &AllPermits) -> Group {
        let place = match address {
            Address::Fastcgi(place) => Some(place).filter(|place| place.is_here()),
            Address::Http(_) | Address::Https(..) | Address::Shared(_) => None,
        };
        Group {
            permits: place.map(|place| permits.of(place)),
            ..Group::default()
        }
    }

    /// Somebody asks it, or wants to.
    pub(super) fn is_in_use(&self) -> bool {
        self.open > 0 || !self.waiting.is_empty() || !self.ready.is_empty()
    }

    /// Connections that carry a request, or will.
    pub(super) fn busy(&self) -> usize {
        self.carrying() + self.ready.len()
    }

    /// Connections that carry a request.
    pub(super) fn carrying(&self) -> usize {
        self.open - self.idle.len() - self.tunnels
    }

    /// A connection changes to another protocol: it is none of those for requests any more. Where there are too many such, or too
    /// many of one client's, it stays one, and this is false.
    pub(super) fn begin_tunnel(&mut self, peer: Option<Peer>) -> bool {
        let has_share =
            peer.is_none_or(|peer| self.tunnel_shares.count(peer) < share_of(TUNNELS_MAX));
        let is_one = self.tunnels < TUNNELS_MAX && has_share;
        if is_one {
            self.tunnels += 1;
            self.shares.end(peer);
            self.tunnel_shares.begin(peer);
        }
        is_one
    }

    /// Connections that speak another protocol.
    pub(super) fn open_tunnels(&self) -> usize {
        self.tunnels
    }

    /// A turn begins: clients may ask for whom there is room by now.
    pub(super) fn turn(&mut self, now: Instant) {
        self.full_until.take_if(|until| *until <= now);
        if let Some(permits) = &mut self.permits {
            permits.turn(now);
        }
        self.wake(now);
    }

    /// A connection carries no request of this client any more, and is kept.
    pub(super) fn keep(&mut self, idle: Idle, peer: Option<Peer>, now: Instant) {
        self.answered(now);
        self.idle.push(idle);
        self.shares.end(peer);
    }

    /// A request ends.
    fn answered(&mut self, now: Instant) {
        if let Some(permits) = &mut self.permits {
            permits.answered(now);
        }
    }

    /// A connection is closed, or a request on a link left.
    pub(super) fn end(&mut self, left: &Left, connection: Option<ConnectionId>, now: Instant) {
        let carried = self.carrying();
        self.leave(left, connection);
        if self.carrying() < carried {
            self.answered(now);
        }
    }

    fn leave(&mut self, left: &Left, connection: Option<ConnectionId>) {
        self.open -= 1;
        self.idle.retain(|idle| Some(idle.connection) != connection);
        if left.is_tunnel {
            self.tunnels -= 1;
            self.tunnel_shares.end(left.peer);
        } else {
            self.shares.end(left.peer);
        }
    }

    /// When there is something to do, whatever happens.
    pub(super) fn untils(&self) -> impl Iterator<Item = Instant> {
        let idle = self.idle.first().and_then(|idle| idle.until);
        let stalled = self.permits.as_ref().and_then(LoopPermits::poll_timeout);
        self.full_until.into_iter().chain(idle).chain(stalled)
    }

    /// Requests that it has, or is to have, and tunnels.
    pub(super) fn outstanding(&self) -> usize {
        self.busy() + self.waiting.len() + self.tunnels
    }

    /// Lets those ask for whom there is room, in order. Where permits are few, first clients that have less than their share of this loop's
    /// part, and where that is one, of these such as had none lately. Of permits the loop keeps those that requests have.
    pub(super) fn wake(&mut self, now: Instant) {
        let mut has_room = true;
        if self.full_until.is_none() && !self.waiting.is_empty() {
            let busy = self.busy();
            has_room = match &mut self.permits {
                None => self.wake_within(usize::MAX, false),
                Some(permits) => {
                    let (is_any, part) = (permits.may_allow(busy), permits.part());
                    let is_small = share_of(part) == 1;
                    let mut passes =
                        [(part, is_small), (part, false), (usize::MAX, false)].into_iter();
                    is_any && passes.all(|(all, skips_recent)| self.wake_within(all, skips_recent))
                }
            };
        }
        let busy = self.busy();
        if let Some(permits) = &mut self.permits {
            permits.settle(busy, !has_room, now);
        }
    }

    /// As far as each client has its share of this many, where its bound is not less; false where clients wait for permits.
    fn wake_within(&mut self, all: usize, skips_recent: bool) -> bool {
        // Where there is none for one, there is none for those of the same address and bound either, who are not counted again.
        let mut without = None;
        let mut at = 0;
        while at < self.waiting.len() {
            let next = self.waiting[at];
            let kind = (next.peer, next.connections);
            let is_skipped =
                skips_recent && next.peer.is_some() && self.recent.contains(&next.peer);
            if without == Some(kind) || is_skipped || !self.has_room_within(&next, all) {
                without = Some(kind);
                at += 1;
            } else if self.has_permit() {
                self.recent.rotate_right(1);
                self.recent[0] = next.peer;
                self.ready.extend(self.waiting.remove(at));
            } else {
                return false;
            }
        }
        true
    }

    /// The application may have one more request.
    fn has_permit(&mut self) -> bool {
        let busy = self.busy();
        (self.permits.as_mut()).is_none_or(|permits| permits.allow(busy))
    }

    /// A connection may carry a client's request: of rules with one address each has its own bound, and of that each client has
    /// its share.
    pub(super) fn has_room_for(&mut self, asks: &Waiting) -> bool {
        self.has_room_within(asks, usize::MAX) && self.has_permit()
    }

    fn has_room_within(&self, asks: &Waiting, all: usize) -> bool {
        let (busy, share) = (self.busy(), share_of(asks.connections.min(all)));
        let has_share = || {
            asks.peer.is_none_or(|peer| {
                let ready = self.ready.iter().filter(|ready| ready.peer == asks.peer);
                self.shares.count(peer) + ready.count() < share
            })
        };
        // While fewer requests than a share are under way nobody is counted.
        busy < asks.connections && (busy < share || has_share())
    }

    /// One more client may wait, and this one more of its own: beside those that may anyway as many as could ask but for permits.
    pub(super) fn has_place_for(&self, asks: &Waiting) -> bool {
        let withheld = match (self.full_until, &self.permits) {
            (None, Some(permits)) => asks.connections.saturating_sub(permits.part()),
            _ => 0,
        };
        let most = APPLICATION_WAITING_MAX + withheld;
        let places = || self.waiting.iter().chain(&self.ready);
        let has_share = || {
            let of_peer = places().filter(|other| other.peer == asks.peer);
            asks.peer.is_none() || of_peer.count() < share_of(most)
        };
        self.waiting.len() + self.ready.len() < most && has_share()
    }

    /// Its own queue is full: those who may ask wait on, in their order.
    pub(super) fn pause(&mut self, until: Instant) {
        self.full_until = Some(until);
        while let Some(ready) = self.ready.pop_back() {
            self.waiting.push_front(ready);
        }
    }

    /// Whether to tell that something is wrong: once a second.
    pub(super) fn may_tell(&mut self, now: Instant) -> bool {
        let is_new = (self.told_at).is_none_or(|at| now >= at + Duration::from_secs(1));
        if is_new {
            self.told_at = Some(now);
        }
        is_new
    }

    /// Whether to tell a line of the application's.
    pub(super) fn may_warn(&mut self, now: Instant) -> bool {
        let (since, count) = self
            .warned
            .filter(|(since, _)| now < *since + Duration::from_secs(1))
            .unwrap_or((now, 0));
        self.warned = Some((since, count + 1));
        count < WARNINGS_MAX
    }
}
