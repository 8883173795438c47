//! The way out: control frames first (questions for neighbours among them), then answers of no
//! connection, then segments.
//!
//! A segment leaves as a head, written into the stack's scratch space, and a body that refers to
//! the program's own slices: nothing is copied here, and the sum of the body is taken from the
//! slices' cached sums. What is small and rare (ARP, NDP, ICMP, UDP) leaves as complete frames.

use std::net::IpAddr;
use std::num::NonZeroU64;

use exos_wire::{Mac, Sum};

use super::body::{Body, Summing, gather};
use super::segments::write_segment;
use super::{Stack, syn, usual};
use crate::neighbor::frames::{arp_question, ndp_question};
use crate::neighbor::{Lookup, Solicit};
use crate::tcp::{ConnectionId, IpFields, Leaving, Next, Outgoing, Path, Plain, Reply};
use crate::time::Instant;

/// What is left for the link to do with a frame's transport checksum.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub enum TxChecksum {
    /// Nothing: it is complete.
    Complete,
    /// Sum from `start` to the end and put the complement at `start + offset`; the pseudo header's
    /// sum stands there. Only on links that said they can.
    Partial {
        /// Where the transport header begins in the frame.
        start: u16,
        /// Where the field lies in it.
        offset: u16,
    },
}

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
}

/// Where a segment can go.
pub(super) enum Way {
    To(Mac),
    /// To this neighbour, once it is known.
    Wait(IpAddr),
    Nowhere,
}

