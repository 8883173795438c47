//! What the stack sends to its own addresses: it comes back as input with the next turn, and no link sees it.
//!
//! Which packets these are is found where a path is looked up (`output`), so that those for others pay nothing. They wait here
//! as frames from our link address to itself, and are taken in by `handle_timeout` behind what came by the link. Their
//! sums are neither written nor looked at: there is no wire on which they could be damaged.
//!
//! What waits is bounded ([`LOOPBACK_BYTES_MAX`](crate::limits::LOOPBACK_BYTES_MAX)). What has no room is lost like a packet on a wire, and counted.

pub(super) mod frames;

use exos_wire::offload::RxChecksum;

use crate::counters::Counters;
use crate::stack::input::packet::Arrival;
use crate::stack::output::body::{Summing, gather};
use crate::stack::state::Stack;
use crate::tcp::ConnectionId;
use crate::time::Instant;

impl Stack {
    /// Take in what was sent to ourselves before this call; what that leads to comes with the next one.
    pub(super) fn handle_looped(&mut self, now: Instant) {
        for _ in 0..self.loopback.len() {
            let Some(frame) = self.loopback.pop() else {
                return;
            };
            if !self.handle_expected(now, &frame, RxChecksum::Verified, true) {
                self.handle_any(now, &frame, Arrival::LOOPED);
            }
            self.loopback.give_back(frame);
        }
    }

    /// A packet behind an Ethernet header comes back to us.
    pub(super) fn loop_frame(&mut self, frame: &[u8]) {
        let looped = self.loopback.push(frame, &[]);
        count(&mut self.counters, looped);
    }

    /// The head that was written last, a whole frame, comes back to us.
    pub(super) fn loop_head(&mut self) {
        let looped = self.loopback.push(self.head.bytes(), &[]);
        count(&mut self.counters, looped);
    }

    /// The segment that a connection has just given, or several in one, comes back to us: in one piece where the link would
    /// cut it up.
    pub(super) fn loop_segments(&mut self, id: ConnectionId) {
        let whole = self.config.offload.segmentation.is_some();
        loop {
            self.loop_segment(id, whole);
            if whole || !self.tcp.next_of_burst(id) {
                return;
            }
        }
    }

    fn loop_segment(&mut self, id: ConnectionId, whole: bool) {
        let out = self.tcp.outgoing();
        let data = if whole { out.data.clone() } else { out.first() };
        self.counters.tcp_segments_sent += 1;
        self.counters.tcp_segments_retransmitted += u64::from(out.again);
        let connection = self
            .tcp
            .connection(id)
            .expect("a connection that has just given a segment");
        let (near, copy) = (&mut self.near, &mut self.gathered);
        let len = data.len();
        let (body, _) = gather(connection.queue(), data, near, copy, Summing::Link);
        let mac = self.config.mac;
        self.head.begin_with((mac, mac), connection.flow(), out.ip);
        self.head.write_tcp(out, len, None);
        let looped = self.loopback.push(self.head.bytes(), body.parts());
        count(&mut self.counters, looped);
    }
}

/// A packet has been looped, or there was no room.
fn count(counters: &mut Counters, looped: bool) {
    counters.packets_looped += u64::from(looped);
    counters.drop_loopback_full += u64::from(!looped);
}
