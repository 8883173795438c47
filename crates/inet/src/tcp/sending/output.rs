//! Segments going out of a connection: what to send next, if anything (RFC 9293 §3.10.8, §3.8.6).
//!
//! `poll_segment` is asked until it has none. In order of precedence it gives a SYN, a segment
//! believed lost, a tail loss probe, a probe of a closed window, new data as far as both windows reach (with the FIN
//! on the last of it), and an acknowledgement of its own when one is owed. Each of them carries the
//! newest acknowledgement, so whatever leaves pays what is owed.

use core::ops::Range;

use exos_wire::SeqNumber;
use exos_wire::tcp::{TcpFlags, TcpOptions, Timestamps};

use crate::limits::{ACK_STRETCH_BYTES_MAX, CUT_MSS_MIN, RTO_VARIATION_MIN};
use crate::tcp::connection::{Connection, NEVER};
use crate::tcp::ip::IpFields;
use crate::tcp::loss::Timer;
use crate::tcp::state::State;
use crate::time::Instant;

/// How much may leave in one piece.
#[derive(Copy, Clone, Debug)]
pub enum Burst {
    /// Segments with up to this many bytes of data, which the link cuts up; zero: a maximum segment size each.
    Bytes(u32),
    /// Up to this many segments that differ in their numbers alone, which the stack cuts up.
    Frames(usize),
}

impl Burst {
    /// The most data that the link takes in one segment.
    const fn bytes(self) -> u32 {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Frames(_) => 0,
        }
    }
}

/// A segment to be built: its header's values, and where in the send queue its data lies.
#[derive(Clone, Debug)]
pub struct Outgoing {
    /// Sequence number.
    pub seq: SeqNumber,
    /// Acknowledgement number.
    pub ack: SeqNumber,
    /// Control bits.
    pub flags: TcpFlags,
    /// The window field.
    pub window: u16,
    /// Options.
    pub options: TcpOptions,
    /// The data, as a range of the connection's send queue.
    pub data: Range<usize>,
    /// Largest payload of one segment: data longer than this must be cut up.
    pub mss: u16,
    /// True when all of it was sent before.
    pub again: bool,
    /// Routers may mark it instead of dropping it (RFC 3168 §5): never a SYN, a bare acknowledgement
    /// or what was sent before (§6.1.1, §6.1.4, §6.1.5).
    pub ect: bool,
    /// What the program said of the IP header.
    pub ip: IpFields,
}

impl Outgoing {
    /// None: what segments are written into.
    pub const NONE: Self = Self {
        seq: SeqNumber(0),
        ack: SeqNumber(0),
        flags: TcpFlags::ACK,
        window: 0,
        options: TcpOptions::NONE,
        data: 0..0,
        mss: 1,
        again: false,
        ect: false,
        ip: IpFields::DEFAULT,
    };

    /// The data of the first segment.
    #[inline]
    pub fn first(&self) -> Range<usize> {
        let len = self.data.len().min(usize::from(self.mss));
        self.data.start..self.data.start + len
    }

    /// The first segment has left: go on to the next, if there is one.
    pub fn advance(&mut self) -> bool {
        let first = self.first();
        self.seq += first.len() as u32;
        self.data.start = first.end;
        !self.data.is_empty()
    }

    /// How many segments the wire will see.
    pub fn segments(&self) -> usize {
        self.data.len().div_ceil(usize::from(self.mss)).max(1)
    }
}

impl Connection {
    /// The next segment to send, or several in one, into `out`; false when there is nothing to send now.
    #[inline]
    pub fn poll_segment(&mut self, now: Instant, burst: Burst, out: &mut Outgoing) -> bool {
        self.loss.release();
        match self.state {
            State::Closed | State::Listen | State::TimeWait => false,
            State::SynSent | State::SynReceived => self.poll_syn(now, out),
            _ => {
                (self.has_more_urgent_than_data() && self.poll_urgent(now, burst, out))
                    || self.poll_data(now, burst, out)
                    || self.poll_ack(now, out)
            }
        }
    }

