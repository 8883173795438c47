//! When requests are meant to begin in an open loop: at a rate, whatever has become of those before.
//!
//! The times are those of a log ([`Beat`]), or of a rate.
//!
//! A rate is constant, or rises and falls by phases ([`Phase`]). The expected number of requests until a moment is an
//! area under it, and the next request begins where that area reaches the next whole number, or, for arrivals by
//! chance, the next point of a Poisson process of rate one (Lewis and Shedler 1979: a process of any rate is one of rate
//! one on a stretched axis). Nothing is summed up over requests, so that a constant rate is exact however long it lasts.

use std::time::Duration;

use exos_inet::Instant;
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

    /// After how long so many requests have begun; less than all.
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
}

#[derive(Clone, Debug)]
enum Source {
    Rate(Rate),
    Log(Log),
}

/// The times of a log.
#[derive(Clone, Debug)]
struct Log {
    beats: Vec<Beat>,
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
        if self.begun >= self.beats[self.beat].count {
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

    /// As in a log, so many times as fast; beats in order.
    pub fn replay(beats: Vec<Beat>, speed: f64, start: Instant) -> Self {
        Self::of(Source::Log(Log {
            beats,
            speed,
            start,
            beat: 0,
            begun: 0,
        }))
    }

    fn of(source: Source) -> Self {
        let mut schedule = Self { source, next: None };
        schedule.find();
        schedule
    }

    /// The next moment; `None` after the last.
    pub fn next(&self) -> Option<Instant> {
        self.next
    }

    /// Takes the next moment, when it has come.
    pub fn take(&mut self, now: Instant) -> Option<Instant> {
        let taken = self.next.filter(|&at| at <= now)?;
        match &mut self.source {
            Source::Rate(rate) => rate.go_on(),
            Source::Log(log) => log.go_on(),
        }
        self.find();
        Some(taken)
    }

    fn find(&mut self) {
        self.next = match &mut self.source {
            Source::Rate(rate) => rate.next(),
            Source::Log(log) => log.next(),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(phases: &[Phase], arrivals: Arrivals) -> Vec<f64> {
        let start = Instant::from_millis(7);
        let mut schedule = Schedule::new(phases.to_vec(), arrivals, 1, start);
        let end = start + Duration::from_secs(3600);
        let times = std::iter::from_fn(|| schedule.take(end));
        times.map(|at| (at - start).as_secs_f64()).collect()
    }

    fn phase(secs: f64, from: f64, to: f64) -> Phase {
        let time = Duration::from_secs_f64(secs);
        Phase { time, from, to }
    }

    #[test]
    fn a_constant_rate_is_exact() {
        let times = all(&[phase(100.0, 333.0, 333.0)], Arrivals::Even);
        assert_eq!(times.len(), 33_300);
        for (n, time) in times.iter().enumerate() {
            assert!((time - n as f64 / 333.0).abs() < 2e-6, "{n}: {time}");
        }
    }

    #[test]
    fn steps_and_ramps_follow_one_another() {
        let phases = [
            phase(1.0, 10.0, 10.0),
            phase(2.0, 0.0, 100.0),
            phase(1.0, 0.0, 0.0),
            phase(1.0, 100.0, 0.0),
        ];
        let times = all(&phases, Arrivals::Even);
        let within = |from: f64, to: f64| times.iter().filter(|&&t| t >= from && t < to).count();
        assert_eq!(within(0.0, 1.0), 10);
        assert_eq!(within(1.0, 2.0), 25);
        assert_eq!(within(2.0, 3.0), 75);
        assert_eq!(within(3.0, 4.0), 0);
        assert!((37..=38).contains(&within(4.0, 4.5)));
        assert!((12..=13).contains(&within(4.5, 5.0)));
        assert!(times.is_sorted());
    }

    /// Counts of equal intervals have mean and variance alike, and distances an exponential's quartiles.
    #[test]
    fn chance_is_poissons() {
        let times = all(&[phase(1000.0, 100.0, 100.0)], Arrivals::Poisson);
        let mut counts = vec![0.0; 10_000];
        times
            .iter()
            .for_each(|t| counts[(t * 10.0) as usize] += 1.0);
        let mean = counts.iter().sum::<f64>() / 1e4;
        let variance = counts.iter().map(|c| (c - mean) * (c - mean)).sum::<f64>() / 1e4;
        assert!((mean - 10.0).abs() < 0.15, "{mean}");
        assert!((variance / mean - 1.0).abs() < 0.06, "{variance}");
        let mut gaps: Vec<f64> = times.windows(2).map(|w| w[1] - w[0]).collect();
        gaps.sort_by(f64::total_cmp);
        let median = gaps[gaps.len() / 2] * 100.0;
        assert!((median - 2f64.ln()).abs() < 0.02, "{median}");
    }

    #[test]
    fn a_log_is_followed_second_by_second() {
        let beat = |second, count| Beat { second, count };
        let beats = [beat(0, 1), beat(2, 4), beat(7, 2)];
        let start = Instant::from_millis(500);
        for (speed, wanted) in [
            (1.0, [0, 2000, 2250, 2500, 2750, 7000, 7500]),
            (2.0, [0, 1000, 1125, 1250, 1375, 3500, 3750]),
            (0.5, [0, 4000, 4500, 5000, 5500, 14000, 15000]),
        ] {
            let mut schedule = Schedule::replay(beats.to_vec(), speed, start);
            let end = start + Duration::from_secs(3600);
            let times = std::iter::from_fn(|| schedule.take(end));
            let times: Vec<_> = times.map(|at| (at - start).as_millis() as u64).collect();
            assert_eq!(times, wanted);
            assert_eq!(schedule.next(), None);
        }
        assert_eq!(Schedule::replay(Vec::new(), 1.0, start).next(), None);
    }

    #[test]
    fn nothing_comes_early() {
        let start = Instant::START;
        let mut schedule = Schedule::new(vec![phase(1.0, 10.0, 10.0)], Arrivals::Even, 1, start);
        assert_eq!(schedule.take(start), Some(start));
        assert_eq!(schedule.take(start + Duration::from_millis(99)), None);
        let second = start + Duration::from_millis(100);
        assert_eq!(schedule.next(), Some(second));
        assert_eq!(schedule.take(second), Some(second));
    }
}
