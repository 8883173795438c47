//! The sending side of a connection: what is queued, in flight and acknowledged, and how fast to go.
//!
//! The RFC's variables have its names (RFC 9293 §3.3.1). It is made of parts, each with its state to itself: numbers and
//! bytes (`queue`), the peer's window (`window`), what is in flight (`flight`: what of it is lost, round trips and delivery,
//! the pace), the round trip and the timeout (`rtt`), the congestion window (`congestion`), what the path carries
//! (`path_mtu`). What happens to them together stands in this folder: `new_data` and `output` send, `input` and
//! `prediction` take in what the peer says, `timer` sees to the time. The rest of the connection asks, and says what has
//! happened.

mod input;
mod new_data;
mod output;
mod prediction;
mod timer;

use exos_buf::{Aggregate, Slice};
use exos_wire::SeqNumber;
use exos_wire::tcp::Timestamps;

use crate::limits::{MSS_MIN, PATH_MTU_LIFETIME};
use crate::tcp::congestion::algorithm::Congestion;
use crate::tcp::sending::flight::{Flight, InFlight};
use crate::tcp::sending::numbers::{Numbers, PathState};
use crate::tcp::sending::pacing::Pacer;
use crate::tcp::sending::path_mtu::{PathMtu, reported_mss};
use crate::tcp::sending::queue::SendQueue;
use crate::tcp::sending::recovery::losses::Losses;
use crate::tcp::sending::rounds::Rounds;
use crate::tcp::sending::rtt::Rtt;
use crate::tcp::sending::window::PeerWindow;
use crate::tcp::values::agreed::Agreed;
use crate::tcp::values::codec::{HandoverError, Wire, travel};
use crate::tcp::values::options::Options;
use crate::time::{Duration, Instant};

/// Bytes of a timestamps option with its padding (RFC 7323 appendix A).
const TIMESTAMPS_BYTES: u16 = 12;

/// The sending side of a connection. What every segment needs comes first.
#[repr(C)]
pub(in crate::tcp) struct Sender {
    flight: Flight,
    /// Retransmission, or probing a closed window.
    retransmit_at: Instant,
    last_sent: Instant,
    window: PeerWindow,
    agreed: Agreed,
    /// Largest payload of a segment we send, options already taken off.
    mss: u16,
    /// Segments that were sent again since the connection began, as far as it counts: beside `mss` it takes no memory.
    retransmitted: u16,
    queue: SendQueue,
    rtt: Rtt,
    congestion: Congestion,
    path_mtu: PathMtu,
}

impl Sender {
    /// What every segment needs lies in this many first bytes.
    #[cfg(test)]
    pub const EVERY_SEGMENT_BYTES: usize =
        core::mem::offset_of!(Self, queue) + SendQueue::NUMBERS_BYTES;

    /// Nothing has left, and the peer has said nothing. It takes segments of `mss` bytes, our link such of `mss_link`.
    #[inline(always)]
    pub fn new(
        now: Instant,
        iss: SeqNumber,
        options: &Options,
        agreed: Agreed,
        (mss, mss_link): (u16, u16),
    ) -> Self {
        Self {
            flight: Flight::default(),
            retransmit_at: Instant::NEVER,
            last_sent: now,
            window: PeerWindow::new(options.nagle),
            agreed,
            mss: mss.min(mss_link),
            retransmitted: 0,
            queue: SendQueue::new(iss),
            rtt: Rtt::new(),
            congestion: Congestion::new(options.congestion, u32::from(mss)),
            path_mtu: PathMtu::default(),
        }
    }

    // The handshake.

    /// Both sides' wishes are known.
    pub fn agree(&mut self, agreed: Agreed) {
        self.agreed = agreed;
    }

    /// The peer's SYN has come, with a window that is not scaled (RFC 7323 §2.2), and takes segments of `mss` bytes.
    pub fn syn_received(&mut self, seq: SeqNumber, window: u16, shift: Option<u8>, mss: u16) {
        self.window
            .syn_received(seq, self.queue.una(), window, shift);
        self.mss = match self.agreed.timestamps {
            // Options that every segment carries are taken off (RFC 6691).
            true => mss.saturating_sub(TIMESTAMPS_BYTES).max(MSS_MIN / 2),
            false => mss,
        };
        self.congestion.get_mut().set_mss(u32::from(self.mss));
    }

    /// Send the SYN, perhaps again.
    pub fn send_syn(&mut self) {
        self.queue.send_syn();
    }

    /// The SYN-ACK has left already, as a cookie.
    pub fn syn_ack_has_left(&mut self) {
        self.queue.syn_ack_has_left();
    }

