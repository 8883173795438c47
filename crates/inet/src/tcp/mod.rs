//! TCP (RFC 9293): the connections of one stack, found by their four-tuple and driven together.
//!
//! [`connection`] is the control block, [`state`] the table of transitions. A connection begins in `opening`; what comes in on
//! it passes `receiving`, what goes out `sending`, which also knows what was lost and how fast to go. It lives in `table`,
//! also in TIME-WAIT, and hears of time by `timers`. `handover` moves it to another stack. For the program: [`options`] are
//! what it says of a connection, [`event`] what it hears, `info` what it may look at.
//!
//! | room | files |
//! |---|---|
//! | `opening` | `ports` from where we open, `listener` and `passive` what others open, `cookie` what is not kept of it, [`syn_offload`] who answers it for us, [`options`] and `ip` what a program asks for |
//! | `receiving` | [`input`] the segments, `prediction` those that are expected, `receiver` what is known of what comes, `text` what they bring, [`receive`] the received bytes, `reassembly` those beyond a gap, `sack` what is said of these, `window` what we announce, `autotune` how wide it should be |
//! | `sending` | [`output`] the segments, `loss` what was sent and what became of it, [`rtt`], [`congestion`] and `pacing` the timer, the window and the pace, [`ecn`] congestion on the way, `mtu` how long a segment may be, `recycling` the memory for that, [`reply`] answers that belong to no connection |
//! | `table` | `slab` the slots, [`flow`] and `index` how one is found, `lookup` from a segment to its connection, `queues` of those with something to send, to tell, or a deadline, [`memory`] and `pruning` the memory of all, [`time_wait`] what remains of finished ones |
//! | `timers` | [`wheel`] all that is due, [`alarms`] in it, [`liveness`] how long silence lasts, `timeouts` what is done when time has passed |
//!
//! This file holds them together.
//!
//! Polling order: `handle_segment` for all that arrived, `handle_timeout`, `poll_event` until there is
//! none (the program gives its commands), then `poll_output` until there is none.

pub mod connection;
pub mod event;
mod handover;
mod info;
mod opening;
mod receiving;
mod sending;
pub mod state;
mod table;
mod timers;

use opening::{cookie, ip, listener, passive, ports};
pub use opening::{options, syn_offload};
use receiving::{autotune, reassembly, receiver, sack, window};
pub use receiving::{input, receive};
pub use sending::{congestion, ecn, output, reply, rtt};
use sending::{loss, mtu, pacing, recycling};
pub use table::{flow, memory, time_wait};
use table::{index, pruning, queues, slab};
pub use timers::{alarms, liveness, wheel};

use std::net::SocketAddr;
use std::num::NonZeroU32;

use exos_buf::Slice;
use exos_wire::SeqNumber;
use exos_wire::tcp::TcpFlags;

pub use connection::{Connection, Path};
pub use ecn::{Ecn, EcnMode};
pub use event::{Event, EventSet, OpenError, Reason};
pub use flow::Flow;
pub(crate) use flow::FlowKey;
pub use handover::{DetachedConnection, HandoverError};
pub use info::Info;
pub use input::Segment;
pub use ip::IpFields;
pub use listener::{ListenOptions, ListenerId, Share, SynCookies};
pub use liveness::Keepalive;
pub use memory::{MemoryInfo, Pressure};
pub use options::Options;
pub use output::Outgoing;
pub use ports::Source;
pub use reply::Reply;
pub use slab::ConnectionId;
pub use state::State;

