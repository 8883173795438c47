//! The way out: control frames first (questions for neighbours among them), then answers of no
//! connection, then segments.
//!
//! A segment leaves as a head, written into the stack's scratch space, and a body that refers to
//! the program's own slices: nothing is copied here, and the sum of the body is taken from the
//! slices' cached sums. Connections hand out bursts of several segments at once: where the link cannot cut them up, it is
//! done here, a frame each time. What is small and rare (ARP, NDP, ICMP, UDP) leaves as complete frames.

pub(super) mod body;
pub(super) mod bursts;
mod packets;
pub(super) mod path_cache;
pub(super) mod segments;

use std::net::IpAddr;

use exos_wire::{Mac, Sum, TxChecksum};

use crate::neighbor::frames::{arp_question, ndp_question};
use crate::neighbor::{Lookup, Solicit};
use crate::stack::state::Stack;
use crate::tcp::{ConnectionId, Outgoing, Path, Reply};
use crate::time::Instant;

use body::{Body, Summing, gather};
use bursts::Cut;

/// A frame to be sent: head, then body. Borrowed from the stack until the next call.
pub struct Transmit<'a> {
    /// The headers, or a whole small frame.
    pub head: &'a [u8],
    /// The data.
    pub body: Body<'a>,
    /// What is left to do for the checksum.
    pub checksum: TxChecksum,
    /// The link shall cut the data into segments of this many bytes.
    pub segment_size: Option<u16>,
    /// The packet is IPv6.
    pub ipv6: bool,
    /// What is to be cut is of UDP: each piece is a datagram.
    pub datagrams: bool,
}

/// Where packets for a host go.
#[derive(Copy, Clone)]
pub(super) enum NextHop {
    /// To this link address.
    Known(Mac),
    /// To this neighbour, once its link address is known.
    Pending(IpAddr),
    /// Back to us.
    Loopback,
    /// No route leads there.
    None,
}

