//! How a load goes, second by second: what ended in each.

use exos_inet::Instant;
use hdrhistogram::Histogram;

use super::Answered;
use crate::limits::HISTOGRAM_MICROS_MAX;

/// Digits of the times within a second: they are a curve's points.
const DIGITS: u8 = 2;

/// A second of a load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Second {
    /// Responses that became whole in it.
    pub responses: u64,
    /// Requests that failed in it.
    pub errors: u64,
    /// Bytes of content of those responses.
    pub content: u64,
    /// Times from the intended start to the last byte, in microseconds.
    pub median: u64,
    /// 90 of 100 took no longer.
    pub p90: u64,
    /// 99 of 100.
    pub p99: u64,
    /// The longest.
    pub max: u64,
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
        let times = Histogram::new_with_bounds(1, HISTOGRAM_MICROS_MAX, DIGITS);
        Self {
            start,
            done: Vec::new(),
            current: Second::default(),
            times: times.expect("the bounds are in order"),
        }
    }

    /// Those that are over.
    pub fn done(&self) -> &[Second] {
        &self.done
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
            let at = |quantile| self.times.value_at_quantile(quantile);
            self.done.push(Second {
                median: at(0.5),
                p90: at(0.9),
                p99: at(0.99),
                max: self.times.max(),
                ..self.current
            });
            self.current = Second::default();
            self.times.reset();
        }
    }
}
