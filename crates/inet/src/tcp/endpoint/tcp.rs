//! All connections of one stack: what they are made of, and what may be asked of it.
//!
//! Beside it in this folder stand what happens to all of them: `arrival` of segments, `turns` of time and output.

use std::rc::Rc;
use std::sync::Arc;

use crate::counters::Counters;
use crate::icmp::TokenBucket;
use crate::limits::{SYN_COOKIES_BURST, SYN_COOKIES_PER_SECOND};
use crate::route::Routes;
use crate::siphash::SipKey;
use crate::tcp::connection::Connection;
use crate::tcp::opening::listeners::{ListenOptions, ListenerId, Listeners};
use crate::tcp::opening::ports::Ports;
use crate::tcp::shared::memory::{Memory, MemoryInfo};
use crate::tcp::shared::reply::Replies;
use crate::tcp::shared::room::{Room, SharedRoom};
use crate::tcp::table::index::Index;
use crate::tcp::table::pruning::Prunable;
use crate::tcp::table::queues::Queues;
use crate::tcp::table::recycling::Recycled;
use crate::tcp::table::silence::HandedOver;
use crate::tcp::table::slab::Slab;
use crate::tcp::table::time_wait::TimeWaitTable;
use crate::tcp::values::flow::Flow;
use crate::tcp::values::id::ConnectionId;
use crate::tcp::values::outgoing::Outgoing;
use crate::time::Instant;

/// Where connections may lead, and what aborted ones have counted.
#[derive(Default)]
pub(super) struct Network {
    pub(super) routes: Rc<Routes>,
    /// Of the link, in bytes.
    pub(super) mtu: usize,
    /// Boxed, because it is out of its place while a connection is aborted.
    pub(super) aborted: Option<Box<Counters>>,
}

/// All connections of one stack.
pub struct Tcp {
    pub(super) slab: Slab,
    pub(super) index: Index,
    pub(super) listeners: Listeners,
    pub(super) time_wait: TimeWaitTable,
    pub(super) queues: Queues,
    /// The connection to which the last segment belonged.
    pub(super) found: Option<ConnectionId>,
    /// Its end has been told; its last bytes may still be read.
    pub(super) ending: Option<ConnectionId>,
    pub(super) replies: Replies,
    pub(super) cookie_rate: TokenBucket,
    /// Somebody answers SYNs of a listener for us.
    pub(super) offloads_syns: bool,
    /// Of the receive queues of all connections.
    pub(super) memory: Memory,
    /// Connections with data beyond gaps, which can be given up.
    pub(super) prunable: Prunable,
    /// Of ended connections, for new ones.
    pub(super) recycled: Recycled,
    pub(super) handed_over: HandedOver,
    pub(super) key: SipKey,
    pub(super) ports: Ports,
    pub(super) network: Network,
    pub(super) room: Room,
    /// The segment at hand may be of another stack's connection ([`Stack::handle_frame_among`](crate::Stack)).
    pub(crate) addresses_shared: bool,
    /// It is of none that is known here, and was left as it is.
    pub(crate) belongs_elsewhere: bool,
    /// The connection that it begins, by a cookie of who answers SYNs for us, unless another stack has that.
    pub(crate) begins: Option<Flow>,
    /// Headers are predicted, and several segments asked of a connection at once.
    pub(super) fast_paths: bool,
    /// The segment that left last, or leaves.
    pub(super) outgoing: Outgoing,
}

impl Tcp {
    /// No connections yet. `seed` must be secret where outsiders' guesses matter (RFC 6528).
    pub fn new(now: Instant, seed: u64, connections_max: usize) -> Self {
        let key = SipKey::from_seed(seed);
        Self {
            slab: Slab::default(),
            index: Index::default(),
            listeners: Listeners::default(),
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
            ports: Ports::default(),
            network: Network::default(),
            room: Room::new(connections_max),
            addresses_shared: false,
            belongs_elsewhere: false,
            begins: None,
            fast_paths: true,
            outgoing: Outgoing::NONE,
        }
    }

    // Getters.

    /// A connection, until its `CLOSED` event has been taken.
    #[inline]
    pub fn connection(&self, id: ConnectionId) -> Option<&Connection> {
        self.slab.get(id)
    }

    /// The connections whose flow is one of these, those in TIME-WAIT apart. Looks at all that there are.
    pub fn connections_where(&self, is_one: impl Fn(&Flow) -> bool) -> Vec<ConnectionId> {
        let standing = self.slab.standing();
        let wanted = standing.filter(|(_, connection)| is_one(connection.flow()));
        wanted.map(|(id, _)| id).collect()
    }

    /// Where a listener listens, and how; `None` where it does not any more.
    pub fn listener(&self, id: ListenerId) -> Option<(u16, ListenOptions)> {
        let at = self.listeners.position(id)?;
        let listener = self.listeners.at(at);
        Some((listener.port, listener.options.clone()))
    }

    /// Take this many connections at once from now on; further SYNs are not answered. Those that stand go on.
    pub fn set_connections_max(&mut self, count: usize) {
        self.room = Room::new(count);
    }

    /// How many connections there may be at once; where that is [shared](Self::share_room), how many as it is now.
    pub fn connections_max(&self) -> usize {
        self.room.held()
    }

    /// Have the limit of connections together with others from now on, until [another one is set](Self::set_connections_max). What
    /// stands has room that is not in `shared`.
    pub fn share_room(&mut self, shared: Arc<dyn SharedRoom>) {
        self.room = Room::shared(shared, self.index.len());
    }

    /// Have the room of one connection more: of one that others had, and give up to this stack.
    pub fn add_room(&mut self) {
        self.room.add();
    }

    /// Give back the shared room that is not needed; once a turn.
    pub fn give_room_back(&mut self) {
        self.room.give_back(self.index.len());
    }

    pub(super) fn has_room(&mut self) -> bool {
        self.room.has_room(self.index.len())
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
