//! A connection and its acknowledgements: what they deliver, what they say is lost, what they allow to
//! leave, and when the timer must go off if no more of them come.

use exos_wire::SeqNumber;
use exos_wire::tcp::Timestamps;

use super::rack::Conditions;
use super::repair::Repair;
use super::scoreboard::{Delivered, Sent};
use super::{Phase, Timer};
use crate::limits::{DUPLICATE_ACKS, RTO_VARIATION_MIN, TAIL_PROBE_SLACK};
use crate::tcp::congestion::{Ack, Cause, Congested, DeliveryRate};
use crate::tcp::connection::{Connection, NEVER};
use crate::tcp::input::{Context, Segment};
use crate::time::{Duration, Instant};

/// What is known of an acknowledgement before its data are looked at.
#[derive(Copy, Clone)]
pub(in crate::tcp) struct Acknowledgement {
    /// `snd_una` before it.
    pub una: SeqNumber,
    /// Bytes in flight before it.
    pub in_flight: u32,
    /// It repeats the last number and window and carries nothing (RFC 5681 §2).
    pub duplicate: bool,
}

impl Connection {
    /// The congestion window as it is in force.
    #[inline]
    pub(in crate::tcp) fn congestion_window(&self) -> u32 {
        match self.loss.phase {
            Phase::Recovery | Phase::Marked if !self.congestion.owns_recovery() => self.loss.window,
            _ => self.congestion.window(),
        }
    }

    /// The first of the blocks repeats what has arrived before (RFC 2883 §4).
    fn duplicate_block(&self, seg: &Segment<'_>) -> Option<(SeqNumber, SeqNumber)> {
        let blocks = seg.options.sack.as_slice();
        let &(left, right) = blocks.first()?;
        let below = left.lt(seg.ack);
        let inside = blocks
            .get(1)
            .is_some_and(|second| left.ge(second.0) && right.le(second.1));
        (self.agreed.sack && left.lt(right) && (below || inside)).then_some((left, right))
    }

    /// Take in what an acknowledgement says of the data in flight; `snd_una` has been moved already.
    pub(in crate::tcp) fn take_acknowledgement(
        &mut self,
        seg: &Segment<'_>,
        before: Acknowledgement,
        cx: &mut Context<'_>,
    ) {
        let advanced = self.snd_una.gt(before.una);
        let mut d = self.loss.board.delivery();
        if advanced {
            self.loss.board.acknowledge(self.snd_una, &mut d);
        }
        let blocks = seg.options.sack.as_slice();
        let twice = if blocks.is_empty() {
            None
        } else {
            self.duplicate_block(seg)
        };
        if self.agreed.sack {
            for &(left, right) in &blocks[usize::from(twice.is_some())..] {
                self.loss.board.sack(left, right, &mut d);
            }
        } else {
            self.count_duplicates(before.duplicate, advanced, &mut d);
        }
        if d.bytes == 0 && twice.is_none() && !advanced && self.loss.phase == Phase::Open {
            return;
        }
        let rtt_us = self.measure(seg, advanced, &d, cx.now);
        self.end_tail_probe(seg, twice.is_some(), advanced, cx);
        if twice.is_some() || self.loss.repair.is_some() {
            self.look_for_mistakes(seg, twice, advanced, cx);
        }
        let lost_before = self.loss.board.lost_bytes();
        self.end_episode(cx);
        let again = self.notice_losses(advanced, &d, cx);
        if advanced && self.hears_of_congestion(seg) {
            cx.counters.tcp_congestion_heeded += 1;
            self.begin_episode(Phase::Marked, Cause::Mark, cx);
        }
        let safe = advanced && self.loss.board.lost_bytes() <= lost_before;
        self.tell_congestion(d.bytes, before, rtt_us, safe, cx.now);
        self.set_timer_after_ack(advanced, again, cx.now);
    }

    /// Nothing is in flight, and the peer reports a duplicate: what was sent again last was sent in vain.
    pub(in crate::tcp) fn take_late_report(&mut self, seg: &Segment<'_>, cx: &mut Context<'_>) {
        let twice = self.duplicate_block(seg);
        if twice.is_none() || !self.loss.is_at_work() {
            return;
        }
        self.look_for_mistakes(seg, twice, false, cx);
    }