    /// Something may have to leave before new data.
    #[inline]
    fn has_more_urgent_than_data(&self) -> bool {
        let loss = self.loss.at_work();
        loss.is_some_and(|loss| loss.board.lost_bytes() > 0 || loss.tail_due)
            || self.probe
            || self.is_stretched()
    }

    #[inline(never)]
    fn poll_urgent(&mut self, now: Instant, burst: Burst, out: &mut Outgoing) -> bool {
        self.poll_stretch(now, out)
            || self.poll_lost(now, burst.bytes(), out)
            || self.poll_tail(now, out)
            || self.poll_probe(now, out)
    }

    /// True when `poll_segment` may have something to send without a further event.
    #[inline]
    pub fn wants_to_send(&self) -> bool {
        match self.state {
            State::Closed | State::Listen | State::TimeWait => false,
            State::SynSent | State::SynReceived => self.syn_due || self.receiver.owes_now(),
            _ => {
                self.receiver.owes_now()
                    || self.loss.board.lost_bytes() > 0
                    || self.loss.tail_due
                    || self.probe
                    || self.snd_max.lt(self.send_end())
                    || (self.fin_is_due() && self.snd_max == self.send_end())
            }
        }
    }

    /// A SYN or SYN-ACK, new or again.
    fn poll_syn(&mut self, now: Instant, out: &mut Outgoing) -> bool {
        if !self.syn_due {
            // Something unacceptable came: SYN-RECEIVED acknowledges, SYN-SENT has nothing to say.
            return self.state == State::SynReceived && self.poll_ack(now, out);
        }
        let answering = self.state == State::SynReceived;
        let flags = if answering {
            TcpFlags(TcpFlags::SYN.0 | TcpFlags::ACK.0)
        } else {
            TcpFlags::SYN
        };
        let mut options = TcpOptions {
            mss: Some(self.receiver.mss_announced()),
            sack_permitted: self.agreed.sack,
            ..TcpOptions::default()
        };
        options.user_timeout = self.liveness.option();
        if self.agreed.scaling {
            options.window_scale = Some(self.receiver.scale());
        }
        if self.agreed.timestamps {
            options.timestamps = Some(self.timestamps_now(now));
        }
        let again = self.snd_max.gt(self.iss);
        let flags = TcpFlags(flags.0 | self.ecn_flags_of_syn(answering, again));
        self.syn_due = false;
        self.left(now, self.iss, self.iss + 1, again);
        let window = self.receiver.syn_window();
        let ack = if answering {
            self.receiver.rcv_nxt()
        } else {
            SeqNumber(0)
        };
        *out = Outgoing {
            seq: self.iss,
            ack,
            flags,
            window,
            options,
            data: 0..0,
            mss: self.mss,
            again,
            ect: false,
            ip: self.ip,
        };
        true
    }

    /// The first segment believed lost, as far as the congestion window allows (RFC 6675 §4).
    fn poll_lost(&mut self, now: Instant, data_max: u32, out: &mut Outgoing) -> bool {
        // A window that is shut is asked after with a byte now and then; once it opens, all is lost.
        if self.loss.board.lost_bytes() == 0 || self.probing {
            return false;
        }
        let window = self.congestion_window();
        let room = window.saturating_sub(self.loss.in_flight());
        let forced = self.loss.forced;
        // What the retransmission timer asks for waits for nothing.
        if !forced && (room == 0 || self.held_back(now)) {
            return false;
        }
        let Some((start, end)) = self.loss.board.next_lost() else {
            return false;
        };
        // It is one segment, whatever the link can cut up (RFC 5681 §3.1); else as many as would leave one by one.
        let mss = u32::from(self.mss_now());
        let room = if forced {
            mss
        } else {
            room.next_multiple_of(mss)
        };
        let len = ((end - start) as u32).min(self.longest(data_max.min(room)));
        // A window taken back does not keep the first segment from being sent again (§3.8.6).
        let reach = (self.snd_una + self.snd_wnd - start).max(0) as u32;
        let len = if start == self.snd_una {
            len
        } else {
            len.min(reach)
        };
        if len == 0 {
            return false;
        }
        self.loss.forced = false;
        if self.mtu.is_some() {
            self.note_probe_lost(now, start, end);
        }
        self.again(now, start, start + len, out);
        true
    }

