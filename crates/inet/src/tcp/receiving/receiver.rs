//! What a connection knows of what comes: which numbers, into which window, and which acknowledgement is owed.
//!
//! The RFC's variables have its names (RFC 9293 §3.3.1). What happens to them stands in this folder alone: `arrival` takes
//! in data, `window` announces, `autotune` widens. The rest of the connection asks, and says what has happened.

use exos_wire::SeqNumber;

use crate::limits::{MSS_DEFAULT_V4, QUICK_ACKS, WINDOW_BYTES_MAX};
use crate::tcp::receiving::queue::ReceiveQueue;
use crate::tcp::receiving::tuning::Tuning;
use crate::tcp::receiving::window_scale::window_scale_for;
use crate::tcp::shared::memory::{Memory, Pressure};
use crate::tcp::shared::reply::Challenges;
use crate::tcp::values::codec::{HandoverError, Wire, travel};
use crate::tcp::values::options::Options;
use crate::tcp::values::segment::Segment;
use crate::time::{Duration, Instant};

/// Whether an acknowledgement is owed.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(in crate::tcp) enum Owed {
    Nothing,
    /// When its time has come, or on the next segment that leaves anyway.
    Later,
    Now,
}

/// The receiving side of a connection. What every segment needs comes first.
#[repr(C)]
pub(in crate::tcp) struct Receiver {
    pub(super) rcv_nxt: SeqNumber,
    /// The right edge of the window that the peer has been told; it never moves back.
    pub(super) rcv_edge: SeqNumber,
    /// `rcv_nxt` in the last segment that left.
    pub(super) last_ack_sent: SeqNumber,
    /// The peer's timestamp that the next acknowledgement echoes.
    pub(super) ts_recent: u32,
    /// Bytes that may be received and not taken by the program.
    pub(super) rcv_buffer: u32,
    /// Largest payload received in one segment, as an estimate of the peer's segments.
    pub(super) rcv_mss: u16,
    /// The MSS that we announce.
    pub(super) mss_announced: u16,
    pub(super) ack_at: Instant,
    pub(super) ack_owed: Owed,
    /// Acknowledgements still owed to segments that came out of order, one each: the peer counts
    /// them, also when they arrived in one batch (RFC 5681 §4.2).
    pub(super) duplicates_owed: u8,
    pub(super) rcv_scale: u8,
    /// Received data is acknowledged and thrown away.
    pub(super) discarding: bool,
    /// A packet came marked, and the peer has not said that it knows: ECE is set.
    pub(super) ecn_echo: bool,
    /// How hard the stack's memory is pressed, as last told.
    pub(super) pressure: Pressure,
    /// Where the peer's FIN stands, while data before it is missing.
    pub(super) peer_fin: Option<SeqNumber>,
    /// How fast data comes and is taken, while it does.
    pub(super) tuning: Option<Box<Tuning>>,
    pub(super) queue: ReceiveQueue,
    /// When data came last.
    pub(super) received_at: Instant,
    pub(super) irs: SeqNumber,
    /// What it was at first.
    pub(super) rcv_buffer_first: u32,
    /// The most that it has been: on so much a promise may still rest.
    pub(super) rcv_buffer_most: u32,
    /// The buffer may grow to this. No more than it is: it is fixed.
    pub(super) rcv_buffer_limit: u32,
    /// Segments beyond a gap, for people to look at.
    pub(super) out_of_order: u32,
    /// Length of the last segment, to notice that the peer sends smaller ones now.
    pub(super) last_len: u16,
    /// Full segments that are still to be acknowledged at once.
    pub(super) quick: u8,
    /// How often what has come was challenged.
    challenges: Challenges,
}

impl Receiver {
    /// What every segment needs lies in this many first bytes.
    #[cfg(test)]
    pub const EVERY_SEGMENT_BYTES: usize = core::mem::offset_of!(Self, queue);

