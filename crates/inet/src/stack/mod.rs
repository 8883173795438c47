//! The stack of one link: takes frames apart, gives each part to its owner, and puts frames together.
//!
//! It performs nothing. Polling order, for each turn of a program's loop:
//!
//! 1. `handle_frame` for every frame that arrived, then `handle_timeout`;
//! 2. `poll_event` until there is none, the program giving its commands (through `tcp`, `udp` and
//!    the methods here);
//! 3. `poll_transmit` until there is none, or the link has no room;
//! 4. sleep until `poll_timeout`, or until frames arrive.
//!
//! In another order nothing breaks, but acknowledgements may leave without the data that they could
//! have ridden on. [`input`] holds the way in, `header_prediction` what it does with the headers that nearly all
//! segments have; [`output`] the way out, `segments` the heads of segments, `body` their data; `packets` what is no segment,
//! `passing` what others forward, `frames` what ARP and NDP say, `path_cache` link addresses looked up lately.

mod body;
mod frames;
mod header_prediction;
mod input;
mod output;
mod packets;
mod passing;
mod path_cache;
mod segments;
mod syn_offload;

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU64;
use std::ops::Range;

use exos_buf::Slice;
use exos_wire::{Mac, Sum, protocol};

use crate::counters::Counters;
use crate::fragment::Reassembler;
use crate::icmp::{self, Echo, IcmpPacket, IcmpSender};
use crate::limits::{CONNECTIONS_MAX, CONTROL_FRAMES_MAX, LOCAL_PORTS, TCP_MEMORY_BYTES_MAX};
use crate::neighbor::NeighborCache;
use crate::route::{Prefix, RouteError, Routes, link_local};
use crate::siphash::Random;
use crate::tcp::{self, Tcp};
use crate::time::Instant;
use crate::udp::{UdpError, UdpHandle, UdpTable};
use body::Summing;
use path_cache::PathCache;
use segments::Template;

pub use body::Body;
pub use input::Concern;
pub use output::{Transmit, TxChecksum};

/// What the link says about a received frame's transport checksum.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub enum RxChecksum {
    /// Nothing: it is verified here.
    Unknown,
    /// It is right, or the bytes never crossed a wire.
    Verified,
    /// The link is virtual, and a kernel on its other side may have left only the pseudo header's
    /// sum in the field: that is taken as well as a right checksum.
    MaybePartial,
}

/// What the link can do for what is sent.
#[derive(Copy, Clone, Debug, Default)]
pub struct Offload {
    /// It completes partial checksums.
    pub checksum: bool,
    /// It cuts TCP segments of up to this many bytes of frame, and completes their checksums.
    pub segmentation: Option<usize>,
}

/// Who knows the neighbours' link addresses.
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq)]
pub enum Neighbors {
    /// The stack asks by ARP and NDP, and answers for its addresses.
    #[default]
    Own,
    /// Somebody else who owns the addresses: `poll_unresolved` says what to ask them, and
    /// `set_neighbor` takes the answer.
    External,
}

/// A route beside those that follow from addresses and default routers.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub struct RouteTo {
    /// The destinations.
    pub network: IpAddr,
    /// How many leading bits of `network` count.
    pub prefix: u8,
    /// The router; `None` for destinations on the link itself.
    pub gateway: Option<IpAddr>,
}

/// What a stack is made with.
#[derive(Clone, Debug)]
pub struct Config {
    /// Our link address.
    pub mac: Mac,
    /// Largest IP packet of the link, in bytes.
    pub mtu: usize,
    /// Our addresses with their prefix lengths.
    pub addresses: Vec<(IpAddr, u8)>,
    /// Prefixes that are ours with all their addresses: a part of a network on the link, or a network that others route to
    /// one of `addresses`. Connections are opened from them where no source is said.
    pub pools: Vec<(IpAddr, u8)>,
    /// Local ports of connections that are opened where no source is said.
    pub local_ports: Range<u16>,
    /// Default routers, at most one of each family.
    pub gateways: Vec<IpAddr>,
    /// Further routes.
    pub routes: Vec<RouteTo>,
    /// Who knows the neighbours.
    pub neighbors: Neighbors,
    /// What the link does for us.
    pub offload: Offload,
    /// Connections at once.
    pub connections_max: usize,
    /// Verify the TCP and UDP checksums of what comes, where the link has not. Off, damaged data passes for good: to
    /// measure what verifying costs, or on a wire that damages nothing.
    pub verify_checksums: bool,
    /// Bytes that the receive queues of all connections should hold at most. Their windows shrink
    /// from half of this on; beyond it nothing new is taken.
    pub tcp_memory_bytes_max: usize,
}

