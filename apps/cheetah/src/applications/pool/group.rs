//! What a loop has of one application: connections, clients that wait for one, and what was told of it.
//!
//! A client waits in `waiting` or in `ready`. [`Group::wake`] moves those for whom there is room from the one to the other,
//! and is to be called after whatever makes room.

use std::collections::VecDeque;

use exos_inet::tcp::ConnectionId;
use exos_inet::{Duration, Instant};

use super::groups::GroupId;
use super::shares::{Shares, share_of};
use crate::limits::{APPLICATION_WAITING_MAX, TUNNELS_MAX, WARNINGS_MAX};
use crate::site::rules::access::peer::Peer;

/// Those to one application.
#[derive(Debug, Default)]
pub(super) struct Group {
    pub(super) open: usize,
    pub(super) idle: Vec<Idle>,
    /// Whose requests the others carry.
    pub(super) shares: Shares,
    /// Connections that speak another protocol: they carry no request any more, and may stand for hours.
    tunnels: usize,
    /// Whose they are.
    tunnel_shares: Shares,
    pub(super) waiting: VecDeque<Waiting>,
    /// Those of them that may ask, and were not named yet: room is kept for them.
    pub(super) ready: VecDeque<Waiting>,
    /// Its own queue is full: nobody asks before.
    pub(super) full_until: Option<Instant>,
    /// It has failed: others are asked before, if there are any.
    pub(super) rests_until: Option<Instant>,
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

    /// A connection is closed, or a request on a link left.
    pub(super) fn end(&mut self, left: &Left, connection: Option<ConnectionId>) {
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
        self.full_until.into_iter().chain(idle)
    }

    /// Requests that it has, or is to have, and tunnels.
    pub(super) fn outstanding(&self) -> usize {
        self.busy() + self.waiting.len() + self.tunnels
    }

    /// Lets those ask for whom there is room, in order.
    pub(super) fn wake(&mut self) {
        if self.full_until.is_some() {
            return;
        }
        // Where there is none for one, there is none for those of the same address and bound either, who are not counted again.
        let mut without = None;
        let mut at = 0;
        while let Some(next) = self.waiting.get(at) {
            let kind = (next.peer, next.connections);
            if without != Some(kind) && self.has_room_for(next) {
                self.ready.extend(self.waiting.remove(at));
            } else {
                without = Some(kind);
                at += 1;
            }
        }
    }

    /// A connection may carry a client's request: of rules with one address each has its own bound, and of that each client has
    /// its share.
    pub(super) fn has_room_for(&self, asks: &Waiting) -> bool {
        let has_share = || {
            asks.peer.is_none_or(|peer| {
                let ready = self.ready.iter().filter(|ready| ready.peer == asks.peer);
                self.shares.count(peer) + ready.count() < share_of(asks.connections)
            })
        };
        self.busy() < asks.connections && has_share()
    }

    /// One more client may wait, and this one more of its own.
    pub(super) fn has_place_for(&self, asks: &Waiting) -> bool {
        let places = || self.waiting.iter().chain(&self.ready);
        let has_share = || {
            let of_peer = places().filter(|other| other.peer == asks.peer);
            asks.peer.is_none() || of_peer.count() < share_of(APPLICATION_WAITING_MAX)
        };
        self.waiting.len() + self.ready.len() < APPLICATION_WAITING_MAX && has_share()
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
