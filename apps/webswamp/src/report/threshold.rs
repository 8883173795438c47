//! Conditions under which a load has failed (`--fail-if`), for programs that decide by its exit status.
//!
//! `QUANTITY OPERATOR VALUE`, as in `p99>5ms`. A time of which nothing was measured, a share of nothing, fails whatever the
//! condition: a load that saw nothing has shown nothing.

use std::str::FromStr;

use super::distribution::Distribution;
use super::numbers::{micros, plain};
use super::results::Results;
use exos_program::units::parse_duration;

/// How it is written, for anyone who wrote it otherwise.
const HELP: &str = "write QUANTITY>VALUE (or >=, <, <=): [service:|connect:|handshake:|first:]pNN|max|mean and a time, rate, errors, \
                    error-share, status-share:2xx or (of --find-peak) peak and a number";

/// A condition that no load is to meet.
#[derive(Clone, Debug, PartialEq)]
pub struct Threshold {
    text: String,
    quantity: Quantity,
    operator: Operator,
    /// Microseconds for times, parts of one for shares.
    value: f64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Quantity {
    Time(Which, Point),
    Rate,
    /// The highest rate that meets a bound.
    Peak,
    Errors,
    ErrorShare,
    /// Of responses with codes from the first to the last.
    StatusShare(u16, u16),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Which {
    Total,
    Service,
    Connect,
    Handshake,
    First,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Point {
    Quantile(f64),
    Mean,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Operator {
    Above,
    AtLeast,
    Below,
    AtMost,
}

impl Operator {
    /// In the order in which they are looked for.
    const ALL: [(&str, Self); 4] = [
        (">=", Self::AtLeast),
        ("<=", Self::AtMost),
        (">", Self::Above),
        ("<", Self::Below),
    ];

    fn holds(self, is: f64, value: f64) -> bool {
        match self {
            Self::Above => is > value,
            Self::AtLeast => is >= value,
            Self::Below => is < value,
            Self::AtMost => is <= value,
        }
    }
}

impl FromStr for Threshold {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let split = |(sign, operator): (&str, Operator)| {
            let (quantity, value) = text.split_once(sign)?;
            Some((quantity.trim(), operator, value.trim()))
        };
        let found = Operator::ALL.into_iter().find_map(split);
        let (quantity, operator, value) =
            found.ok_or_else(|| format!("{text:?} has no comparison; {HELP}"))?;
        let quantity: Quantity = quantity.parse()?;
        let value = quantity.value(value)?;
        let text = text.to_owned();
        Ok(Self {
            text,
            quantity,
            operator,
            value,
        })
    }
}

impl FromStr for Quantity {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let unknown = || format!("{text:?} is no quantity; {HELP}");
        match text {
            "rate" => return Ok(Self::Rate),
            "peak" => return Ok(Self::Peak),
            "errors" => return Ok(Self::Errors),
            "error-share" => return Ok(Self::ErrorShare),
            _ => (),
        }
        if let Some(codes) = text.strip_prefix("status-share:") {
            return status_codes(codes).ok_or_else(unknown);
        }
        let (which, point) = text.split_once(':').unwrap_or(("total", text));
        let which = match which {
            "total" => Which::Total,
            "service" => Which::Service,
            "connect" => Which::Connect,
            "handshake" => Which::Handshake,
            "first" => Which::First,
            _ => return Err(unknown()),
        };
        let point = match point {
            "max" => Point::Quantile(1.0),
            "mean" => Point::Mean,
            _ => {
                let percent = point.strip_prefix('p').and_then(|p| p.parse::<f64>().ok());
                let percent = percent.filter(|p| (0.0..=100.0).contains(p));
                Point::Quantile(percent.ok_or_else(unknown)? / 100.0)
            }
        };
        Ok(Self::Time(which, point))
    }
}

/// A code, or a class of them as `2xx`.
fn status_codes(text: &str) -> Option<Quantity> {
    if text.len() != 3 {
        return None;
    }
    let (first, last) = match text.strip_suffix("xx") {
        Some(class) => (format!("{class}00"), format!("{class}99")),
        None => (text.to_owned(), text.to_owned()),
    };
    let (first, last) = (first.parse().ok()?, last.parse().ok()?);
    (100..600)
        .contains(&first)
        .then_some(Quantity::StatusShare(first, last))
}

impl Quantity {
    fn value(self, text: &str) -> Result<f64, String> {
        let number = |text: &str| match text.parse::<f64>() {
            Ok(number) if number.is_finite() && number >= 0.0 => Ok(number),
            _ => Err(format!("{text:?} is no number to compare with; {HELP}")),
        };
        match self {
            Self::Time(..) => parse_duration(text).map(|time| time.as_secs_f64() * 1e6),
            Self::Rate | Self::Peak | Self::Errors => number(text),
            Self::ErrorShare | Self::StatusShare(..) => match text.strip_suffix('%') {
                Some(percent) => number(percent).map(|percent| percent / 100.0),
                None => number(text),
            }
            .and_then(|share| {
                let is_good = share <= 1.0;
                is_good
                    .then_some(share)
                    .ok_or_else(|| format!("{text:?} is more than all; write 0.5% or 0.005"))
            }),
        }
    }

    /// What it is; `None` when nothing was measured of it.
    fn of(self, results: &Results) -> Option<f64> {
        let share = |part: u64, all: u64| (all > 0).then(|| part as f64 / all as f64);
        match self {
            Self::Time(which, point) => point.of(which.of(results)),
            Self::Rate => Some(results.per_second(results.responses)),
            // It is not of one load.
            Self::Peak => None,
            Self::Errors => Some(results.errors_all() as f64),
            Self::ErrorShare => share(results.errors_all(), results.requests()),
            Self::StatusShare(first, last) => {
                let of_these = results.statuses.range(first..=last);
                share(of_these.map(|(_, count)| count).sum(), results.responses)
            }
        }
    }

    fn text(self, value: f64) -> String {
        match self {
            Self::Time(..) => micros(value.round() as u64),
            Self::Rate | Self::Peak => format!("{}/s", plain(value)),
            Self::Errors => format!("{value}"),
            Self::ErrorShare | Self::StatusShare(..) => format!("{:.3} %", 100.0 * value),
        }
    }
}

impl Which {
    fn of(self, results: &Results) -> &Distribution {
        let times = &results.times_us;
        match self {
            Self::Total => &times.total,
            Self::Service => &times.service,
            Self::Connect => &times.connect,
            Self::Handshake => &times.handshake,
            Self::First => &times.first_byte,
        }
    }
}

impl Point {
    fn of(self, times: &Distribution) -> Option<f64> {
        let is_empty = times.0.is_empty();
        match self {
            Self::Quantile(quantile) => times.at(quantile).map(|us| us as f64),
            Self::Mean => (!is_empty).then(|| times.0.mean()),
        }
    }
}

impl Threshold {
    /// It is of a peak, which one load does not have.
    pub fn is_of_peak(&self) -> bool {
        self.quantity == Quantity::Peak
    }

    /// How these results meet the condition, as a line; `None` when they do not.
    pub fn met_by(&self, results: &Results) -> Option<String> {
        self.met(self.quantity.of(results), "nothing was measured")
    }

    /// How a peak and the load at it meet it; where there is no peak, every condition is met.
    pub fn met_by_peak(&self, peak: Option<(f64, &Results)>) -> Option<String> {
        match (self.quantity, peak) {
            (_, None) => self.met(None, "there is no peak"),
            (Quantity::Peak, Some((rate, _))) => self.met(Some(rate), ""),
            (_, Some((_, results))) => self.met_by(results),
        }
    }

    fn met(&self, is: Option<f64>, nothing: &str) -> Option<String> {
        match is {
            None => Some(format!("failed: {}: {nothing}", self.text)),
            Some(is) if self.operator.holds(is, self.value) => {
                let is = self.quantity.text(is);
                Some(format!("failed: {}: it is {is}", self.text))
            }
            Some(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::results;
    use super::*;

    fn line(condition: &str) -> Option<String> {
        let threshold: Threshold = condition.parse().unwrap_or_else(|e| panic!("{e}"));
        threshold.met_by(&results(1e9, 500))
    }

    /// 900 responses of some 503 us in 9 s, 9 of them 404, one reset, connections after 40 us.
    #[test]
    fn what_fails_and_what_does_not() {
        for condition in [
            "p99>400us",
            "p50 >= 0.5ms",
            "p99.9<1s",
            "service:max>500us",
            "first:mean>500us",
            "connect:p90<=40us",
            "total:max>505us",
            "rate<100.5",
            "errors>0",
            "error-share>0.1%",
            "error-share>0.001",
            "status-share:2xx<99.5%",
            "status-share:404>=0.01",
            "status-share:200<1",
        ] {
            assert!(line(condition).is_some(), "{condition}");
        }
        for condition in [
            "p99>600us",
            "p50<500us",
            "max>=1ms",
            "connect:max>40us",
            "rate<100",
            "errors>1",
            "error-share>0.2%",
            "status-share:2xx<99%",
            "status-share:5xx>0",
        ] {
            assert_eq!(line(condition), None);
        }
        assert_eq!(line("rate<1000").unwrap(), "failed: rate<1000: it is 100/s");
        assert!(line("p99>1us").unwrap().ends_with("us"));
    }

    /// A load that saw nothing is not taken for a fast one.
    #[test]
    fn nothing_is_no_success() {
        let mut nothing = results(1e9, 500);
        nothing.times_us.total.0.reset();
        nothing.responses = 0;
        nothing.errors.clear();
        for condition in [
            "p99>5ms",
            "mean>1s",
            "error-share>50%",
            "status-share:2xx<1%",
        ] {
            let threshold: Threshold = condition.parse().unwrap();
            let line = threshold.met_by(&nothing).expect(condition);
            assert!(line.contains("nothing was measured"), "{line}");
        }
        let none: Threshold = "rate<1".parse().unwrap();
        assert!(none.met_by(&nothing).is_some());
    }

    #[test]
    fn what_is_no_condition() {
        for (text, part) in [
            ("", "no comparison"),
            ("p99", "no comparison"),
            ("p99=5ms", "no comparison"),
            ("p101>5ms", "no quantity"),
            ("p-1>5ms", "no quantity"),
            ("pnan>5ms", "no quantity"),
            ("slow:p99>5ms", "no quantity"),
            ("speed>5", "no quantity"),
            ("status-share:9xx<5%", "no quantity"),
            ("status-share:+20<5%", "no quantity"),
            ("status-share:éx<5%", "no quantity"),
            ("p99>5", "units ns, us, ms, s, m, h"),
            ("p99>fast", "as 20ms does"),
            ("rate<many", "no number"),
            ("peak<5ms", "no number"),
            ("errors>-1", "no number"),
            ("errors>inf", "no number"),
            ("error-share>150%", "more than all"),
        ] {
            let error = text.parse::<Threshold>().expect_err(text);
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
