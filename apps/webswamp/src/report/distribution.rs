//! A histogram in JSON: points of it for people, and all of it, exactly, to be merged and drawn.

use hdrhistogram::Histogram;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::statistics::{histogram, pairs};

/// Points of a distribution that are reported, and their names.
pub const POINTS: [(&str, f64); 6] = [
    ("p50", 0.5),
    ("p75", 0.75),
    ("p90", 0.9),
    ("p99", 0.99),
    ("p99.9", 0.999),
    ("max", 1.0),
];

/// Times in microseconds. Beside these fields it has `p50`, `p75`, `p90`, `p99`, `p99.9` and `max`, 0 when `count` is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(into = "Form", try_from = "Form")]
#[schemars(with = "Form")]
pub struct Distribution(pub Histogram<u64>);

impl Default for Distribution {
    fn default() -> Self {
        Self(histogram())
    }
}

impl Distribution {
    /// The time that this part of all took no longer than; `None` when there are none.
    pub fn at(&self, quantile: f64) -> Option<u64> {
        (!self.0.is_empty()).then(|| self.0.value_at_quantile(quantile))
    }

    /// Puts those of another to these.
    pub fn add(&mut self, other: &Self) {
        self.0
            .add(&other.0)
            .expect("all have the same bounds and digits");
    }
}

/// As it is written; of what is read only the pairs matter.
#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Distribution")]
struct Form {
    /// How many.
    #[serde(default, skip_deserializing)]
    count: u64,
    /// Their mean.
    #[serde(default, skip_deserializing)]
    mean: f64,
    #[serde(default, skip_deserializing, flatten)]
    points: serde_json::Map<String, serde_json::Value>,
    /// Pairs of a time and how often it was seen, in order, exact to a thousandth: each time is the longest of those that it
    /// stands for.
    histogram: Vec<(u64, u64)>,
}

impl From<Distribution> for Form {
    fn from(Distribution(histogram): Distribution) -> Self {
        let points = POINTS.map(|(name, quantile)| {
            let value = histogram.value_at_quantile(quantile);
            (name.to_owned(), value.into())
        });
        Self {
            count: histogram.len(),
            mean: histogram.mean(),
            points: points.into_iter().collect(),
            histogram: pairs(&histogram),
        }
    }
}

impl TryFrom<Form> for Distribution {
    type Error = String;

    fn try_from(form: Form) -> Result<Self, String> {
        let mut histogram = histogram();
        let mut all: u64 = 0;
        for (value, count) in form.histogram {
            all = all
                .checked_add(count)
                .ok_or("a histogram has more entries than can be counted")?;
            histogram.saturating_record_n(value, count);
        }
        Ok(Self(histogram))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is written is read again as it was, the shortest and the longest times too.
    #[test]
    fn nothing_is_lost() {
        let mut histogram = histogram();
        for value in [0, 1, 999, 2047, 2048, 123_456, 3_600_000_000] {
            histogram.record_n(value, value % 7 + 1).unwrap();
        }
        let one = Distribution(histogram);
        let text = serde_json::to_string(&one).unwrap();
        let again: Distribution = serde_json::from_str(&text).unwrap();
        assert_eq!(again, one);
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["count"], one.0.len());
        assert_eq!(value["p50"], one.0.value_at_quantile(0.5));
    }

    #[test]
    fn what_is_no_histogram_is_refused() {
        for text in [
            "{}",
            "{\"histogram\": [[1]]}",
            "{\"histogram\": [[-1, 1]]}",
            "{\"histogram\": [[1, 18446744073709551615], [2, 1]]}",
        ] {
            assert!(
                serde_json::from_str::<Distribution>(text).is_err(),
                "{text}"
            );
        }
    }

    #[test]
    fn sums() {
        let with = |values: &[u64]| {
            let mut histogram = histogram();
            values.iter().for_each(|v| histogram.record(*v).unwrap());
            Distribution(histogram)
        };
        let mut one = with(&[1, 500]);
        one.add(&with(&[500, 70_000]));
        assert_eq!(one, with(&[1, 500, 500, 70_000]));
        assert_eq!((with(&[]).at(0.5), one.at(0.0)), (None, Some(1)));
    }
}