impl Config {
    /// A stack on a link of the usual size, without addresses.
    pub fn new(mac: Mac, mtu: usize) -> Self {
        Self {
            mac,
            mtu,
            addresses: Vec::new(),
            pools: Vec::new(),
            local_ports: LOCAL_PORTS,
            gateways: Vec::new(),
            routes: Vec::new(),
            neighbors: Neighbors::Own,
            offload: Offload::default(),
            connections_max: CONNECTIONS_MAX,
            verify_checksums: true,
            tcp_memory_bytes_max: TCP_MEMORY_BYTES_MAX,
        }
    }
}

/// An answer to an echo request of ours.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub struct EchoReply {
    /// Who answered.
    pub from: IpAddr,
    /// The identifier of the request.
    pub ident: u16,
    /// The sequence number of the request.
    pub seq: u16,
}

/// A stack.
pub struct Stack {
    /// The connections; programs give their commands here.
    pub tcp: Tcp,
    /// The sockets of datagrams. Datagrams are sent with `udp_send`.
    pub udp: UdpTable,
    config: Config,
    routes: Routes,
    neighbors: NeighborCache,
    paths: PathCache,
    reassembler: Reassembler,
    icmp: IcmpSender,
    counters: Counters,
    /// Complete frames that wait to be sent.
    control: VecDeque<Vec<u8>>,
    /// The frame of `control` that was handed out last.
    frame: Vec<u8>,
    /// The head of the segment that was handed out last.
    head: Template,
    /// More of the burst of segments that the stack is handing out is left: whose it is, and where it goes.
    burst: Option<(tcp::ConnectionId, Mac)>,
    /// The body of a segment of too many pieces to be handed out one by one.
    gathered: Vec<u8>,
    /// In which slice of its queue the last segment's data began ([`Aggregate::piece`](exos_buf::Aggregate::piece)).
    near: usize,
    echo_replies: VecDeque<EchoReply>,
    random: Random,
    /// How often the routes have been replaced.
    epoch: u64,
    /// The frame at hand concerns every stack that has our addresses.
    concerns_all: bool,
    /// How the sums of data are come by where the link does not see to them.
    summing: Summing,
    /// Frames with the headers that nearly all have are recognised by them.
    predicts_headers: bool,
    /// For tests.
    fast_paths: FastPaths,
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
            routes: Routes::new(),
            neighbors,
            paths: PathCache::new(),
            reassembler: Reassembler::new(),
            icmp: IcmpSender::new(now),
            counters: Counters::default(),
            control: VecDeque::new(),
            frame: Vec::new(),
            head: Template::new(),
            burst: None,
            gathered: Vec::new(),
            near: 0,
            echo_replies: VecDeque::new(),
            random,
            epoch: 0,
            concerns_all: false,
            summing: Summing::Kept,
            predicts_headers: true,
            fast_paths: FastPaths::default(),
            config,
        };
        stack
            .tcp
            .set_memory_limit(stack.config.tcp_memory_bytes_max);
        stack.tcp.set_local_ports(stack.config.local_ports.clone());
        stack.add_routes()?;
        Ok(stack)
    }

    fn add_routes(&mut self) -> Result<(), RouteError> {
        for &(address, prefix) in &self.config.addresses {
            self.routes.add_address(address, prefix)?;
        }
        let own = self.config.neighbors == Neighbors::Own;
        if own && self.config.addresses.iter().any(|(a, _)| a.is_ipv6()) {
            // RFC 4291 §2.8: every interface that speaks IPv6 has a link-local address.
            match self
                .routes
                .add_address(link_local(self.config.mac).into(), 64)
            {
                Ok(()) | Err(RouteError::Duplicate(_)) => {}
                Err(e) => return Err(e),
            }
        }
        for &(address, prefix) in &self.config.pools {
            self.routes.add_pool(Prefix::new(address, prefix)?)?;
        }
        // What is on the link first: routers must be on it.
        for route in self.config.routes.iter().filter(|r| r.gateway.is_none()) {
            self.routes
                .add_on_link(Prefix::new(route.network, route.prefix)?)?;
        }
        for route in &self.config.routes {
            if let Some(gateway) = route.gateway {
                self.routes
                    .add_gateway(Prefix::new(route.network, route.prefix)?, gateway)?;
            }
        }
        for &gateway in &self.config.gateways {
            self.routes.set_default(gateway)?;
        }
        if own && self.epoch == 0 {
            let single = self.config.addresses.iter().map(|(address, _)| *address);
            let pools = self.routes.small_pools().flat_map(Prefix::iter);
            let all: Vec<IpAddr> = single.chain(pools).collect();
            all.into_iter().for_each(|address| self.announce(address));
        }
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
        self.routes = Routes::new();
        self.epoch += 1;
        self.add_routes()
    }

    /// Open a connection to `remote`. The source is of a pool, where there is one, or chosen by the routes, unless `source`
    /// says it.
    pub fn tcp_connect(
        &mut self,
        now: Instant,
        source: Option<SocketAddr>,
        remote: SocketAddr,
        options: &tcp::Options,
    ) -> Result<tcp::ConnectionId, tcp::OpenError> {
        if remote.ip().is_multicast() || self.routes.is_broadcast(remote.ip()) {
            return Err(tcp::OpenError::NotAHost);
        }
        if self.routes.next_hop(remote.ip()).is_none() {
            return Err(tcp::OpenError::NoRoute);
        }
        let local = self.local(remote.is_ipv6());
        let source = source_of(source, remote.ip(), &self.routes)?;
        self.tcp.connect(now, &source, remote, local, options)
    }

    /// Give a connection up.
    pub fn tcp_abort(&mut self, id: tcp::ConnectionId) {
        self.tcp.abort(id, &mut self.counters);
    }

    /// Take a connection out of this stack, to be put into another; `None` when it is gone or does not
    /// stand yet. For a while its segments are met with silence here.
    pub fn tcp_take_out(
        &mut self,
        now: Instant,
        id: tcp::ConnectionId,
    ) -> Option<tcp::DetachedConnection> {
        self.tcp.take_out(now, id)
    }

    /// Put a connection that was taken out of another stack into this one, which must have its local
    /// address and a route to its peer. On failure it is given back.
    pub fn tcp_put_in(
        &mut self,
        now: Instant,
        connection: tcp::DetachedConnection,
    ) -> Result<tcp::ConnectionId, (tcp::OpenError, tcp::DetachedConnection)> {
        let (ours, remote) = (connection.flow().local(), connection.flow().remote());
        if !self.routes.is_local(ours.ip()) || self.routes.next_hop(remote.ip()).is_none() {
            return Err((tcp::OpenError::NoRoute, connection));
        }
        let local = self.local(remote.is_ipv6());
        self.tcp.put_in(now, connection, local)
    }

    /// Send a datagram, in fragments where it is longer than the MTU.
    pub fn udp_send(
        &mut self,
        now: Instant,
        handle: UdpHandle,
        from: Option<IpAddr>,
        to: SocketAddr,
        payload: Slice,
    ) -> Result<(), UdpError> {
        let out = self.udp.send(handle, from, to, payload)?;
        let Some(source) = out.src.or_else(|| self.routes.source_for(to.ip())) else {
            self.counters.drop_ip_no_route += 1;
            return Ok(());
        };
        let payload = out.payload.as_bytes();
        let mut datagram = vec![0; exos_wire::udp::LEN + payload.len()];
        let header = exos_wire::udp::UdpHeader {
            src_port: out.src_port,
            dst_port: out.dst.port(),
        };
        let pseudo = Sum::pseudo(source, to.ip(), protocol::UDP, datagram.len() as u32);
        header.emit(
            payload.len(),
            pseudo.plus(out.payload.sum(0..payload.len())),
            &mut datagram,
        );
        datagram[exos_wire::udp::LEN..].copy_from_slice(payload);
        self.send_ip(now, source, to.ip(), protocol::UDP, &datagram);
        Ok(())
    }

    /// Send an echo request. The answer comes out of `poll_echo_reply`.
    pub fn ping(&mut self, now: Instant, to: IpAddr, ident: u16, seq: u16, data: &[u8]) -> bool {
        let Some(source) = self.routes.source_for(to) else {
            return false;
        };
        self.send_icmp(
            now,
            &icmp::echo(Echo::Request, source, to, ident, seq, data),
        );
        true
    }

    /// Somebody else says what the link address of a neighbour is.
    pub fn set_neighbor(&mut self, now: Instant, ip: IpAddr, mac: Mac) {
        let waiting = self.neighbors.learn(now, ip, mac);
        self.queue_frames(waiting);
    }

    /// Find out the link address of a neighbour, or make sure of it; `neighbors` knows it then. Nothing is
    /// done for addresses that are not on the link.
    pub fn resolve(&mut self, now: Instant, ip: IpAddr) {
        if self.routes.next_hop(ip) == Some(ip) && !ip.is_multicast() {
            let _ = self.neighbors.lookup(now, ip);
        }
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

    // What the program hears.

    /// News of a connection.
    #[inline]
    pub fn poll_event(&mut self) -> Option<tcp::Event> {
        self.tcp.poll_event()
    }

    /// An answer to a `ping`.
    pub fn poll_echo_reply(&mut self) -> Option<EchoReply> {
        self.echo_replies.pop_front()
    }

    /// With external neighbours: an address whose link address is needed.
    pub fn poll_unresolved(&mut self) -> Option<IpAddr> {
        self.neighbors.poll_unresolved()
    }

    // Time.

    /// When to call `handle_timeout` next. May be early, is never late.
    pub fn poll_timeout(&self, now: Instant) -> Option<Instant> {
        let others = [
            self.neighbors.poll_timeout(),
            self.reassembler.poll_timeout(),
        ];
        others
            .into_iter()
            .flatten()
            .chain(self.tcp.poll_timeout(now))
            .min()
    }

    /// See to all deadlines that are over.
    #[inline]
    pub fn handle_timeout(&mut self, now: Instant) {
        let is_over = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        let due =
            is_over(self.neighbors.poll_timeout()) || is_over(self.reassembler.poll_timeout());
        if due || self.neighbors.has_failed() || self.tcp.wants_time(now) {
            self.see_to_deadlines(now);
        }
    }

    fn see_to_deadlines(&mut self, now: Instant) {
        self.tcp.handle_timeout(now, &mut self.counters);
        if self.neighbors.poll_timeout().is_some_and(|at| at <= now) {
            self.neighbors.handle_timeout(now);
        }
        while let Some((_, frames)) = self.neighbors.poll_failed() {
            self.counters.drop_neighbor_unresolved += frames.len() as u64;
        }
        if self.reassembler.poll_timeout().is_some_and(|at| at <= now) {
            self.expire_fragments(now);
        }
    }

    fn expire_fragments(&mut self, now: Instant) {
        self.reassembler.handle_timeout(now);
        while let Some(quote) = self.reassembler.poll_expired() {
            self.report(now, &quote, icmp::Problem::ReassemblyTimeExceeded, false);
        }
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

    /// The address of ours that a packet to `to` would come from; `None` when no route leads there.
    pub fn source_for(&self, to: IpAddr) -> Option<IpAddr> {
        self.routes.source_for(to)
    }

    /// The neighbours that are known or being asked for.
    pub fn neighbors(&self) -> &NeighborCache {
        &self.neighbors
    }

    /// What a connection to a peer of this family needs to know.
    fn local(&self, ipv6: bool) -> tcp::Local {
        let headers = exos_wire::tcp::LEN
            + if ipv6 {
                exos_wire::ipv6::LEN
            } else {
                exos_wire::ipv4::LEN
            };
        tcp::Local {
            mss: self
                .config
                .mtu
                .saturating_sub(headers)
                .min(usize::from(u16::MAX)) as u16,
        }
    }

    /// Our addresses and the next hops to others, with a number that is another after a change.
    pub fn routes(&self) -> (u64, &Routes) {
        let generation = (self.epoch << 32).wrapping_add(self.routes.generation());
        (generation, &self.routes)
    }

    /// Changes whenever a path that was looked up may have become wrong.
    #[inline]
    fn path_generation(&self) -> NonZeroU64 {
        let generation = (self.epoch << 32) + self.neighbors.generation();
        NonZeroU64::MIN.saturating_add(generation)
    }

    /// Frames that waited for their neighbour leave; how many wait is bounded there.
    fn queue_frames(&mut self, frames: Vec<Vec<u8>>) {
        self.control.extend(frames);
    }

    fn queue_frame(&mut self, frame: Vec<u8>) {
        if self.control.len() < CONTROL_FRAMES_MAX {
            self.control.push_back(frame);
        } else {
            self.counters.drop_control_queue_full += 1;
        }
    }

    fn send_icmp(&mut self, now: Instant, packet: &IcmpPacket) {
        self.send_ip(
            now,
            packet.src,
            packet.dst,
            packet.protocol,
            &packet.message,
        );
    }

    /// Send an ICMP error about a received packet, where the rules and the rate allow it.
    fn report(&mut self, now: Instant, packet: &[u8], problem: icmp::Problem, group_frame: bool) {
        match self
            .icmp
            .error(now, packet, problem, &self.routes, group_frame)
        {
            Ok(error) => {
                self.counters.icmp_errors_sent += 1;
                self.send_icmp(now, &error);
            }
            Err(icmp::Silence::RateLimited) => self.counters.drop_icmp_rate_limited += 1,
            Err(_) => {}
        }
    }
}

/// From where to connect to `to`.
fn source_of(
    said: Option<SocketAddr>,
    to: IpAddr,
    routes: &Routes,
) -> Result<tcp::Source<'_>, tcp::OpenError> {
    if let Some(said) = said {
        return Ok(match said.port() {
            0 => tcp::Source::Address(said.ip()),
            _ => tcp::Source::Exactly(said),
        });
    }
    let pools = routes.pools_to(to);
    if !pools.is_empty() {
        return Ok(tcp::Source::Pools(pools));
    }
    let chosen = routes.source_for(to).ok_or(tcp::OpenError::NoRoute)?;
    Ok(tcp::Source::Address(chosen))
}
