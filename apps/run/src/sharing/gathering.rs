//! Whether what comes is gathered for a moment before it is looked at.
//!
//! Where many processes serve a connection each, on processors that we share with them, every packet and every answer has one of us wake
//! the other: two switches for each request. Looking again only when all that were woken wait again has many of them cost one. Where
//! these have processors of their own, or few requests are under way, that would only be a delay. Which of the two it is shows in how
//! much is done, so both are tried, and the better one stays: a part in [`TRIAL_EVERY`] of the time goes to the other. With a single
//! processor for all of us there is nothing to try.

use std::time::{Duration, Instant};

use super::news::GATHER;

/// How long is measured: some tens of turns.
const EPOCH: Duration = Duration::from_millis(5);

/// After as many measurements the other way is tried.
const TRIAL_EVERY: u32 = 48;

/// Measurements of a trial: a single one may meet a moment in which the machine did something else.
const TRIAL: u32 = 3;

/// Fewer sockets in a measurement are of few that wait for each other.
const SOCKETS_MIN: u32 = 4;

/// Gathering has to be this much better.
const BETTER: f64 = 1.15;

/// The two ways, with what was measured of them.
pub(super) struct Gathering {
    /// Programs have no processor but ours: while they do something, we can do nothing.
    has_one_core: bool,
    gathers: bool,
    began: Instant,
    /// Sockets that were looked at since: how often, and a bit for each 64th.
    work: u32,
    sockets: u64,
    /// Whether this turn has looked at any.
    has_worked: bool,
    /// Work in a second at once and gathered, each an average over some measurements; none where nothing is known.
    rates: [Option<f64>; 2],
    /// Measurements until a trial begins or ends.
    left: u32,
    is_trial: bool,
}

impl Gathering {
    pub fn new(now: Instant, has_one_core: bool) -> Self {
        Self {
            has_one_core,
            gathers: false,
            began: now,
            work: 0,
            sockets: 0,
            has_worked: false,
            rates: [None; 2],
            left: TRIAL,
            is_trial: false,
        }
    }

    /// A socket was looked at.
    pub fn note(&mut self, socket: u32) {
        self.work += 1;
        self.sockets |= 1 << (socket % 64);
        self.has_worked = true;
    }

    /// Says behind a turn whether to gather before the next one.
    pub fn after_turn(&mut self, now: Instant) -> bool {
        let elapsed = now.saturating_duration_since(self.began);
        if elapsed >= EPOCH {
            self.measured(elapsed);
            (self.began, self.work, self.sockets) = (now, 0, 0);
        }
        std::mem::take(&mut self.has_worked) && (self.has_one_core || self.gathers)
    }

    fn measured(&mut self, elapsed: Duration) {
        // Where less comes than one in the time of a pause, or nothing for long, there is nothing to gather.
        let is_busy = GATHER * self.work > elapsed && elapsed < 2 * EPOCH;
        if !is_busy || self.sockets.count_ones() < SOCKETS_MIN {
            *self = Self::new(self.began, self.has_one_core);
            return;
        }
        let rate = f64::from(self.work) / elapsed.as_secs_f64();
        let average = &mut self.rates[usize::from(self.gathers)];
        *average = Some(average.map_or(rate, |average| average + (rate - average) / 4.0));
        self.left -= 1;
        if self.left > 0 {
            return;
        }
        self.is_trial = !self.is_trial;
        if self.is_trial {
            // Of long ago, when other work was done.
            self.rates[usize::from(!self.gathers)] = None;
            (self.gathers, self.left) = (!self.gathers, TRIAL);
        } else {
            let [at_once, gathered] = self.rates.map(Option::unwrap_or_default);
            (self.gathers, self.left) = (gathered > BETTER * at_once, TRIAL_EVERY);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Turns for three seconds, each of which does what comes in its time of as many sockets: at once 20 µs, gathered with the
    /// pause. Gives the part of the time behind the first second in which it gathered.
    fn gathered(sockets: u32, rate_at_once: f64, rate_gathered: f64) -> f64 {
        let begin = Instant::now();
        let mut gathering = Gathering::new(begin, false);
        let (mut now, mut gathers, mut owed) = (Duration::ZERO, false, 0.0);
        let (mut part, mut looked_at) = (Duration::ZERO, 0);
        while now < Duration::from_secs(3) {
            let (rate, turn) = match gathers {
                false => (rate_at_once, Duration::from_micros(20)),
                true => (rate_gathered, Duration::from_micros(20) + GATHER),
            };
            now += turn;
            if gathers && now > Duration::from_secs(1) {
                part += turn;
            }
            owed += rate * turn.as_secs_f64();
            let work = owed as u32;
            owed -= f64::from(work);
            for _ in 0..work {
                looked_at += 1;
                gathering.note(looked_at % sockets);
            }
            gathers = gathering.after_turn(begin + now);
        }
        part.as_secs_f64() / 2.0
    }

    #[test]
    fn gathers_what_each_turn_brings_where_there_is_one_processor() {
        let now = Instant::now();
        let mut gathering = Gathering::new(now, true);
        gathering.note(1);
        assert!(gathering.after_turn(now));
        assert!(!gathering.after_turn(now), "nothing was looked at");
        assert!(!gathering.after_turn(now + 3 * EPOCH));
        gathering.note(1);
        assert!(gathering.after_turn(now + 3 * EPOCH), "also after a while");
    }

    #[test]
    fn gathers_where_more_is_done_so() {
        let part = gathered(20, 25_000.0, 40_000.0);
        assert!(part > 0.6, "{part}");
    }

    #[test]
    fn does_not_where_it_would_be_a_delay() {
        for (at_once, with_pauses) in [(40_000.0, 25_000.0), (100_000.0, 105_000.0)] {
            let part = gathered(20, at_once, with_pauses);
            assert!(part < 0.1, "{part} of the time");
        }
    }

    #[test]
    fn does_not_where_little_comes_or_of_few() {
        assert_eq!(gathered(20, 4_000.0, 60_000.0), 0.0);
        assert_eq!(gathered(3, 25_000.0, 60_000.0), 0.0);
    }
}
