//! TCP (RFC 9293): the connections of one stack, found by their four-tuple and driven together.
//!
//! [`connection`] is the control block: a sender, a receiver, how long silence may last; [`state`] is the table of transitions. A connection begins in `opening`; what comes in on
//! it passes `receiving`, what goes out `sending`, which also knows what was lost and how fast to go. It lives in `table`,
//! also in TIME-WAIT, and hears of time by `timers`. `handover` moves it to another stack, with `codec`. For the program: [`options`] are
//! what it says of a connection, [`event`] what it hears, `info` what it may look at.
//!
//! | room | files |
//! |---|---|
//! | `opening` | `ports` from where we open, `listener` and `passive` what others open, `cookie` what is not kept of it, [`syn_offload`] who answers it for us, [`options`] and `ip` what a program asks for |
//! | `receiving` | [`input`] the segments, `prediction` those that are expected, `receiver` what is known of what comes, `text` what they bring, [`receive`] the received bytes, `reassembly` those beyond a gap, `sack` what is said of these, `window` what we announce, `autotune` and `tuning` how wide it should be |
//! | `sending` | `sender` what is known of what is sent, [`output`] the segments, `piece`, `new_data` and `retransmit` what leaves next, `acknowledged` what the peer has, `loss` what was sent and what became of it, [`rtt`], [`congestion`] and `pacing` the timer, the window and the pace, [`ecn`] and `marks` congestion on the way, `mtu` and `path_mtu` how long a segment may be, `recycling` the memory for that, [`reply`] answers that belong to no connection |
//! | `table` | `slab` the slots, [`flow`] and `index` how one is found, `lookup` from a segment to its connection, `delivery` what arrives there, `queues` of those with something to send, to tell, or a deadline, [`memory`] and `pruning` the memory of all, [`time_wait`] what remains of finished ones |
//! | `timers` | [`wheel`] all that is due, [`alarms`] in it, [`liveness`] how long silence lasts, `timeouts` what is done when time has passed |
//!
//! This file holds them together.
//!
//! Polling order: `handle_segment` for all that arrived, `handle_timeout`, `poll_event` until there is
//! none (the program gives its commands), then `poll_output` until there is none.

mod agreed;
mod codec;
mod commands;
pub mod connection;
pub mod event;
mod handover;
mod info;
mod opening;
mod receiving;
pub mod segment;
mod sending;
pub mod state;
mod table;
mod timers;

use opening::{cookie, ip, listener, passive, ports};
pub use opening::{options, syn_offload};
pub use receiving::{input, receive};
use receiving::{reassembly, receiver, sack};
use sending::{acknowledged, loss, pacing, recycling, sender};
pub use sending::{congestion, ecn, output, reply, rtt};
pub use table::{flow, memory, time_wait};
use table::{id, index, pruning, queues, slab};
pub use timers::{alarms, liveness, wheel};

use std::net::SocketAddr;
use std::num::NonZeroU32;

use exos_buf::Slice;

pub use connection::{Connection, Path};
pub use ecn::{Ecn, EcnMode};
pub use event::{Event, EventSet, OpenError, Reason};
pub use flow::Flow;
pub(crate) use flow::FlowKey;
pub use handover::{DetachedConnection, HandoverError};
pub use id::ConnectionId;
pub use info::Info;
pub use ip::IpFields;
pub use listener::{ListenOptions, ListenerId, Share, SynCookies};
pub use liveness::Keepalive;
pub use memory::{MemoryInfo, Pressure};
pub use options::Options;
pub use output::Outgoing;
pub(crate) use ports::Source;
pub use reply::Reply;
pub use segment::Segment;
pub use state::State;

use crate::counters::Counters;
use crate::icmp::TokenBucket;
use crate::limits::{MSS_DEFAULT_V4, MSS_DEFAULT_V6, SYN_COOKIES_BURST, SYN_COOKIES_PER_SECOND};
use crate::siphash::SipKey;
use crate::time::{Duration, Instant};
use commands::Network;
use handover::HandedOver;
use index::Index;
use listener::Listener;
use memory::Memory;
use ports::Ports;
use pruning::Prunable;
use queues::Queues;
use recycling::Recycled;
use reply::Replies;
use slab::Slab;
use state::{Action, Event as StateEvent};
use time_wait::TimeWaitTable;

/// What the stack knows and a new connection needs.
#[derive(Copy, Clone, Debug)]
pub struct Local {
    /// The MSS to announce: what the link's MTU leaves for data (RFC 9293 §3.7.1).
    pub mss: u16,
}

impl Local {
    /// The MSS of a peer that names none (RFC 9293 §3.7.1).
    fn mss_default(&self, flow: &Flow) -> u16 {
        let default = if flow.is_ipv6() {
            MSS_DEFAULT_V6
        } else {
            MSS_DEFAULT_V4
        };
        default.min(self.mss)
    }
}

