//! One direction of an emulated wire, as a state machine: frames in, frames with their time out. No I/O, no clock.
//!
//! To be driven so: [`Direction::handle_frame`] for what arrives, with the time at which it did;
//! [`Direction::next_departure_ns`] says when there is something to do; [`Direction::poll_frame`] gives what has
//! become due, in the order of departure. Times are nanoseconds of any clock that does not go back.
//!
//! A frame meets, in this order: random loss; the bound on memory; the queue and the link of limited rate;
//! marking; delay and jitter; reordering; damage; duplication. So a lost frame takes no time of the link, and a
//! copy none either.
//!
//! Invariants: what is not reordered leaves in the order of arrival (jitter shortens or lengthens the way, but
//! never lets a frame pass another). received + duplicated = delivered + every kind of lost and dropped + held.

use super::bottleneck::Bottleneck;
use super::conditions::{BurstLoss, Conditions};
use super::ecn;
use super::random::{Decision, FrameRandom, Stream};
use super::statistics::DirectionStatistics;
use crate::limits::{HELD_BYTES_MAX, HELD_FRAME_OVERHEAD};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Bytes of an Ethernet header without tag: damage spares them, since Ethernet's own check, which is not
/// emulated, would have found it.
const ETHERNET_HEADER_LEN: usize = 14;

/// Frames on their way in one direction.
#[derive(Debug)]
pub struct Direction {
    conditions: Conditions,
    stream: Stream,
    burst_is_on: bool,
    bottleneck: Option<Bottleneck>,
    /// When the last frame in order departs.
    last_due_ns: u64,
    /// Frames in order: due times never fall.
    in_order: VecDeque<Held>,
    /// Those held back.
    held_back: BinaryHeap<Reverse<Held>>,
    held_bytes: usize,
    sequence: u64,
    statistics: DirectionStatistics,
}

/// A frame on its way; ordered by time, then by arrival.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Held {
    due_ns: u64,
    sequence: u64,
    frame: Box<[u8]>,
}

/// A frame that is due.
#[derive(Debug, PartialEq, Eq)]
pub struct Departure {
    /// When it was to leave.
    pub due_ns: u64,
    /// As it arrives at the other side.
    pub frame: Box<[u8]>,
}

impl Direction {
    /// A direction with nothing on it. `number` tells the directions of one seed apart.
    pub fn new(conditions: &Conditions, seed: u64, number: u64) -> Self {
        let bottleneck = conditions
            .rate_bits_per_sec
            .map(|rate| Bottleneck::new(rate, conditions.queue_bytes()));
        Self {
            conditions: conditions.clone(),
            stream: Stream::new(seed, number),
            burst_is_on: false,
            bottleneck,
            last_due_ns: 0,
            in_order: VecDeque::new(),
            held_back: BinaryHeap::new(),
            held_bytes: 0,
            sequence: 0,
            statistics: DirectionStatistics::default(),
        }
    }

    /// What happened so far.
    pub fn statistics(&self) -> DirectionStatistics {
        DirectionStatistics {
            held_frames: (self.in_order.len() + self.held_back.len()) as u64,
            held_bytes: self.held_bytes as u64,
            ..self.statistics
        }
    }

    /// When the next frame is due; `None` when there is none.
    pub fn next_departure_ns(&self) -> Option<u64> {
        let in_order = self.in_order.front().map(|held| held.due_ns);
        let held_back = self.held_back.peek().map(|Reverse(held)| held.due_ns);
        in_order.into_iter().chain(held_back).min()
    }

    /// Takes a frame that arrived at `now_ns`, and decides its fate.
    pub fn handle_frame(&mut self, now_ns: u64, frame: &[u8]) {
        let random = self.stream.frame(self.statistics.received);
        self.statistics.received += 1;
        self.statistics.received_bytes += frame.len() as u64;
        if self.is_lost(&random) || !self.has_room_to_hold(frame.len()) {
            return;
        }
        let Some((sent_ns, mark)) = self.send(now_ns, frame.len()) else {
            self.statistics.drop_queue_full += 1;
            return;
        };
        let mut frame: Box<[u8]> = frame.into();
        if mark {
            self.statistics.marked += u64::from(ecn::mark(&mut frame));
        }
        let copy = random
            .chance(Decision::Duplicate, self.conditions.duplicate)
            .then(|| frame.clone());
        // The copy is whole even when the original is not: each crosses the wire by itself.
        if random.chance(Decision::Corrupt, self.conditions.corrupt) {
            self.statistics.corrupted += u64::from(damage(&random, &mut frame));
        }
        self.launch(sent_ns, &random, frame);
        if let Some(copy) = copy {
            self.statistics.duplicated += 1;
            if self.has_room_to_hold(copy.len()) {
                self.launch(sent_ns, &random, copy);
            }
        }
    }

