//! Header prediction, as far as the sender is concerned (`connection::prediction`): the acknowledgement of what was sent once and has
//! arrived in order, while nothing is wrong.
//!
//! It does what `input` does with such an acknowledgement, less the questions whose answers are known: there
//! are no SACK blocks, no episode and no probe to end, and nothing can be lost that left after all that has
//! arrived.

use crate::tcp::sending::acknowledgement::Acked;
use crate::tcp::sending::flight::InFlight;
use crate::tcp::sending::sender::Sender;
use crate::tcp::sending::sender::input::News;
use crate::tcp::shared::context::Context;
use crate::tcp::values::segment::Segment;
use crate::time::Instant;

impl Sender {
    /// It acknowledges some of what was sent, or repeats the last acknowledgement and its window; nothing is wrong that an
    /// acknowledgement could put right.
    #[inline]
    pub fn predicts(&self, seg: &Segment<'_>) -> bool {
        let (una, open) = (self.queue.una(), self.window.bytes());
        let window = self.window.of(seg);
        let expected = match seg.ack == una {
            true => window == open && !seg.payload.is_empty(),
            false => seg.ack.gt(una) && seg.ack.le(self.queue.max()) && window > 0,
        };
        let waits = self.window.is_probing() || self.rtt.retries() > 0;
        expected && self.agreed.timestamps && open > 0 && !waits
    }

    /// Take in the acknowledgement of a segment that is predicted.
    #[inline]
    pub fn take_predicted(&mut self, seg: &Segment<'_>, cx: &mut Context<'_>) -> Acked {
        if seg.ack == self.queue.una() {
            self.window.repeated(seg);
            return Acked::NOTHING;
        }
        self.take_predicted_ack(seg, cx)
    }

    /// Take in an acknowledgement of something new. Not inlined:
    /// received data, which needs none of it, would pay for its registers.
    #[inline(never)]
    fn take_predicted_ack(&mut self, seg: &Segment<'_>, cx: &mut Context<'_>) -> Acked {
        if let Some(acked) = self.take_in_order(seg, cx.now) {
            return acked;
        }
        self.window.set(seg.seq, seg.ack, self.window.of(seg));
        self.new_data_acknowledged(seg, cx)
    }

    /// What it acknowledges was sent once, and arrived in order; `None`, and nothing is changed, when more must be asked.
    #[inline]
    fn take_in_order(&mut self, seg: &Segment<'_>, now: Instant) -> Option<Acked> {
        if !self.agreed.sack || self.path_mtu.is_searched() || self.flight.at_work().is_none() {
            return None;
        }
        let echo = seg.options.timestamps.map_or(0, |stamp| stamp.echo);
        let (before, at) = (self.before(false), self.numbers());
        let InFlight { losses, rounds, .. } = &mut *self.flight;
        let (last, oldest_at) = losses.take_predicted(seg.ack, echo, at)?;
        self.window.set(seg.seq, seg.ack, self.window.of(seg));
        let bytes = (seg.ack - before.una) as u32;
        let acked = self.queue.acknowledged(seg.ack);
        self.rtt
            .measured_us(now.micros().saturating_sub(oldest_at.micros()));
        let rtt_us = now.micros_since(last.at);
        self.rtt.least_of(rtt_us);
        losses.predicted_arrived(&last, rtt_us, seg.ack);
        let rate = rounds.delivered(Some(&last), bytes, self.rtt.least_us(), now);
        rounds.keep_up(seg.ack);
        let news = News {
            bytes,
            rtt_us: Some(rtt_us),
            rate,
            safe: true,
        };
        self.tell_congestion(&news, before, now);
        self.set_timer_after_ack(true, None, now);
        Some(acked)
    }
}
