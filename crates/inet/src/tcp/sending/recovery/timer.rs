//! The timer of what is in flight: retransmission (RFC 6298 §5), tail loss probes (RFC 8985 §7), reordering (§6.2).

use crate::limits::{RTO_VARIATION_MIN, TAIL_PROBE_SLACK};
use crate::tcp::congestion::control::{Cause, Congested};
use crate::tcp::sending::loss::flight::{Phase, Timer};
use crate::tcp::sending::sender::Sender;
use crate::tcp::shared::context::Context;
use crate::time::Instant;

impl Sender {
    #[inline]
    pub(super) fn set_timer_after_ack(
        &mut self,
        advanced: bool,
        again: Option<Instant>,
        now: Instant,
    ) {
        if self.loss.board.outstanding() == 0 {
            (self.timer, self.retransmit_at) = (Timer::Retransmit, Instant::NEVER);
        } else if let Some(at) = again {
            (self.timer, self.retransmit_at) = (Timer::Reorder, at.max(now));
        } else if advanced
            || self.timer == Timer::Reorder
            // What was to be sent again at once, which would have set it, was taken back.
            || self.retransmit_at == Instant::NEVER
            || (self.timer == Timer::Tail && self.tail_probe_after_us().is_none())
        {
            // RFC 6298 §5.3: only what is new starts it again.
            self.set_loss_timer(now);
        }
    }

    /// For what is in flight: a tail loss probe if one may help, else the retransmission timeout.
    #[inline]
    pub(in crate::tcp) fn set_loss_timer(&mut self, now: Instant) {
        let timeout_us = self.rtt.timeout_us();
        let (timer, after_us) = match self.tail_probe_after_us() {
            // RFC 8985 §7.2: where the timeout would come first, the probe takes its place.
            Some(after_us) => (Timer::Tail, after_us.min(timeout_us)),
            None => (Timer::Retransmit, timeout_us),
        };
        self.timer = timer;
        self.retransmit_at = Instant::from_micros(now.micros() + after_us);
    }

    /// RFC 8985 §7.2: when a probe is worth while, and after how long. Two milliseconds more than two
    /// round trips, because timers and sleeping processors are no better than that.
    #[inline]
    pub(super) fn tail_probe_after_us(&self) -> Option<u64> {
        let loss = &self.loss;
        let srtt_us = self.rtt.smoothed_us();
        let may = self.agreed.sack
            && loss.phase == Phase::Open
            && loss.tail.is_none()
            && loss.board.sacked_bytes() == 0
            && self.retries == 0
            && self.window_holds_flight()
            && srtt_us > 0;
        if !may {
            return None;
        }
        let mut after_us = 2 * u64::from(srtt_us) + TAIL_PROBE_SLACK.as_micros() as u64;
        if loss.board.outstanding() <= u32::from(self.mss) {
            // A single segment may wait for a delayed acknowledgement.
            after_us += RTO_VARIATION_MIN.as_micros() as u64;
        }
        Some(after_us)
    }

    /// False when the peer has taken back a window that was used (RFC 9293 §3.8.6): what lies beyond it, the
    /// tail above all, is not sent again until it opens.
    pub(in crate::tcp) fn window_holds_flight(&self) -> bool {
        self.flight() <= self.snd_wnd
    }

    /// The timer went off for reordering: what has not arrived is lost.
    pub(in crate::tcp) fn reordering_timed_out(&mut self, cx: &mut Context<'_>) {
        let again = self.detect(cx);
        if self.loss.board.lost_bytes() > 0
            && matches!(self.loss.phase, Phase::Open | Phase::Marked)
        {
            cx.counters.tcp_fast_retransmits += 1;
            self.begin_episode(Phase::Recovery, Cause::Loss, cx);
            self.start_repair();
        }
        match again {
            Some(at) => self.retransmit_at = at,
            None => self.set_loss_timer(cx.now),
        }
    }

    /// Repairing begins without an acknowledgement: one segment may leave at once.
    pub(super) fn start_repair(&mut self) {
        let (pipe, mss) = (self.loss.in_flight(), u32::from(self.mss));
        let threshold = self.congestion.window();
        if let Some(repair) = &mut self.loss.repair {
            self.loss.window = repair.window(0, pipe, threshold, mss, false);
        }
    }

    /// The timer went off for the tail: a probe shall leave, unless the window has been shut since it was set.
    pub(in crate::tcp) fn tail_timed_out(&mut self, cx: &mut Context<'_>) {
        if !self.window_holds_flight() {
            self.set_loss_timer(cx.now);
            return;
        }
        cx.counters.tcp_tail_probes += 1;
        self.loss.tail_due = true;
        // Armed again when the probe leaves.
        (self.timer, self.retransmit_at) = (Timer::Retransmit, Instant::NEVER);
    }

    /// The retransmission timer ran out for data in flight (RFC 6298 §5.4 to §5.6).
    pub(in crate::tcp) fn data_timed_out(&mut self, first: bool, cx: &mut Context<'_>) {
        let again = !first || self.loss.phase == Phase::Timeout;
        let conditions = self.conditions();
        if self.loss.board.was_reneged() {
            cx.counters.tcp_sacks_reneged += 1;
            self.loss.board.forget_sacks();
        }
        if !again || self.loss.repair.as_ref().is_none_or(|r| r.undone) {
            self.begin_episode(Phase::Timeout, Cause::Timeout { again }, cx);
        } else {
            let in_flight = self.loss.board.outstanding();
            self.congestion.get_mut().on_congestion(&Congested {
                now: cx.now,
                cause: Cause::Timeout { again },
                in_flight,
                mss: u32::from(self.mss),
            });
            self.loss.phase = Phase::Timeout;
        }
        let allowed = self.loss.rack.allowed(conditions);
        let board = &mut self.loss.board;
        let lost = if self.agreed.sack {
            board.mark_lost_at_timeout(allowed, cx.now)
        } else {
            let before = board.lost_bytes();
            board.mark_all_lost();
            board.lost_bytes().saturating_sub(before)
        };
        cx.counters.tcp_bytes_lost += u64::from(lost);
        self.loss.forced = true;
        // RFC 6582 §3.2, step 4: duplicates caused by what is sent again are no new loss.
        self.loss.recover = self.snd_max;
        self.loss.duplicates = 0;
        self.loss.left_network = 0;
        self.loss.tail = None;
        self.loss.tail_due = false;
    }
}