    /// The next frame that is due by `now_ns`.
    pub fn poll_frame(&mut self, now_ns: u64) -> Option<Departure> {
        self.next_departure_ns().filter(|&due| due <= now_ns)?;
        let earlier = |held: &Held| (held.due_ns, held.sequence);
        let in_order = self.in_order.front().map(earlier);
        let held_back = self.held_back.peek().map(|Reverse(held)| earlier(held));
        let held = match (in_order, held_back) {
            (Some(first), Some(other)) if first > other => self.held_back.pop().map(|r| r.0),
            (None, _) => self.held_back.pop().map(|r| r.0),
            _ => self.in_order.pop_front(),
        };
        let Held { due_ns, frame, .. } = held.expect("something is due");
        self.held_bytes -= frame.len() + HELD_FRAME_OVERHEAD;
        self.statistics.delivered += 1;
        self.statistics.delivered_bytes += frame.len() as u64;
        Some(Departure { due_ns, frame })
    }

    /// Random loss, independent or in bursts. Both are asked of every frame, so that neither changes the other.
    fn is_lost(&mut self, random: &FrameRandom) -> bool {
        let in_burst = self
            .conditions
            .burst_loss
            .is_some_and(|burst| self.is_lost_in_burst(burst, random));
        let alone = random.chance(Decision::Loss, self.conditions.loss);
        self.statistics.lost_burst += u64::from(in_burst);
        self.statistics.lost_random += u64::from(alone && !in_burst);
        alone || in_burst
    }

    fn is_lost_in_burst(&mut self, burst: BurstLoss, random: &FrameRandom) -> bool {
        let turn = if self.burst_is_on {
            burst.leave()
        } else {
            burst.enter()
        };
        self.burst_is_on ^= random.chance(Decision::BurstTurn, turn);
        self.burst_is_on && random.chance(Decision::BurstLoss, burst.loss_in_burst)
    }

    fn has_room_to_hold(&mut self, len: usize) -> bool {
        let room = self.held_bytes + len + HELD_FRAME_OVERHEAD <= HELD_BYTES_MAX;
        self.statistics.drop_held_full += u64::from(!room);
        room
    }

    /// When the link has sent the frame, and whether the queue is long enough to mark it; `None` when it is full.
    fn send(&mut self, now_ns: u64, len: usize) -> Option<(u64, bool)> {
        let Some(bottleneck) = &mut self.bottleneck else {
            return Some((now_ns, false));
        };
        let admitted = bottleneck.admit(now_ns, len)?;
        let threshold = self.conditions.mark_bytes;
        let mark = threshold.is_some_and(|bytes| admitted.waiting_bytes >= bytes);
        Some((admitted.sent_ns, mark))
    }

    /// Puts a frame on its way after the link.
    fn launch(&mut self, sent_ns: u64, random: &FrameRandom, frame: Box<[u8]>) {
        self.held_bytes += frame.len() + HELD_FRAME_OVERHEAD;
        self.sequence += 1;
        let mut held = Held {
            due_ns: sent_ns + self.way_ns(random),
            sequence: self.sequence,
            frame,
        };
        if random.chance(Decision::Reorder, self.conditions.reorder) {
            self.statistics.reordered += 1;
            held.due_ns += self.conditions.reorder_by().as_nanos() as u64;
            self.held_back.push(Reverse(held));
            return;
        }
        held.due_ns = held.due_ns.max(self.last_due_ns);
        self.last_due_ns = held.due_ns;
        self.in_order.push_back(held);
    }

    /// The delay, uniformly varied by the jitter.
    fn way_ns(&self, random: &FrameRandom) -> u64 {
        let nanos = |d: std::time::Duration| d.as_nanos() as u64;
        let (delay, jitter) = (nanos(self.conditions.delay), nanos(self.conditions.jitter));
        delay - jitter + random.below(Decision::Jitter, 2 * jitter + 1)
    }
}

/// Turns one bit of an IP packet over, behind the Ethernet header. Other frames are spared, as ARP has no check
/// of its own: false. The Internet checksum finds every single wrong bit where it covers it.
fn damage(random: &FrameRandom, frame: &mut [u8]) -> bool {
    let is_ip = matches!(frame.get(12..14), Some([0x08, 0x00] | [0x86, 0xdd]));
    if !is_ip || frame.len() == ETHERNET_HEADER_LEN {
        return false;
    }
    let bits = (frame.len() - ETHERNET_HEADER_LEN) as u64 * 8;
    let at = random.below(Decision::CorruptWhere, bits) as usize;
    frame[ETHERNET_HEADER_LEN + at / 8] ^= 1 << (at % 8);
    true
}

#[cfg(test)]
mod tests;