    /// A peer without SACK: each duplicate tells of one segment that has left the network.
    fn count_duplicates(&mut self, duplicate: bool, advanced: bool, d: &mut Delivered) {
        let mss = u32::from(self.mss);
        let loss = &mut self.loss;
        if advanced {
            // What the duplicates told of is part of what is now acknowledged, a segment each; the one
            // that filled the gap apart.
            let known = d.bytes.saturating_sub(mss).min(loss.left_network);
            loss.left_network -= known;
            d.bytes -= known;
            loss.duplicates = 0;
            if !loss.is_repairing() || loss.board.outstanding() == 0 {
                loss.left_network = 0;
            }
        } else if duplicate {
            loss.duplicates = loss.duplicates.saturating_add(1);
            let most = loss.board.in_flight().saturating_sub(mss);
            let more = mss.min(most.saturating_sub(loss.left_network));
            loss.left_network += more;
            d.bytes += more;
        }
    }

    /// Round trip, RACK and delivery rate. Gives the round trip in microseconds.
    fn measure(
        &mut self,
        seg: &Segment<'_>,
        advanced: bool,
        d: &Delivered,
        now: Instant,
    ) -> Option<u32> {
        // What arrived beyond a gap is answered with the timestamp of what came before it (RFC 7323 §4.3).
        let stamps = self.agreed.timestamps && advanced;
        // Karn's rule: what was sent twice measures nothing by itself. Nor does what was sent once but
        // acknowledged only together with it: it may have lain beyond the gap for long, the
        // acknowledgements that said so lost.
        if let Some(at) = d.oldest_once_at.filter(|_| d.newest_again.is_none()) {
            self.rtt.measured(now - at);
        } else if stamps
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
        let offset = self.agreed.ts_offset;
        let echo = seg.options.timestamps.map(|t| t.echo);
        let echo_is_older = |at: Instant| {
            let left = (at.millis() as u32).wrapping_add(offset);
            stamps && echo.is_some_and(|e| e != 0 && (e.wrapping_sub(left) as i32) < 0)
        };
        let least = self.rtt.least_us();
        self.loss.rack.update(d, now, least, echo_is_older);
        if d.bytes > 0 {
            self.measure_rate(d.newest(), d.bytes, now);
        }
        rtt_us
    }

    /// The round trip that the timestamp echoed tells of (RFC 7323 §4.1). Its clock ticks in milliseconds: less
    /// than one cannot be told. More than a quarter of an hour is nonsense, or a number that we never sent.
    pub(in crate::tcp) fn round_trip_by_timestamp(
        &self,
        stamp: Option<Timestamps>,
        now: Instant,
    ) -> Option<Duration> {
        let stamp = stamp.filter(|_| self.agreed.timestamps)?;
        let elapsed = self.ts_now(now).wrapping_sub(stamp.echo);
        let known = stamp.echo != 0 && elapsed < 1 << 20;
        known.then(|| Duration::from_millis(u64::from(elapsed.max(1))))
    }

    /// The delivery rate over the flight that this acknowledgement ends
    /// (draft-cheng-iccrg-delivery-rate-estimation §3.3).
    #[inline]
    pub(super) fn measure_rate(&mut self, newest: Option<&Sent>, bytes: u32, now: Instant) {
        let loss = &mut *self.loss;
        loss.delivered = loss.delivered.wrapping_add(bytes);
        loss.delivered_at = now;
        if let Some(until) = loss.app_limited_until
            && (loss.delivered.wrapping_sub(until) as i32) > 0
        {
            loss.app_limited_until = None;
        }
        let Some(n) = newest else { return };
        loss.first_at = n.at;
        let acked_us = u64::from(now.micros_since(n.at)) + u64::from(n.since_delivery_us);
        let interval = u64::from(n.since_first_us).max(acked_us);
        if interval == 0 || interval < u64::from(self.rtt.least_us()) {
            return;
        }
        let bytes = u64::from(loss.delivered.wrapping_sub(n.delivered));
        loss.rate = bytes * 1_000_000 / interval;
        loss.rate_app_limited = n.was_app_limited();
        loss.rate_is_new = true;
    }

