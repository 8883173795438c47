//! Commands of a program: those that begin, move or end a connection, and those of one that stands.
//!
//! To open one, or to take one in, it has to be known where routes lead. The stack says so whenever that changes
//! ([`Tcp::use_routes`]).

use std::net::{IpAddr, SocketAddr};
use std::ops::Range;
use std::rc::Rc;

use exos_buf::Slice;

use crate::counters::Counters;
use crate::part::Part;
use crate::route::Routes;
use crate::tcp::connection::{Connection, Path};
use crate::tcp::endpoint::tcp::Tcp;
use crate::tcp::handover::detached::DetachedConnection;
use crate::tcp::opening::listeners::{ListenOptions, ListenerId};
use crate::tcp::opening::ports::Source;
use crate::tcp::values::event::{EventSet, OpenError};
use crate::tcp::values::flow::Flow;
use crate::tcp::values::id::ConnectionId;
use crate::tcp::values::ip::IpFields;
use crate::tcp::values::local::Local;
use crate::tcp::values::options::{Keepalive, Options};
use crate::time::{Duration, Instant};

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

    /// Open a connection from `source` to `remote`.
    fn open(
        &mut self,
        now: Instant,
        source: &Source<'_>,
        remote: SocketAddr,
        local: Local,
        options: &Options,
    ) -> Result<ConnectionId, OpenError> {
        if !self.has_room() {
            return Err(OpenError::Full);
        }
        let flow = match source {
            Source::Exactly(source) => {
                let flow = Flow::new(*source, remote);
                if self.is_taken(&flow) || self.handed_over.has(now, &flow, false) {
                    return Err(OpenError::FlowTaken);
                }
                flow
            }
            _ => self.choose_flow(source, remote)?,
        };
        let opening = self.opening(now, flow, local);
        let connection = Connection::open(opening, options);
        let hash = flow.table_hash(&self.key);
        let id = self.insert(connection, hash);
        self.settle(id);
        Ok(id)
    }

    /// A flow to `remote` that nobody has: nobody listens on its port, and no connection has it.
    fn choose_flow(&mut self, source: &Source<'_>, remote: SocketAddr) -> Result<Flow, OpenError> {
        let (ports, listeners, key) = (&mut self.ports, &self.listeners, &self.key);
        let (index, slab, time_wait) = (&self.index, &self.slab, &self.time_wait);
        ports.choose(source, remote, key, |flow| {
            let hash = flow.table_hash(key);
            !listeners.listen_on(flow.local_port())
                && index.find(hash, |slot| slab.holds(slot, flow)).is_none()
                && time_wait.get(hash, flow).is_none()
        })
    }

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
        self.listeners.listen(address, port, options)
    }

    /// Take no further connections; those that stand go on.
    pub fn close_listener(&mut self, id: ListenerId) {
        self.listeners.close(id);
        self.ports.may_have_become_free();
    }

    /// Open connections from these ports from now on, where no port is said.
    ///
    /// Panics when there is none.
    pub fn set_local_ports(&mut self, range: Range<u16>) {
        self.ports.set_range(range);
    }

    /// Take a part of all pairs of address and port from now on, where no port is said: what other stacks with the same
    /// addresses, ports and seed take of the rest is not taken twice.
    pub fn set_local_part(&mut self, part: Part) {
        self.ports.set_part(part);
    }

    /// Give a connection up: the peer is sent a reset, the program hears that it is over.
    pub fn abort(&mut self, id: ConnectionId) {
        let mut counters = self.network.aborted.take().unwrap_or_default();
        self.reset(id, &mut counters);
        self.network.aborted = Some(counters);
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

    // Of a connection that stands.

    /// Queue `slice` to be sent; false when the connection is gone or takes no more data.
    pub fn send(&mut self, id: ConnectionId, slice: Slice) -> bool {
        self.command_to_send(id, |c| c.send(slice)).unwrap_or(false)
    }

    /// Whether a connection takes data to be sent, and has at most `most` bytes that are not acknowledged.
    pub(crate) fn takes_reply(&self, id: ConnectionId, most: usize) -> bool {
        let connection = self.slab.get(id).filter(|_| self.slab.stands(id));
        connection.is_some_and(|c| c.takes_data() && c.unacknowledged() <= most)
    }

    /// Nothing more will be sent: a FIN follows what is queued, on its last segment if possible.
    pub fn finish(&mut self, id: ConnectionId) {
        self.command_to_send(id, Connection::finish);
    }

    /// Acknowledge and throw away whatever still comes.
    pub fn discard_received(&mut self, id: ConnectionId) {
        if let Some(c) = self.slab.get_mut(id) {
            c.discard_received(&mut self.memory);
            self.settle(id);
        }
    }

    /// The received bytes, in order, that were not consumed.
    #[inline]
    pub fn readable(&self, id: ConnectionId) -> &[u8] {
        self.slab.get(id).map_or(&[], Connection::readable)
    }

    /// The program has taken `count` of the readable bytes. Panics when there are fewer.
    pub fn consume(&mut self, id: ConnectionId, count: usize) {
        // Also of a connection that is over: its last bytes are read like all others.
        let Some(entry) = self.slab.entry_mut(id) else {
            return;
        };
        let c = &mut entry.connection;
        let owed = c.receiver.acks().owed();
        c.receiver.set_pressure(self.memory.pressure());
        // What is kept goes back when the connection rests, which the wheel tells.
        if entry.armed != Instant::NEVER && !entry.closed {
            c.consume_keeping(count, &mut self.memory);
        } else {
            c.consume(count, &mut self.memory);
        }
        if c.receiver.acks().owed() != owed && !entry.closed {
            self.queues.settle_sending(id, entry);
        }
    }

    /// Has the program hear of what there is to read, if anything is.
    pub(crate) fn tell_readable(&mut self, id: ConnectionId) {
        self.command(id, |c| {
            if !c.readable().is_empty() {
                c.tell(EventSet::READABLE);
            }
        });
    }

    /// The program does not want the next `count` bytes: those that are readable are consumed, those still to come are
    /// acknowledged and counted where they arrive, and never copied. Gives how many are still to come;
    /// [`Connection::skipping`] says so at any time, and `READABLE` is told when the last of them has come, or the
    /// first byte behind them. Skipping again adds to it.
    pub fn skip(&mut self, id: ConnectionId, count: u32) -> u32 {
        let here = u32::try_from(self.readable(id).len()).unwrap_or(u32::MAX);
        let taken = here.min(count);
        self.consume(id, taken as usize);
        let Some(c) = self.slab.get_mut(id).filter(|_| taken < count) else {
            return 0;
        };
        c.receiver.queue_mut().skip(count - taken);
        c.skipping()
    }

    /// Put other fields into the IP headers of a connection's segments from now on.
    pub fn set_ip_fields(&mut self, id: ConnectionId, ip: IpFields) {
        self.command(id, |c| c.set_ip_fields(ip));
    }

    /// Let a connection receive this many bytes that are not taken, instead of as many as its path and its
    /// program make good use of. More than its window's scale can tell is cut off.
    pub fn set_receive_buffer(&mut self, id: ConnectionId, bytes: u32) {
        self.command(id, |c| c.set_receive_buffer(bytes));
    }

    /// Do not let an owed acknowledgement wait for data to ride on.
    pub fn acknowledge_now(&mut self, id: ConnectionId) {
        self.command_to_send(id, Connection::acknowledge_now);
    }

    /// Wait with less than a full segment while data is in flight (RFC 9293 §3.7.4), or no more.
    pub fn set_nagle(&mut self, id: ConnectionId, waits: bool) {
        self.command_to_send(id, |c| c.set_nagle(waits));
    }

    /// Ask a silent peer whether it is still there, or stop doing so (RFC 1122 §4.2.3.6).
    pub fn set_keepalive(&mut self, id: ConnectionId, keepalive: Option<Keepalive>) {
        self.command(id, |c| c.set_keepalive(keepalive));
    }

    /// Give a connection up when sent data stays unacknowledged for so long (RFC 9293 §3.8.3).
    pub fn set_user_timeout(&mut self, id: ConnectionId, time: Option<Duration>) {
        self.command(id, |c| c.set_user_timeout(time));
    }

    /// Set the program's own word for a connection; it comes with every event.
    pub fn set_token(&mut self, id: ConnectionId, token: u64) {
        if let Some(c) = self.slab.get_mut(id) {
            c.token = token;
        }
    }

    fn command<R>(
        &mut self,
        id: ConnectionId,
        command: impl FnOnce(&mut Connection) -> R,
    ) -> Option<R> {
        let result = command(self.slab.get_mut(id)?);
        self.settle(id);
        Some(result)
    }

    /// Gives a connection a command after which there may be something to send, and nothing else is new.
    #[inline]
    fn command_to_send<R>(
        &mut self,
        id: ConnectionId,
        command: impl FnOnce(&mut Connection) -> R,
    ) -> Option<R> {
        let entry = self.slab.entry_mut(id).filter(|e| !e.closed)?;
        let result = command(&mut entry.connection);
        self.queues.settle_sending(id, entry);
        Some(result)
    }

    // Of the stack.

    /// Let all segments take all steps, and take one after the other from connections, to be compared with the fast paths.
    pub(crate) fn without_fast_paths(&mut self) {
        self.fast_paths = false;
    }

    /// Remember where segments of a connection go.
    pub fn set_path(&mut self, id: ConnectionId, path: Path) {
        if let Some(entry) = self.slab.entry_mut(id)
            && !entry.closed
        {
            entry.connection.path = Some(path);
            entry.leaves_by_link = true;
        }
    }

    /// Segments of a connection have found a way by the link: its peer is not this stack.
    #[inline]
    pub(crate) fn leaves_by_link(&self, id: ConnectionId) -> bool {
        self.slab.leaves_by_link(id)
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
        let Some(aborted) = &self.network.aborted else {
            return;
        };
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

#[cfg(test)]
mod tests;
