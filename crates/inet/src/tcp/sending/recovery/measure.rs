//! What acknowledgements measure: the round trip (RFC 6298 §3, RFC 7323 §4), what RACK goes by, and the delivery rate
//! (draft-cheng-iccrg-delivery-rate-estimation).

use exos_wire::tcp::Timestamps;

use crate::tcp::sending::loss::scoreboard::record::Delivered;
use crate::tcp::sending::loss::scoreboard::record::Sent;
use crate::tcp::sending::sender::Sender;
use crate::tcp::values::segment::Segment;
use crate::time::{Duration, Instant};

impl Sender {
    /// Round trip, RACK and delivery rate. Gives the round trip in microseconds.
    pub(super) fn measure(
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
}
