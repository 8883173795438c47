//! Two results, one by the other.
//!
//! One run each says little about what a third would do. What can be told is how much a quantity varied from second to
//! second within each run: were a run's seconds independent, its mean would be off by their deviation over the square root
//! of their number. Differences within three times that, of both runs together, are called noise; those beyond it may
//! still have other reasons than the change that one looks for.

use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::Serialize;

use super::numbers::{micros, plain};
use super::results::Results;
use super::traffic::Traffic;
use crate::limits::SECONDS_FOR_NOISE;
use crate::statistics::Second;

/// Standard errors that a difference must be beyond.
const SIGNIFICANT: f64 = 3.0;

/// A quantity of both.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Row {
    /// Its name, with its unit last.
    pub name: String,
    /// Of the first.
    pub old: Option<f64>,
    /// Of the second.
    pub new: Option<f64>,
    /// The second by the first; `null` where it has no value.
    pub ratio: Option<f64>,
    /// Differences up to this are noise; `null` where nothing is known of it.
    pub noise: Option<f64>,
    /// The difference is more than noise.
    pub is_beyond_noise: Option<bool>,
}

/// All quantities.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Comparison {
    /// `"exos.load.comparison/1"`.
    schema: &'static str,
    /// In order.
    pub rows: Vec<Row>,
}

/// How a quantity is seen in a whole run, and in a second of it.
struct Quantity {
    name: &'static str,
    of_run: fn(&Results) -> Option<f64>,
    of_second: Option<fn(&Second) -> Option<f64>>,
}

const fn quantity(
    name: &'static str,
    of_run: fn(&Results) -> Option<f64>,
    of_second: Option<fn(&Second) -> Option<f64>>,
) -> Quantity {
    Quantity {
        name,
        of_run,
        of_second,
    }
}

const QUANTITIES: [Quantity; 15] = [
    quantity(
        "requests_per_second",
        |r| Some(r.per_second(r.responses)),
        Some(|s| Some(s.responses as f64)),
    ),
    quantity(
        "connections_per_second",
        |r| Some(r.per_second(r.connections)),
        None,
    ),
    quantity(
        "error_share",
        |r| share(r.errors_all(), r.requests()),
        Some(|s| share(s.errors, s.errors + s.responses)),
    ),
    quantity(
        "total_p50_us",
        |r| at(r, 0.5),
        Some(|s| s.at(0.5).map(|us| us as f64)),
    ),
    quantity(
        "total_p90_us",
        |r| at(r, 0.9),
        Some(|s| s.at(0.9).map(|us| us as f64)),
    ),
    quantity(
        "total_p99_us",
        |r| at(r, 0.99),
        Some(|s| s.at(0.99).map(|us| us as f64)),
    ),
    quantity(
        "total_p99.9_us",
        |r| at(r, 0.999),
        Some(|s| s.at(0.999).map(|us| us as f64)),
    ),
    quantity("total_max_us", |r| at(r, 1.0), None),
    quantity(
        "service_p50_us",
        |r| r.times_us.service.at(0.5).map(|us| us as f64),
        None,
    ),
    quantity(
        "service_p99_us",
        |r| r.times_us.service.at(0.99).map(|us| us as f64),
        None,
    ),
    quantity("busy_share", |r| Some(r.busy_share()), None),
    quantity(
        "response_bytes_per_second",
        |r| Some(r.per_second(r.response_bytes)),
        None,
    ),
    quantity(
        "sent_again_share",
        |r| of_link(r, |t| (t.segments_sent_again, t.segments_sent)),
        None,
    ),
    quantity(
        "received_twice_share",
        |r| of_link(r, |t| (t.segments_received_twice, t.segments_received)),
        None,
    ),
    quantity(
        "dropped_share",
        |r| {
            of_link(r, |t| {
                (t.packets_dropped, t.packets_dropped + t.packets_received)
            })
        },
        None,
    ),
];

fn at(results: &Results, quantile: f64) -> Option<f64> {
    results.times_us.total.at(quantile).map(|us| us as f64)
}

fn of_link(results: &Results, part_of_all: fn(&Traffic) -> (u64, u64)) -> Option<f64> {
    let (part, all) = part_of_all(&Traffic::of(results)?);
    share(part, all)
}

fn share(part: u64, all: u64) -> Option<f64> {
    (all > 0).then(|| part as f64 / all as f64)
}

/// The standard error of a mean of these.
fn standard_error(values: &[f64]) -> Option<f64> {
    if values.len() < SECONDS_FOR_NOISE {
        return None;
    }
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|v| (v - mean) * (v - mean)).sum();
    Some((squares / (count - 1.0) / count).sqrt())
}

impl Quantity {
    fn noise(&self, old: &Results, new: &Results) -> Option<f64> {
        let of_second = self.of_second?;
        let of = |results: &Results| {
            let values: Vec<f64> = results
                .measured_seconds()
                .iter()
                .filter_map(of_second)
                .collect();
            standard_error(&values)
        };
        Some(SIGNIFICANT * of(old)?.hypot(of(new)?))
    }