    /// What lies between two sequence numbers, all of it sent before.
    fn again(&mut self, now: Instant, start: SeqNumber, end: SeqNumber, out: &mut Outgoing) {
        let from = (start - self.data_start()) as usize;
        let to = ((end - self.data_start()) as usize).min(self.send.len());
        let fin = end == self.send_end() + 1;
        self.segment(now, start, from..to, fin, out);
    }

    /// A tail loss probe (RFC 8985 §7.3): new data whatever the congestion window, or else the last
    /// segment again.
    fn poll_tail(&mut self, now: Instant, out: &mut Outgoing) -> bool {
        if !self.loss.tail_due {
            return false;
        }
        self.loss.tail_due = false;
        if self.flight() == 0 {
            return false;
        }
        if !self.window_holds_flight() {
            // It was shut after the timer went off.
            self.set_loss_timer(now);
            return false;
        }
        let mss = u32::from(self.mss_now());
        let available = (self.send_end() - self.snd_max).max(0) as u32;
        let room = self.snd_wnd.saturating_sub(self.flight());
        let len = available.min(mss).min(room);
        if len > 0 {
            let fin = len == available && self.fin_is_due() && room > len;
            let start = (self.snd_max - self.data_start()) as usize;
            self.segment(now, self.snd_max, start..start + len as usize, fin, out);
        } else {
            let len = self.flight().min(mss);
            self.again(now, self.snd_max - len, self.snd_max, out);
        }
        self.loss.tail = Some((self.snd_max, len == 0));
        self.set_loss_timer(now);
        true
    }

    /// One byte (or the FIN) into a window that is closed, or too small to be worth a segment.
    fn poll_probe(&mut self, now: Instant, out: &mut Outgoing) -> bool {
        if !std::mem::take(&mut self.probe) {
            return false;
        }
        let most = if self.snd_wnd == 0 {
            1
        } else {
            (self.snd_wnd as usize).min(usize::from(self.mss_now()))
        };
        let len = self.send.len().min(most);
        let fin = self.fin_follows(len);
        if len == 0 && !fin {
            return false;
        }
        self.probing = self.snd_wnd == 0;
        self.segment(now, self.snd_una, 0..len, fin, out);
        true
    }

    /// New data, as far as the windows reach.
    #[inline]
    fn poll_data(&mut self, now: Instant, burst: Burst, out: &mut Outgoing) -> bool {
        let end = self.send_end();
        if self.snd_max.gt(end) || (self.snd_max == end && !self.fin_is_due()) {
            return false;
        }
        let available = (end - self.snd_max) as u32;
        let flight = self.flight();
        if flight == 0 {
            self.loss.begin(self.snd_una, now);
            self.rested(now);
        }
        if self.held_back(now) {
            return false;
        }
        let usable = self.usable_window(flight, available);
        if self.mtu.is_some() && self.poll_mtu_probe(now, usable, available, out) {
            return true;
        }
        let piece = self.loss.pacer.piece(u32::from(self.mss));
        let most = self.longest(burst.bytes().min(piece));
        let len = self.whole_segments(available.min(usable).min(most), available);
        let fin = len == available && self.fin_is_due() && (usable > len || flight == 0);
        if !fin && !self.is_worth_sending(len, available, flight) {
            self.arm_persist(now, flight);
            return false;
        }
        let seq = self.snd_max;
        let start = (seq - self.data_start()) as usize;
        if len == available {
            self.nothing_more();
        }
        self.segment(now, seq, start..start + len as usize, fin, out);
        if let Burst::Frames(most) = burst {
            self.lengthen(now, out, most as u32 - 1);
        }
        true
    }

