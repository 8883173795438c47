//! A part of `--rate` as a person writes it: RATE, RATE:TIME, FROM-TO:TIME.

use std::str::FromStr;
use std::time::Duration;

use serde::Serialize as _;

use super::values::some_time;

/// A part of `--rate`.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub(crate) struct Step {
    /// Requests a second at its begin, and at its end.
    pub(crate) from: f64,
    pub(crate) to: f64,
    #[serde(rename = "secs", serialize_with = "in_secs")]
    /// How long; to the end when nothing is said.
    pub(crate) time: Option<Duration>,
}

fn in_secs<S: serde::Serializer>(time: &Option<Duration>, to: S) -> Result<S::Ok, S::Error> {
    time.map(|time| time.as_secs_f64()).serialize(to)
}

impl FromStr for Step {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (rates, lasting) = match text.split_once(':') {
            Some((rates, lasting)) => (rates, Some(some_time(lasting)?)),
            None => (text, None),
        };
        let (from, to) = rates.split_once('-').unwrap_or((rates, rates));
        let rate = |text: &str| match text.trim().parse::<f64>() {
            Ok(rate) if (0.0..=1e9).contains(&rate) => Ok(rate),
            _ => Err(format!(
                "{text:?} is no rate; write requests a second, from 0 to 1000000000"
            )),
        };
        let (from, to) = (rate(from)?, rate(to)?);
        if lasting.is_none() && from != to {
            return Err(format!("a ramp lasts some time; write {text}:TIME"));
        }
        Ok(Self {
            from,
            to,
            time: lasting,
        })
    }
}