    fn row(&self, old: &Results, new: &Results) -> Row {
        let (before, after) = ((self.of_run)(old), (self.of_run)(new));
        let both = before.zip(after);
        let noise = self.noise(old, new);
        Row {
            name: self.name.to_owned(),
            old: before,
            new: after,
            ratio: both
                .filter(|(old, _)| *old > 0.0)
                .map(|(old, new)| new / old),
            noise,
            is_beyond_noise: both
                .zip(noise)
                .map(|((old, new), noise)| (new - old).abs() > noise),
        }
    }
}

impl Comparison {
    /// The second by the first.
    pub fn new(old: &Results, new: &Results) -> Self {
        Self {
            schema: "exos.load.comparison/1",
            rows: QUANTITIES
                .iter()
                .map(|quantity| quantity.row(old, new))
                .collect(),
        }
    }

    /// An object.
    pub fn json(&self) -> String {
        let text = serde_json::to_string(self).expect("names are text");
        format!("{text}\n")
    }

    /// A table.
    pub fn text(&self) -> String {
        let mut text = format!(
            "{:24}{:>12}{:>12}{:>9}{:>12}\n",
            "", "old", "new", "ratio", "noise"
        );
        for row in &self.rows {
            let number =
                |value: Option<f64>| value.map_or("-".to_owned(), |value| unit(&row.name, value));
            let ratio = row
                .ratio
                .map_or("-".to_owned(), |ratio| format!("{ratio:.3}"));
            let _ = writeln!(
                text,
                "{:24}{:>12}{:>12}{ratio:>9}{:>12}  {}",
                title(&row.name),
                number(row.old),
                number(row.new),
                number(row.noise),
                match row.is_beyond_noise {
                    Some(true) => "differs",
                    Some(false) => "within noise",
                    None => "",
                }
            );
        }
        text.push_str("\nnoise: what seconds within the runs differ by (3 standard errors of their mean); other runs may differ by more\n");
        text
    }
}

fn title(name: &str) -> String {
    name.trim_end_matches("_us")
        .replace("_per_second", "/s")
        .replace('_', " ")
}

fn unit(name: &str, value: f64) -> String {
    if name.ends_with("_us") {
        micros(value.round() as u64)
    } else if name.ends_with("_share") {
        format!("{:.2} %", 100.0 * value)
    } else {
        plain(value)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::results;
    use super::*;

    fn row<'a>(comparison: &'a Comparison, name: &str) -> &'a Row {
        comparison
            .rows
            .iter()
            .find(|row| row.name == name)
            .expect(name)
    }

    #[test]
    fn what_differs_and_what_does_not() {
        let (old, new) = (results(1e9, 500), results(1e9, 750));
        let both = Comparison::new(&old, &new);
        let rate = row(&both, "requests_per_second");
        assert_eq!((rate.ratio, rate.is_beyond_noise), (Some(1.0), Some(false)));
        let median = row(&both, "total_p50_us");
        assert!((median.ratio.unwrap() - 1.5).abs() < 0.01, "{median:?}");
        assert_eq!(median.is_beyond_noise, Some(true));
        // Nothing is known of how the longest time varies.
        assert_eq!(row(&both, "total_max_us").is_beyond_noise, None);
        assert!(both.text().contains("total p50"), "{}", both.text());
        assert!(both.json().contains("\"is_beyond_noise\":true"));
    }

    /// A rate that varies by tens of percent from second to second does not tell one run from another.
    #[test]
    fn unsteady_runs_differ_by_noise() {
        let (mut old, mut new) = (results(1e9, 500), results(1e9, 500));
        let uneven = [60, 140, 80, 120, 50, 150, 90, 110, 70, 130];
        for (n, wave) in uneven.into_iter().enumerate() {
            old.seconds[n].responses = wave;
            new.seconds[n].responses = wave + 5;
        }
        new.responses += 45;
        let both = Comparison::new(&old, &new);
        assert_eq!(
            row(&both, "requests_per_second").is_beyond_noise,
            Some(false)
        );
        new.seconds.iter_mut().for_each(|s| s.responses += 100);
        new.responses += 900;
        let both = Comparison::new(&old, &new);
        assert_eq!(
            row(&both, "requests_per_second").is_beyond_noise,
            Some(true)
        );
    }

    #[test]
    fn few_seconds_tell_nothing_of_noise() {
        let (old, mut new) = (results(1e9, 500), results(1e9, 500));
        new.seconds.truncate(4);
        let both = Comparison::new(&old, &new);
        assert!(both.rows.iter().all(|row| row.noise.is_none()));
        assert_eq!(
            standard_error(&[1.0, 2.0, 3.0, 4.0, 5.0]),
            Some(0.5f64.sqrt())
        );
    }
}
