//! What the peer acknowledges, and the window that it offers (RFC 9293 §3.10.7.4, fifth).

use crate::tcp::congestion::control::{Ack, DeliveryRate};
use crate::tcp::sending::acknowledgement::{Acked, Acknowledgement};
use crate::tcp::sending::flight::InFlight;
use crate::tcp::sending::recovery::losses::{Reported, Timer};
use crate::tcp::sending::sender::Sender;
use crate::tcp::shared::context::Context;
use crate::tcp::values::segment::Segment;
use crate::time::Instant;

/// What an acknowledgement tells the congestion control.
pub(super) struct News {
    /// Bytes that it delivered.
    pub bytes: u32,
    pub rtt_us: Option<u32>,
    pub rate: Option<DeliveryRate>,
    /// The left edge advanced, and nothing more was lost.
    pub safe: bool,
}

impl Sender {
    /// What an acceptable acknowledgement moves.
    pub fn handle_ack(&mut self, seg: &Segment<'_>, cx: &mut Context<'_>) -> Acked {
        let una = self.queue.una();
        if seg.ack.gt(una) {
            self.update_window(seg, cx.now);
            return self.new_data_acknowledged(seg, cx);
        }
        // RFC 5681 §2: a duplicate repeats the number and the window, and carries nothing.
        let window = self.window.bytes();
        let again = seg.ack == una && self.queue.flight() > 0;
        let duplicate = again && seg.is_empty() && self.window.of(seg) == window && window > 0;
        if duplicate || (again && !seg.options.sack.is_empty()) {
            let before = self.before(duplicate);
            self.take_acknowledgement(seg, before, cx);
        } else if seg.ack == una && !seg.options.sack.is_empty() && self.flight.is_at_work() {
            let (losses, mut path) = self.losses_and_path();
            losses.take_late_report(seg, &mut path, cx);
        }
        self.update_window(seg, cx.now);
        Acked::NOTHING
    }

    /// How things stand before an acknowledgement is taken in.
    #[inline]
    pub(super) fn before(&self, duplicate: bool) -> Acknowledgement {
        Acknowledgement {
            una: self.queue.una(),
            in_flight: self.flight.losses.in_flight(),
            duplicate,
        }
    }

    /// RFC 9293 §3.10.7.4, fifth: the window, unless an older segment brings it.
    fn update_window(&mut self, seg: &Segment<'_>, now: Instant) {
        let Some(opened) = self.window.update(seg, self.queue.una()) else {
            return;
        };
        if self.window.is_probing() || self.queue.flight() == 0 {
            // The peer is there, and answers: what fills its window is its own affair.
            self.rtt.answered();
        }
        if opened {
            self.window_opened(now);
        }
    }

    /// A closed window opened: what was sent into it, a probe or a FIN, may have been thrown away,
    /// so it is sent again.
    fn window_opened(&mut self, now: Instant) {
        self.window.opened();
        self.rtt.progressed();
        // Whatever is sent now arms it again; but a repair in progress may let nothing out.
        self.retransmit_at = Instant::NEVER;
        if self.queue.flight() > 0 {
            self.flight.losses.all_lost();
            self.set_loss_timer(now);
        } else if self.flight.is_at_work() {
            self.flight.losses.set_timer(Timer::Retransmit);
        }
    }

    /// The segment acknowledges something new.
    pub(super) fn new_data_acknowledged(
        &mut self,
        seg: &Segment<'_>,
        cx: &mut Context<'_>,
    ) -> Acked {
        let before = self.before(false);
        let acked = self.queue.acknowledged(seg.ack);
        if self.path_mtu.is_searched() {
            self.mss = self.path_mtu.acknowledged(cx.now, seg.ack, self.mss);
        }
        self.rtt.answered();
        if self.window.end_probe() {
            // What the timer waited for was the window, not the path.
            self.rtt.progressed();
        }
        self.take_acknowledgement(seg, before, cx);
        acked
    }

    /// Take in what an acknowledgement says of the data in flight; `una` has been moved already.
    fn take_acknowledgement(
        &mut self,
        seg: &Segment<'_>,
        before: Acknowledgement,
        cx: &mut Context<'_>,
    ) {
        let at = self.numbers();
        let losses = &mut self.flight.losses;
        let reported = losses.deliver(seg, before, at);
        if losses.is_nothing(&reported) {
            return;
        }
        let (rtt_us, rate) = self.measure(seg, &reported, cx.now);
        let (losses, mut path) = self.losses_and_path();
        let followed = losses.follow(seg, &reported, &mut path, cx);
        self.flight.rounds.keep_up(at.una);
        let news = News {
            bytes: reported.delivered.bytes,
            rtt_us,
            rate,
            safe: followed.safe,
        };
        self.tell_congestion(&news, before, cx.now);
        self.set_timer_after_ack(reported.advanced, followed.look_again, cx.now);
    }

