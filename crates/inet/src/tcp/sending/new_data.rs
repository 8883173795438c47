//! New data: as much as both windows and the pace allow, in segments that are worth sending (RFC 9293 §3.8.6.2.1).

use core::ops::Range;

use crate::limits::{CUT_MSS_MIN, RTO_VARIATION_MIN};
use crate::tcp::sending::loss::flight::Timer;
use crate::tcp::sending::piece::Piece;
use crate::tcp::sending::sender::Sender;
use crate::tcp::values::outgoing::Burst;
use crate::time::Instant;

impl Sender {
    /// New data, as far as the windows reach.
    #[inline]
    pub(super) fn poll_data(&mut self, now: Instant, burst: Burst, mss_now: u16) -> Option<Piece> {
        let end = self.send_end();
        if self.snd_max.gt(end) || (self.snd_max == end && !self.fin_is_due()) {
            return None;
        }
        let available = (end - self.snd_max) as u32;
        let flight = self.flight();
        if flight == 0 {
            self.loss.begin(self.snd_una, now);
            self.rested(now);
        }
        if self.held_back(now) {
            return None;
        }
        let usable = self.usable_window(flight, available);
        if self.mtu.is_some()
            && let Some(probe) = self.poll_mtu_probe(now, (usable, available), mss_now)
        {
            return Some(probe);
        }
        let piece = self.loss.pacer.piece(u32::from(self.mss));
        let most = longest(burst.bytes().min(piece), mss_now);
        let len = whole_segments(available.min(usable).min(most), available, mss_now);
        let fin = len == available && self.fin_is_due() && (usable > len || flight == 0);
        if !fin && !self.is_worth_sending(len, available, flight, mss_now) {
            self.arm_persist(now, flight);
            return None;
        }
        let seq = self.snd_max;
        let start = (seq - self.data_start()) as usize;
        if len == available {
            self.nothing_more();
        }
        Some(self.piece(now, seq, start..start + len as usize, fin))
    }

    /// Let up to `most` full segments leave behind one of new data, of which nothing would be decided otherwise than of
    /// it. Gives how much data they have.
    #[inline]
    pub fn lengthen(&mut self, now: Instant, first: &Range<usize>, most: u32) -> usize {
        let (mss, count) = (u32::from(self.mss), self.full_segments_behind(first));
        let count = count.min(most);
        if count == 0 {
            return 0;
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
        (count * mss) as usize
    }

    /// How many full segments may leave behind the one of new data that has just left. None while data is paced, something
    /// is lost, or the path is searched for what it carries. Nor is the last of the data among them, which is
    /// marked PSH and may tell that the program has no more.
    #[inline]
    fn full_segments_behind(&self, first: &Range<usize>) -> u32 {
        let mss = u32::from(self.mss);
        let loss = &*self.loss;
        let ends_at_snd_max = self.data_start() + first.end as u32 == self.snd_max;
        let calm = first.len() == usize::from(self.mss)
            && ends_at_snd_max
            && self.mtu.is_none()
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

    /// True when the pace does not allow anything to leave yet.
    pub(super) fn held_back(&mut self, now: Instant) -> bool {
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
    fn nothing_more(&mut self) {
        if self.loss.in_flight() < self.congestion_window() {
            let until = self.loss.delivered.wrapping_add(self.flight());
            self.loss.app_limited_until = Some(until);
        }
    }

    /// Bytes that may follow what is in flight: the lesser of the windows.
    #[inline]
    fn usable_window(&mut self, flight: u32, available: u32) -> u32 {
        let window = self.congestion_window();
        let congestion = window.saturating_sub(self.loss.in_flight());
        if congestion < available.min(u32::from(self.mss)) || congestion == 0 {
            self.loss.limited_until = self.snd_max;
        }
        congestion.min(self.snd_wnd.saturating_sub(flight))
    }

    /// Sender's silly-window avoidance (RFC 9293 §3.8.6.2.1).
    #[inline]
    fn is_worth_sending(&self, len: u32, available: u32, flight: u32, mss_now: u16) -> bool {
        len > 0
            && (len >= u32::from(mss_now)
                || (len == available && (!self.nagle || flight == 0 || self.finishing))
                || len >= self.snd_wnd_max / 2)
    }

    /// Data waits for a window with nothing in flight: only the timer can move things (§3.8.6.1).
    fn arm_persist(&mut self, now: Instant, flight: u32) {
        if flight == 0 && self.retransmit_at == Instant::NEVER {
            self.retransmit_at = now + self.rtt.timeout();
        }
    }
}

/// The most data that one segment may hold: full segments only where the link cuts it up, and one where they are too
/// short for that.
pub(super) fn longest(data_max: u32, mss: u16) -> u32 {
    let several = data_max / u32::from(mss);
    let count = if mss < CUT_MSS_MIN { 1 } else { several.max(1) };
    count * u32::from(mss)
}

/// `len` without a segment less than full behind full ones, unless it ends the data.
fn whole_segments(len: u32, available: u32, mss: u16) -> u32 {
    let mss = u32::from(mss);
    if len > mss && len < available {
        len - len % mss
    } else {
        len
    }
}