impl Stack {
    /// The next frame to send, or `None` when there is nothing to send now. It is asked for until there is none; a link
    /// that may have no room before is for [`poll_transmit_within`](Self::poll_transmit_within).
    #[inline]
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Transmit<'_>> {
        self.poll_transmit_within(now, usize::MAX)
    }

    /// The next frame to send, when this many may be sent before the stack is given anything else. Segments that are
    /// decided on together count as sent with the first of them, so there are no more of these than there is room for.
    #[inline]
    pub fn poll_transmit_within(&mut self, now: Instant, room: usize) -> Option<Transmit<'_>> {
        if room == 0 {
            return None;
        }
        let errands =
            self.neighbors.has_solicits() || !self.control.is_empty() || self.tcp.has_replies();
        if errands || self.bursts.waiting() > 0 {
            return self.poll_errands(now, room);
        }
        if self.tcp.is_silent() && self.burst.is_none() {
            return None;
        }
        self.poll_connections(now, room)
    }

    /// What leaves before any segment of a connection, and then these.
    #[inline(never)]
    fn poll_errands(&mut self, now: Instant, room: usize) -> Option<Transmit<'_>> {
        while let Some(solicit) = self.neighbors.poll_solicit(now) {
            self.solicit(&solicit);
        }
        if let Some(frame) = self.control.pop_front() {
            self.counters.frames_sent += 1;
            self.frame = frame;
            return Some(whole_frame(&self.frame));
        }
        while let Some(reply) = self.tcp.poll_reply() {
            if self.write_reply(now, &reply) {
                self.counters.frames_sent += 1;
                return Some(whole_frame(self.head.bytes()));
            }
        }
        if self.bursts.waiting() > 0 {
            return self.poll_bursts(room);
        }
        self.poll_connections(now, room)
    }

    /// The next of datagrams that leave together.
    fn poll_bursts(&mut self, room: usize) -> Option<Transmit<'_>> {
        let offload = &self.config.offload;
        let cut = Cut {
            whole_max: offload.segmentation.filter(|_| offload.datagrams),
            checksum: offload.checksum,
        };
        self.counters.frames_sent += 1;
        self.bursts.poll_transmit(room, cut)
    }

    fn poll_connections(&mut self, now: Instant, room: usize) -> Option<Transmit<'_>> {
        if let Some(to) = self.burst.take()
            && self.tcp.next_of_burst(to.0)
        {
            self.fast_paths.in_bursts += u64::from(cfg!(debug_assertions));
            return Some(self.segment(to, true));
        }
        // Segments whose way is not known wait with their neighbour, and the next has its turn.
        while let Some(id) = self.tcp.poll_output(now, self.data_max(), room) {
            match self.path_of(now, id) {
                NextHop::Known(mac) => return Some(self.segment((id, mac), false)),
                NextHop::Loopback => self.loop_segments(id),
                hop => self.withhold_segment(id, hop),
            }
        }
        if self.neighbors.has_solicits() {
            // Looking for a way has raised a question: it leaves now, not with the next event.
            return self.poll_errands(now, room);
        }
        None
    }

    /// Whether the link is handed segments to cut up from now on, of up to this many bytes of frame ([`Offload::segmentation`]):
    /// where it can, it need not be cheaper. A burst that is under way ends as it began.
    ///
    /// [`Offload::segmentation`]: super::Offload::segmentation
    pub fn set_segmentation(&mut self, segmentation: Option<usize>) {
        if self.burst.is_none() {
            self.config.offload.segmentation = segmentation;
        }
    }

    /// Whether datagrams, too, are handed to the link to cut up from now on ([`Offload::datagrams`]).
    ///
    /// [`Offload::datagrams`]: super::Offload::datagrams
    pub fn set_datagram_segmentation(&mut self, datagrams: bool) {
        self.config.offload.datagrams = datagrams;
    }

    /// The most data of a segment that the link cuts up; zero where it does not.
    #[inline]
    fn data_max(&self) -> u32 {
        let segmentation = self.config.offload.segmentation;
        segmentation.map_or(0, |max| max.saturating_sub(100) as u32)
    }

    /// Hand out the segment that a connection has just given, or the first of several: write its head and refer to its
    /// data. It `continues` a burst.
    #[inline]
    fn segment(&mut self, to: (ConnectionId, Mac), continues: bool) -> Transmit<'_> {
        let out = self.tcp.outgoing();
        let several = out.data.len() > usize::from(out.mss);
        let link_cuts = several && self.config.offload.segmentation.is_some();
        let data = match link_cuts {
            true => out.data.clone(),
            false => out.first(),
        };
        self.burst = (several && !link_cuts).then_some(to);
        self.counters.frames_sent += 1;
        self.counters.tcp_segments_sent += 1;
        self.counters.tcp_segments_retransmitted += u64::from(out.again);
        let connection = self
            .tcp
            .connection(to.0)
            .expect("a connection that has just given a segment");
        // What is cut up gets its checksums from the one that cuts it.
        let summing = match self.config.offload.checksum || link_cuts {
            true => Summing::Link,
            false => self.summing,
        };
        let (near, copy) = (&mut self.near, &mut self.gathered);
        let len = data.len();
        let (body, sum) = gather(connection.queue(), data, near, copy, summing);
        let head = &mut self.head;
        let checksum = match sum.filter(|_| continues && head.is_of(to)) {
            Some(data) => head.write_next(out.seq, data),
            None => {
                head.continue_with(to, self.config.mac, connection.flow(), out.ip);
                head.write_tcp(out, len, sum)
            }
        };
        Transmit {
            head: self.head.bytes(),
            body,
            checksum,
            segment_size: link_cuts.then_some(out.mss),
            ipv6: self.head.is_ipv6(),
            datagrams: false,
        }
    }

    /// Where a connection's segments go: what was found last time, unless something has changed.
    #[inline]
    fn path_of(&mut self, now: Instant, id: ConnectionId) -> NextHop {
        let generation = self.path_generation();
        let Some(connection) = self.tcp.connection(id) else {
            return NextHop::None;
        };
        if let Some(path) = connection.path
            && path.generation == generation
        {
            return NextHop::Known(path.mac);
        }
        let (remote, doubted) = (connection.flow().remote().ip(), connection.doubts_path());
        if doubted && let Some(hop) = self.routes.next_hop(remote) {
            // RFC 1122 §4.2.3.5 (R1): anyone who is to carry it on may be gone.
            self.neighbors.suspect(now, hop);
        }
        let hop = self.path_to(now, remote);
        if let NextHop::Known(mac) = hop {
            // Looking up may itself have changed the cache: the path is good for what is there now.
            let generation = self.path_generation();
            self.tcp.set_path(id, Path { mac, generation });
        }
        hop
    }

    #[inline]
    pub(super) fn path_to(&mut self, now: Instant, remote: IpAddr) -> NextHop {
        match self.paths.get(remote, self.path_generation()) {
            Some(mac) => NextHop::Known(mac),
            None => self.find_path(now, remote),
        }
    }

    fn find_path(&mut self, now: Instant, remote: IpAddr) -> NextHop {
        if self.routes.is_local(remote) {
            return NextHop::Loopback;
        }
        if let Some(mac) = self.group_mac(remote) {
            return NextHop::Known(mac);
        }
        let Some(hop) = self.routes.next_hop(remote) else {
            return NextHop::None;
        };
        match self.neighbors.lookup(now, hop) {
            Lookup::Known(mac) => {
                // Looking up may itself have changed the cache.
                let generation = self.path_generation();
                if self.routes.may_send(remote) {
                    self.paths.put(remote, generation, mac);
                }
                NextHop::Known(mac)
            }
            Lookup::Pending => NextHop::Pending(hop),
            Lookup::Unreachable => NextHop::None,
        }
    }

    /// The link address of a broadcast or multicast address.
    fn group_mac(&self, ip: IpAddr) -> Option<Mac> {
        match ip {
            _ if self.routes.is_broadcast(ip) => Some(Mac::BROADCAST),
            IpAddr::V4(v4) if v4.is_multicast() => Some(Mac::multicast_v4(v4)),
            IpAddr::V6(v6) if v6.is_multicast() => Some(Mac::multicast_v6(&v6)),
            _ => None,
        }
    }

    /// A segment, or several in one, cannot leave now. It is kept until its neighbour is known, if there is one; what the link
    /// would have to cut up is left to retransmission.
    fn withhold_segment(&mut self, id: ConnectionId, hop: NextHop) {
        let link_cuts = self.config.offload.segmentation.is_some();
        loop {
            let out = self.tcp.outgoing();
            let several = out.data.len() > usize::from(out.mss);
            self.counters.tcp_segments_sent += 1;
            self.counters.tcp_segments_retransmitted += u64::from(out.again);
            match hop {
                NextHop::Pending(_) if several && link_cuts => {
                    self.counters.drop_neighbor_unresolved += 1;
                }
                NextHop::Pending(hop) => self.queue_segment(id, hop),
                NextHop::Known(_) | NextHop::Loopback | NextHop::None => {
                    self.counters.drop_ip_no_route += 1;
                }
            }
            if !several || link_cuts || !self.tcp.next_of_burst(id) {
                return;
            }
        }
    }

    /// Keep a segment until its neighbour is known.
    fn queue_segment(&mut self, id: ConnectionId, hop: IpAddr) {
        let out = self.tcp.outgoing();
        let connection = self
            .tcp
            .connection(id)
            .expect("a connection that has just given a segment");
        let (queue, data, macs) = (
            connection.queue(),
            out.first(),
            (self.config.mac, Mac::ZERO),
        );
        self.head.begin_with(macs, connection.flow(), out.ip);
        let sum = queue.sum(data.clone());
        self.head.write_tcp(out, data.len(), Some(sum));
        let mut frame = self.head.bytes().to_vec();
        frame.extend_from_slice(&queue.to_vec(data));
        self.neighbors.queue(hop, frame);
    }

    /// Write a stateless answer; false when the link is not to have it now.
    fn write_reply(&mut self, now: Instant, reply: &Reply) -> bool {
        let hop = self.path_to(now, reply.flow.remote_ip());
        let to = match hop {
            NextHop::Known(mac) => mac,
            NextHop::Loopback => self.config.mac,
            NextHop::Pending(_) | NextHop::None => Mac::ZERO,
        };
        let out = Outgoing {
            seq: reply.seq,
            ack: reply.ack,
            flags: reply.flags,
            window: reply.window,
            options: reply.options,
            ..Outgoing::NONE
        };
        self.head
            .begin_with((self.config.mac, to), &reply.flow, out.ip);
        self.head.write_tcp(&out, 0, Some(Sum::ZERO));
        self.counters.tcp_segments_sent += 1;
        match hop {
            NextHop::Known(_) => return true,
            NextHop::Loopback => self.loop_head(),
            NextHop::Pending(hop) => self.neighbors.queue(hop, self.head.bytes().to_vec()),
            NextHop::None => self.counters.drop_ip_no_route += 1,
        }
        false
    }

    /// Ask who has an address.
    fn solicit(&mut self, solicit: &Solicit) {
        let Some(source) = self.routes.source_for(solicit.ip) else {
            return;
        };
        let frame = match (source, solicit.ip) {
            (IpAddr::V4(source), IpAddr::V4(target)) => {
                arp_question(self.config.mac, source, target, solicit.unicast_to)
            }
            (IpAddr::V6(source), IpAddr::V6(target)) => {
                ndp_question(self.config.mac, source, target, solicit.unicast_to)
            }
            _ => return,
        };
        self.queue_frame(frame);
    }
}

fn whole_frame(frame: &[u8]) -> Transmit<'_> {
    Transmit {
        head: frame,
        body: Body::EMPTY,
        checksum: TxChecksum::Complete,
        segment_size: None,
        ipv6: false,
        datagrams: false,
    }
}