    /// Round trip (RFC 6298 §3, RFC 7323 §4), RACK and delivery rate. Gives the round trip in microseconds, and the rate.
    fn measure(
        &mut self,
        seg: &Segment<'_>,
        reported: &Reported,
        now: Instant,
    ) -> (Option<u32>, Option<DeliveryRate>) {
        let Reported {
            delivered: d,
            advanced,
            ..
        } = reported;
        // Karn's rule: what was sent twice measures nothing by itself. Nor does what was sent once but
        // acknowledged only together with it: it may have lain beyond the gap for long, the
        // acknowledgements that said so lost.
        if let Some(at) = d.oldest_once_at.filter(|_| d.newest_again.is_none()) {
            self.rtt.measured(now - at);
        } else if *advanced
            && d.newest_again.is_some()
            && let Some(rtt) = self.round_trip_by_timestamp(seg.options.timestamps, now)
        {
            // With a timestamp even a repeated segment tells (RFC 7323 §4.1), in milliseconds.
            self.rtt.measured(rtt);
        }
        let rtt_us = d.newest_once.map(|n| now.micros_since(n.at));
        if let Some(rtt_us) = rtt_us {
            self.rtt.least_of(rtt_us);
        }
        // What arrived beyond a gap is answered with the timestamp of what came before it (RFC 7323 §4.3).
        let echo = seg.options.timestamps.filter(|_| *advanced);
        let (agreed, echo) = (self.agreed, echo.map_or(0, |stamp| stamp.echo));
        let least = self.rtt.least_us();
        let InFlight { losses, rounds, .. } = &mut *self.flight;
        losses.note_arrivals(d, now, least, |left| agreed.is_older(echo, left));
        let rate = match d.bytes {
            0 => None,
            bytes => rounds.delivered(d.newest(), bytes, least, now),
        };
        (rtt_us, rate)
    }

    /// The algorithm hears of the acknowledgement, or proportional rate reduction does.
    #[inline]
    pub(super) fn tell_congestion(&mut self, news: &News, before: Acknowledgement, now: Instant) {
        let una = self.queue.una();
        let InFlight { losses, rounds, .. } = &mut *self.flight;
        let round_ended = rounds.acknowledged(una, self.queue.max());
        if round_ended {
            self.rtt.round_ended();
        }
        let owns = self.congestion.owns_recovery();
        if losses.leads(&self.congestion) {
            losses.pace_repair(news.bytes, u32::from(self.mss), news.safe, &self.congestion);
        } else if news.bytes > 0 && (owns || una.gt(before.una) || losses.reordering_seen()) {
            // RFC 5681 §3.2, step 1: duplicates before a loss is believed leave the window as it is. Where
            // the path reorders, they tell of what was delivered, as in Linux: what is delivered beyond
            // holes that are no losses would else never count.
            self.tell_algorithm(news, before, round_ended, now);
        }
        self.set_pace();
    }

    #[inline(always)]
    fn tell_algorithm(
        &mut self,
        news: &News,
        before: Acknowledgement,
        round_ended: bool,
        now: Instant,
    ) {
        let InFlight { losses, rounds, .. } = &*self.flight;
        let in_recovery = losses.is_repairing();
        self.congestion.on_ack(&Ack {
            now,
            bytes: news.bytes,
            in_flight: losses.in_flight(),
            in_flight_before: before.in_flight,
            mss: u32::from(self.mss),
            limited: rounds.was_limited(before.una) || in_recovery,
            round_ended,
            rtt_us: news.rtt_us,
            srtt_us: self.rtt.smoothed_us(),
            least_rtt_us: self.rtt.least_us(),
            rate: news.rate,
            in_recovery,
        });
    }

    /// The pacing rate follows the window and the round trip.
    #[inline]
    pub(super) fn set_pace(&mut self) {
        let (fixed, srtt_us) = (self.congestion.pacing_rate(), self.rtt.smoothed_us());
        if fixed.is_none() && self.flight.pacer.stays_unpaced(srtt_us) {
            return;
        }
        let window = self.congestion_window();
        let slow_start = self.congestion.window() < self.congestion.threshold() / 2;
        let mss = u32::from(self.mss);
        self.flight
            .pacer
            .set(fixed, window, slow_start, srtt_us, mss);
    }
}
