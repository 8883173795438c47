//! Curves over time.

use std::fmt::Write as _;

use super::axis::{Axis, BOTTOM, HEIGHT, LEFT, RIGHT, TOP, Unit, WIDTH, colour, open};

/// Points that a figure has room for; of more, neighbours are joined to the highest of them.
const POINTS_MAX: usize = 700;

/// A curve: its series, which has a colour, and a value for each second.
pub struct Curve {
    /// Its series.
    pub series: usize,
    /// A value for each second; where there is none the curve has a gap.
    pub values: Vec<Option<f64>>,
}

/// Curves over seconds. On a logarithmic axis values of zero are gaps.
pub fn over_time(label: &str, unit: Unit, curves: &[Curve], logarithmic: bool) -> String {
    let values = || {
        let all = curves
            .iter()
            .flat_map(|curve| curve.values.iter().flatten());
        all.copied().filter(|value| !logarithmic || *value > 0.0)
    };
    let axis = Axis {
        least: if logarithmic {
            values().fold(f64::MAX, f64::min).min(1e9) * 0.8
        } else {
            0.0
        },
        most: values().fold(1.0, f64::max) * 1.15,
        logarithmic,
        unit,
    };
    let seconds = curves
        .iter()
        .map(|curve| curve.values.len())
        .max()
        .unwrap_or(0);
    let mut out = open(label);
    axis.lines(&mut out);
    let width = (WIDTH - LEFT - RIGHT) / seconds.max(1) as f64;
    // A value stands in the middle of its second.
    let place = |second: f64| LEFT + width * second;
    time_axis(&mut out, seconds, place);
    for curve in curves {
        let stroke = colour(curve.series);
        for part in parts(&curve.values, |value| !logarithmic || value > 0.0) {
            let point = |&(second, value): &(f64, f64)| {
                format!("{:.1},{:.1}", place(second + 0.5), axis.y(value))
            };
            let points: Vec<String> = part.iter().map(point).collect();
            let points = points.join(" ");
            // A second between gaps is a line of no length, which only round ends make visible.
            let _ = writeln!(
                out,
                "<polyline fill=\"none\" stroke=\"{stroke}\" stroke-width=\"2\" stroke-linecap=\"round\" points=\"{points}\"/>"
            );
        }
    }
    out + "</svg>\n"
}

/// Marks of whole seconds, some eight of them.
fn time_axis(out: &mut String, seconds: usize, place: impl Fn(f64) -> f64) {
    let steps = [
        1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21_600, 86_400,
    ];
    let step = steps
        .into_iter()
        .find(|step| seconds / step <= 8)
        .unwrap_or(86_400);
    for second in (0..=seconds).step_by(step) {
        let (x, y) = (place(second as f64), HEIGHT - BOTTOM + 18.0);
        let _ = writeln!(
            out,
            "<line class=\"grid\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP}\" y2=\"{:.1}\"/>\
             <text x=\"{x:.1}\" y=\"{y}\" text-anchor=\"middle\">{second} s</text>",
            HEIGHT - BOTTOM
        );
    }
}

/// Runs of values without gaps, as points.
fn parts(values: &[Option<f64>], is_shown: impl Fn(f64) -> bool) -> Vec<Vec<(f64, f64)>> {
    let joined = values.len().div_ceil(POINTS_MAX).max(1);
    let mut parts: Vec<Vec<(f64, f64)>> = vec![Vec::new()];
    for (at, some) in values.chunks(joined).enumerate() {
        let shown = some
            .iter()
            .flatten()
            .copied()
            .filter(|value| is_shown(*value));
        match shown.reduce(f64::max) {
            Some(value) => {
                let middle = (at * joined) as f64 + (some.len() - 1) as f64 / 2.0;
                parts
                    .last_mut()
                    .expect("there is one")
                    .push((middle, value));
            }
            None => parts.push(Vec::new()),
        }
    }
    parts.retain(|part| !part.is_empty());
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_part_a_curve() {
        let values = [Some(1.0), Some(2.0), None, Some(0.0), Some(3.0)];
        assert_eq!(
            parts(&values, |_| true),
            [vec![(0.0, 1.0), (1.0, 2.0)], vec![(3.0, 0.0), (4.0, 3.0)]]
        );
        let above = parts(&values, |value| value > 0.0);
        assert_eq!(above, [vec![(0.0, 1.0), (1.0, 2.0)], vec![(4.0, 3.0)]]);
    }

    /// However long it was, and no peak is lost.
    #[test]
    fn a_long_time_fits() {
        let mut values = vec![Some(1.0); 100_000];
        values[54_321] = Some(9.0);
        let parts = parts(&values, |_| true);
        assert_eq!(parts.len(), 1);
        assert!(parts[0].len() <= POINTS_MAX);
        assert_eq!(
            parts[0].iter().filter(|(_, value)| *value == 9.0).count(),
            1
        );
    }

    #[test]
    fn curves_of_nothing_are_figures_too() {
        for logarithmic in [false, true] {
            let nothing = over_time("us", Unit::Micros, &[], logarithmic);
            let empty = Curve {
                series: 0,
                values: vec![None, Some(0.0)],
            };
            for svg in [
                nothing,
                over_time("us", Unit::Micros, &[empty], logarithmic),
            ] {
                assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
            }
        }
        let curve = Curve {
            series: 2,
            values: vec![Some(5.0); 30],
        };
        let svg = over_time("a<b", Unit::Count, &[curve], true);
        assert_eq!(svg.matches("<polyline").count(), 1);
        assert!(svg.contains(colour(2)) && svg.contains("a&lt;b") && svg.contains(">30 s<"));
    }
}
