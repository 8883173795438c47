//! Figures in SVG for a page that stands by itself: groups of bars, curves, and points. Text and lines have the page's colours
//! (`currentColor`), series colours of their own ([`colour`]). [`page`](crate::html::page) has the styles that they need.

mod axis;
mod over_time;
mod over_values;

use crate::html::escape;
use std::fmt::Write as _;

pub use axis::{Unit, colour, number};
pub use over_time::{Curve, over_time};
pub use over_values::{Marks, Point, Points, over_values};

use axis::{Axis, BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, open};

/// Names and colours of series, by their numbers.
pub fn legend<'a>(series: impl IntoIterator<Item = (usize, &'a str)>) -> String {
    let item = |(at, name): (usize, &str)| {
        let (colour, name) = (colour(at), escape(name));
        format!("<span><i style=\"background:{colour}\"></i>{name}</span>")
    };
    let items: String = series.into_iter().map(item).collect();
    format!("<p class=\"legend\">{items}</p>\n")
}

/// A bar.
#[derive(Clone)]
pub struct Bar {
    /// Its series, which has a colour.
    pub series: usize,
    /// Its height.
    pub value: f64,
    /// What is written above it.
    pub text: String,
}

/// A group of bars.
pub struct Bars {
    /// What is written below it.
    pub name: String,
    /// Side by side; nothing where there is no value.
    pub bars: Vec<Option<Bar>>,
    /// A dashed line across the group.
    pub line: Option<f64>,
}

/// Groups of bars above zero, and a line across all of them at one value, such as where a ratio is even.
pub fn bars(label: &str, groups: &[Bars], across: Option<f64>) -> String {
    let values = |g: &Bars| -> Vec<f64> {
        let bars = g.bars.iter().flatten().map(|bar| bar.value);
        bars.chain(g.line).collect()
    };
    let values = groups.iter().flat_map(values);
    let most = values.chain(across).fold(0.0, f64::max);
    let axis = Axis {
        least: 0.0,
        most: if most > 0.0 { most * 1.08 } else { 1.0 },
        logarithmic: false,
        unit: Unit::Count,
    };
    let mut out = open(label);
    axis.lines(&mut out);
    let width = (WIDTH - LEFT - RIGHT) / groups.len().max(1) as f64;
    let placed = || {
        let places = groups.iter().enumerate();
        places.map(|(at, group)| (group, LEFT + width * at as f64))
    };
    for (group, left) in placed() {
        group.draw(&mut out, &axis, left, width);
    }
    if let Some(across) = across {
        let (y, right) = (axis.y(across), WIDTH - RIGHT);
        let _ = writeln!(
            out,
            "<line class=\"across\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>"
        );
    }
    for (group, left) in placed() {
        group.draw_texts(&mut out, &axis, left, width);
    }
    out + "</svg>\n"
}

impl Bars {
    /// Bars with their left sides, and the width of each.
    fn placed(&self, left: f64, width: f64) -> (f64, impl Iterator<Item = (f64, &Bar)>) {
        let each = width * 0.8 / self.bars.len().max(1) as f64;
        (
            each,
            self.bars.iter().enumerate().filter_map(move |(at, bar)| {
                Some((left + width * 0.1 + each * at as f64, bar.as_ref()?))
            }),
        )
    }

    fn draw(&self, out: &mut String, axis: &Axis, left: f64, width: f64) {
        let (each, bars) = self.placed(left, width);
        for (x, bar) in bars {
            let (y, fill) = (axis.y(bar.value), colour(bar.series));
            let height = axis.y(0.0) - y;
            let _ = writeln!(
                out,
                "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{height:.1}\" fill=\"{fill}\"/>",
                each * 0.94
            );
        }
        if let Some(line) = self.line {
            let (y, right) = (axis.y(line), left + width * 0.95);
            let _ = writeln!(
                out,
                "<line class=\"limit\" x1=\"{:.1}\" x2=\"{right:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>",
                left + width * 0.05
            );
        }
    }

    /// After all lines, which they must stand out from.
    fn draw_texts(&self, out: &mut String, axis: &Axis, left: f64, width: f64) {
        let (each, bars) = self.placed(left, width);
        for (x, bar) in bars {
            let (x, y, text) = (x + each * 0.47, axis.y(bar.value) - 3.0, escape(&bar.text));
            let _ = writeln!(
                out,
                "<text class=\"value\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"middle\">{text}</text>"
            );
        }
        let (x, y) = (left + width / 2.0, HEIGHT - BOTTOM + 18.0);
        let name = escape(&self.name);
        let _ = writeln!(
            out,
            "<text x=\"{x:.1}\" y=\"{y}\" text-anchor=\"middle\">{name}</text>"
        );
    }
}