    /// Let up to `most` full segments leave behind `first`, of which nothing would be decided otherwise than of it.
    #[inline]
    fn lengthen(&mut self, now: Instant, first: &mut Outgoing, most: u32) {
        let (mss, count) = (u32::from(first.mss), self.full_segments_behind(first));
        let count = count.min(most);
        if count == 0 {
            return;
        }
        let departure = self.loss.departure(now);
        for _ in 0..count {
            self.snd_max += mss;
            self.loss.board.sent(self.snd_max, departure);
        }
        if self.timer == Timer::Tail {
            // For a single segment in flight a probe waits longer (RFC 8985 §7.2): it no longer is.
            self.set_loss_timer(now);
        }
        first.data.end += (count * mss) as usize;
    }

    /// How many full segments may leave behind the one of new data that has just left. None while data is paced, something
    /// is lost or reported, or the path is searched for what it carries. Nor is the last of the data among them, which is
    /// marked PSH and may tell that the program has no more.
    #[inline]
    fn full_segments_behind(&self, first: &Outgoing) -> u32 {
        let mss = u32::from(self.mss);
        let loss = &*self.loss;
        let calm = first.data.len() == usize::from(self.mss)
            // Said once (RFC 3168 §6.1.2).
            && first.flags.0 & TcpFlags::CWR.0 == 0
            && first.window > 0
            && self.mtu.is_none()
            && self.receiver.is_in_order()
            && loss.pacer.rate() == 0
            && loss.repair.is_none()
            && loss.board.lost_bytes() == 0;
        if !calm {
            return 0;
        }
        let unsent = (self.send_end() - self.snd_max).max(0) as u32;
        let window = self.congestion_window().saturating_sub(loss.in_flight());
        let room = window.min(self.snd_wnd.saturating_sub(self.flight()));
        room.min(unsent.saturating_sub(1)) / mss
    }

    /// The most data of a segment that carries what there is to report.
    #[inline]
    pub(in crate::tcp) fn mss_now(&self) -> u16 {
        self.receiver.mss_beside_report(self.mss, self.agreed)
    }

    /// True when the pace does not allow anything to leave yet.
    fn held_back(&mut self, now: Instant) -> bool {
        let wait = self.loss.pacer.wait(now);
        if let Some(at) = wait {
            self.loss.held_until = at;
        }
        wait.is_some()
    }

    /// Nothing was in flight: perhaps for so long that the window means little.
    fn rested(&mut self, now: Instant) {
        // The timeout is never shorter than this, which is known without reckoning.
        const LEAST_US: u64 = RTO_VARIATION_MIN.as_micros() as u64;
        let idle_us = now.micros().saturating_sub(self.last_sent.micros());
        if idle_us > LEAST_US && idle_us > self.rtt.timeout_us() && self.snd_max == self.snd_una {
            let (idle, rto) = (now - self.last_sent, self.rtt.timeout());
            let mss = u32::from(self.mss);
            self.congestion.get_mut().on_idle(idle, rto, mss);
            self.set_pace();
        }
    }

    /// The program has no more to send: for a while the delivery rate says little of the path.
    #[inline]
    pub(in crate::tcp) fn nothing_more(&mut self) {
        if self.loss.in_flight() < self.congestion_window() {
            let until = self.loss.delivered.wrapping_add(self.flight());
            self.loss.app_limited_until = Some(until);
        }
    }

