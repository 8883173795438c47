//! What a connection knows of what it sends: what is queued, in flight and acknowledged, the peer's window, and how fast
//! to go.
//!
//! The RFC's variables have its names (RFC 9293 §3.3.1). What happens to them stands in this folder alone: `piece` and `new_data`
//! send, `acknowledged` and `recovery` take in what the peer says, `mtu` finds out how long a segment may be. The rest of the
//! connection asks, and says what has happened.

use std::ops::Range;

use exos_buf::{Aggregate, Slice};
use exos_wire::SeqNumber;
use exos_wire::tcp::Timestamps;

use crate::limits::{MSS_MIN, SEND_QUEUE_BYTES_MAX, WINDOW_BYTES_MAX};
use crate::tcp::congestion::algorithm::Congestion;
use crate::tcp::sending::acknowledgement::Acked;
use crate::tcp::sending::loss::flight::{Flight, Loss, Timer};
use crate::tcp::sending::path_mtu::PathMtu;
use crate::tcp::sending::rtt::Rtt;
use crate::tcp::values::agreed::Agreed;
use crate::tcp::values::codec::{HandoverError, Wire, travel};
use crate::tcp::values::options::Options;
use crate::tcp::values::segment::Segment;
use crate::time::{Duration, Instant};

/// Bytes of a timestamps option with its padding (RFC 7323 appendix A).
pub(in crate::tcp) const TIMESTAMPS_BYTES: u16 = 12;

/// What has become of our SYN.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(super) enum Syn {
    /// It is to be sent.
    Due,
    Sent,
    Acknowledged,
}

/// The sending side of a connection. What every segment needs comes first.
#[repr(C)]
pub(in crate::tcp) struct Sender {
    pub(super) snd_una: SeqNumber,
    /// Behind the last sequence number sent.
    pub(super) snd_max: SeqNumber,
    pub(super) snd_wnd: u32,
    pub(super) snd_wnd_max: u32,
    pub(super) snd_wl1: SeqNumber,
    pub(super) snd_wl2: SeqNumber,
    pub(super) agreed: Agreed,
    /// Largest payload of a segment we send, options already taken off.
    pub(super) mss: u16,
    /// Timeouts in a row for what is waited for.
    pub(super) retries: u8,
    pub(super) snd_scale: u8,
    pub(super) syn: Syn,
    /// A FIN follows the queued data.
    pub(super) finishing: bool,
    /// It is acknowledged.
    pub(super) finished: bool,
    /// Send a probe into a closed window.
    pub(super) probe: bool,
    /// A probe is out: the byte it carried may have been thrown away.
    pub(super) probing: bool,
    pub(super) nagle: bool,
    /// Our SYN has left more than once: its acknowledgement measures nothing.
    pub(super) syn_again: bool,
    /// What `retransmit_at` is for.
    pub(super) timer: Timer,
    pub(super) iss: SeqNumber,
    /// Retransmission, or probing a closed window.
    pub(super) retransmit_at: Instant,
    pub(super) last_sent: Instant,
    pub(super) loss: Flight,
    pub(super) send: Aggregate,
    pub(super) rtt: Rtt,
    pub(super) congestion: Congestion,
    /// Of a path that does not carry full segments.
    pub(super) mtu: Option<Box<PathMtu>>,
}