    /// Nothing has come yet. The peer's segments are at least `mss_least` bytes.
    #[inline(always)]
    pub fn new(now: Instant, options: &Options, mss_announced: u16, mss_least: u16) -> Self {
        // The most that a window with the greatest scale can say (RFC 7323 §2.3).
        let rcv_buffer = options
            .receive_buffer_bytes
            .clamp(u32::from(mss_least), WINDOW_BYTES_MAX);
        let rcv_buffer_max = options
            .receive_buffer_max_bytes
            .clamp(rcv_buffer, WINDOW_BYTES_MAX);
        Self {
            rcv_nxt: SeqNumber(0),
            rcv_edge: SeqNumber(0),
            last_ack_sent: SeqNumber(0),
            ts_recent: 0,
            rcv_buffer,
            // Until a longer one has come: the field's default, over IPv6 too.
            rcv_mss: MSS_DEFAULT_V4,
            mss_announced,
            ack_at: Instant::NEVER,
            ack_owed: Owed::Nothing,
            duplicates_owed: 0,
            rcv_scale: window_scale_for(rcv_buffer_max),
            discarding: false,
            ecn_echo: false,
            pressure: Pressure::None,
            peer_fin: None,
            tuning: None,
            queue: ReceiveQueue::default(),
            received_at: now,
            irs: SeqNumber(0),
            rcv_buffer_first: rcv_buffer,
            rcv_buffer_most: rcv_buffer,
            rcv_buffer_limit: rcv_buffer_max,
            out_of_order: 0,
            last_len: 0,
            quick: QUICK_ACKS,
            challenges: Challenges::default(),
        }
    }

    // What happens.

    /// The peer's SYN has come, and says whether it scales windows.
    pub fn syn_received(&mut self, seq: SeqNumber, scales: bool, stamp: Option<u32>) {
        self.irs = seq;
        self.rcv_nxt = seq + 1;
        self.last_ack_sent = self.rcv_nxt;
        // The window field of a SYN is never scaled (RFC 7323 §2.2).
        self.rcv_edge = self.rcv_nxt + u32::from(self.syn_window());
        if !scales {
            self.rcv_scale = 0;
            self.rcv_buffer = self.rcv_buffer.min(u32::from(u16::MAX));
            self.rcv_buffer_limit = self.rcv_buffer_limit.min(u32::from(u16::MAX));
        }
        if let Some(value) = stamp {
            self.ts_recent = value;
        }
    }

    /// An acceptable segment has come. RFC 7323 §4.3: its timestamp, if it is of the segment that our next
    /// acknowledgement will answer.
    #[inline]
    pub fn stamped(&mut self, seq: SeqNumber, value: u32) {
        if seq.le(self.last_ack_sent) && value.wrapping_sub(self.ts_recent) as i32 >= 0 {
            self.ts_recent = value;
        }
    }

    /// Something must be acknowledged at once.
    #[inline]
    pub fn owe_now(&mut self) {
        self.ack_owed = Owed::Now;
    }

    /// Send at once an acknowledgement that would otherwise wait.
    pub fn hurry(&mut self) {
        if self.ack_owed == Owed::Later {
            self.ack_owed = Owed::Now;
        }
    }

    /// What was to be acknowledged later is to be acknowledged now.
    pub fn delay_is_over(&mut self, now: Instant) {
        if now >= self.ack_at {
            self.ack_at = Instant::NEVER;
            self.hurry();
        }
    }

    /// A segment leaves that acknowledges all that has come, `with_data` or without. Something may still have to be
    /// said by another one. A program that answers what it gets has its acknowledgements carried by the answers: it
    /// needs no quick ones.
    #[inline]
    pub fn acknowledged(&mut self, with_data: bool, sack: bool) {
        if self.ack_owed == Owed::Later && with_data {
            self.quick = 0;
        } else if self.ack_owed == Owed::Now {
            self.quick = self.quick.saturating_sub(1);
        }
        self.ack_owed = if self.duplicates_owed > 0 || self.owes_report(sack) {
            Owed::Now
        } else {
            Owed::Nothing
        };
        self.ack_at = Instant::NEVER;
        self.last_ack_sent = self.rcv_nxt;
    }

    /// What has come is acknowledged up to `part`.
    pub fn acknowledged_in_part(&mut self, part: SeqNumber) {
        self.last_ack_sent = part;
    }

