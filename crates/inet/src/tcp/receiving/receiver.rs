//! The receiving side of a connection: what has come, and what is said of it.
//!
//! The RFC's variables have its names (RFC 9293 §3.3.1). It is made of parts, each with its state to itself: the bytes
//! (`queue`), the window that we announce (`window`), the acknowledgement that is owed (`acknowledgements`), and how wide
//! a buffer is of use (`autotune`). What a segment brings is taken in by `arrival`, or by `prediction`; `sack` says what is
//! beyond gaps. The rest of the connection asks, and says what has happened.

mod arrival;
mod prediction;
mod sack;

use exos_wire::SeqNumber;

use crate::limits::{MSS_DEFAULT_V4, WINDOW_BYTES_MAX};
use crate::tcp::receiving::acknowledgements::Acknowledgements;
use crate::tcp::receiving::autotune::Autotune;
use crate::tcp::receiving::queue::ReceiveQueue;
use crate::tcp::receiving::window::{Filled, Window};
use crate::tcp::shared::memory::{Memory, Pressure};
use crate::tcp::values::codec::{HandoverError, Wire, travel};
use crate::tcp::values::options::Options;
use crate::tcp::values::segment::Segment;
use crate::time::{Duration, Instant};

/// What has become of a segment's data.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(in crate::tcp) enum Taken {
    /// Some of it was expected next.
    InOrder,
    /// Some of it was expected next, and the program has something to read.
    Readable,
    /// None of it.
    Nothing,
}

/// The receiving side of a connection. What every segment needs comes first.
#[repr(C)]
pub(in crate::tcp) struct Receiver {
    acks: Acknowledgements,
    window: Window,
    rcv_nxt: SeqNumber,
    /// The peer's timestamp that the next acknowledgement echoes.
    ts_recent: u32,
    /// Where the peer's FIN stands, while data before it is missing.
    peer_fin: Option<SeqNumber>,
    /// Largest payload received in one segment, as an estimate of the peer's segments.
    rcv_mss: u16,
    /// Length of the last segment, to notice that the peer sends smaller ones now.
    last_len: u16,
    /// The MSS that we announce.
    mss_announced: u16,
    /// Received data is acknowledged and thrown away.
    discarding: bool,
    /// A packet came marked, and the peer has not said that it knows: ECE is set.
    ecn_echo: bool,
    queue: ReceiveQueue,
    autotune: Autotune,
    /// When data came last.
    received_at: Instant,
    irs: SeqNumber,
    /// Segments beyond a gap, for people to look at.
    out_of_order: u32,
}

impl Receiver {
    /// What every segment needs lies in this many first bytes.
    #[cfg(test)]
    pub const EVERY_SEGMENT_BYTES: usize = core::mem::offset_of!(Self, queue);

    /// Nothing has come yet. The peer's segments are at least `mss_least` bytes.
    #[inline(always)]
    pub fn new(now: Instant, options: &Options, mss_announced: u16, mss_least: u16) -> Self {
        Self {
            acks: Acknowledgements::new(),
            window: Window::new(options, mss_least),
            rcv_nxt: SeqNumber(0),
            ts_recent: 0,
            peer_fin: None,
            // Until a longer one has come: the field's default, over IPv6 too.
            rcv_mss: MSS_DEFAULT_V4,
            last_len: 0,
            mss_announced,
            discarding: false,
            ecn_echo: false,
            queue: ReceiveQueue::default(),
            autotune: Autotune::default(),
            received_at: now,
            irs: SeqNumber(0),
            out_of_order: 0,
        }
    }

    // What happens.

    /// The peer's SYN has come, and says whether it scales windows.
    pub fn syn_received(&mut self, seq: SeqNumber, scales: bool, stamp: Option<u32>) {
        self.irs = seq;
        self.rcv_nxt = seq + 1;
        self.acks.syn_received(self.rcv_nxt);
        self.window.syn_received(self.rcv_nxt, scales);
        if let Some(value) = stamp {
            self.ts_recent = value;
        }
    }

    /// Others have received what the peer sent from there on.
    pub fn begun_at(&mut self, first: SeqNumber) {
        self.irs = first - 1;
    }

    /// An acceptable segment has come. RFC 7323 §4.3: its timestamp, if it is of the segment that our next
    /// acknowledgement will answer.
    #[inline]
    pub fn stamped(&mut self, seq: SeqNumber, value: u32) {
        if seq.le(self.acks.last_sent()) && value.wrapping_sub(self.ts_recent) as i32 >= 0 {
            self.ts_recent = value;
        }
    }

    /// A packet came marked: its peer is told until it says that it knows.
    pub fn came_marked(&mut self) {
        if !self.ecn_echo {
            self.ecn_echo = true;
            self.acks.owe_now();
        }
    }

    /// The peer knows of the mark, and has slowed down.
    pub fn congestion_is_known(&mut self) {
        self.ecn_echo = false;
        self.acks.owe_now();
    }

    /// How hard the stack's memory is pressed now.
    #[inline]
    pub fn set_pressure(&mut self, pressure: Pressure) {
        self.window.set_pressure(pressure);
    }

    /// The program wants nothing more of what comes.
    pub fn discard(&mut self) {
        self.discarding = true;
    }

