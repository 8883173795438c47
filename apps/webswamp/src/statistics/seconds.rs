//! How a load goes, second by second: what was begun in each, and what ended.

use exos_inet::Instant;
use hdrhistogram::Histogram;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::answered::Answered;
use super::histogram::pairs;
use crate::limits::{HISTOGRAM_MICROS_MAX, SECONDS_WITH_TIMES_MAX};

/// Digits of the times within a second: they are a curve's points.
const DIGITS: u8 = 2;

/// A second of a load. Times are from the intended start to the last byte, in microseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Second {
    /// Requests that were begun in it.
    #[serde(default)]
    pub begun: u64,
    /// Responses that became whole in it.
    pub responses: u64,
    /// Requests that failed in it.
    pub errors: u64,
    /// Bytes of content of those responses.
    #[serde(rename = "content_bytes")]
    pub content: u64,
    /// Half of them took no longer.
    #[serde(rename = "p50_us")]
    pub median: u64,
    /// 90 of 100.
    #[serde(rename = "p90_us")]
    pub p90: u64,
    /// 99 of 100.
    #[serde(rename = "p99_us")]
    pub p99: u64,
    /// The longest.
    #[serde(rename = "max_us")]
    pub max: u64,
    /// Pairs of a time and how often it was seen, exact to a hundredth; `null` after the first hour, where merged seconds have
    /// the worst of their parts' percentiles.
    #[serde(rename = "histogram")]
    pub times: Option<Vec<(u64, u64)>>,
}

impl Second {
    /// With its points, by its times.
    fn with(self, times: &Histogram<u64>) -> Self {
        let at = |quantile| times.value_at_quantile(quantile);
        Self {
            median: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            max: times.max(),
            ..self
        }
    }

    /// Puts another of the same time to it. Where the times of one are not known, the points are the worse ones.
    pub fn add(&mut self, other: &Self) {
        self.begun += other.begun;
        self.responses += other.responses;
        self.errors += other.errors;
        self.content += other.content;
        self.median = self.median.max(other.median);
        self.p90 = self.p90.max(other.p90);
        self.p99 = self.p99.max(other.p99);
        self.max = self.max.max(other.max);
        let both = self.times.take().zip(other.times.as_ref());
        if let Some((mine, its)) = both {
            let mut all = histogram();
            for &(value, count) in mine.iter().chain(its) {
                all.saturating_record_n(value, count);
            }
            *self = std::mem::take(self).with(&all);
            self.times = Some(pairs(&all));
        }
    }

    /// The time that this part of its responses took no longer than; `None` where times are not known.
    pub fn at(&self, quantile: f64) -> Option<u64> {
        let times = self.times.as_ref().filter(|times| !times.is_empty())?;
        let all: u64 = times.iter().map(|(_, count)| count).sum();
        let wanted = ((all as f64 * quantile).ceil() as u64).max(1);
        let mut seen = 0;
        let place = times.iter().find(|(_, count)| {
            seen += count;
            seen >= wanted
        });
        place.map(|(value, _)| *value)
    }
}

fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, HISTOGRAM_MICROS_MAX, DIGITS).expect("the bounds are in order")
}

/// All of them.
#[derive(Clone, Debug)]
pub struct Seconds {
    start: Instant,
    done: Vec<Second>,
    current: Second,
    times: Histogram<u64>,
}

impl Seconds {
    pub(super) fn new(start: Instant) -> Self {
        Self {
            start,
            done: Vec::new(),
            current: Second::default(),
            times: histogram(),
        }
    }

    /// When the first began.
    pub fn start(&self) -> Instant {
        self.start
    }

    /// Those that are over.
    pub fn done(&self) -> &[Second] {
        &self.done
    }

    /// Requests that were begun since the start.
    pub fn begun(&self) -> u64 {
        let done = self.done.iter().map(|second| second.begun);
        done.sum::<u64>() + self.current.begun
    }

    /// A request was begun.
    pub fn began(&mut self, now: Instant) {
        self.advance(now);
        self.current.begun += 1;
    }

    pub(super) fn answered(&mut self, answered: &Answered) {
        self.advance(answered.last);
        self.current.responses += 1;
        self.current.content += answered.content;
        let micros = (answered.last - answered.intended).as_micros() as u64;
        self.times.saturating_record(micros);
    }

    pub(super) fn failed(&mut self, now: Instant) {
        self.advance(now);
        self.current.errors += 1;
    }

    /// Ends the seconds that are over.
    pub fn advance(&mut self, now: Instant) {
        let over = (now.micros().saturating_sub(self.start.micros()) / 1_000_000) as usize;
        while self.done.len() < over {
            let keeps_times = self.done.len() < SECONDS_WITH_TIMES_MAX;
            let mut second = std::mem::take(&mut self.current).with(&self.times);
            second.times = keeps_times.then(|| pairs(&self.times));
            self.done.push(second);
            self.times.reset();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(times: Option<&[(u64, u64)]>) -> Second {
        let mut all = histogram();
        times
            .unwrap_or(&[(9, 1)])
            .iter()
            .for_each(|&(value, count)| {
                all.record_n(value, count).unwrap();
            });
        let responses = all.len();
        let times = times.map(<[_]>::to_vec);
        let (errors, content) = (1, 10);
        Second {
            responses,
            errors,
            content,
            times,
            ..Second::default()
        }
        .with(&all)
    }

    #[test]
    fn two_of_the_same_time() {
        let mut one = second(Some(&[(10, 98)]));
        one.add(&second(Some(&[(10, 1), (50, 1)])));
        assert_eq!((one.responses, one.errors, one.content), (100, 2, 20));
        assert_eq!((one.median, one.p99, one.max), (10, 10, 50));
        assert_eq!(one.times.as_deref(), Some(&[(10, 99), (50, 1)][..]));
        assert_eq!(
            (one.at(0.5), one.at(0.99), one.at(1.0)),
            (Some(10), Some(10), Some(50))
        );
        // Of one whose times are not known, the worse points remain.
        one.add(&second(None));
        assert_eq!((one.responses, one.max, one.times.clone()), (101, 50, None));
        assert_eq!(one.at(0.5), None);
    }
}