    /// Bytes that may follow what is in flight: the lesser of the windows.
    #[inline]
    pub(in crate::tcp) fn usable_window(&mut self, flight: u32, available: u32) -> u32 {
        let window = self.congestion_window();
        let congestion = window.saturating_sub(self.loss.in_flight());
        if congestion < available.min(u32::from(self.mss)) || congestion == 0 {
            self.loss.limited_until = self.snd_max;
        }
        congestion.min(self.snd_wnd.saturating_sub(flight))
    }

    /// The most data that one segment may hold: full segments only where the link cuts it up, and one where they are too
    /// short for that.
    fn longest(&self, data_max: u32) -> u32 {
        let mss = self.mss_now();
        let several = data_max / u32::from(mss);
        let count = if mss < CUT_MSS_MIN { 1 } else { several.max(1) };
        count * u32::from(mss)
    }

    /// `len` without a segment less than full behind full ones, unless it ends the data.
    fn whole_segments(&self, len: u32, available: u32) -> u32 {
        let mss = u32::from(self.mss_now());
        if len > mss && len < available {
            len - len % mss
        } else {
            len
        }
    }

    /// Sender's silly-window avoidance (RFC 9293 §3.8.6.2.1).
    #[inline]
    pub(in crate::tcp) fn is_worth_sending(&self, len: u32, available: u32, flight: u32) -> bool {
        len > 0
            && (len >= u32::from(self.mss_now())
                || (len == available && (!self.nagle || flight == 0 || self.finishing))
                || len >= self.snd_wnd_max / 2)
    }

    /// Data waits for a window with nothing in flight: only the timer can move things (§3.8.6.1).
    fn arm_persist(&mut self, now: Instant, flight: u32) {
        if flight == 0 && self.retransmit_at == NEVER {
            self.retransmit_at = now + self.rtt.timeout();
        }
    }

    /// More has come in this turn than one acknowledgement may cover (RFC 9293 §3.8.6.3, MUST-58, -59, lets us
    /// take in all that is queued first; RFC 5681 §4.2 warns of stretching that). It is said in parts, each of as
    /// many whole segments as fit; the last part goes with whatever leaves next.
    fn poll_stretch(&mut self, now: Instant, out: &mut Outgoing) -> bool {
        if !self.is_stretched() {
            return false;
        }
        let len = u32::from(self.receiver.rcv_mss().max(1));
        let part = self.receiver.last_ack_sent() + ACK_STRETCH_BYTES_MAX / len * len;
        let (seq, at) = (self.bare_seq(), self.send.len());
        *out = Outgoing {
            seq,
            ack: part,
            flags: TcpFlags(TcpFlags::ACK.0 | self.ecn_flags(false)),
            // What was promised stays promised; the last part may promise more.
            window: self.receiver.window_promised(part),
            options: TcpOptions {
                timestamps: self.agreed.timestamps.then(|| self.timestamps_now(now)),
                ..TcpOptions::default()
            },
            data: at..at,
            mss: self.mss,
            again: false,
            ect: false,
            ip: self.ip,
        };
        self.receiver.acknowledged_in_part(part);
        true
    }

    /// One acknowledgement would stretch too far. With something beyond a gap, what is acknowledged is
    /// repeated anyway; and a window all but full is not to look closed for a moment.
    #[inline]
    pub(in crate::tcp) fn is_stretched(&self) -> bool {
        let receiver = &self.receiver;
        let pending = (receiver.rcv_nxt() - receiver.last_ack_sent()).max(0) as u32;
        pending > ACK_STRETCH_BYTES_MAX
            && self.receiver.owes_now()
            && receiver.is_in_order()
            && receiver.window_left() >> receiver.scale() > 0
    }

    /// An acknowledgement of its own.
    fn poll_ack(&mut self, now: Instant, out: &mut Outgoing) -> bool {
        if !self.receiver.owes_now() {
            return false;
        }
        self.receiver.duplicate_sent();
        let seq = self.bare_seq();
        let at = self.send.len();
        self.segment(now, seq, at..at, false, out);
        true
    }

