//! The short way of an acknowledgement: what was sent once has arrived in order, and nothing is wrong.
//!
//! It does what `recovery` does with such an acknowledgement, less the questions whose answers are known: there
//! are no SACK blocks, no episode and no probe to end, and nothing can be lost that left after all that has
//! arrived.

use super::{Acknowledgement, Loss, Phase};
use crate::tcp::connection::Connection;
use crate::tcp::short_in::Short;
use crate::time::Instant;

impl Connection {
    /// Take in an acknowledgement of something new, and tell whether our FIN was of it; `None`, and nothing is
    /// changed, when it must go the general way. Not inlined: received data, which needs none of it, would pay for its registers.
    #[inline(never)]
    pub(in crate::tcp) fn take_plain_ack(&mut self, now: Instant, seg: &Short<'_>) -> Option<bool> {
        let window = u32::from(seg.window) << self.snd_scale;
        let expected = seg.ack.gt(self.snd_una) && seg.ack.le(self.snd_max);
        if !expected || window == 0 || self.snd_wnd == 0 || !self.may_ack_plainly(seg) {
            return None;
        }
        let loss = &mut *self.loss;
        let before = Acknowledgement {
            una: self.snd_una,
            in_flight: loss.in_flight(),
            duplicate: false,
        };
        let newest = loss.rack.newest();
        let (last, oldest_at) = loss.board.acknowledge_plainly(seg.ack, newest)?;
        self.set_window(seg.seq, seg.ack, window);
        let bytes = (seg.ack - self.snd_una) as u32;
        let acked_fin = self.advance_una(seg.ack);
        self.rtt
            .measured_us(now.micros().saturating_sub(oldest_at.micros()));
        let rtt_us = now.micros_since(last.at);
        self.rtt.least_of(rtt_us);
        self.loss.rack.update_plainly(&last, rtt_us);
        self.measure_rate_by(Some(&last), bytes, now);
        self.take_marks_along();
        self.tell_congestion(bytes, before, Some(rtt_us), true, now);
        self.set_timer_after_ack(true, None, now);
        Some(acked_fin)
    }

    /// There is no episode, no probe and no doubt about either.
    #[inline]
    fn may_ack_plainly(&self, seg: &Short<'_>) -> bool {
        let troubled = self.probing | (self.retries > 0) | !self.sack;
        !troubled
            && self.mtu.is_none()
            && self.loss.at_work().is_some_and(|loss| {
                loss.phase == Phase::Open
                    && loss.tail.is_none()
                    && !loss.may_be_mistaken(seg.timestamps.echo, self.ts_offset)
            })
    }
}

impl Loss {
    /// An episode that is over may turn out to have been a mistake, by this echo of a timestamp.
    #[inline]
    fn may_be_mistaken(&self, echo: u32, ts_offset: u32) -> bool {
        let Some(repair) = self.repair.as_ref().filter(|r| !r.undone) else {
            return false;
        };
        let original = repair.first_again_at.is_some_and(|at| {
            let left = (at.millis() as u32).wrapping_add(ts_offset);
            echo != 0 && (echo.wrapping_sub(left) as i32) < 0
        });
        original || (repair.again == 0 && !repair.untouched)
    }
}
