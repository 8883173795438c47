//! An episode of repairing: how it begins and ends, how it is taken back (RFC 4015, RFC 3522), and what the congestion
//! control hears of it.

use exos_wire::SeqNumber;

use crate::tcp::congestion::control::{Ack, Cause, Congested, DeliveryRate};
use crate::tcp::sending::acknowledgement::Acknowledgement;
use crate::tcp::sending::loss::flight::Phase;
use crate::tcp::sending::loss::repair::Repair;
use crate::tcp::sending::sender::Sender;
use crate::tcp::shared::context::Context;
use crate::tcp::values::segment::Segment;
use crate::time::Instant;

impl Sender {
    /// What was sent again in vain is taken back: the peer had it (RFC 2883), or the first sending is
    /// what it answers (RFC 3522).
    pub(super) fn look_for_mistakes(
        &mut self,
        seg: &Segment<'_>,
        twice: Option<(SeqNumber, SeqNumber)>,
        advanced: bool,
        cx: &mut Context<'_>,
    ) {
        if let Some((_, right)) = twice {
            cx.counters.tcp_duplicates_reported += 1;
            let (una, max) = (self.snd_una, self.snd_max);
            if self.loss.repair.as_ref().is_some_and(|r| right.gt(r.from)) {
                self.loss.rack.was_too_quick(una, max);
            }
        }
        let Some(repair) = self.loss.repair.as_mut().filter(|r| !r.undone) else {
            return;
        };
        if let Some((_, right)) = twice
            && right.gt(repair.from)
        {
            repair.again = repair.again.saturating_sub(1);
        }
        let all_in_vain = repair.again == 0 && !repair.untouched;
        let original = advanced
            && self.agreed.timestamps
            && match (repair.first_again_at, seg.options.timestamps) {
                (Some(at), Some(t)) if t.echo != 0 => {
                    let left = (at.millis() as u32).wrapping_add(self.agreed.ts_offset);
                    (t.echo.wrapping_sub(left) as i32) < 0
                }
                _ => false,
            };
        if all_in_vain || original {
            // RFC 8985 §6.2, step 3: the records, sent twice by now, do not tell that it was reordering.
            self.loss.rack.saw_reordering();
            self.take_back(cx);
            self.loss.phase = Phase::Open;
            self.rtt.progressed();
        }
    }

    /// Nothing was lost in this episode. The window grows back to what it was, unless a mark reduced it.
    pub(super) fn take_back(&mut self, cx: &mut Context<'_>) {
        cx.counters.tcp_recoveries_undone += 1;
        self.loss.board.forget_losses();
        let Some(repair) = self.loss.repair.as_mut().filter(|r| !r.undone) else {
            return;
        };
        repair.undone = true;
        if !repair.marked {
            self.congestion.get_mut().undo();
        }
    }

    /// All that was out when the episode began is acknowledged.
    pub(super) fn end_episode(&mut self, cx: &mut Context<'_>) {
        if self.loss.phase == Phase::Open {
            self.take_marks_along();
            return;
        }
        // RFC 6582 §3.2, step 3 (a full acknowledgement); RFC 8985 §6.2.
        if self.snd_una.ge(self.loss.recover) {
            let vain = self.loss.repair.as_ref().is_some_and(|r| r.untouched);
            if self.loss.phase == Phase::Recovery && vain {
                // What was taken for lost arrived before it could be sent again: it was late, and no
                // D-SACK will ever say so (the idea of RFC 3522; Linux takes this back too).
                self.take_back(cx);
            } else if self.loss.phase == Phase::Recovery {
                cx.counters.tcp_recoveries += 1;
                self.loss.rack.recovered();
            }
            self.loss.phase = Phase::Open;
            // The episode is kept until the next one: duplicates reported now may still undo it.
        }
    }

    /// What was passed comes along, lest 2 GiB later it seem to lie ahead.
    #[inline]
    pub(super) fn take_marks_along(&mut self) {
        let una = self.snd_una;
        let loss = &mut *self.loss;
        if una.gt(loss.recover) {
            loss.recover = una - 1;
        }
        if una - loss.limited_until > 1 << 30 {
            loss.limited_until = una - (1 << 29);
        }
    }