    /// An acknowledgement leaves for one of the segments that came out of order.
    pub fn duplicate_sent(&mut self) {
        self.duplicates_owed = self.duplicates_owed.saturating_sub(1);
    }

    /// True, and counted, when a challenge may leave as far as the connection is concerned.
    pub fn may_challenge(&mut self, now: Instant) -> bool {
        self.challenges.has_room(now)
    }

    /// A challenge acknowledgement leaves, for which there was room.
    pub fn challenge(&mut self) {
        self.challenges.count();
        self.ack_owed = Owed::Now;
    }

    /// A packet came marked: its peer is told until it says that it knows.
    pub fn came_marked(&mut self) {
        if !self.ecn_echo {
            self.ecn_echo = true;
            self.ack_owed = Owed::Now;
        }
    }

    /// The peer knows of the mark, and has slowed down.
    pub fn congestion_is_known(&mut self) {
        self.ecn_echo = false;
        self.ack_owed = Owed::Now;
    }

    /// How hard the stack's memory is pressed now.
    #[inline]
    pub fn set_pressure(&mut self, pressure: Pressure) {
        self.pressure = pressure;
    }

    /// The program wants nothing more of what comes.
    pub fn discard(&mut self) {
        self.discarding = true;
    }

    /// It goes on in another stack, which acknowledges at once: the peer may have waited, and learns that we are here.
    pub fn resume(&mut self) {
        self.last_ack_sent = self.rcv_nxt;
        self.ack_owed = Owed::Now;
    }

    /// The peer has been silent for long: the buffer stays as wide as it has become.
    pub fn rest(&mut self) {
        self.tuning = None;
    }

    /// An emptied buffer that is kept for what may come goes back.
    pub fn cool(&mut self, memory: &mut Memory) {
        if self.queue.is_warm() {
            self.queue.cool(memory);
        }
    }

    // What is known.

    #[inline]
    pub fn rcv_nxt(&self) -> SeqNumber {
        self.rcv_nxt
    }

    #[inline]
    pub fn last_ack_sent(&self) -> SeqNumber {
        self.last_ack_sent
    }

    /// The peer's initial sequence number.
    pub fn irs(&self) -> SeqNumber {
        self.irs
    }

    /// The timestamp to echo.
    #[inline]
    pub fn ts_recent(&self) -> u32 {
        self.ts_recent
    }

    /// The shift of our windows.
    pub fn scale(&self) -> u8 {
        self.rcv_scale
    }

    /// The peer's full-sized segments, as far as seen.
    pub fn rcv_mss(&self) -> u16 {
        self.rcv_mss
    }

    /// The MSS that we announce.
    pub fn mss_announced(&self) -> u16 {
        self.mss_announced
    }

    /// How much of the window that was announced is left.
    #[inline]
    pub fn window_left(&self) -> u32 {
        (self.rcv_edge - self.rcv_nxt).max(0) as u32
    }

    #[inline]
    pub fn owed(&self) -> Owed {
        self.ack_owed
    }

    #[inline]
    pub fn owes_now(&self) -> bool {
        self.ack_owed == Owed::Now
    }

    /// When an acknowledgement is due at the latest.
    #[inline]
    pub fn ack_at(&self) -> Instant {
        self.ack_at
    }

    #[inline]
    pub fn is_discarding(&self) -> bool {
        self.discarding
    }

    /// A mark of congestion is to be echoed.
    pub fn echoes_congestion(&self) -> bool {
        self.ecn_echo
    }

    /// RFC 9293 §3.10.7.4, first. A segment without data at the very right edge is taken too: a
    /// peer that filled our window sends its acknowledgements from there.
    pub fn accepts(&self, seg: &Segment<'_>) -> bool {
        if seg.is_empty() {
            return seg.seq.ge(self.rcv_nxt) && seg.seq.le(self.rcv_edge);
        }
        seg.seq.lt(self.rcv_edge) && seg.end().gt(self.rcv_nxt)
    }

    /// It lies at most a window back: it was sent to us, or probes the window that we have shut.
    pub fn was_sent_to_us(&self, seg: &Segment<'_>) -> bool {
        let back = self.rcv_nxt - seg.seq;
        back >= 0 && back as u32 <= self.rcv_buffer_most.max(1 << 16)
    }