    /// Our SYN is acknowledged: data begins behind it.
    pub fn syn_acknowledged(&mut self, stamp: Option<Timestamps>, now: Instant) {
        self.queue.syn_acknowledged();
        if !self.queue.syn_is_ambiguous() {
            self.rtt.measured(now - self.last_sent);
            self.rtt.least_of(now.micros_since(self.last_sent));
        } else if now > self.last_sent
            && let Some(rtt) = self.round_trip_by_timestamp(stamp, now)
        {
            // Karn: what was sent twice measures nothing, unless a timestamp says which one is answered
            // (RFC 6298 §3). That of a cookie, of which nothing is known but that it has left before
            // now, says other things too.
            self.rtt.measured(rtt);
        }
        if self.rtt.retries() > 0 {
            self.rtt.handshake_lost();
            self.congestion
                .get_mut()
                .handshake_lost(u32::from(self.mss));
        }
        self.rtt.answered();
        self.rtt.progressed();
        self.retransmit_at = Instant::NEVER;
    }

    /// Take over the window of the segment that acknowledges our SYN, already scaled.
    pub fn set_window(&mut self, seq: SeqNumber, ack: SeqNumber, window: u32) {
        self.window.set(seq, ack, window);
    }

    // Commands.

    /// Queue a slice to be sent; false when the queue takes no more.
    pub fn push(&mut self, slice: Slice) -> bool {
        self.queue.push(slice)
    }

    /// Wait with less than a full segment while data is in flight, or no more.
    pub fn set_nagle(&mut self, waits: bool) {
        self.window.set_nagle(waits);
    }

    /// Nothing more will be sent: a FIN follows what is queued.
    pub fn finish(&mut self) {
        self.queue.finish();
    }

    /// Segments are asked for: nothing is held back yet.
    #[inline]
    pub fn release(&mut self) {
        self.flight.release();
    }

    /// A router says that segments of more than `mss` bytes, options included, do not pass: what is
    /// in flight is cut again and sent again. False when that is no news.
    pub fn shrink_segments(&mut self, now: Instant, mss: u16, ipv6: bool) -> bool {
        if !self.queue.syn_is_acknowledged() {
            // A SYN again is as short as can be, and the peer's own limit is not known yet.
            return false;
        }
        let mss = self.payload_of(reported_mss(mss, ipv6));
        if mss >= self.mss {
            self.path_mtu.probe_reported(now, mss, self.mss);
            return false;
        }
        self.use_smaller(mss, now + PATH_MTU_LIFETIME);
        // No congestion: the window stays as it is.
        if self.queue.flight() > 0 {
            self.flight.losses.all_lost();
        }
        true
    }

    /// A segment's payload within `mss`.
    fn payload_of(&self, mss: u16) -> u16 {
        match self.agreed.timestamps {
            true => mss.saturating_sub(TIMESTAMPS_BYTES),
            false => mss,
        }
    }

    fn use_smaller(&mut self, mss: u16, probe_at: Instant) {
        self.path_mtu.narrowed(self.mss, probe_at);
        self.mss = mss;
    }

    /// Take the memory that another connection has left.
    pub fn furnish(&mut self, places: Aggregate, flight: Box<InFlight>) {
        self.queue.furnish(places);
        self.flight.reuse(flight);
    }

    /// The connection has ended: its memory, if it is worth keeping.
    pub fn strip(&mut self) -> Option<(Aggregate, Box<InFlight>)> {
        let flight = self.flight.recycle()?;
        Some((self.queue.strip(), flight))
    }

    /// Nothing has happened for long: give back what memory is not needed to wait.
    pub fn rest(&mut self) {
        self.flight.rest();
        self.queue.shrink();
    }

    // What is known: each part answers for itself.

    #[inline]
    pub const fn queue(&self) -> &SendQueue {
        &self.queue
    }

    #[inline]
    pub fn window(&self) -> &PeerWindow {
        &self.window
    }

    #[inline]
    pub fn rtt(&self) -> &Rtt {
        &self.rtt
    }

    pub fn congestion(&self) -> &Congestion {
        &self.congestion
    }

    pub fn losses(&self) -> &Losses {
        &self.flight.losses
    }

    pub fn rounds(&self) -> &Rounds {
        &self.flight.rounds
    }

    #[inline]
    pub fn pacer(&self) -> &Pacer {
        &self.flight.pacer
    }

    #[inline]
    pub fn agreed(&self) -> Agreed {
        self.agreed
    }

    #[inline]
    pub fn mss(&self) -> u16 {
        self.mss
    }

    /// The longest payload that the handshake allows; `mss` is what the path is believed to carry of it.
    pub fn full_mss(&self) -> u16 {
        self.path_mtu.full(self.mss)
    }

    /// Bytes that may be under way.
    #[inline]
    pub fn congestion_window(&self) -> u32 {
        self.flight.losses.window(&self.congestion)
    }

    #[inline]
    pub fn retransmit_at(&self) -> Instant {
        self.retransmit_at
    }

    pub fn last_sent(&self) -> Instant {
        self.last_sent
    }

    /// The retransmission timeout.
    pub fn timeout(&self) -> Duration {
        self.rtt.timeout()
    }

    /// It has memory that it does not need when nothing is sent.
    #[inline]
    pub fn holds(&self) -> bool {
        self.flight.is_at_work()
    }

