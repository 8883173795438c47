//! A stack: what it is made of, and what may be asked of it.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::num::NonZeroU64;
use std::rc::Rc;

use exos_wire::Mac;

use crate::counters::Counters;
use crate::fragment::Reassembler;
use crate::icmp::IcmpSender;
use crate::limits::CONTROL_FRAMES_MAX;
use crate::neighbor::{NeighborCache, frames};
use crate::route::{Prefix, RouteError, Routes};
use crate::siphash::Random;
use crate::stack::config::{Config, Neighbors, RouteTo};
use crate::stack::handler::{Handling, OfAnother, StreamHandling};
use crate::stack::joined::segment::Joined;
use crate::stack::loopback::frames::Loopback;
use crate::stack::output::body::Summing;
use crate::stack::output::bursts::Bursts;
use crate::stack::output::path_cache::PathCache;
use crate::stack::output::segments::Template;
use crate::stack::pings::Pings;
use crate::tcp::{self, Tcp};
use crate::time::Instant;
use crate::udp::UdpTable;

/// A stack.
pub struct Stack {
    /// The connections; programs give all their commands here.
    pub tcp: Tcp,
    /// The sockets of datagrams. Datagrams are sent with [`udp_send`](Self::udp_send).
    pub udp: UdpTable,
    pub(super) handling: Vec<Handling>,
    /// Ports of which some datagrams are for other stacks with our addresses.
    pub(super) shared_ports: Vec<(u16, OfAnother)>,
    pub(super) streams: Vec<StreamHandling>,
    pub(super) config: Config,
    pub(super) routes: Rc<Routes>,
    pub(super) neighbors: NeighborCache,
    pub(super) paths: PathCache,
    pub(super) reassembler: Reassembler,
    pub(super) joined: Joined,
    pub(super) icmp: IcmpSender,
    pub(super) counters: Counters,
    /// Complete frames that wait to be sent.
    pub(super) control: VecDeque<Vec<u8>>,
    /// Datagrams of one length that wait to be sent together.
    pub(super) bursts: Bursts,
    /// Frames that come back to us.
    pub(super) loopback: Loopback,
    /// The frame of `control` that was handed out last.
    pub(super) frame: Vec<u8>,
    /// The head of the segment that was handed out last.
    pub(super) head: Template,
    /// More of the burst of segments that the stack is handing out is left: whose it is, and where it goes.
    pub(super) burst: Option<(tcp::ConnectionId, Mac)>,
    /// The body of a segment of too many pieces to be handed out one by one.
    pub(super) gathered: Vec<u8>,
    /// In which slice of its queue the last segment's data began ([`Aggregate::piece`](exos_buf::Aggregate::piece)).
    pub(super) near: usize,
    pub(super) pings: Pings,
    pub(super) random: Random,
    /// How often the routes have been replaced.
    pub(super) epoch: u64,
    /// The frame at hand concerns every stack that has our addresses.
    pub(super) for_every_stack: bool,
    /// How the sums of data are come by where the link does not see to them.
    pub(super) summing: Summing,
    /// Frames with the headers that nearly all have are recognised by them.
    pub(super) predicts_headers: bool,
    /// For tests.
    pub(super) fast_paths: FastPaths,
}

/// How many frames went each of the fast paths, so that tests can tell what they have compared: in debug builds only, else
/// all is zero.
#[doc(hidden)]
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq)]
pub struct FastPaths {
    /// Recognised by header prediction.
    pub predicted: u64,
    /// Left in a burst, behind its first.
    pub in_bursts: u64,
}

impl Stack {
    /// A stack on a link. `seed` must be secret: sequence numbers follow from it.
    pub fn new(config: Config, seed: u64, now: Instant) -> Result<Self, RouteError> {
        let mut random = Random::new(seed);
        let neighbors = match config.neighbors {
            Neighbors::Own => NeighborCache::new(random.next_u64()),
            Neighbors::External => NeighborCache::external(random.next_u64()),
        };
        let mut stack = Self {
            tcp: Tcp::new(now, random.next_u64(), config.connections_max),
            udp: UdpTable::new(random.next_u64()),
            handling: Vec::new(),
            shared_ports: Vec::new(),
            streams: Vec::new(),
            routes: Rc::default(),
            neighbors,
            paths: PathCache::new(),
            reassembler: Reassembler::new(),
            joined: Joined::default(),
            icmp: IcmpSender::new(now),
            counters: Counters::default(),
            control: VecDeque::new(),
            bursts: Bursts::default(),
            loopback: Loopback::default(),
            frame: Vec::new(),
            head: Template::new(),
            burst: None,
            gathered: Vec::new(),
            near: 0,
            pings: Pings::default(),
            random,
            epoch: 0,
            for_every_stack: false,
            summing: Summing::Kept,
            predicts_headers: true,
            fast_paths: FastPaths::default(),
            config,
        };
        stack
            .tcp
            .set_memory_limit(stack.config.tcp_memory_bytes_max);
        stack.tcp.set_local_ports(stack.config.local_ports.clone());
        stack.use_routes()?;
        if stack.config.neighbors == Neighbors::Own {
            let single = stack.config.addresses.iter().map(|(address, _)| *address);
            let pools = stack.routes.small_pools().flat_map(Prefix::iter);
            let all: Vec<IpAddr> = single.chain(pools).collect();
            all.into_iter().for_each(|address| stack.announce(address));
        }
        Ok(stack)
    }

