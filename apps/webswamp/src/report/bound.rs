//! A bound on latency, as a person writes it: `p99<5ms`, `p99.9<20ms`, `max<1s`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use exos_program::units::parse_duration;

use super::results::Results;

/// This many of all requests take no longer than that, from when they were meant to begin.
#[derive(Clone, Debug, PartialEq)]
pub struct Bound {
    /// As it was written.
    text: String,
    quantile: f64,
    most: Duration,
}

impl FromStr for Bound {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let help = || format!("{text:?} is no bound; write for example p99<5ms or max<1s");
        let (point, most) = text.split_once('<').ok_or_else(help)?;
        let quantile = match point.trim().strip_prefix('p') {
            Some(percent) => percent.parse::<f64>().map_err(|_| help())? / 100.0,
            None if point.trim() == "max" => 1.0,
            None => return Err(help()),
        };
        let most = parse_duration(most)?;
        if !(quantile > 0.0 && quantile <= 1.0) || most.is_zero() {
            return Err(help());
        }
        let text = text.to_owned();
        Ok(Self {
            text,
            quantile,
            most,
        })
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Bound {
    /// What the bound is of, in microseconds; `None` when nothing was answered.
    pub fn value_us(&self, results: &Results) -> Option<u64> {
        results.times_us.total.at(self.quantile)
    }

    /// What is beyond it, in microseconds.
    pub fn most_us(&self) -> f64 {
        self.most.as_secs_f64() * 1e6
    }

    /// Whether this is within it.
    pub fn holds(&self, value_us: Option<u64>) -> bool {
        value_us.is_some_and(|us| Duration::from_micros(us) < self.most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bounds() {
        for (text, quantile, millis) in [
            ("p99<5ms", 0.99, 5),
            ("p99.9 < 20ms", 0.999, 20),
            ("max<1s", 1.0, 1000),
            ("p100<1s", 1.0, 1000),
        ] {
            let bound: Bound = text.parse().expect(text);
            assert_eq!(bound.most, Duration::from_millis(millis));
            assert!((bound.quantile - quantile).abs() < 1e-12);
            assert!(bound.holds(Some(millis * 1000 - 1)) && !bound.holds(Some(millis * 1000)));
            assert!(!bound.holds(None));
        }
        for text in [
            "", "p99", "p99<", "p99<5", "p0<5ms", "p101<5ms", "q<5ms", "p99<0s", "pnan<1s",
        ] {
            assert!(text.parse::<Bound>().is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text(text in "(p|max|)[0-9.]{0,4}<?.{0,6}") {
            let _ = text.parse::<Bound>();
        }
    }
}
