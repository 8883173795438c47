//! The timer of what is in flight: retransmission (RFC 6298 §5), tail loss probes (RFC 8985 §7), reordering (§6.2).

use crate::limits::{PATH_MTU_PROBE_INTERVAL, RTO_VARIATION_MIN, TAIL_PROBE_SLACK};
use crate::tcp::sending::path_mtu::black_hole_mss;
use crate::tcp::sending::recovery::losses::Timer;
use crate::tcp::sending::sender::Sender;
use crate::tcp::shared::context::Context;
use crate::time::Instant;

impl Sender {
    // Setting it.

    /// An acknowledgement has come, which `advanced` or not; losses are to be looked for `again` at a time.
    #[inline]
    pub(super) fn set_timer_after_ack(
        &mut self,
        advanced: bool,
        again: Option<Instant>,
        now: Instant,
    ) {
        let losses = &mut self.flight.losses;
        let timer = losses.timer();
        if losses.board().outstanding() == 0 {
            losses.set_timer(Timer::Retransmit);
            self.retransmit_at = Instant::NEVER;
        } else if let Some(at) = again {
            losses.set_timer(Timer::Reorder);
            self.retransmit_at = at.max(now);
        } else if advanced
            || timer == Timer::Reorder
            // What was to be sent again at once, which would have set it, was taken back.
            || self.retransmit_at == Instant::NEVER
            || (timer == Timer::Tail && self.tail_probe_after_us().is_none())
        {
            // RFC 6298 §5.3: only what is new starts it again.
            self.set_loss_timer(now);
        }
    }

    /// For what is in flight: a tail loss probe if one may help, else the retransmission timeout.
    #[inline]
    pub(super) fn set_loss_timer(&mut self, now: Instant) {
        let timeout_us = self.rtt.timeout_us();
        let (timer, after_us) = match self.tail_probe_after_us() {
            // RFC 8985 §7.2: where the timeout would come first, the probe takes its place.
            Some(after_us) => (Timer::Tail, after_us.min(timeout_us)),
            None => (Timer::Retransmit, timeout_us),
        };
        self.flight.losses.set_timer(timer);
        self.retransmit_at = Instant::from_micros(now.micros() + after_us);
    }

    /// RFC 8985 §7.2: when a probe is worth while, and after how long. Two milliseconds more than two
    /// round trips, because timers and sleeping processors are no better than that.
    #[inline]
    fn tail_probe_after_us(&self) -> Option<u64> {
        let losses = &self.flight.losses;
        let srtt_us = self.rtt.smoothed_us();
        let may = self.agreed.sack
            && losses.may_probe_tail()
            && self.rtt.retries() == 0
            && self.window.holds(self.queue.flight())
            && srtt_us > 0;
        if !may {
            return None;
        }
        let mut after_us = 2 * u64::from(srtt_us) + TAIL_PROBE_SLACK.as_micros() as u64;
        if losses.board().outstanding() <= u32::from(self.mss) {
            // A single segment may wait for a delayed acknowledgement.
            after_us += RTO_VARIATION_MIN.as_micros() as u64;
        }
        Some(after_us)
    }

    /// Wait for another timeout.
    pub fn wait_again(&mut self, now: Instant) {
        self.retransmit_at = now + self.rtt.timeout();
    }

    /// Let what is waited for count as sent again this many times: perhaps often enough to be given up next.
    pub fn set_retries(&mut self, retries: u8) {
        self.rtt.set_retries(retries);
    }

    // When it goes off.

    /// See to it. True when it went off for retransmission: that is the connection's, too.
    pub fn handle_timeout(&mut self, cx: &mut Context<'_>) -> bool {
        if cx.now < self.retransmit_at {
            return false;
        }
        match self.flight.losses.timer() {
            Timer::Retransmit => return true,
            Timer::Reorder => self.reordering_timed_out(cx),
            Timer::Tail => self.tail_timed_out(cx),
        }
        false
    }

    /// What has not arrived is lost.
    fn reordering_timed_out(&mut self, cx: &mut Context<'_>) {
        let (losses, mut path) = self.losses_and_path();
        match losses.reordering_timed_out(&mut path, cx) {
            Some(at) => self.retransmit_at = at,
            None => self.set_loss_timer(cx.now),
        }
    }

    /// A probe of the tail shall leave, unless the window has been shut since it was set.
    fn tail_timed_out(&mut self, cx: &mut Context<'_>) {
        if !self.window.holds(self.queue.flight()) {
            self.set_loss_timer(cx.now);
            return;
        }
        cx.counters.tcp_tail_probes += 1;
        self.flight.losses.tail_probe().ask();
        // Armed again when the probe leaves.
        self.flight.losses.set_timer(Timer::Retransmit);
        self.retransmit_at = Instant::NEVER;
    }

    /// The retransmission timer ran out: what was waited for is sent again, with a longer timeout. True for the first time in
    /// a row.
    pub fn retransmission_timed_out(&mut self) -> bool {
        let first = self.rtt.retries() == 0;
        self.rtt.timed_out();
        self.retransmit_at = Instant::NEVER;
        first
    }

    /// The peer has made no room for a retransmission timeout: ask whether there is some now. It may go on like this for
    /// as long as its reader likes, and little memory is needed for that.
    pub fn ask_for_window(&mut self) {
        self.flight.slim();
        self.window.ask();
    }

    /// It ran out for data in flight, the `first` time in a row or again (RFC 6298 §5.4 to §5.6).
    pub fn data_timed_out(&mut self, first: bool, ipv6: bool, cx: &mut Context<'_>) {
        self.suspect_black_hole(ipv6, cx);
        let (losses, mut path) = self.losses_and_path();
        losses.timed_out(first, &mut path, cx);
    }

    /// Perhaps the segments are too long for a router that does not say so.
    fn suspect_black_hole(&mut self, ipv6: bool, cx: &mut Context<'_>) {
        let Some(mss) = black_hole_mss(self.rtt.retries(), ipv6) else {
            return;
        };
        let mss = self.payload_of(mss);
        if mss >= self.mss || self.queue.flight() < u32::from(self.mss) {
            return;
        }
        cx.counters.tcp_black_holes += 1;
        self.use_smaller(mss, cx.now + PATH_MTU_PROBE_INTERVAL);
    }
}