    /// RFC 8985 §7.4: was the loss of the tail repaired by the probe, so that nobody was told of it?
    fn end_tail_probe(
        &mut self,
        seg: &Segment<'_>,
        twice: bool,
        advanced: bool,
        cx: &mut Context<'_>,
    ) {
        let Some((end, again)) = self.loss.tail else {
            return;
        };
        if seg.ack.lt(end) {
            return;
        }
        if !again || twice {
            // New data needs no judgement; a D-SACK says that both arrived.
            self.loss.tail = None;
        } else if seg.ack.gt(end) {
            self.loss.tail = None;
            if self.loss.phase == Phase::Open {
                self.begin_episode(Phase::Marked, Cause::Loss, cx);
            }
        } else if !advanced && seg.is_empty() {
            // The second acknowledgement of the same number: that of the other copy.
            self.loss.tail = None;
        }
    }

    /// What was sent again in vain is taken back: the peer had it (RFC 2883), or the first sending is
    /// what it answers (RFC 3522).
    fn look_for_mistakes(
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
    fn take_back(&mut self, cx: &mut Context<'_>) {
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
    fn end_episode(&mut self, cx: &mut Context<'_>) {
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

    /// What is lost now? Begins an episode if need be. Gives when to look again.
    fn notice_losses(
        &mut self,
        advanced: bool,
        d: &Delivered,
        cx: &mut Context<'_>,
    ) -> Option<Instant> {
        if self.loss.board.outstanding() == 0 {
            return None;
        }
        let again = if self.agreed.sack {
            self.detect(cx)
        } else {
            self.notice_by_duplicates(advanced, d);
            None
        };
        if self.loss.board.lost_bytes() > 0
            && matches!(self.loss.phase, Phase::Open | Phase::Marked)
        {
            cx.counters.tcp_fast_retransmits += 1;
            self.begin_episode(Phase::Recovery, Cause::Loss, cx);
        }
        again
    }

    /// What RACK's patience depends on.
    fn conditions(&self) -> Conditions {
        Conditions {
            in_recovery: self.loss.is_repairing(),
            sacked: self.loss.board.sacked_bytes(),
            mss: u32::from(self.mss),
            least_rtt_us: self.rtt.least_us(),
            srtt_us: self.rtt.smoothed_us(),
        }
    }

    /// RFC 8985 §6.2, step 5. Gives when reordering will have had its time.
    fn detect(&mut self, cx: &mut Context<'_>) -> Option<Instant> {
        let conditions = self.conditions();
        let loss = &mut *self.loss;
        let newest = loss.rack.newest()?;
        let allowed = loss.rack.allowed(conditions);
        let found = loss.board.detect_lost(newest, allowed, cx.now);
        cx.counters.tcp_bytes_lost += u64::from(found.lost);
        found.next
    }

    /// RFC 5681 §3.2 with RFC 6582's guard against repairing the same loss twice; a partial
    /// acknowledgement tells of the next hole.
    fn notice_by_duplicates(&mut self, advanced: bool, d: &Delivered) {
        let mss = u32::from(self.mss);
        let loss = &mut self.loss;
        let third = loss.duplicates >= DUPLICATE_ACKS && self.snd_una.gt(loss.recover);
        let partial = loss.phase == Phase::Recovery && advanced && d.bytes > 0;
        let begins = matches!(loss.phase, Phase::Open | Phase::Marked) && third;
        if begins || partial {
            loss.board.mark_first_lost(mss);
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

    // The timer.

    #[inline]
    pub(super) fn set_timer_after_ack(
        &mut self,
        advanced: bool,
        again: Option<Instant>,
        now: Instant,
    ) {
        if self.loss.board.outstanding() == 0 {
            (self.timer, self.retransmit_at) = (Timer::Retransmit, NEVER);
        } else if let Some(at) = again {
            (self.timer, self.retransmit_at) = (Timer::Reorder, at.max(now));
        } else if advanced
            || self.timer == Timer::Reorder
            // What was to be sent again at once, which would have set it, was taken back.
            || self.retransmit_at == NEVER
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
    fn tail_probe_after_us(&self) -> Option<u64> {
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
    fn start_repair(&mut self) {
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
        (self.timer, self.retransmit_at) = (Timer::Retransmit, NEVER);
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