/// All connections of one stack.
pub struct Tcp {
    slab: Slab,
    index: Index,
    listeners: Vec<Listener>,
    time_wait: TimeWaitTable,
    queues: Queues,
    /// The connection to which the last segment belonged.
    found: Option<ConnectionId>,
    /// Its end has been told; its last bytes may still be read.
    ending: Option<ConnectionId>,
    replies: Replies,
    cookie_rate: TokenBucket,
    /// Somebody answers SYNs of a listener for us.
    offloads_syns: bool,
    /// Of the receive queues of all connections.
    memory: Memory,
    /// Connections with data beyond gaps, which can be given up.
    prunable: Prunable,
    /// Of ended connections, for new ones.
    recycled: Recycled,
    handed_over: HandedOver,
    key: SipKey,
    next_listener: NonZeroU32,
    ports: Ports,
    network: Network,
    connections_max: usize,
    /// The segment at hand may be of another stack's connection ([`Stack::handle_frame_among`](crate::Stack)).
    pub(crate) among_others: bool,
    /// It is of none that is known here.
    pub(crate) unknown: bool,
    /// Headers are predicted, and several segments asked of a connection at once.
    fast_paths: bool,
    /// The segment that left last, or leaves.
    outgoing: Outgoing,
}

impl Tcp {
    /// No connections yet. `seed` must be secret where outsiders' guesses matter (RFC 6528).
    pub fn new(now: Instant, seed: u64, connections_max: usize) -> Self {
        let key = SipKey::from_seed(seed);
        Self {
            slab: Slab::default(),
            index: Index::default(),
            listeners: Vec::new(),
            time_wait: TimeWaitTable::default(),
            queues: Queues::new(now),
            found: None,
            ending: None,
            replies: Replies::default(),
            offloads_syns: false,
            cookie_rate: TokenBucket::new(SYN_COOKIES_PER_SECOND, SYN_COOKIES_BURST, now),
            memory: Memory::default(),
            prunable: Prunable::default(),
            recycled: Recycled::default(),
            handed_over: HandedOver::new(key),
            key,
            next_listener: NonZeroU32::MIN,
            ports: Ports::default(),
            network: Network::default(),
            connections_max,
            among_others: false,
            unknown: false,
            fast_paths: true,
            outgoing: Outgoing::NONE,
        }
    }

    // Commands.

    /// Open a connection from `source` to `remote`.
    fn open(
        &mut self,
        now: Instant,
        source: &Source<'_>,
        remote: SocketAddr,
        local: Local,
        options: &Options,
    ) -> Result<ConnectionId, OpenError> {
        if self.index.len() >= self.connections_max {
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

    /// Queue `slice` to be sent; false when the connection is gone or takes no more data.
    pub fn send(&mut self, id: ConnectionId, slice: Slice) -> bool {
        self.command_to_send(id, |c| c.send(slice)).unwrap_or(false)
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
        let owed = c.receiver.owed();
        c.receiver.set_pressure(self.memory.pressure());
        // What is kept goes back when the connection rests, which the wheel tells.
        if entry.armed != Instant::NEVER && !entry.closed {
            c.consume_keeping(count, &mut self.memory);
        } else {
            c.consume(count, &mut self.memory);
        }
        if c.receiver.owed() != owed && !entry.closed {
            self.queues.settle_sending(id, entry);
        }
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

    /// Give a connection up.
    fn reset(&mut self, id: ConnectionId, counters: &mut Counters) {
        let Some(c) = self.slab.get_mut(id) else {
            return;
        };
        let (half_open, listener) = (c.is_half_open(), c.listener);
        if c.follow(StateEvent::Abort) == Some(Action::SendRstRelease) {
            let reset = c.reset();
            // Our own doing, one for each connection: no rate limits it.
            self.replies.push_due(reset, counters);
        }
        counters.tcp_aborted += 1;
        if half_open {
            self.half_open_ended(listener);
        }
        self.close(id, Reason::Aborted);
        self.settle(id);
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

    // Getters.

    /// A connection, until its `CLOSED` event has been taken.
    #[inline]
    pub fn connection(&self, id: ConnectionId) -> Option<&Connection> {
        self.slab.get(id)
    }

    /// The connections whose flow is one of these, those in TIME-WAIT apart. Looks at all that there are.
    pub fn connections_where(&self, is_one: impl Fn(&flow::Flow) -> bool) -> Vec<ConnectionId> {
        let standing = self.slab.standing();
        let wanted = standing.filter(|(_, connection)| is_one(connection.flow()));
        wanted.map(|(id, _)| id).collect()
    }

    /// Take this many connections at once from now on; further SYNs are not answered. Those that stand go on.
    pub fn set_connections_max(&mut self, count: usize) {
        self.connections_max = count;
    }

    /// Connections that are open or opening, those in TIME-WAIT apart.
    pub fn connections(&self) -> usize {
        self.index.len()
    }

    /// Connections in TIME-WAIT.
    pub fn time_wait_connections(&self) -> usize {
        self.time_wait.len()
    }

    /// The memory of all connections' receive queues.
    pub fn memory(&self) -> MemoryInfo {
        self.memory.info()
    }

    /// How often each stage of pressure on that memory was entered, the mildest first.
    pub(crate) fn memory_stages(&self) -> [u64; 3] {
        self.memory.entered()
    }

    /// Bytes that the receive queues of all connections should hold at most.
    pub fn set_memory_limit(&mut self, bytes: usize) {
        self.memory.set_limit(bytes);
    }

    /// Entries of the timer wheel, those that came too early or for nothing included: at rest about
    /// as many as there are connections with a deadline.
    pub fn timer_entries(&self) -> usize {
        self.queues.timer_entries()
    }
}
