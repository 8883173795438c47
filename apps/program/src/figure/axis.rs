//! What figures have in common: their size and frame, colours, and axes with marks.

use std::fmt::Write as _;

use crate::html::escape;

/// A figure's size.
pub(super) const WIDTH: f64 = 720.0;
pub(super) const HEIGHT: f64 = 300.0;
/// What axes and their texts need.
pub(super) const LEFT: f64 = 64.0;
pub(super) const RIGHT: f64 = 12.0;
pub(super) const TOP: f64 = 14.0;
pub(super) const BOTTOM: f64 = 40.0;

/// Colours that people with any colour vision tell apart (Okabe and Ito).
const COLOURS: [&str; 7] = [
    "#0072b2", "#e69f00", "#009e73", "#d55e00", "#56b4e9", "#cc79a7", "#999999",
];

/// The colour of a series.
pub fn colour(series: usize) -> &'static str {
    COLOURS[series % COLOURS.len()]
}

/// As many digits as tell something.
pub fn number(value: f64) -> String {
    match value.abs() {
        1e6.. => format!("{:.1}M", value / 1e6),
        10_000.0.. => format!("{:.0}k", value / 1e3),
        100.0.. => format!("{value:.0}"),
        10.0.. => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// What an axis is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Numbers of something.
    Count,
    /// Times in microseconds, written in the unit that a person would use.
    Micros,
}

/// A value that an axis has a mark for: the digits that it has, and no more.
pub(super) fn round(value: f64, unit: Unit) -> String {
    let digits = |value: f64| (value * 1e6).round() / 1e6;
    match (unit, value.abs()) {
        (Unit::Micros, 1e6..) => return format!("{} s", digits(value / 1e6)),
        (Unit::Micros, 1e3..) => return format!("{} ms", digits(value / 1e3)),
        (Unit::Micros, _) => return format!("{} µs", digits(value)),
        (Unit::Count, _) => {}
    }
    match value.abs() {
        1e6.. => format!("{}M", value / 1e6),
        10_000.0.. => format!("{}k", value / 1e3),
        _ => digits(value).to_string(),
    }
}

/// An axis: values to places.
pub(super) struct Axis {
    pub(super) least: f64,
    pub(super) most: f64,
    pub(super) logarithmic: bool,
    pub(super) unit: Unit,
}

impl Axis {
    pub(super) fn share(&self, value: f64) -> f64 {
        let of = |v: f64| if self.logarithmic { v.ln() } else { v };
        (of(value) - of(self.least)) / (of(self.most) - of(self.least))
    }

    pub(super) fn y(&self, value: f64) -> f64 {
        TOP + (HEIGHT - TOP - BOTTOM) * (1.0 - self.share(value).clamp(0.0, 1.0))
    }

    /// Values to write beside it: powers of ten, or where that leaves fewer than three also twice and five times these; or some
    /// four steps of 1, 2 or 5.
    pub(super) fn marks(&self) -> Vec<f64> {
        if self.least >= self.most {
            // Nothing is shown on it.
            return Vec::new();
        }
        let within = |mark: &f64| (self.least..=self.most).contains(mark);
        if self.logarithmic {
            let powers = self.least.log10().floor() as i32..=self.most.log10().ceil() as i32;
            let powers: Vec<f64> = powers.map(|power| 10f64.powi(power)).collect();
            let between = powers.iter().flat_map(|&p| [p, 2.0 * p, 5.0 * p]);
            let (few, many): (Vec<f64>, Vec<f64>) = (
                powers.iter().copied().filter(within).collect(),
                between.filter(within).collect(),
            );
            match (few.len(), many.len()) {
                (3.., _) => return few,
                (_, 2..) => return many,
                // A range too narrow for these.
                _ => (),
            }
        }
        let raw = (self.most - self.least) / 4.0;
        let power = 10f64.powf(raw.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|n| n * power);
        let step = step.into_iter().find(|step| *step >= raw).unwrap_or(raw);
        let (first, last) = (
            (self.least / step).ceil() as u32,
            (self.most / step).floor() as u32,
        );
        (first..=last).map(|n| f64::from(n) * step).collect()
    }

    pub(super) fn lines(&self, out: &mut String) {
        for mark in self.marks() {
            let (y, right) = (self.y(mark), WIDTH - RIGHT);
            let text = round(mark, self.unit);
            let _ = writeln!(
                out,
                "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{text}</text>",
                LEFT - 6.0,
                y + 4.0
            );
        }
    }
}

pub(super) fn open(label: &str) -> String {
    let label = escape(label);
    format!(
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{label}\">\n\
         <text class=\"axis\" x=\"{LEFT}\" y=\"10\">{label}</text>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_on_axes() {
        let linear = Axis {
            least: 0.0,
            most: 9.0,
            logarithmic: false,
            unit: Unit::Count,
        };
        assert_eq!(linear.marks(), [0.0, 5.0]);
        assert_eq!(
            [0.0, 0.5, 0.1 + 0.2, 20.0, 50_000.0].map(|value| round(value, Unit::Count)),
            ["0", "0.5", "0.3", "20", "50k"]
        );
        assert_eq!(
            [5.0, 200.0, 1e3, 2.5e4, 1e6, 1e8].map(|value| round(value, Unit::Micros)),
            ["5 µs", "200 µs", "1 ms", "25 ms", "1 s", "100 s"]
        );
        assert_eq!((linear.y(0.0), linear.y(9.0)), (HEIGHT - BOTTOM, TOP));
        let logarithmic = Axis {
            least: 5.0,
            most: 5000.0,
            logarithmic: true,
            unit: Unit::Count,
        };
        assert_eq!(logarithmic.marks(), [10.0, 100.0, 1000.0]);
        let marks = |least, most| {
            Axis {
                least,
                most,
                logarithmic: true,
                unit: Unit::Count,
            }
            .marks()
        };
        assert!(marks(8e8, 1.3).is_empty());
        assert_eq!(marks(80.0, 900.0), [100.0, 200.0, 500.0]);
        assert_eq!(marks(210.0, 490.0), [300.0, 400.0]);
        assert_eq!(marks(110.0, 190.0), [120.0, 140.0, 160.0, 180.0]);
        assert!((logarithmic.share(158.1) - 0.5).abs() < 1e-3);
    }
}