    /// The program has taken `count` bytes, or they came and it has skipped them. Perhaps the window has opened so far that
    /// the peer should hear of it now, if it may still send.
    #[inline]
    pub fn consumed(&mut self, count: u32, receives: bool) {
        self.autotune.taken(count);
        self.owe_window(receives);
    }

    /// Let this many bytes be received and not taken, from now on and whatever the path delivers. Never more than
    /// the window's scale, which was agreed on at the beginning, can tell. What was promised before
    /// stays promised.
    pub fn set_buffer(&mut self, bytes: u32, receives: bool) {
        self.window.fix_buffer(bytes, self.rcv_mss);
        self.owe_window(receives);
    }

    /// Let the peer hear of a wider window, if it is worth it.
    #[inline]
    fn owe_window(&mut self, receives: bool) {
        if receives && self.window.is_worth_announcing(self.filled()) {
            self.acks.owe_now();
        }
    }

    /// It goes on in another stack.
    pub fn resume(&mut self) {
        self.acks.resume(self.rcv_nxt);
    }

    /// The peer has been silent for long: the buffer stays as wide as it has become.
    pub fn rest(&mut self) {
        self.autotune.rest();
    }

    /// An emptied buffer that is kept for what may come goes back.
    pub fn cool(&mut self, memory: &mut Memory) {
        if self.queue.is_warm() {
            self.queue.cool(memory);
        }
    }

    // What leaves.

    /// Announce the window as it is now: its field.
    #[inline]
    pub fn announce_window(&mut self) -> u16 {
        self.window.announce(self.filled())
    }

    /// A segment leaves that acknowledges all that has come, `with_data` or without. Something may still have to be
    /// said by another one.
    #[inline]
    pub fn acknowledged(&mut self, with_data: bool, sack: bool) {
        let more = self.owes_report(sack);
        self.acks.left(self.rcv_nxt, with_data, more);
    }

    // What is known.

    #[inline]
    pub fn acks(&self) -> &Acknowledgements {
        &self.acks
    }

    #[inline]
    pub fn acks_mut(&mut self) -> &mut Acknowledgements {
        &mut self.acks
    }

    #[inline]
    pub fn window(&self) -> &Window {
        &self.window
    }

    #[inline]
    pub fn queue(&self) -> &ReceiveQueue {
        &self.queue
    }

    #[inline]
    pub fn queue_mut(&mut self) -> &mut ReceiveQueue {
        &mut self.queue
    }

    #[inline]
    fn filled(&self) -> Filled {
        Filled {
            next: self.rcv_nxt,
            unread: self.queue.readable().len() as u32,
            mss: self.rcv_mss,
        }
    }

    #[inline]
    pub fn rcv_nxt(&self) -> SeqNumber {
        self.rcv_nxt
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
        self.window.left(self.rcv_nxt)
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
            return seg.seq.ge(self.rcv_nxt) && seg.seq.le(self.window.edge());
        }
        seg.seq.lt(self.window.edge()) && seg.end().gt(self.rcv_nxt)
    }

    /// It lies at most a window back: it was sent to us, or probes the window that we have shut.
    pub fn was_sent_to_us(&self, seg: &Segment<'_>) -> bool {
        let back = self.rcv_nxt - seg.seq;
        back >= 0 && back as u32 <= self.window.widest()
    }

    #[inline]
    pub fn readable(&self) -> &[u8] {
        self.queue.readable()
    }

    /// It has memory that it does not need when nothing comes.
    #[inline]
    pub fn holds(&self) -> bool {
        self.autotune.is_at_work() || self.queue.is_warm()
    }

    /// Nothing is beyond a gap or to be reported.
    #[inline]
    pub fn is_in_order(&self) -> bool {
        self.queue.beyond().is_none()
    }

    // For people.

    /// The most that the program has taken in a round trip.
    pub fn space(&self) -> u32 {
        self.autotune.space()
    }

    pub fn rtt(&self) -> Option<Duration> {
        self.autotune.rtt()
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
            mss_announced: u16,
            rcv_mss: u16,
            irs: seq,
            rcv_nxt: seq,
            peer_fin: seq_option,
            discarding: flag,
            ecn_echo: flag,
            out_of_order: u32,
            last_len: u16,
            ts_recent: u32,
        } by_hand {
            window, acks,
        } stay {
            // Measured again.
            autotune, received_at,
            queue,
        });
        window.travel(wire)?;
        acks.travel(wire)
    }

    /// What has come, to or from another stack. Gives where the bytes in order stand.
    pub fn travel_queue(
        &mut self,
        wire: &mut Wire<'_>,
        memory: &mut Memory,
    ) -> Result<core::ops::Range<usize>, HandoverError> {
        // Not up to the window's edge: a window that closes may close over what waits beyond a gap.
        let reach = (self.rcv_nxt, self.rcv_nxt + WINDOW_BYTES_MAX);
        self.queue.travel(wire, reach, memory)
    }

    /// What the code relies on; the name of what does not hold.
    pub fn check(&self) -> Result<(), &'static str> {
        self.window.check(self.rcv_nxt)?;
        // Data beyond the peer's FIN, or a FIN amid its data, is nonsense that a peer can bring about.
        match () {
            () if self.queue.readable().len() > WINDOW_BYTES_MAX as usize => Err("receive"),
            () if self.rcv_mss == 0 => Err("rcv_mss"),
            () => Ok(()),
        }
    }
}
