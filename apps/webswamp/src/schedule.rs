//! When requests are meant to begin in an open loop: at a rate, whatever has become of those before.
//!
//! The times are those of a log ([`Beat`]), or of a rate.
//!
//! A rate is constant, or rises and falls by phases ([`Phase`]). The expected number of requests until a moment is an
//! area under it, and the next request begins where that area reaches the next whole number, or, for arrivals by
//! chance, the next point of a Poisson process of rate one (Lewis and Shedler 1979: a process of any rate is one of rate
//! one on a stretched axis). Nothing is summed up over requests, so that a constant rate is exact however long it lasts.
//!
//! Several cores make one schedule together: each begins those of its moments whose numbers are in its part
//! ([`Schedule::part`]). So all begin exactly what one core would, and arrivals by chance are one process.

use std::sync::Arc;
use std::time::Duration;

use exos_inet::{Instant, Part};
use rand_distr::{Distribution as _, Exp1};
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::SeedableRng as _;

/// A part of the schedule: the rate goes evenly from one value to another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Phase {
    /// How long.
    pub time: Duration,
    /// Requests a second at its begin.
    pub from: f64,
    /// And at its end.
    pub to: f64,
}

impl Phase {
    /// Requests until its end.
    fn count(&self) -> f64 {
        (self.from + self.to) / 2.0 * self.time.as_secs_f64()
    }

    /// How long it takes until `count` requests have begun; less than all.
    fn time_of(&self, count: f64) -> f64 {
        if count <= 0.0 {
            return 0.0;
        }
        let slope = (self.to - self.from) / self.time.as_secs_f64();
        // from·t + slope·t²/2 = count, in the form that divides by nothing small.
        let root = (self.from * self.from + 2.0 * slope * count)
            .max(0.0)
            .sqrt();
        2.0 * count / (self.from + root)
    }
}

/// How arrivals lie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Arrivals {
    /// At equal distances.
    #[default]
    Even,
    /// Independent of one another: distances are exponential.
    Poisson,
}

/// Requests of the same second of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Beat {
    /// Seconds after the log's first.
    pub second: u64,
    /// How many requests, at least one; they are spread evenly over it.
    pub count: u32,
}

/// The moments at which requests are meant to begin.
#[derive(Clone, Debug)]
pub struct Schedule {
    source: Source,
    next: Option<Instant>,
    /// From a moment that is ours to the next one.
    step: u32,
    /// None of its moments is at this time or later.
    end: Instant,
}

#[derive(Clone, Debug)]
enum Source {
    Rate(Rate),
    Log(Log),
}

impl Source {
    fn go_on(&mut self, count: u32) {
        for _ in 0..count {
            match self {
                Self::Rate(rate) => rate.go_on(),
                Self::Log(log) => log.go_on(),
            }
        }
    }
}

/// The times of a log.
#[derive(Clone, Debug)]
struct Log {
    beats: Arc<[Beat]>,
    speed: f64,
    start: Instant,
    /// The beat under way, and how many of its requests have begun.
    beat: usize,
    begun: u32,
}

impl Log {
    fn next(&self) -> Option<Instant> {
        let beat = self.beats.get(self.beat)?;
        let inside = f64::from(self.begun) / f64::from(beat.count);
        let secs = (beat.second as f64 + inside) / self.speed;
        Some(self.start + Duration::from_secs_f64(secs))
    }

    fn go_on(&mut self) {
        self.begun += 1;
        let beat = self.beats.get(self.beat);
        if beat.is_some_and(|beat| self.begun >= beat.count) {
            self.beat += 1;
            self.begun = 0;
        }
    }
}

/// The times of a rate.
#[derive(Clone, Debug)]
struct Rate {
    phases: Vec<Phase>,
    arrivals: Arrivals,
    random: Pcg64Mcg,
    /// The phase under way, when it began, and the area before it.
    phase: usize,
    began: Instant,
    before: f64,
    /// The area at which the next request begins.
    point: f64,
}

impl Rate {
    fn new(phases: Vec<Phase>, arrivals: Arrivals, seed: u64, start: Instant) -> Self {
        let mut rate = Self {
            phases,
            arrivals,
            random: Pcg64Mcg::seed_from_u64(seed),
            phase: 0,
            began: start,
            before: 0.0,
            point: 0.0,
        };
        if arrivals == Arrivals::Poisson {
            rate.point = Exp1.sample(&mut rate.random);
        }
        rate
    }

    fn go_on(&mut self) {
        self.point += match self.arrivals {
            Arrivals::Even => 1.0,
            Arrivals::Poisson => Exp1.sample(&mut self.random),
        };
    }

    fn next(&mut self) -> Option<Instant> {
        while let Some(phase) = self.phases.get(self.phase) {
            let inside = self.point - self.before;
            if inside < phase.count() {
                let time = Duration::from_secs_f64(phase.time_of(inside));
                return Some(self.began + time);
            }
            self.before += phase.count();
            self.began += phase.time;
            self.phase += 1;
        }
        None
    }
}

impl Schedule {
    /// At a rate, from a start on.
    pub fn new(phases: Vec<Phase>, arrivals: Arrivals, seed: u64, start: Instant) -> Self {
        Self::of(Source::Rate(Rate::new(phases, arrivals, seed, start)))
    }

    /// As in a log, this many times as fast; beats in order.
    pub fn replay(beats: Arc<[Beat]>, speed: f64, start: Instant) -> Self {
        Self::of(Source::Log(Log {
            beats,
            speed,
            start,
            beat: 0,
            begun: 0,
        }))
    }

    fn of(source: Source) -> Self {
        let mut schedule = Self {
            source,
            next: None,
            step: 1,
            end: Instant::from_micros(u64::MAX),
        };
        schedule.find();
        schedule
    }

    /// Of a schedule that has yet to begin, the moments of a part.
    pub fn part(mut self, part: Part) -> Self {
        self.source.go_on(part.nth());
        self.step = part.of();
        self.find();
        self
    }

    /// Its moments before an end.
    pub fn until(mut self, end: Instant) -> Self {
        self.end = end;
        self.next = self.next.filter(|&at| at < end);
        self
    }

    /// The next moment; `None` after the last.
    pub fn next(&self) -> Option<Instant> {
        self.next
    }

    /// Takes the next moment, when it has come.
    pub fn take(&mut self, now: Instant) -> Option<Instant> {
        let taken = self.next.filter(|&at| at <= now)?;
        self.source.go_on(self.step);
        self.find();
        Some(taken)
    }

    fn find(&mut self) {
        self.next = match &mut self.source {
            Source::Rate(rate) => rate.next(),
            Source::Log(log) => log.next(),
        }
        .filter(|&at| at < self.end);
    }
}

#[cfg(test)]
mod tests;
