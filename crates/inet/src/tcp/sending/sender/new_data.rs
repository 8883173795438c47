//! New data: as much as both windows and the pace allow, in segments that are worth sending (RFC 9293 §3.8.6.2.1).

use core::ops::Range;

use crate::limits::RTO_VARIATION_MIN;
use crate::tcp::sending::flight::InFlight;
use crate::tcp::sending::piece::Piece;
use crate::tcp::sending::recovery::losses::Timer;
use crate::tcp::sending::segments::{longest, whole_segments};
use crate::tcp::sending::sender::Sender;
use crate::tcp::values::outgoing::Burst;
use crate::time::Instant;

impl Sender {
    /// New data, as far as the windows reach.
    #[inline]
    pub(super) fn poll_data(&mut self, now: Instant, burst: Burst, mss_now: u16) -> Option<Piece> {
        if !self.queue.has_unsent() {
            return None;
        }
        let (available, flight) = (self.queue.unsent(), self.queue.flight());
        if flight == 0 {
            self.flight.begin(self.queue.una(), now);
            self.see_to_rest(now);
        }
        if self.flight.pacer.holds_back(now) {
            return None;
        }
        let usable = self.usable_window(flight, available);
        if self.path_mtu.is_searched()
            && let Some(probe) = self.poll_mtu_probe(now, (usable, available), mss_now)
        {
            return Some(probe);
        }
        let piece = self.flight.pacer.piece(u32::from(self.mss));
        let most = longest(burst.bytes().min(piece), mss_now);
        let len = whole_segments(available.min(usable).min(most), available, mss_now);
        let (all, last) = (len == available, self.queue.is_finishing());
        let fin = all && self.queue.fin_is_due() && (usable > len || flight == 0);
        let worth = (self.window).is_worth_sending(len, all, flight, mss_now, last);
        if !fin && !worth {
            self.arm_persist(now, flight);
            return None;
        }
        if all && self.flight.losses.in_flight() < self.congestion_window() {
            // The program has no more to send.
            self.flight.rounds.nothing_more(flight);
        }
        let seq = self.queue.max();
        let start = self.queue.place(seq);
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
        let departure = self.flight.departure(now);
        for _ in 0..count {
            let seq = self.queue.max();
            self.flight.losses.sent(seq, seq + mss, departure);
            self.queue.left(seq + mss);
        }
        if self.flight.losses.timer() == Timer::Tail {
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
        let InFlight { losses, pacer, .. } = &*self.flight;
        let ends_at_max = self.queue.start() + first.end as u32 == self.queue.max();
        let calm = first.len() == usize::from(self.mss)
            && ends_at_max
            && !self.path_mtu.is_searched()
            && pacer.rate() == 0
            && losses.is_calm();
        if !calm {
            return 0;
        }
        let unsent = self.queue.unsent();
        let window = self.congestion_window().saturating_sub(losses.in_flight());
        let room = window.min(self.window.room(self.queue.flight()));
        room.min(unsent.saturating_sub(1)) / mss
    }

    /// New data in a segment longer than what is known to pass, if it is time for one and the windows
    /// have room for it and for enough behind it to tell a loss by.
    #[cold]
    fn poll_mtu_probe(
        &mut self,
        now: Instant,
        (usable, available): (u32, u32),
        mss_now: u16,
    ) -> Option<Piece> {
        // With blocks that wait to leave it would be longer than it says.
        let reports = mss_now < self.mss;
        if reports || self.flight.losses.is_repairing() {
            return None;
        }
        let size = self.path_mtu.next_probe(now, self.mss)?;
        let room = u32::from(size) + 3 * u32::from(self.mss);
        if usable < room || available < room {
            return None;
        }
        let seq = self.queue.max();
        self.path_mtu.probe_left(seq, seq + u32::from(size));
        let start = self.queue.place(seq);
        let mut piece = self.piece(now, seq, start..start + usize::from(size), false);
        piece.mss = Some(size);
        Some(piece)
    }

    /// Nothing was in flight: perhaps for so long that the window means little.
    fn see_to_rest(&mut self, now: Instant) {
        // The timeout is never shorter than this, which is known without reckoning.
        const LEAST_US: u64 = RTO_VARIATION_MIN.as_micros() as u64;
        let idle_us = now.micros().saturating_sub(self.last_sent.micros());
        if idle_us > LEAST_US && idle_us > self.rtt.timeout_us() {
            let (idle, rto) = (now - self.last_sent, self.rtt.timeout());
            let mss = u32::from(self.mss);
            self.congestion.get_mut().on_idle(idle, rto, mss);
            self.set_pace();
        }
    }

    /// Bytes that may follow what is in flight: the lesser of the windows.
    #[inline]
    fn usable_window(&mut self, flight: u32, available: u32) -> u32 {
        let window = self.congestion_window();
        let congestion = window.saturating_sub(self.flight.losses.in_flight());
        if congestion < available.min(u32::from(self.mss)) || congestion == 0 {
            self.flight.rounds.limited(self.queue.max());
        }
        congestion.min(self.window.room(flight))
    }

    /// Data waits for a window with nothing in flight: only the timer can move things (§3.8.6.1).
    fn arm_persist(&mut self, now: Instant, flight: u32) {
        if flight == 0 && self.retransmit_at == Instant::NEVER {
            self.retransmit_at = now + self.rtt.timeout();
        }
    }
}
