//! Recent acknowledgement (RACK, RFC 8985): when what was sent counts as lost, judged by time.
//!
//! A segment is lost when one that left later has arrived, and the time that reordering may take has
//! passed since it should have arrived too. That time adapts: nothing while no reordering was seen and
//! enough has arrived beyond it, else a part of the least round trip, more when the peer reports data
//! that it had already (D-SACK), because then we were too quick.

use exos_wire::SeqNumber;

use crate::limits::{DUPLICATE_ACKS, RACK_PERSISTS, RACK_STEPS_MAX};
use crate::tcp::sending::recovery::scoreboard::record::Delivered;
use crate::tcp::sending::recovery::scoreboard::record::Sent;
use crate::time::{Duration, Instant};

/// What RACK knows of one connection.
#[derive(Debug)]
pub struct Rack {
    /// Of what has arrived, the segment that left last.
    newest: Option<Sent>,
    /// Its round trip.
    rtt_us: u32,
    reordering_seen: bool,
    /// The window for reordering in quarters of the least round trip.
    steps: u8,
    /// Recoveries until it is one quarter again.
    persist: u8,
    /// A widening counts once a round trip: until this is acknowledged.
    widened: Option<SeqNumber>,
}

/// What the window for reordering depends on.
#[derive(Copy, Clone, Debug)]
pub struct Conditions {
    /// A loss is being repaired already.
    pub in_recovery: bool,
    /// Bytes selectively acknowledged.
    pub sacked: u32,
    /// The maximum segment size.
    pub mss: u32,
    /// The least round trip in microseconds.
    pub least_rtt_us: u32,
    /// The smoothed one.
    pub srtt_us: u32,
}

impl Rack {
    /// Nothing has arrived yet.
    pub const fn new() -> Self {
        Self {
            newest: None,
            rtt_us: 0,
            reordering_seen: false,
            steps: 0,
            persist: 0,
            widened: None,
        }
    }

    /// §6.2, steps 2 and 3. `echo_is_older` tells of something that left at a time whether the
    /// timestamp echoed is older than that: then the first sending was acknowledged, not the second.
    #[inline]
    pub fn update(
        &mut self,
        d: &Delivered,
        now: Instant,
        least_rtt_us: u32,
        echo_is_older: impl Fn(Instant) -> bool,
    ) {
        self.reordering_seen |= d.reordered;
        for sent in [&d.newest_once, &d.newest_again] {
            let Some(sent) = sent else { continue };
            let rtt_us = now.micros_since(sent.at);
            let ambiguous = sent.was_retransmitted();
            if ambiguous && (rtt_us < least_rtt_us || echo_is_older(sent.at)) {
                continue;
            }
            self.arrived(sent, rtt_us);
        }
    }

    /// A segment has arrived, so long after it left.
    #[inline]
    pub fn arrived(&mut self, sent: &Sent, rtt_us: u32) {
        if self.newest.as_ref().is_none_or(|n| sent.left_after(n)) {
            self.newest = Some(*sent);
            self.rtt_us = rtt_us;
        }
    }

    /// The segment that left last of those that have arrived.
    pub const fn newest(&self) -> Option<&Sent> {
        self.newest.as_ref()
    }

    /// Reordering was seen on this path.
    pub const fn reordering_seen(&self) -> bool {
        self.reordering_seen
    }

    /// §6.2, step 4: how long reordering may take.
    pub fn reordering_window(&self, at: Conditions) -> Duration {
        if !self.reordering_seen
            && (at.in_recovery || at.sacked >= u32::from(DUPLICATE_ACKS) * at.mss)
        {
            return Duration::ZERO;
        }
        let quarter = u64::from(at.least_rtt_us / 4);
        let window = quarter * (1 + u64::from(self.steps));
        Duration::from_micros(window.min(u64::from(at.srtt_us)))
    }

    /// How long after it left a segment must have arrived.
    pub fn allowed(&self, at: Conditions) -> Duration {
        Duration::from_micros(u64::from(self.rtt_us)) + self.reordering_window(at)
    }

    /// What was sent first arrived after all, when it had been sent again already (a timestamp says so).
    pub const fn saw_reordering(&mut self) {
        self.reordering_seen = true;
    }

    /// The peer had what we sent again: be slower (§6.2, step 4). `next` is the next new number.
    pub fn was_too_quick(&mut self, una: SeqNumber, next: SeqNumber) {
        if self.widened.is_some_and(|until| una.lt(until)) {
            return;
        }
        self.widened = Some(next);
        self.reordering_seen = true;
        self.steps = (self.steps + 1).min(RACK_STEPS_MAX);
        self.persist = RACK_PERSISTS;
    }

    /// A recovery is over.
    pub fn recovered(&mut self) {
        self.persist = self.persist.saturating_sub(1);
        if self.persist == 0 {
            self.steps = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: Conditions = Conditions {
        in_recovery: false,
        sacked: 0,
        mss: 1000,
        least_rtt_us: 40_000,
        srtt_us: 60_000,
    };

    /// §6.2, step 4.
    #[test]
    fn the_window_for_reordering_adapts() {
        let mut rack = Rack::new();
        let ms = |rack: &Rack, at| rack.reordering_window(at).as_millis();
        assert_eq!(ms(&rack, AT), 10);
        assert_eq!(ms(&rack, Conditions { sacked: 3000, ..AT }), 0);
        assert_eq!(
            ms(
                &rack,
                Conditions {
                    in_recovery: true,
                    ..AT
                }
            ),
            0
        );
        rack.reordering_seen = true;
        assert_eq!(ms(&rack, Conditions { sacked: 3000, ..AT }), 10);
        rack.was_too_quick(SeqNumber(10), SeqNumber(20));
        assert_eq!(ms(&rack, AT), 20);
        rack.was_too_quick(SeqNumber(15), SeqNumber(30));
        assert_eq!(ms(&rack, AT), 20, "once a round trip");
        rack.was_too_quick(SeqNumber(20), SeqNumber(30));
        assert_eq!(ms(&rack, AT), 30);
        for n in 0..40 {
            rack.was_too_quick(SeqNumber(30 + 10 * n), SeqNumber(40 + 10 * n));
        }
        assert_eq!(ms(&rack, AT), 60, "never more than a round trip");
        (0..RACK_PERSISTS).for_each(|_| rack.recovered());
        assert_eq!(ms(&rack, AT), 10);
    }
}