    /// The sequence number of a segment that carries none: behind everything sent, also while that is
    /// sent again from an earlier place. An earlier number would be out of the peer's window, and its
    /// acknowledgement lost; two sides that both do so only answer each other. A byte that probes
    /// a closed window does not count, since it is as a rule thrown away.
    pub(in crate::tcp) fn bare_seq(&self) -> SeqNumber {
        if self.probing {
            self.snd_una
        } else {
            self.snd_max
        }
    }

    /// True when a FIN is wanted right behind the first `len` queued bytes.
    fn fin_follows(&self, len: usize) -> bool {
        self.fin_is_due() && len == self.send.len()
    }

    /// True while a FIN of ours is queued or unacknowledged.
    #[inline]
    pub(in crate::tcp) fn fin_is_due(&self) -> bool {
        self.finishing && self.state.awaits_ack_of_fin()
    }

    /// Build the values of a segment, and account for its leaving.
    pub(in crate::tcp) fn segment(
        &mut self,
        now: Instant,
        seq: SeqNumber,
        data: Range<usize>,
        fin: bool,
        out: &mut Outgoing,
    ) {
        let len = data.len() as u32;
        let end = seq + len + u32::from(fin);
        let again = end != seq && seq.lt(self.snd_max);
        let new_data = len > 0 && !again && !self.probing;
        let mut flags = TcpFlags(TcpFlags::ACK.0 | self.ecn_flags(new_data));
        if len > 0 && data.end == self.send.len() {
            flags = TcpFlags(flags.0 | TcpFlags::PSH.0);
        }
        if fin {
            flags = TcpFlags(flags.0 | TcpFlags::FIN.0);
        }
        let window = self.receiver.announce_window();
        let (sack, mss) = self.receiver.take_report(data.len(), self.mss, self.agreed);
        out.options = TcpOptions {
            sack,
            timestamps: self.agreed.timestamps.then(|| self.timestamps_now(now)),
            ..TcpOptions::NONE
        };
        if end != seq {
            self.left(now, seq, end, again);
        }
        self.receiver.acknowledged(len > 0, self.agreed.sack);
        (out.seq, out.ack) = (seq, self.receiver.rcv_nxt());
        (out.flags, out.window) = (flags, window);
        (out.data, out.mss) = (data, mss);
        (out.again, out.ect) = (again, self.agreed.ecn && new_data);
        out.ip = self.ip;
    }

    /// `seq` to `end` have left: note it, and see to the timer.
    fn left(&mut self, now: Instant, seq: SeqNumber, end: SeqNumber, again: bool) {
        let len = (end - seq) as u32;
        self.last_sent = now;
        if !self.state.is_synchronized() {
            // A SYN: its round trip is measured if it left only once.
            self.syn_again |= again;
            self.snd_max = self.snd_max.max(end);
            self.retransmit_at = now + self.rtt.timeout();
            return;
        }
        self.loss.begin(self.snd_una, now);
        let departure = self.loss.departure(now);
        if !again {
            self.loss.board.sent(end, departure);
        } else if self.probing {
            self.loss.board.first_is_ambiguous();
            if end.gt(self.snd_max) {
                // A FIN, asked for since the byte left first.
                self.loss.board.sent(end, departure);
            }
        } else {
            self.loss.board.sent_again(seq, end, departure);
        }
        self.snd_max = self.snd_max.max(end);
        if let Some(repair) = &mut self.loss.repair {
            repair.left(len);
            if again {
                repair.left_again(now);
            }
        }
        let rested = self.loss.board.outstanding() == len;
        self.loss.pacer.left(now, len, rested);
        if self.retransmit_at == NEVER || (self.timer == Timer::Tail && !again) {
            self.set_loss_timer(now);
        }
    }

    #[inline]
    pub(in crate::tcp) fn timestamps_now(&self, now: Instant) -> Timestamps {
        Timestamps {
            value: self.ts_now(now),
            echo: self.receiver.ts_recent(),
        }
    }
}