impl Stack {
    /// The next frame to send, or `None` when there is nothing to send now.
    #[inline]
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Transmit<'_>> {
        let errands =
            self.neighbors.has_solicits() || !self.control.is_empty() || self.tcp.has_replies();
        if errands {
            return self.poll_errands(now);
        }
        if self.tcp.is_silent() {
            return None;
        }
        self.poll_usual(now)
    }

    #[inline(never)]
    fn poll_usual(&mut self, now: Instant) -> Option<Transmit<'_>> {
        let generation = self.path_generation();
        match self.tcp.poll_short(now, self.data_max(), generation) {
            next @ (Next::Segment | Next::Alike) => {
                Some(self.plain_segment(generation, next == Next::Alike))
            }
            Next::Nothing => None,
            Next::SynAck => self.syn_ack(now, generation),
            Next::General => self.poll_any(now),
        }
    }

    /// What leaves before any segment of a connection; most often it is the answer of one in TIME-WAIT.
    #[inline(never)]
    fn poll_errands(&mut self, now: Instant) -> Option<Transmit<'_>> {
        let others = self.neighbors.has_solicits() || !self.control.is_empty();
        let Some(len) = (!others).then(|| self.write_plain_reply()).flatten() else {
            return self.poll_any(now);
        };
        self.counters.tcp_segments_sent += 1;
        self.counters.frames_sent += 1;
        Some(whole_frame(&self.head[..len]))
    }

    /// Write the next stateless answer, if it has timestamps and no other option, and goes where others have gone lately.
    fn write_plain_reply(&mut self) -> Option<usize> {
        let generation = self.path_generation();
        let reply = self.tcp.next_reply()?;
        let plain = Plain::of_reply(reply)?;
        let to = self.ways.get(reply.flow.remote_ip(), generation)?;
        let out = self.head.first_chunk_mut().expect("room for any head");
        let (macs, sum) = ((self.config.mac, to), Some(Sum::ZERO));
        let head = usual::write(out, macs, &reply.flow, &plain, sum);
        self.tcp.reply_is_sent();
        Some(head.len)
    }

    #[inline(never)]
    fn syn_ack(&mut self, now: Instant, generation: NonZeroU64) -> Option<Transmit<'_>> {
        let remote = self.tcp.next_to_send()?.flow().remote_ip();
        let Some(mac) = self.ways.get(remote, generation) else {
            return self.poll_any(now);
        };
        let (flow, syn) = self.tcp.poll_syn_ack(now, Path { mac, generation })?;
        self.counters.tcp_segments_sent += 1;
        self.counters.frames_sent += 1;
        let sum = (!self.config.offload.checksum).then_some(Sum::ZERO);
        let macs = (self.config.mac, mac);
        let head = syn::write_bare(&mut self.head, macs, flow, &syn, sum);
        Some(Transmit {
            head: &self.head[..head.len],
            body: Body::EMPTY,
            checksum: head.checksum,
            segment_size: None,
            ipv6: flow.is_ipv6(),
        })
    }

    /// Count a segment of a connection, and find where it goes; `None` when it goes nowhere now.
    fn begin_to_send(&mut self, now: Instant, id: ConnectionId, out: &Outgoing) -> Option<Mac> {
        self.counters.tcp_segments_sent += 1;
        self.counters.tcp_segments_retransmitted += u64::from(out.again);
        match self.way_of(now, id) {
            Way::To(mac) => return Some(mac),
            Way::Wait(hop) => self.queue_segment(id, out, hop),
            Way::Nowhere => self.counters.drop_ip_no_route += 1,
        }
        None
    }

    /// The same, the general way.
    #[inline(never)]
    fn poll_any(&mut self, now: Instant) -> Option<Transmit<'_>> {
        loop {
            while let Some(solicit) = self.neighbors.poll_solicit(now) {
                self.solicit(&solicit);
            }
            if let Some(frame) = self.control.pop_front() {
                self.counters.frames_sent += 1;
                self.frame = frame;
                return Some(whole_frame(&self.frame));
            }
            while let Some(reply) = self.tcp.poll_reply() {
                if let Some(len) = self.write_reply(now, &reply) {
                    self.counters.frames_sent += 1;
                    return Some(whole_frame(&self.head[..len]));
                }
            }
            // Segments whose way is not known wait with their neighbour, and the next has its turn.
            while let Some((id, out)) = self.tcp.poll_output(now, self.data_max()) {
                if let Some(mac) = self.begin_to_send(now, id, &out) {
                    return Some(self.segment(id, &out, mac));
                }
            }
            // Looking for a way may have raised a question: it leaves now, not with the next event.
            if !self.neighbors.has_solicits() {
                return None;
            }
        }
    }

    /// The most data that one segment may have; zero: a maximum segment size.
    #[inline]
    fn data_max(&self) -> u32 {
        let segmentation = self.config.offload.segmentation;
        segmentation.map_or(0, |max| max.saturating_sub(100) as u32)
    }

    /// Write a segment's head and refer to its data.
    #[inline]
    fn segment(&mut self, id: ConnectionId, out: &Outgoing, mac: Mac) -> Transmit<'_> {
        self.counters.frames_sent += 1;
        let connection = self
            .tcp
            .connection(id)
            .expect("a connection that has just given a segment");
        // What is cut up gets its checksums from the one that cuts it.
        let cut = out.data.len() > usize::from(out.mss);
        let partial = self.config.offload.checksum || cut;
        let queue = connection.queue();
        let (near, copy) = (&mut self.near, &mut self.gathered);
        let summing = if partial { Summing::Link } else { self.summing };
        let (body, sum) = gather(queue, out.data.clone(), near, copy, summing);
        let flow = connection.flow();
        let head = write_segment(&mut self.head, self.config.mac, mac, flow, out, sum);
        Transmit {
            head: &self.head[..head.len],
            body,
            checksum: head.checksum,
            segment_size: cut.then_some(out.mss),
            ipv6: flow.is_ipv6(),
        }
    }

    /// The same for a segment that goes the short way; `alike` is as for [`Next::Alike`].
    #[inline]
    fn plain_segment(&mut self, generation: NonZeroU64, alike: bool) -> Transmit<'_> {
        self.counters.tcp_segments_sent += 1;
        self.counters.frames_sent += 1;
        let Leaving { id, plain, .. } = self.tcp.leaving();
        let connection = self
            .tcp
            .connection(*id)
            .expect("a connection that has just given a segment");
        let data = plain.start..plain.start + plain.len;
        let summing = match self.config.offload.checksum {
            true => Summing::Link,
            false => self.summing,
        };
        let (near, copy) = (&mut self.near, &mut self.gathered);
        let (body, sum) = gather(connection.queue(), data, near, copy, summing);
        let head = &mut self.last_head;
        let next = match sum.filter(|_| alike) {
            Some(data) => Some(head.write_alike(plain.seq, data)),
            None => head.write_next(*id, generation, plain, sum),
        };
        let checksum = next.unwrap_or_else(|| {
            let path = connection.path.expect("the short way has a path");
            let macs = (self.config.mac, path.mac);
            head.write_first((*id, generation), macs, connection.flow(), plain, sum)
        });
        Transmit {
            head: self.last_head.bytes(),
            body,
            checksum,
            segment_size: None,
            ipv6: self.last_head.is_ipv6(),
        }
    }

    /// Where a connection's segments go: what was found last time, unless something has changed.
    #[inline]
    fn way_of(&mut self, now: Instant, id: ConnectionId) -> Way {
        let generation = self.path_generation();
        let Some(connection) = self.tcp.connection(id) else {
            return Way::Nowhere;
        };
        if let Some(path) = connection.path
            && path.generation == generation
        {
            return Way::To(path.mac);
        }
        let (remote, doubted) = (connection.flow().remote().ip(), connection.doubts_path());
        if doubted && let Some(hop) = self.routes.next_hop(remote) {
            // RFC 1122 §4.2.3.5 (R1): anyone who is to carry it on may be gone.
            self.neighbors.suspect(now, hop);
        }
        let way = self.way_to(now, remote);
        if let Way::To(mac) = way {
            // Looking up may itself have changed the cache: the path is good for what is there now.
            let generation = self.path_generation();
            self.tcp.set_path(id, Path { mac, generation });
        }
        way
    }

    #[inline]
    pub(super) fn way_to(&mut self, now: Instant, remote: IpAddr) -> Way {
        match self.ways.get(remote, self.path_generation()) {
            Some(mac) => Way::To(mac),
            None => self.find_way(now, remote),
        }
    }

    fn find_way(&mut self, now: Instant, remote: IpAddr) -> Way {
        if let Some(mac) = self.group_mac(remote) {
            return Way::To(mac);
        }
        let Some(hop) = self.routes.next_hop(remote) else {
            return Way::Nowhere;
        };
        match self.neighbors.lookup(now, hop) {
            Lookup::Known(mac) => {
                // Looking up may itself have changed the cache.
                let generation = self.path_generation();
                if self.routes.may_send(remote) {
                    self.ways.put(remote, generation, mac);
                }
                Way::To(mac)
            }
            Lookup::Pending => Way::Wait(hop),
            Lookup::Unreachable => Way::Nowhere,
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

    /// Keep a segment until its neighbour is known. One that the link would have to cut up is left
    /// to retransmission.
    fn queue_segment(&mut self, id: ConnectionId, out: &Outgoing, hop: IpAddr) {
        if out.data.len() > usize::from(out.mss) {
            self.counters.drop_neighbor_unresolved += 1;
            return;
        }
        let connection = self
            .tcp
            .connection(id)
            .expect("a connection that has just given a segment");
        let (flow, sum) = (connection.flow(), connection.queue().sum(out.data.clone()));
        let (from, to) = (self.config.mac, Mac::ZERO);
        let head = write_segment(&mut self.head, from, to, flow, out, Some(sum));
        let mut frame = self.head[..head.len].to_vec();
        frame.extend_from_slice(&connection.queue().to_vec(out.data.clone()));
        self.neighbors.queue(hop, frame);
    }

    /// Write a stateless answer; `None` when it has nowhere to go.
    fn write_reply(&mut self, now: Instant, reply: &Reply) -> Option<usize> {
        let way = self.way_to(now, reply.flow.remote().ip());
        let to = match way {
            Way::To(mac) => mac,
            _ => Mac::ZERO,
        };
        let out = Outgoing {
            seq: reply.seq,
            ack: reply.ack,
            flags: reply.flags,
            window: reply.window,
            options: reply.options,
            data: 0..0,
            mss: 0,
            again: false,
            ect: false,
            ip: IpFields::default(),
        };
        let (from, sum) = (self.config.mac, Some(Sum::ZERO));
        let head = write_segment(&mut self.head, from, to, &reply.flow, &out, sum);
        self.counters.tcp_segments_sent += 1;
        match way {
            Way::To(_) => return Some(head.len),
            Way::Wait(hop) => self.neighbors.queue(hop, self.head[..head.len].to_vec()),
            Way::Nowhere => self.counters.drop_ip_no_route += 1,
        }
        None
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
    }
}
