//! Points over values: what was measured at each of them, as a latency at a rate.

use std::fmt::Write as _;

use crate::html::escape;

use super::axis::{Axis, BOTTOM, HEIGHT, LEFT, RIGHT, TOP, Unit, WIDTH, colour, open, round};

/// What was measured at a value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// The value.
    pub at: f64,
    /// What was measured.
    pub value: f64,
    /// Filled, or hollow where it is to stand out from those that are.
    pub is_filled: bool,
}

/// Points of a series, which has a colour, joined in their order.
pub struct Points {
    /// Its series.
    pub series: usize,
    /// In order of their values.
    pub points: Vec<Point>,
}

/// Places that are marked by dashed lines through the figure.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Marks {
    /// A value at which something was measured.
    pub at: Option<f64>,
    /// A value of what was measured.
    pub value: Option<f64>,
}

/// Points over values from zero on, times in microseconds on a logarithmic axis: what is zero of them is left out. Labels are of what
/// was measured, and of the values.
pub fn over_values(label: &str, below: &str, curves: &[Points], marks: Marks) -> String {
    let all = || curves.iter().flat_map(|curve| shown(&curve.points));
    let values = || all().map(|point| point.value).chain(marks.value);
    let upright = Axis {
        least: values().fold(f64::MAX, f64::min).min(1e9) * 0.8,
        most: values().fold(1.0, f64::max) * 1.3,
        logarithmic: true,
        unit: Unit::Micros,
    };
    let along = Axis {
        least: 0.0,
        most: all()
            .map(|point| point.at)
            .chain(marks.at)
            .fold(1.0, f64::max)
            * 1.05,
        logarithmic: false,
        unit: Unit::Count,
    };
    let mut out = open(label);
    upright.lines(&mut out);
    along.lines_upright(&mut out, below);
    marks.draw(&mut out, &along, &upright);
    for curve in curves {
        curve.draw(&mut out, &along, &upright);
    }
    out + "</svg>\n"
}

fn shown(points: &[Point]) -> impl Iterator<Item = &Point> {
    points.iter().filter(|point| point.value > 0.0)
}

impl Axis {
    fn x(&self, value: f64) -> f64 {
        LEFT + (WIDTH - LEFT - RIGHT) * self.share(value).clamp(0.0, 1.0)
    }

    /// The lines of an axis that lies below the figure.
    fn lines_upright(&self, out: &mut String, label: &str) {
        for mark in self.marks() {
            let (x, y, text) = (self.x(mark), HEIGHT - BOTTOM + 16.0, round(mark, self.unit));
            let _ = writeln!(
                out,
                "<line class=\"grid\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP}\" y2=\"{:.1}\"/>\
                 <text x=\"{x:.1}\" y=\"{y}\" text-anchor=\"middle\">{text}</text>",
                HEIGHT - BOTTOM
            );
        }
        let (x, y, label) = (WIDTH - RIGHT, HEIGHT - 6.0, escape(label));
        let _ = writeln!(
            out,
            "<text class=\"axis\" x=\"{x}\" y=\"{y}\" text-anchor=\"end\">{label}</text>"
        );
    }
}

impl Marks {
    fn draw(self, out: &mut String, along: &Axis, upright: &Axis) {
        let (bottom, right) = (HEIGHT - BOTTOM, WIDTH - RIGHT);
        let upright_line = self.at.map(|at| (along.x(at), along.x(at), TOP, bottom));
        let level_line = self
            .value
            .map(|v| (LEFT, right, upright.y(v), upright.y(v)));
        for (x1, x2, y1, y2) in upright_line.into_iter().chain(level_line) {
            let _ = writeln!(
                out,
                "<line class=\"limit\" x1=\"{x1:.1}\" x2=\"{x2:.1}\" y1=\"{y1:.1}\" y2=\"{y2:.1}\"/>"
            );
        }
    }
}

impl Points {
    fn draw(&self, out: &mut String, along: &Axis, upright: &Axis) {
        let colour = colour(self.series);
        let place = |point: &Point| (along.x(point.at), upright.y(point.value));
        let places = shown(&self.points).map(place);
        let joined: Vec<String> = places.map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let _ = writeln!(
            out,
            "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\" points=\"{}\"/>",
            joined.join(" ")
        );
        for point in shown(&self.points) {
            let (x, y) = place(point);
            let fill = if point.is_filled { colour } else { "Canvas" };
            let _ = writeln!(
                out,
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\" fill=\"{fill}\" stroke=\"{colour}\" stroke-width=\"1.5\"/>"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(at: f64, value: f64) -> Point {
        Point {
            at,
            value,
            is_filled: at < 200.0,
        }
    }

    /// The numbers of an attribute, in order.
    fn numbers(svg: &str, attribute: &str) -> Vec<f64> {
        let attribute = format!(" {attribute}=\"");
        let parts = svg.split(&attribute).skip(1);
        parts
            .map(|part| part.split('"').next().unwrap().parse().unwrap())
            .collect()
    }

    #[test]
    fn points_lie_where_their_values_are() {
        let points = [(100.0, 10.0), (150.0, 100.0), (200.0, 1000.0)].map(|(x, y)| point(x, y));
        let curve = Points {
            series: 1,
            points: points.to_vec(),
        };
        let marks = Marks {
            at: Some(150.0),
            value: Some(100.0),
        };
        let svg = over_values("us", "a second", &[curve], marks);
        let (x, y) = (numbers(&svg, "cx"), numbers(&svg, "cy"));
        assert!((x[1] - x[0] - (x[2] - x[1])).abs() < 0.2, "{x:?}");
        // A tenth each, on a logarithmic axis, and higher is less.
        assert!(
            (y[0] - y[1] - (y[1] - y[2])).abs() < 0.2 && y[0] > y[1],
            "{y:?}"
        );
        assert_eq!(svg.matches("fill=\"Canvas\"").count(), 1);
        let limits: Vec<&str> = svg
            .lines()
            .filter(|line| line.contains("\"limit\""))
            .collect();
        assert_eq!(limits.len(), 2);
        assert_eq!(numbers(limits[0], "x1"), [x[1]]);
        assert_eq!(numbers(limits[1], "y1"), [y[1]]);
        assert!(svg.contains(">a second<"));
    }

    #[test]
    fn curves_of_nothing_are_figures_too() {
        let nothing = Points {
            series: 0,
            points: vec![point(0.0, 0.0)],
        };
        for curves in [&[][..], &[nothing]] {
            let svg = over_values("us", "a<b", curves, Marks::default());
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
            assert!(svg.contains("a&lt;b") && !svg.contains("<circle"));
        }
    }
}