    /// Slow down, and repair.
    pub(in crate::tcp) fn begin_episode(
        &mut self,
        phase: Phase,
        cause: Cause,
        cx: &mut Context<'_>,
    ) {
        let flight = self.loss.board.outstanding();
        // Marked already: what is lost of the same flight is the same congestion (RFC 3168 §6.1.2).
        let reduced = self.loss.phase == Phase::Marked && cause == Cause::Loss;
        if !reduced {
            let in_flight = flight.min(self.congestion_window());
            self.congestion.get_mut().on_congestion(&Congested {
                now: cx.now,
                cause,
                in_flight,
                mss: u32::from(self.mss),
            });
            let mut repair = Repair::new(self.snd_una, flight);
            repair.marked = cause == Cause::Mark;
            self.loss.repair = Some(Box::new(repair));
            self.loss.recover = self.snd_max;
            // RFC 3168 §6.1.2: CWR is said for whatever reason the window was reduced.
            self.loss.slowed_down = self.agreed.ecn;
        }
        self.loss.phase = phase;
        self.loss.tail = None;
    }

    /// The algorithm hears of the acknowledgement, or proportional rate reduction does.
    #[inline]
    pub(super) fn tell_congestion(
        &mut self,
        bytes: u32,
        before: Acknowledgement,
        rtt_us: Option<u32>,
        safe: bool,
        now: Instant,
    ) {
        let mss = u32::from(self.mss);
        let round_ended = self.snd_una.gt(self.loss.round_end);
        if round_ended {
            self.loss.round_end = self.snd_max;
            self.rtt.round_ended();
        }
        let in_flight = self.loss.in_flight();
        let owns = self.congestion.owns_recovery();
        let led = matches!(self.loss.phase, Phase::Recovery | Phase::Marked) && !owns;
        let reorders = self.loss.rack.reordering_seen();
        if led {
            let threshold = self.congestion.window();
            if let Some(repair) = &mut self.loss.repair {
                self.loss.window = repair.window(bytes, in_flight, threshold, mss, safe);
            }
        } else if bytes > 0 && (owns || self.snd_una.gt(before.una) || reorders) {
            // RFC 5681 §3.2, step 1: duplicates before a loss is believed leave the window as it is. Where
            // the path reorders, they tell of what was delivered, as in Linux: what is delivered beyond
            // holes that are no losses would else never count.
            self.tell_algorithm(bytes, before, rtt_us, round_ended, now);
        }
        self.set_pace();
    }

    #[inline(always)]
    fn tell_algorithm(
        &mut self,
        bytes: u32,
        before: Acknowledgement,
        rtt_us: Option<u32>,
        round_ended: bool,
        now: Instant,
    ) {
        let rate = std::mem::take(&mut self.loss.rate_is_new).then_some(DeliveryRate {
            bytes_per_second: self.loss.rate,
            app_limited: self.loss.rate_app_limited,
        });
        self.congestion.on_ack(&Ack {
            now,
            bytes,
            in_flight: self.loss.in_flight(),
            in_flight_before: before.in_flight,
            mss: u32::from(self.mss),
            limited: before.una.lt(self.loss.limited_until) || self.loss.is_repairing(),
            round_ended,
            rtt_us,
            srtt_us: self.rtt.smoothed_us(),
            least_rtt_us: self.rtt.least_us(),
            rate,
            in_recovery: self.loss.is_repairing(),
        });
    }

    /// The pacing rate follows the window and the round trip.
    #[inline]
    pub(in crate::tcp) fn set_pace(&mut self) {
        let (fixed, srtt_us) = (self.congestion.pacing_rate(), self.rtt.smoothed_us());
        if fixed.is_none() && self.loss.pacer.stays_unpaced(srtt_us) {
            return;
        }
        let window = self.congestion_window();
        let slow_start = self.congestion.window() < self.congestion.threshold() / 2;
        let mss = u32::from(self.mss);
        self.loss.pacer.set(fixed, window, slow_start, srtt_us, mss);
    }
}