    /// What the configuration says of addresses and routes holds from now on.
    fn use_routes(&mut self) -> Result<(), RouteError> {
        self.routes = Rc::new(self.config.to_routes()?);
        self.tcp
            .use_routes(Rc::clone(&self.routes), self.config.mtu);
        Ok(())
    }

    // Commands.

    /// Use these further routes and default routers from now on, instead of those before.
    pub fn set_routes(
        &mut self,
        routes: Vec<RouteTo>,
        gateways: Vec<IpAddr>,
    ) -> Result<(), RouteError> {
        self.config.routes = routes;
        self.config.gateways = gateways;
        self.epoch += 1;
        self.use_routes()
    }

    /// Let everybody on the link know our link address for `address` (RFC 5227 §2.3, RFC 4861 §7.2.6).
    pub fn announce(&mut self, address: IpAddr) {
        let frame = frames::announcement(self.config.mac, address);
        self.queue_frame(frame);
    }

    /// Sum the data of each segment over its bytes when it leaves, as a stack does that knows nothing of what it
    /// sends: to measure what the sums that buffers keep are worth.
    pub fn sum_data_afresh(&mut self) {
        self.summing = Summing::Afresh;
    }

    /// Parse every frame header by header, let it take all steps, and take one segment after the other from connections: for
    /// tests that compare this with header prediction and bursts.
    #[doc(hidden)]
    pub fn without_fast_paths(&mut self) {
        self.predicts_headers = false;
        self.tcp.without_fast_paths();
    }

    /// How many frames went the fast paths, for tests.
    #[doc(hidden)]
    pub fn fast_paths_taken(&self) -> FastPaths {
        self.fast_paths
    }

    // Getters.

    /// What was counted so far, by name.
    pub fn counters(&self) -> Counters {
        let mut all = self.counters.clone();
        let fragments = self.reassembler.counters();
        all.fragments_received = fragments.received;
        all.fragments_reassembled = fragments.reassembled;
        all.drop_fragment = fragments.overlaps
            + fragments.mixed_ecn
            + fragments.condemned
            + fragments.bad_length
            + fragments.headless
            + fragments.oversized
            + fragments.scattered
            + fragments.evicted
            + fragments.timeouts;
        let neighbors = self.neighbors.counters();
        all.drop_neighbor_unresolved += neighbors.frames_overflowed + neighbors.frames_unexpected;
        [
            all.tcp_memory_moderate,
            all.tcp_memory_high,
            all.tcp_memory_full,
        ] = self.tcp.memory_stages();
        all.udp_received = self.udp.counters().delivered;
        self.tcp.add_counters(&mut all);
        all
    }

    /// What the stack was made with.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Our addresses, the link-local one included.
    pub fn addresses(&self) -> &[Prefix] {
        self.routes.addresses()
    }

    /// Whether an address is ours, alone or of a pool: packets to it come back to us.
    pub fn has_address(&self, ip: IpAddr) -> bool {
        self.routes.is_local(ip)
    }

    /// The address of ours that a packet to `to` would come from; `None` when no route leads there.
    pub fn source_for(&self, to: IpAddr) -> Option<IpAddr> {
        self.routes.source_for(to)
    }

    /// The neighbours that are known or being asked for.
    pub fn neighbors(&self) -> &NeighborCache {
        &self.neighbors
    }

    /// What a connection to a peer of this family needs to know.
    pub(super) fn local(&self, ipv6: bool) -> tcp::Local {
        self.tcp.local(ipv6)
    }

    /// Our addresses and the next hops to others, with a number that is another after a change.
    pub fn routes(&self) -> (u64, &Routes) {
        let generation = (self.epoch << 32).wrapping_add(self.routes.generation());
        (generation, &self.routes)
    }

    /// Changes whenever a path that was looked up may have become wrong.
    #[inline]
    pub(super) fn path_generation(&self) -> NonZeroU64 {
        let generation = (self.epoch << 32) + self.neighbors.generation();
        NonZeroU64::MIN.saturating_add(generation)
    }

    /// Frames that waited for their neighbour leave; how many wait is bounded there.
    pub(super) fn queue_frames(&mut self, frames: Vec<Vec<u8>>) {
        self.control.extend(frames);
    }

    /// Frames of datagrams that can wait to leave before [`poll_transmit`](Self::poll_transmit) takes some; of more, some are
    /// dropped.
    pub fn datagram_room(&self) -> usize {
        let waiting = self.control.len() + self.bursts.waiting();
        CONTROL_FRAMES_MAX.saturating_sub(waiting)
    }

    pub(super) fn queue_frame(&mut self, frame: Vec<u8>) {
        if self.control.len() < CONTROL_FRAMES_MAX {
            self.control.push_back(frame);
        } else {
            self.counters.drop_control_queue_full += 1;
        }
    }
}
