//! Rounds of acknowledgements: when a round trip is over, whether the window was full in it, and how fast data was delivered
//! (draft-cheng-iccrg-delivery-rate-estimation).

use exos_wire::SeqNumber;

use crate::tcp::congestion::control::DeliveryRate;
use crate::tcp::sending::recovery::scoreboard::record::{Departure, Sent};
use crate::time::Instant;

/// Where the rounds of one connection stand.
#[derive(Debug)]
pub(in crate::tcp) struct Rounds {
    /// The round is over when this is acknowledged.
    end: SeqNumber,
    /// What is acknowledged up to here was sent while the window was full.
    limited_until: SeqNumber,
    /// Bytes delivered, modulo 2^32.
    delivered: u32,
    /// When the last were.
    delivered_at: Instant,
    /// When the first segment of the flight left that the last delivery ended.
    first_at: Instant,
    /// The program had no more to send until this many bytes are delivered.
    app_limited_until: Option<u32>,
    /// The last that was measured.
    rate: DeliveryRate,
}

impl Rounds {
    /// Nothing is in flight; the next number is `una`.
    pub const fn new(una: SeqNumber, now: Instant) -> Self {
        Self {
            end: una,
            limited_until: una,
            delivered: 0,
            delivered_at: now,
            first_at: now,
            app_limited_until: None,
            rate: DeliveryRate {
                bytes_per_second: 0,
                app_limited: false,
            },
        }
    }

    // What leaves.

    /// The program has no more to send, with `flight` bytes out: for a while the delivery rate says little of the path.
    #[inline]
    pub fn nothing_more(&mut self, flight: u32) {
        self.app_limited_until = Some(self.delivered.wrapping_add(flight));
    }

    /// The window is full with what has left up to `max`.
    #[inline]
    pub fn limited(&mut self, max: SeqNumber) {
        self.limited_until = max;
    }

    /// A segment leaves now, the `first` where nothing is in flight.
    #[inline]
    pub fn departure(&mut self, now: Instant, first: bool) -> Departure {
        if first {
            (self.first_at, self.delivered_at) = (now, now);
        }
        let since = |at: Instant| (now.micros() - at.micros().min(now.micros())) as u32;
        Departure {
            at: now,
            delivered: self.delivered,
            since_delivery_us: since(self.delivered_at),
            since_first_us: since(self.first_at),
            app_limited: self.app_limited_until.is_some(),
        }
    }

    // What is acknowledged.

    /// `bytes` were delivered, among them `newest`, which left last. Gives the delivery rate over the flight that this ends (§3.3),
    /// where it can be told.
    #[inline]
    pub fn delivered(
        &mut self,
        newest: Option<&Sent>,
        bytes: u32,
        least_rtt_us: u32,
        now: Instant,
    ) -> Option<DeliveryRate> {
        self.delivered = self.delivered.wrapping_add(bytes);
        self.delivered_at = now;
        if let Some(until) = self.app_limited_until
            && (self.delivered.wrapping_sub(until) as i32) > 0
        {
            self.app_limited_until = None;
        }
        let newest = newest?;
        self.first_at = newest.at;
        let acked_us = u64::from(now.micros_since(newest.at)) + u64::from(newest.since_delivery_us);
        let interval = u64::from(newest.since_first_us).max(acked_us);
        if interval == 0 || interval < u64::from(least_rtt_us) {
            return None;
        }
        let bytes = u64::from(self.delivered.wrapping_sub(newest.delivered));
        self.rate = DeliveryRate {
            bytes_per_second: bytes * 1_000_000 / interval,
            app_limited: newest.was_app_limited(),
        };
        Some(self.rate)
    }

    /// All before `una` is acknowledged, and what was sent reaches to `max`. True when a round is over; the next begins.
    #[inline]
    pub fn acknowledged(&mut self, una: SeqNumber, max: SeqNumber) -> bool {
        let over = una.gt(self.end);
        if over {
            self.end = max;
        }
        over
    }

    /// What was passed comes along, lest 2 GiB later it seem to lie ahead.
    #[inline]
    pub fn keep_up(&mut self, una: SeqNumber) {
        if una - self.limited_until > 1 << 30 {
            self.limited_until = una - (1 << 29);
        }
    }

    /// What begins at `una` was sent while the window was full.
    #[inline]
    pub fn was_limited(&self, una: SeqNumber) -> bool {
        una.lt(self.limited_until)
    }

    /// The last delivery rate measured; zero before the first.
    pub fn rate(&self) -> DeliveryRate {
        self.rate
    }
}