/// Shares in percent on the axis of a distribution: each step a tenth of what the one before left.
fn tail(share: f64) -> f64 {
    (-(1.0 - share / 100.0).log10()).clamp(0.0, 4.3) / 4.3
}

/// Distributions of times, `[percent, microseconds]` each: times on a logarithmic axis, shares so that tails are seen.
pub fn distributions(label: &str, curves: &[Vec<(f64, f64)>]) -> String {
    let values = || {
        curves
            .iter()
            .flatten()
            .map(|(_, v)| *v)
            .filter(|v| *v > 0.0)
    };
    let axis = Axis {
        least: values().fold(f64::MAX, f64::min).min(1e9) * 0.8,
        most: values().fold(1.0, f64::max) * 1.3,
        logarithmic: true,
        unit: Unit::Micros,
    };
    let mut out = open(label);
    axis.lines(&mut out);
    let x = |share: f64| LEFT + (WIDTH - LEFT - RIGHT) * tail(share);
    for share in [0.0, 50.0, 90.0, 99.0, 99.9, 99.99] {
        let (x, y) = (x(share), HEIGHT - BOTTOM + 18.0);
        let _ = writeln!(
            out,
            "<line class=\"grid\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP}\" y2=\"{:.1}\"/>\
             <text x=\"{x:.1}\" y=\"{y}\" text-anchor=\"middle\">{share} %</text>",
            HEIGHT - BOTTOM
        );
    }
    for (at, curve) in curves.iter().enumerate() {
        let point = |&(share, value): &(f64, f64)| format!("{:.1},{:.1}", x(share), axis.y(value));
        let points: Vec<String> = curve.iter().filter(|(_, v)| *v > 0.0).map(point).collect();
        let (points, stroke) = (points.join(" "), colour(at));
        let _ = writeln!(
            out,
            "<polyline fill=\"none\" stroke=\"{stroke}\" stroke-width=\"2\" points=\"{points}\"/>"
        );
    }
    out + "</svg>\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tail_has_as_much_room_for_each_ten_times_rarer() {
        assert_eq!(tail(0.0), 0.0);
        assert!((tail(99.0) / tail(90.0) - 2.0).abs() < 1e-9);
        assert_eq!(tail(100.0), 1.0);
    }

    #[test]
    fn bars_stand_on_zero_and_are_as_high_as_they_are_many() {
        let bar = |value: f64| Bar {
            series: 1,
            value,
            text: "3<4".to_owned(),
        };
        let group = Bars {
            name: "a<b".to_owned(),
            bars: vec![Some(bar(2.0)), None, Some(bar(4.0))],
            line: Some(5.0),
        };
        let svg = bars("times", &[group], Some(1.0));
        assert_eq!(svg.matches("<rect").count(), 2);
        assert!(svg.contains("a&lt;b") && svg.contains("class=\"limit\""));
        assert!(svg.contains(colour(1)) && svg.contains("3&lt;4"));
        let last = |what| svg.rfind(what).expect("it is there");
        assert!(
            last("class=\"value\"") > last("<line"),
            "texts are above lines"
        );
        let heights: Vec<f64> = svg
            .split("height=\"")
            .skip(1)
            .filter_map(|rest| rest.split('"').next()?.parse().ok())
            .collect();
        assert!((heights[1] / heights[0] - 2.0).abs() < 0.01, "{heights:?}");
    }

    #[test]
    fn bars_of_nothing_are_a_figure_without_a_line_across() {
        let nothing = Bars {
            name: String::new(),
            bars: vec![Some(Bar {
                series: 0,
                value: 0.0,
                text: String::new(),
            })],
            line: None,
        };
        let svg = bars("us", &[nothing], None);
        assert!(!svg.contains("NaN") && !svg.contains("class=\"across\""));
    }

    #[test]
    fn curves_of_nothing_are_figures_too() {
        let svg = distributions("us", &[Vec::new(), vec![(50.0, 10.0), (99.0, 100.0)]]);
        assert_eq!(svg.matches("<polyline").count(), 2);
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
    }
}
