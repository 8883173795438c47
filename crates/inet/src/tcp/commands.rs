//! Commands that begin, move or end a connection: what a program gives beside those of one that stands.
//!
//! To open one, or to take one in, it has to be known where routes lead. The stack says so whenever that changes
//! ([`Tcp::use_routes`]).

use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;

use super::{ConnectionId, DetachedConnection, Local, OpenError, Options, Source, Tcp};
use crate::counters::Counters;
use crate::route::Routes;
use crate::time::Instant;

/// Where connections may lead, and what aborted ones have counted.
#[derive(Default)]
pub(super) struct Network {
    routes: Rc<Routes>,
    /// Of the link, in bytes.
    mtu: usize,
    aborted: Counters,
}

impl Tcp {
    /// Open a connection to `remote`. The source is of a pool, where there is one, or chosen by the routes, unless `source`
    /// says it. That it stands is an event, or that it does not come to stand.
    ///
    /// # Errors
    ///
    /// There is no way to the peer, no port or no room; nothing is sent then.
    pub fn connect(
        &mut self,
        now: Instant,
        source: Option<SocketAddr>,
        remote: SocketAddr,
        options: &Options,
    ) -> Result<ConnectionId, OpenError> {
        let routes = Rc::clone(&self.network.routes);
        let to = remote.ip();
        if to.is_multicast() || routes.is_broadcast(to) {
            return Err(OpenError::NotAHost);
        }
        if routes.next_hop(to).is_none() {
            return Err(OpenError::NoRoute);
        }
        let source = source_of(source, to, &routes)?;
        self.open(now, &source, remote, self.local(to.is_ipv6()), options)
    }

    /// Give a connection up: the peer is sent a reset, the program hears that it is over.
    pub fn abort(&mut self, id: ConnectionId) {
        let mut counters = std::mem::take(&mut self.network.aborted);
        self.reset(id, &mut counters);
        self.network.aborted = counters;
    }

    /// Put a connection that was taken out of another stack ([`take_out`](Self::take_out)) into this one, where it goes on:
    /// with its local address, and a route to its peer. News that its program had not heard come out of `poll_event`, as do
    /// bytes that it had not read.
    ///
    /// # Errors
    ///
    /// It does not fit here, and is given back.
    pub fn put_in(
        &mut self,
        now: Instant,
        connection: DetachedConnection,
    ) -> Result<ConnectionId, (OpenError, DetachedConnection)> {
        let (ours, remote) = (connection.flow().local(), connection.flow().remote());
        let routes = &self.network.routes;
        if !routes.is_local(ours.ip()) || routes.next_hop(remote.ip()).is_none() {
            return Err((OpenError::NoRoute, connection));
        }
        self.go_on_with(now, connection, self.local(remote.is_ipv6()))
    }

    /// Routes from now on, on a link with this MTU.
    pub(crate) fn use_routes(&mut self, routes: Rc<Routes>, mtu: usize) {
        self.network.routes = routes;
        self.network.mtu = mtu;
    }

    /// What a connection to a peer of this family needs to know.
    pub(crate) fn local(&self, ipv6: bool) -> Local {
        let ip = match ipv6 {
            true => exos_wire::ipv6::LEN,
            false => exos_wire::ipv4::LEN,
        };
        let mss = self.network.mtu.saturating_sub(exos_wire::tcp::LEN + ip);
        Local {
            mss: mss.min(usize::from(u16::MAX)) as u16,
        }
    }

    /// Adds what commands of the program have led to.
    pub(crate) fn add_counters(&self, all: &mut Counters) {
        let aborted = &self.network.aborted;
        all.tcp_aborted += aborted.tcp_aborted;
        all.tcp_resets_sent += aborted.tcp_resets_sent;
        all.drop_tcp_answer_queue_full += aborted.drop_tcp_answer_queue_full;
    }
}

/// From where to connect to `to`.
fn source_of(
    said: Option<SocketAddr>,
    to: IpAddr,
    routes: &Routes,
) -> Result<Source<'_>, OpenError> {
    if let Some(said) = said {
        return Ok(match said.port() {
            0 => Source::Address(said.ip()),
            _ => Source::Exactly(said),
        });
    }
    let pools = routes.pools_to(to);
    if !pools.is_empty() {
        return Ok(Source::Pools(pools));
    }
    let chosen = routes.source_for(to).ok_or(OpenError::NoRoute)?;
    Ok(Source::Address(chosen))
}
