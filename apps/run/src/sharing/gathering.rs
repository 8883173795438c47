//! Whether what comes is gathered for a moment before it is looked at.
//!
//! Where many processes serve a connection each, on processors that we share with them, every packet and every answer has one of us wake
//! the other: two switches for each request. Looking again only when all that were woken wait again has many of them cost one. Where
//! these have processors of their own, or few requests are under way, that would only be a delay. Which of the two it is shows in how
//! much is done, so both are tried, and the better one stays: a part in [`TRIAL_EVERY`] of the time goes to the other.
//!
//! With a single processor for all of us there is nothing to try: while a program does something, we can do nothing. There it matters how
//! long programs take to do something for what they were told. Where that is longer than a pause, its end only takes the processor from
//! them, so after [`VAIN_MAX`] such pauses there are none until one would be worth it again; they wake us by what they do first.

use std::time::{Duration, Instant};

use exos_preload::memory::NAP_MICROSECONDS;

use super::news::GATHER;

/// How long is measured: some tens of turns.
const EPOCH: Duration = Duration::from_millis(5);

/// After as many measurements the other way is tried.
const TRIAL_EVERY: u32 = 48;

/// Measurements of a trial: a single one may meet a moment in which the machine did something else.
const TRIAL: u32 = 3;

/// Fewer sockets in a measurement are of few that wait for each other.
const SOCKETS_MIN: u32 = 4;

/// With a single processor: as many times in a row programs took longer than a pause, and none is made.
const VAIN_MAX: u32 = 2;

/// With a single processor: what programs do so soon after another thing is one of several, for which a nap is worth it.
const BURST: Duration = Duration::from_micros(2 * NAP_MICROSECONDS);

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
    /// When programs were told of something, for which they have done nothing yet.
    told: Option<Instant>,
    /// How many times in a row they took longer than a pause.
    vain: u32,
    /// When they did something last, and whether that was soon after what they had done before.
    did: Option<Instant>,
    is_burst: bool,
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
            told: None,
            vain: 0,
            did: None,
            is_burst: false,
        }
    }

    /// Programs were told of something.
    pub fn told(&mut self, now: Instant) {
        // They take as long for it, whatever comes for them meanwhile.
        self.told.get_or_insert(now);
    }

    /// Programs have done something.
    pub fn have_done(&mut self, now: Instant) {
        let since = |before| now.saturating_duration_since(before);
        self.is_burst = self.did.is_some_and(|did| since(did) < BURST);
        self.did = Some(now);
        if let Some(told) = self.told.take() {
            let is_soon = since(told) < GATHER;
            self.vain = if is_soon { 0 } else { self.vain + 1 };
        }
    }

    /// A pause is over, and programs have done something meanwhile.
    pub fn was_worth_it(&mut self) {
        self.vain = 0;
    }

    /// Whether programs have done nothing yet for what they were told.
    pub fn is_unanswered(&self) -> bool {
        self.told.is_some()
    }

    /// Whether programs do one thing soon after another, so that there may be more soon.
    pub fn is_burst(&self) -> bool {
        self.is_burst
    }

    /// Whether programs have no processor but ours.
    pub fn has_one_core(&self) -> bool {
        self.has_one_core
    }

    /// A program has another processor.
    pub fn has_another_core(&mut self) {
        self.has_one_core = false;
    }

    /// A socket was looked at.
    pub fn note(&mut self, socket: u32) {
        self.work += 1;
        self.sockets |= 1 << (socket % 64);
        self.has_worked = true;
    }

    /// Says behind a turn whether to gather before the next one.
    pub fn after_turn(&mut self, now: Instant) -> bool {
        let has_worked = std::mem::take(&mut self.has_worked);
        let elapsed = now.saturating_duration_since(self.began);
        if elapsed >= EPOCH {
            self.measured(elapsed);
            (self.began, self.work, self.sockets) = (now, 0, 0);
        }
        has_worked && self.is_on()
    }

    /// Whether turns that look at sockets are gathered for, as far as is known.
    pub fn is_on(&self) -> bool {
        match self.has_one_core {
            true => self.vain < VAIN_MAX,
            false => self.gathers,
        }
    }

    fn measured(&mut self, elapsed: Duration) {
        // Where less comes than one in the time of a pause, or nothing for long, there is nothing to gather.
        let is_busy = GATHER * self.work > elapsed && elapsed < 2 * EPOCH;
        if !is_busy || self.sockets.count_ones() < SOCKETS_MIN {
            *self = Self {
                told: self.told,
                vain: self.vain,
                did: self.did,
                is_burst: self.is_burst,
                ..Self::new(self.began, self.has_one_core)
            };
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
        assert!(gathering.after_turn(now + 6 * EPOCH), "also after a while");
    }

    #[test]
    fn with_one_processor_does_not_where_programs_take_longer_than_a_pause() {
        let mut now = Instant::now();
        let mut gathering = Gathering::new(now, true);
        let mut request = |gathering: &mut Gathering, took: Duration| {
            gathering.note(1);
            let gathers = gathering.after_turn(now);
            gathering.told(now);
            assert!(gathering.is_unanswered());
            now += took;
            gathering.have_done(now);
            assert!(!gathering.is_unanswered());
            gathers
        };
        let (soon, late) = (GATHER / 2, 2 * GATHER);
        for took in [soon, late, soon, late, late] {
            assert!(request(&mut gathering, took));
        }
        // Also in measurements in which little is done.
        for _ in 0..100 {
            assert!(!request(&mut gathering, late));
        }
        assert!(!request(&mut gathering, soon));
        assert!(request(&mut gathering, late));
        assert!(request(&mut gathering, late));
        // One of many sockets was soon, though looked at when the pause was over.
        gathering.was_worth_it();
        assert!(request(&mut gathering, soon));
    }

    #[test]
    fn how_long_programs_take_begins_with_what_they_were_told_first() {
        let now = Instant::now();
        let mut gathering = Gathering::new(now, true);
        for request in 0..VAIN_MAX {
            let begin = now + 10 * request * GATHER;
            gathering.told(begin);
            gathering.told(begin + GATHER);
            gathering.have_done(begin + GATHER + GATHER / 2);
        }
        assert!(!gathering.is_on());
    }

    #[test]
    fn what_programs_do_soon_after_each_other_is_a_burst() {
        let mut now = Instant::now();
        let mut gathering = Gathering::new(now, true);
        for (after, is_burst) in [(BURST / 2, false), (BURST / 2, true), (BURST, false)] {
            now += after;
            gathering.have_done(now);
            assert_eq!(gathering.is_burst(), is_burst);
        }
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