use crate::counters::Counters;
use crate::icmp::{self, TokenBucket};
use crate::limits::{MSS_DEFAULT_V4, MSS_DEFAULT_V6, SYN_COOKIES_BURST, SYN_COOKIES_PER_SECOND};
use crate::siphash::SipKey;
use crate::time::{Duration, Instant};
use handover::HandedOver;
use index::Index;
use input::{Context, Outcome};
use listener::Listener;
use memory::Memory;
use passive::Arrived;
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
            connections_max,
            among_others: false,
            unknown: false,
            fast_paths: true,
            outgoing: Outgoing::NONE,
        }
    }

    // Commands.

    /// Open a connection from `source` to `remote`.
    pub fn connect(
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

    /// The program has taken `count` of the readable bytes. Panics when there are not so many.
    pub fn consume(&mut self, id: ConnectionId, count: usize) {
        // Also of a connection that is over: its last bytes are read like all others.
        let Some(entry) = self.slab.entry_mut(id) else {
            return;
        };
        let c = &mut entry.connection;
        let owed = c.receiver.owed();
        c.receiver.set_pressure(self.memory.pressure());
        // What is kept goes back when the connection rests, which the wheel tells.
        if entry.armed != connection::NEVER && !entry.closed {
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

    /// Give a connection up: the peer is sent a reset, the program hears that it is over.
    pub fn abort(&mut self, id: ConnectionId, counters: &mut Counters) {
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

    /// The same of a command after which there may be something to send, and nothing else is new.
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

    // What arrives.

    /// Take in a segment from `flow.remote()` to `flow.local()`. True when it acknowledges something new:
    /// then the peer hears us, and so does the neighbour on the way to it.
    pub fn handle_segment(
        &mut self,
        now: Instant,
        flow: Flow,
        seg: &Segment<'_>,
        local: Local,
        counters: &mut Counters,
    ) -> bool {
        counters.tcp_segments_received += 1;
        let hash = flow.table_hash(&self.key);
        if let Some(id) = self.find(&flow, hash) {
            self.found = Some(id);
            return self.deliver(now, id, seg, counters);
        }
        if self.handed_over.has(now, &flow, !seg.has(TcpFlags::SYN)) {
            counters.drop_tcp_handed_over += 1;
            return false;
        }
        let arrived = Arrived {
            now,
            flow,
            hash,
            seg,
            local,
        };
        if !self.in_time_wait(arrived, counters) {
            self.in_listen(arrived, None, counters);
        }
        false
    }

    fn deliver(
        &mut self,
        now: Instant,
        id: ConnectionId,
        seg: &Segment<'_>,
        counters: &mut Counters,
    ) -> bool {
        let Some(entry) = self.slab.entry_mut(id).filter(|e| !e.closed) else {
            return false;
        };
        let c = &mut entry.connection;
        c.receiver.set_pressure(self.memory.pressure());
        if !self.fast_paths || !c.is_predicted(seg) {
            return self.deliver_by_steps(now, id, seg, counters);
        }
        let progress = seg.ack != c.snd_una;
        let mut cx = Context {
            now,
            counters,
            replies: &mut self.replies,
            memory: &mut self.memory,
        };
        c.take_predicted(seg, &mut cx);
        self.queues.settle(id, entry);
        self.queues.see_to_rest(now, id, entry);
        if self.memory.wants_pruning() {
            self.prune(counters);
        }
        progress
    }

    #[inline(never)]
    fn deliver_by_steps(
        &mut self,
        now: Instant,
        id: ConnectionId,
        seg: &Segment<'_>,
        counters: &mut Counters,
    ) -> bool {
        if self.offloads_syns && self.replaces(now, id, seg, counters) {
            return false;
        }
        let Some(entry) = self.slab.entry_mut(id).filter(|e| !e.closed) else {
            return false;
        };
        let c = &mut entry.connection;
        let acknowledged = c.snd_una;
        let half_open = c.is_half_open();
        if self.among_others && half_open && !c.is_answered_by(seg) {
            // A SYN that was repeated may have gone to another stack, which has answered it again.
            self.unknown = true;
            return false;
        }
        let outcome = c.handle_segment(
            seg,
            &mut Context {
                now,
                counters,
                replies: &mut self.replies,
                memory: &mut self.memory,
            },
        );
        let progress = c.snd_una.gt(acknowledged);
        let begins_to_hold = c.receiver.queue_mut().begins_to_hold();
        let opened = half_open && c.state() != State::SynReceived;
        if outcome == Outcome::Keep {
            self.queues.settle(id, entry);
            self.queues.see_to_rest(now, id, entry);
        }
        if opened {
            let listener = entry.connection.listener;
            self.half_open_ended(listener);
        }
        if outcome != Outcome::Keep {
            self.conclude(now, id, outcome, counters);
        }
        if begins_to_hold {
            self.note_prunable(id);
        }
        if self.memory.wants_pruning() {
            self.prune(counters);
        }
        progress
    }

    /// Do as the connection's outcome says.
    #[inline]
    pub(super) fn conclude(
        &mut self,
        now: Instant,
        id: ConnectionId,
        outcome: Outcome,
        counters: &mut Counters,
    ) {
        match outcome {
            Outcome::Keep => {}
            Outcome::Close(reason) => self.close(id, reason),
            Outcome::TimeWait => self.start_time_wait(now, id, counters),
        }
        self.settle(id);
    }

    /// An ICMP error says that the peer of `flow` cannot be reached (RFC 1122 §4.2.3.9).
    ///
    /// It is heard only when `seq` is in flight (RFC 5927 §4.1). Only a hard error for a connection that
    /// is not standing yet ends it; any other is remembered, and retransmission goes on.
    pub fn handle_unreachable(
        &mut self,
        now: Instant,
        flow: &Flow,
        seq: SeqNumber,
        reason: icmp::Reason,
        hard: bool,
    ) {
        let Some(id) = self.find(flow, flow.table_hash(&self.key)) else {
            return;
        };
        let Some(c) = self.slab.get_mut(id) else {
            return;
        };
        if !seq.ge(c.snd_una) || !seq.lt(c.snd_max) {
            return;
        }
        if hard && c.state() == State::SynSent {
            c.follow(StateEvent::GiveUp);
            self.close(id, Reason::Unreachable);
            self.settle(id);
        } else if c.active || c.state().is_synchronized() {
            c.liveness.remember_error(now, reason);
        } else {
            // Of a half-open connection nothing more is kept: it may be a stranger's.
            c.syn_ack_is_unwanted();
        }
    }

    /// An ICMP error says that packets to the peer of `flow` must be smaller (RFC 1191, RFC 8201):
    /// `mss` is what then fits a segment, options not taken off.
    pub fn handle_too_big(&mut self, now: Instant, flow: &Flow, seq: SeqNumber, mss: u16) {
        let Some(id) = self.find(flow, flow.table_hash(&self.key)) else {
            return;
        };
        let Some(c) = self.slab.get_mut(id) else {
            return;
        };
        if seq.ge(c.snd_una) && seq.lt(c.snd_max) && c.shrink_segments(now, mss) {
            self.settle(id);
        }
    }
}