    #[inline]
    pub fn readable(&self) -> &[u8] {
        self.queue.readable()
    }

    #[inline]
    pub fn queue(&self) -> &ReceiveQueue {
        &self.queue
    }

    #[inline]
    pub fn queue_mut(&mut self) -> &mut ReceiveQueue {
        &mut self.queue
    }

    /// It has memory that it does not need when nothing comes.
    #[inline]
    pub fn holds(&self) -> bool {
        self.tuning.is_some() || self.queue.is_warm()
    }

    /// Nothing is beyond a gap or to be reported.
    #[inline]
    pub fn is_in_order(&self) -> bool {
        self.queue.beyond().is_none()
    }

    // For people.

    pub fn buffer(&self) -> u32 {
        self.rcv_buffer
    }

    /// The most that the program has taken in a round trip.
    pub fn space(&self) -> u32 {
        self.tuning.as_ref().map_or(0, |t| t.space)
    }

    pub fn rtt(&self) -> Option<Duration> {
        self.tuning.as_ref().and_then(|t| t.rtt())
    }

    pub fn out_of_order(&self) -> u32 {
        self.out_of_order
    }

    pub fn received_at(&self) -> Instant {
        self.received_at
    }

    // Between stacks.

    /// Its numbers, to or from another stack. What has come is `travel_queue`'s.
    pub fn travel(&mut self, wire: &mut Wire<'_>) -> Result<(), HandoverError> {
        travel!(wire, self => Receiver {
            rcv_scale: u8,
            mss_announced: u16,
            rcv_mss: u16,
            irs: seq,
            rcv_nxt: seq,
            rcv_edge: seq,
            peer_fin: seq_option,
            discarding: flag,
            ecn_echo: flag,
            rcv_buffer: u32,
            rcv_buffer_first: u32,
            rcv_buffer_most: u32,
            rcv_buffer_limit: u32,
            out_of_order: u32,
            last_len: u16,
            quick: u8,
            ts_recent: u32,
        } by_hand {} stay {
            // What is owed is paid at once in the new stack.
            ack_owed, ack_at, duplicates_owed, last_ack_sent,
            // The old stack's own.
            pressure, challenges,
            // Measured again.
            tuning, received_at,
            queue,
        });
        Ok(())
    }

    /// What has come, to or from another stack. Gives where the bytes in order stand.
    pub fn travel_queue(
        &mut self,
        wire: &mut Wire<'_>,
        memory: &mut Memory,
    ) -> Result<core::ops::Range<usize>, HandoverError> {
        // Not up to `rcv_edge`: a window that closes may close over what waits beyond a gap.
        let reach = (self.rcv_nxt, self.rcv_nxt + WINDOW_BYTES_MAX);
        self.queue.travel(wire, reach, memory)
    }

    /// What the code relies on; the name of what does not hold.
    pub fn check(&self) -> Result<(), &'static str> {
        let window = self.rcv_edge - self.rcv_nxt;
        // A FIN at the very edge is taken.
        let edge = -1..=i64::from(WINDOW_BYTES_MAX);
        let sound = |bytes: u32| (1..=WINDOW_BYTES_MAX).contains(&bytes);
        let buffers = [
            self.rcv_buffer,
            self.rcv_buffer_first,
            self.rcv_buffer_limit,
        ];
        let most = self.rcv_buffer_most;
        // Data beyond the peer's FIN, or a FIN amid its data, is nonsense that a peer can bring about.
        let read = self.queue.readable().len() <= WINDOW_BYTES_MAX as usize;
        match () {
            () if !edge.contains(&i64::from(window)) => Err("rcv_edge"),
            () if !buffers.into_iter().all(sound) => Err("rcv_buffer"),
            () if !sound(most) || most < self.rcv_buffer => Err("rcv_buffer_most"),
            () if !read => Err("receive"),
            () if self.rcv_scale > 14 => Err("window scale"),
            () if self.rcv_mss == 0 => Err("rcv_mss"),
            () => Ok(()),
        }
    }
}