impl Sender {
    /// What every segment needs lies in this many first bytes.
    #[cfg(test)]
    pub const EVERY_SEGMENT_BYTES: usize = core::mem::offset_of!(Self, send);

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
            snd_una: iss,
            snd_max: iss,
            snd_wnd: 0,
            snd_wnd_max: 0,
            snd_wl1: SeqNumber(0),
            snd_wl2: SeqNumber(0),
            agreed,
            mss: mss.min(mss_link),
            retries: 0,
            snd_scale: 0,
            syn: Syn::Due,
            finishing: false,
            finished: false,
            probe: false,
            probing: false,
            nagle: options.nagle,
            syn_again: false,
            timer: Timer::Retransmit,
            retransmit_at: Instant::NEVER,
            last_sent: now,
            loss: Flight::default(),
            send: Aggregate::new(),
            rtt: Rtt::new(),
            congestion: Congestion::new(options.congestion, u32::from(mss)),
            mtu: None,
            iss,
        }
    }

    // What happens.

    /// Both sides' wishes are known.
    pub fn agree(&mut self, agreed: Agreed) {
        self.agreed = agreed;
    }

    /// The peer's SYN has come, with a window that is not scaled (RFC 7323 §2.2), and takes segments of `mss` bytes.
    pub fn syn_received(&mut self, seq: SeqNumber, window: u16, shift: Option<u8>, mss: u16) {
        self.set_window(seq, self.snd_una, u32::from(window));
        // RFC 7323 §2.3: a shift above 14 is taken as 14.
        self.snd_scale = shift.map_or(0, |shift| shift.min(14));
        self.set_mss(mss);
    }

    /// Use segments of `mss` bytes less the options that every segment carries (RFC 6691).
    fn set_mss(&mut self, mss: u16) {
        self.mss = if self.agreed.timestamps {
            mss.saturating_sub(TIMESTAMPS_BYTES).max(MSS_MIN / 2)
        } else {
            mss
        };
        self.congestion.get_mut().set_mss(u32::from(self.mss));
    }

    /// The SYN is to be sent, perhaps again.
    pub fn send_syn(&mut self) {
        self.syn = Syn::Due;
    }

    /// The SYN-ACK has left already, as a cookie: what is left to do is to see it acknowledged. When
    /// it left is forgotten, so nothing is measured.
    pub fn syn_ack_has_left(&mut self) {
        self.syn = Syn::Sent;
        self.snd_max = self.iss + 1;
        self.syn_again = true;
    }

    /// Our SYN is acknowledged: data begins behind it.
    pub fn syn_acknowledged(&mut self, stamp: Option<Timestamps>, now: Instant) {
        self.syn = Syn::Acknowledged;
        self.snd_una = self.iss + 1;
        if !self.syn_again {
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
        if self.retries > 0 {
            self.rtt.handshake_lost();
            self.congestion
                .get_mut()
                .handshake_lost(u32::from(self.mss));
        }
        self.retries = 0;
        self.rtt.progressed();
        self.retransmit_at = Instant::NEVER;
    }

    /// Take over a window that the peer announced, already scaled.
    pub fn set_window(&mut self, seq: SeqNumber, ack: SeqNumber, window: u32) {
        self.snd_wnd = window;
        self.snd_wnd_max = self.snd_wnd_max.max(window);
        self.snd_wl1 = seq;
        self.snd_wl2 = ack;
    }

    /// Move `snd_una` to `ack` and let go of the data before it.
    pub(super) fn advance_una(&mut self, ack: SeqNumber) -> Acked {
        let (queued, advanced) = (self.send.len(), (ack - self.snd_una) as usize);
        let data = advanced.min(queued);
        if data > 0 {
            self.send.advance(data);
        }
        self.snd_una = ack;
        let fin = advanced > queued && self.fin_is_due();
        self.finished |= fin;
        Acked {
            data: data > 0,
            fin,
        }
    }

    /// Queue a slice to be sent; false when that is too much at once ([`SEND_QUEUE_BYTES_MAX`]), or a FIN is to follow
    /// what is there.
    pub fn push(&mut self, slice: Slice) -> bool {
        // Two sequence numbers tell which is the later one only within 2 GiB.
        let room = self.send.len() + slice.len() <= SEND_QUEUE_BYTES_MAX;
        let open = !self.finishing && room;
        if open && !slice.is_empty() {
            self.send.push(slice);
        }
        open
    }

    /// Wait with less than a full segment while data is in flight, or no more.
    pub fn set_nagle(&mut self, waits: bool) {
        self.nagle = waits;
    }

    /// Nothing more will be sent: a FIN follows what is queued.
    pub fn finish(&mut self) {
        self.finishing = true;
    }

    /// Segments are asked for: nothing is held back yet.
    #[inline]
    pub fn release(&mut self) {
        self.loss.release();
    }

    /// The timer ran out: what was waited for is sent again, with a longer timeout. True for the first time in a row.
    pub fn timer_ran_out(&mut self) -> bool {
        let first = self.retries == 0;
        self.retries = self.retries.saturating_add(1);
        self.rtt.timed_out();
        self.retransmit_at = Instant::NEVER;
        first
    }

    /// Wait for another timeout.
    pub fn wait_again(&mut self, now: Instant) {
        self.retransmit_at = now + self.rtt.timeout();
    }

    /// What is waited for is not sent again: once its timer runs out, it is given up.
    pub fn set_retries(&mut self, retries: u8) {
        self.retries = retries;
    }

    /// The peer has made no room for a retransmission timeout: ask whether there is some now. It may go on like this for
    /// as long as its reader likes, and little memory is needed for that.
    pub fn ask_for_window(&mut self) {
        self.loss.slim();
        self.probe = true;
    }

    /// Take the memory that another connection has left.
    pub fn furnish(&mut self, send: Aggregate, loss: Box<Loss>) {
        debug_assert!(self.send.is_empty());
        self.send = send;
        self.loss.reuse(loss);
    }

    /// The connection has ended: its memory, if it is worth keeping.
    pub fn strip(&mut self) -> Option<(Aggregate, Box<Loss>)> {
        let loss = self.loss.recycle()?;
        let mut send = std::mem::take(&mut self.send);
        send.clear();
        Some((send, loss))
    }

    /// Nothing has happened for long: give back what memory is not needed to wait.
    pub fn rest(&mut self) {
        self.loss.rest();
        self.send.shrink();
    }

    // What is known.

    #[inline]
    pub fn agreed(&self) -> Agreed {
        self.agreed
    }

    #[inline]
    pub fn snd_una(&self) -> SeqNumber {
        self.snd_una
    }

    #[inline]
    pub fn snd_max(&self) -> SeqNumber {
        self.snd_max
    }

    /// The next number that a peer in TIME-WAIT is told.
    pub fn next(&self) -> SeqNumber {
        self.snd_max.max(self.snd_una)
    }

    /// Our initial sequence number.
    pub fn iss(&self) -> SeqNumber {
        self.iss
    }

    /// A SYN is to be sent.
    #[inline]
    pub fn syn_is_due(&self) -> bool {
        self.syn == Syn::Due
    }

    /// What a segment acknowledges, if it does, is our SYN.
    pub fn is_answered_by(&self, seg: &Segment<'_>) -> bool {
        seg.ack.gt(self.iss) && seg.ack.le(self.snd_max)
    }

    /// It was sent, and is not acknowledged.
    pub fn is_in_flight(&self, seq: SeqNumber) -> bool {
        seq.ge(self.snd_una) && seq.lt(self.snd_max)
    }

    /// The window that a segment brings.
    #[inline]
    pub fn window_of(&self, seg: &Segment<'_>) -> u32 {
        u32::from(seg.window) << self.snd_scale
    }

    /// Sequence numbers sent and not acknowledged.
    #[inline]
    pub fn flight(&self) -> u32 {
        (self.snd_max - self.snd_una).max(0) as u32
    }

    /// Sent data waits for its acknowledgement, or more for being sent.
    pub fn is_busy(&self) -> bool {
        self.snd_max != self.snd_una || !self.send.is_empty()
    }

    /// The sequence number behind the last queued byte.
    #[inline]
    pub(super) fn send_end(&self) -> SeqNumber {
        self.data_start() + self.send.len() as u32
    }

    /// The sequence number of the first queued byte: the first not acknowledged, the SYN apart.
    #[inline]
    pub(super) fn data_start(&self) -> SeqNumber {
        if self.syn == Syn::Acknowledged {
            self.snd_una
        } else {
            self.iss + 1
        }
    }

    /// Where in the send queue `len` bytes from `seq` on lie; `None` when they are there no more.
    pub fn find_queued(&self, seq: SeqNumber, len: usize) -> Option<Range<usize>> {
        let start = usize::try_from(seq - self.data_start()).ok()?;
        (start + len <= self.send.len()).then(|| start..start + len)
    }

    /// The sequence number of a segment that carries none: behind everything sent, also while that is
    /// sent again from an earlier place. An earlier number would be out of the peer's window, and its
    /// acknowledgement lost; two sides that both do so only answer each other. A byte that probes
    /// a closed window does not count, since it is as a rule thrown away.
    #[inline]
    pub fn bare_seq(&self) -> SeqNumber {
        if self.probing {
            self.snd_una
        } else {
            self.snd_max
        }
    }

    /// True while a FIN of ours is queued or unacknowledged.
    #[inline]
    pub(super) fn fin_is_due(&self) -> bool {
        self.finishing && !self.finished && self.syn == Syn::Acknowledged
    }

    pub fn is_finishing(&self) -> bool {
        self.finishing
    }

    /// What is queued and not acknowledged.
    #[inline]
    pub const fn queue(&self) -> &Aggregate {
        &self.send
    }

    /// Bytes queued and not yet sent for the first time.
    pub fn unsent(&self) -> usize {
        (self.send_end() - self.snd_max).max(0) as usize
    }

    pub fn mss(&self) -> u16 {
        self.mss
    }

    #[inline]
    pub fn rtt(&self) -> &Rtt {
        &self.rtt
    }

    pub fn congestion(&self) -> &Congestion {
        &self.congestion
    }

    pub fn loss(&self) -> &Loss {
        &self.loss
    }

    pub fn snd_wnd(&self) -> u32 {
        self.snd_wnd
    }

    /// The shift of the peer's windows.
    pub fn scale(&self) -> u8 {
        self.snd_scale
    }

    #[inline]
    pub fn retries(&self) -> u8 {
        self.retries
    }

    #[inline]
    pub fn retransmit_at(&self) -> Instant {
        self.retransmit_at
    }

    #[inline]
    pub fn timer(&self) -> Timer {
        self.timer
    }

    /// When data may leave that its pace holds back.
    #[inline]
    pub fn held_until(&self) -> Instant {
        self.loss.held_until
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
        self.loss.is_at_work()
    }

    /// The clock of our timestamps: milliseconds from a start of its own for each connection.
    #[inline]
    pub fn ts_now(&self, now: Instant) -> u32 {
        (now.millis() as u32).wrapping_add(self.agreed.ts_offset)
    }

    // Between stacks.

    /// To or from another stack. [`Self::resume`] goes on there.
    pub fn travel(&mut self, wire: &mut Wire<'_>) -> Result<(), HandoverError> {
        travel!(wire, self => Sender {
            finishing: flag,
            nagle: flag,
            probing: flag,
            retries: u8,
            snd_scale: u8,
            mss: u16,
            iss: seq,
            snd_una: seq,
            snd_max: seq,
            snd_wl1: seq,
            snd_wl2: seq,
            snd_wnd: u32,
            snd_wnd_max: u32,
            last_sent: age,
        } by_hand {
            rtt, send,
        } stay {
            // Of the handshake, and of the end.
            syn, syn_again, finished,
            // When what is in flight left, and what waits for its timer.
            loss, timer, retransmit_at, probe,
            // They travel with the connection.
            agreed, congestion, mtu,
        });
        rtt.travel(wire)?;
        wire.aggregate(send)
    }

    /// The congestion control, for the same connection in another stack.
    pub fn into_congestion(self) -> Congestion {
        self.congestion
    }

    /// The congestion control, to or from another stack.
    pub fn congestion_mut(&mut self) -> &mut Congestion {
        &mut self.congestion
    }

    /// The longest payload that the handshake allows, read from another stack: in place, so that a search for what passes
    /// begins again.
    pub fn resume_search(&mut self, full: u16, now: Instant) {
        self.mtu = PathMtu::resumed(self.mss, full, now);
    }

    /// Its state in another stack is that of a connection that stands; our FIN may be acknowledged.
    pub fn stands(&mut self, awaits_ack_of_fin: bool) {
        self.syn = Syn::Acknowledged;
        self.finished = self.finishing && !awaits_ack_of_fin;
    }

    /// Go on in a stack whose link takes segments of `mss` bytes. What had left another stack is in flight here, and
    /// measures nothing.
    pub fn resume(&mut self, now: Instant, mss: u16) {
        let options = if self.agreed.timestamps {
            TIMESTAMPS_BYTES
        } else {
            0
        };
        let most = mss.saturating_sub(options).max(1);
        let full = self.full_mss();
        self.mss = self.mss.min(most);
        self.mtu = PathMtu::resumed(self.mss, full.min(most), now);
        (self.loss, self.timer) = (Flight::default(), Timer::Retransmit);
        self.congestion.get_mut().taken_over(now);
        if self.snd_max == self.snd_una {
            return;
        }
        self.loss.begin(self.snd_una, now);
        let departure = self.loss.departure(now);
        self.loss.board.sent(self.snd_max, departure);
        self.loss.board.first_is_ambiguous();
        self.retransmit_at = now + self.rtt.timeout();
    }

    /// What the code relies on; the name of what does not hold.
    pub fn check(&self) -> Result<(), &'static str> {
        let flight = self.snd_max - self.snd_una;
        let most = self.send.len() + usize::from(self.fin_is_due());
        let window = self.snd_wnd <= self.snd_wnd_max && self.snd_wnd_max <= WINDOW_BYTES_MAX;
        match () {
            () if self.send.len() > SEND_QUEUE_BYTES_MAX => Err("send"),
            () if flight < 0 || flight as usize > most => Err("snd_max"),
            // Only a shut window is probed; while it is, nothing else is sent again.
            () if self.probing && (flight == 0 || self.snd_wnd != 0) => Err("probing"),
            () if !window => Err("snd_wnd"),
            () if self.snd_scale > 14 => Err("window scale"),
            () if self.mss == 0 => Err("mss"),
            () => Ok(()),
        }
    }
}