    /// The sequence number of a segment that carries none: behind everything sent, also while that is
    /// sent again from an earlier place. An earlier number would be out of the peer's window, and its
    /// acknowledgement lost; two sides that both do so only answer each other. A byte that probes
    /// a closed window does not count, since it is as a rule thrown away.
    #[inline]
    pub fn bare_seq(&self) -> SeqNumber {
        match self.window.is_probing() {
            true => self.queue.una(),
            false => self.queue.max(),
        }
    }

    /// RFC 5961 §5.2: SND.UNA - MAX.SND.WND <= SEG.ACK <= SND.NXT.
    pub fn is_plausible(&self, ack: SeqNumber) -> bool {
        ack.le(self.queue.max()) && ack.ge(self.window.oldest_ack(self.queue.una()))
    }

    /// The round trip that the timestamp echoed tells of (RFC 7323 §4.1). Its clock ticks in milliseconds: less
    /// than one cannot be told. More than a quarter of an hour is nonsense, or a number that we never sent.
    fn round_trip_by_timestamp(&self, stamp: Option<Timestamps>, now: Instant) -> Option<Duration> {
        let stamp = stamp.filter(|_| self.agreed.timestamps)?;
        let elapsed = self.agreed.clock(now).wrapping_sub(stamp.echo);
        let known = stamp.echo != 0 && elapsed < 1 << 20;
        known.then(|| Duration::from_millis(u64::from(elapsed.max(1))))
    }

    /// What the parts are told of the numbers.
    #[inline]
    fn numbers(&self) -> Numbers {
        Numbers {
            una: self.queue.una(),
            max: self.queue.max(),
            mss: u32::from(self.mss),
            agreed: self.agreed,
        }
    }

    /// What is in flight, and what its losses are judged by.
    fn losses_and_path(&mut self) -> (&mut Losses, PathState<'_>) {
        let at = self.numbers();
        let path = PathState {
            at,
            rtt: &mut self.rtt,
            congestion: &mut self.congestion,
        };
        (&mut self.flight.losses, path)
    }

    // Between stacks.

    /// To or from another stack. [`Self::resume`] goes on there.
    pub fn travel(&mut self, wire: &mut Wire<'_>) -> Result<(), HandoverError> {
        travel!(wire, self => Sender {
            mss: u16,
            last_sent: age,
            retransmitted: u16,
        } by_hand {
            window, rtt, queue,
        } stay {
            // When what is in flight left, and what waits for its timer.
            flight, retransmit_at,
            // They travel with the connection.
            agreed, congestion, path_mtu,
        });
        window.travel(wire)?;
        rtt.travel(wire)?;
        queue.travel(wire)
    }

    /// Segments that were sent again since the connection began, SYNs too; at most 65,535.
    pub fn retransmitted(&self) -> u16 {
        self.retransmitted
    }

    /// The congestion control, for the same connection in another stack.
    pub fn into_congestion(self) -> Congestion {
        self.congestion
    }

    /// The congestion control, to or from another stack.
    pub fn congestion_mut(&mut self) -> &mut Congestion {
        &mut self.congestion
    }

    /// Its state in another stack is that of a connection that stands; our FIN may be acknowledged. `full` is the longest payload
    /// that the handshake allows: a search for what passes begins again.
    pub fn stands(&mut self, awaits_ack_of_fin: bool, full: u16, now: Instant) {
        self.queue.stands(awaits_ack_of_fin);
        self.path_mtu = PathMtu::resumed(self.mss, full, now);
    }

    /// Go on in a stack whose link takes segments of `mss` bytes. What had left another stack is in flight here.
    pub fn resume(&mut self, now: Instant, mss: u16) {
        let most = self.payload_of(mss).max(1);
        let full = self.full_mss().min(most);
        self.mss = self.mss.min(most);
        self.path_mtu = PathMtu::resumed(self.mss, full, now);
        self.flight = Flight::default();
        self.congestion.get_mut().taken_over(now);
        if self.queue.max() != self.queue.una() {
            self.has_left_others(now, now);
        }
    }

    /// Somebody else has sent all that is queued, with the FIN that follows, at `left`, for a connection on which nothing was sent here.
    pub fn sent_by_others(&mut self, now: Instant, left: Instant) {
        self.queue
            .left(self.queue.end() + u32::from(self.queue.is_finishing()));
        self.has_left_others(now, left);
    }

    /// What is not acknowledged is in flight since `left`, and measures nothing.
    fn has_left_others(&mut self, now: Instant, left: Instant) {
        let (una, max) = (self.queue.una(), self.queue.max());
        self.flight.begin(una, now);
        let departure = self.flight.departure(now);
        self.flight.losses.sent(una, max, departure);
        self.flight.losses.first_is_ambiguous();
        self.retransmit_at = now.max(left + self.rtt.timeout());
    }

    /// What the code relies on; the name of what does not hold.
    pub fn check(&self) -> Result<(), &'static str> {
        self.queue.check()?;
        self.window.check(self.queue.flight())?;
        if self.mss == 0 {
            return Err("mss");
        }
        Ok(())
    }
}
