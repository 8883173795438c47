//! The acknowledgement that is predicted: what was sent once has arrived in order, and nothing is wrong.
//!
//! It does what `delivery` does with such an acknowledgement, less the questions whose answers are known: there
//! are no SACK blocks, no episode and no probe to end, and nothing can be lost that left after all that has
//! arrived.

use crate::tcp::sending::acknowledgement::Acked;
use crate::tcp::sending::acknowledgement::Acknowledgement;
use crate::tcp::sending::loss::flight::{Loss, Phase};
use crate::tcp::sending::sender::Sender;
use crate::tcp::values::segment::Segment;
use crate::time::Instant;

impl Sender {
    /// Take in an acknowledgement of something new; `None`, and nothing is changed, when more must be asked. Not inlined:
    /// received data, which needs none of it, would pay for its registers.
    #[inline(never)]
    pub(in crate::tcp) fn take_predicted_ack(
        &mut self,
        seg: &Segment<'_>,
        now: Instant,
    ) -> Option<Acked> {
        if !self.agreed.sack
            || self.mtu.is_some()
            || !self.loss.at_work().is_some_and(Loss::is_calm)
        {
            return None;
        }
        let echo = seg.options.timestamps.map_or(0, |stamp| stamp.echo);
        let (loss, offset) = (&mut *self.loss, self.agreed.ts_offset);
        let before = Acknowledgement {
            una: self.snd_una,
            in_flight: loss.in_flight(),
            duplicate: false,
        };
        if loss.may_be_mistaken(echo, offset) {
            return None;
        }
        let newest = loss.rack.newest();
        let (last, oldest_at) = loss.board.acknowledge_in_order(seg.ack, newest)?;
        self.set_window(seg.seq, seg.ack, self.window_of(seg));
        let bytes = (seg.ack - self.snd_una) as u32;
        let acked = self.advance_una(seg.ack);
        self.rtt
            .measured_us(now.micros().saturating_sub(oldest_at.micros()));
        let rtt_us = now.micros_since(last.at);
        self.rtt.least_of(rtt_us);
        self.loss.rack.arrived(&last, rtt_us);
        self.measure_rate(Some(&last), bytes, now);
        self.take_marks_along();
        self.tell_congestion(bytes, before, Some(rtt_us), true, now);
        self.set_timer_after_ack(true, None, now);
        Some(acked)
    }
}

impl Loss {
    /// There is no episode, and no probe.
    #[inline]
    fn is_calm(&self) -> bool {
        self.phase == Phase::Open && self.tail.is_none()
    }

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
