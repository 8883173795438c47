//! The page of a peak: how times grow with the rate, each step, and the load at the peak.

use std::fmt::Write as _;

use exos_program::figure::{self, Marks, Point, Points, number};
use exos_program::html::{self, escape, table};

use super::result::Peak;
use super::step::Step;
use crate::report::POINTS;

/// How the figure is to be read.
const MEANING: &str = "Each point is a load of its own at that rate, the last where one was made again; hollow ones are of steps that do not hold: times are beyond the \
                       bound, requests failed, or fewer or more were begun than the rate says. The dashed lines are the bound and the \
                       peak. Total times begin when requests were meant to begin.";

/// Percentiles that the figure shows, by their names, with the colours that they have elsewhere.
const SHOWN: [(usize, &str); 4] = [(0, "p50"), (4, "p90"), (1, "p99"), (3, "max")];

impl Peak {
    /// The page.
    pub(super) fn page(&self) -> String {
        let title = format!("exos load --find-peak {} {}", self.bound, self.url);
        let mut body = format!("<h1>{}</h1>\n", escape(&title));
        let _ = writeln!(body, "<p>{}.</p>", escape(&self.found()));
        if self.is_unfinished {
            body.push_str("<p>The search was ended before it was over.</p>\n");
        }
        self.figure(&mut body);
        self.table(&mut body);
        if let Some(results) = &self.results {
            let rate = number(self.rate.unwrap_or(0.0));
            let _ = writeln!(body, "<h1>The load at the peak, {rate} requests/s</h1>");
            results.sections(&mut body);
        }
        html::page(&title, &body)
    }

    fn figure(&self, out: &mut String) {
        let _ = write!(out, "<h2>Times by rate</h2>\n<p>{MEANING}</p>\n");
        out.push_str(&figure::legend(SHOWN));
        let steps = self.deciding();
        let curves = SHOWN.map(|(series, name)| Points {
            series,
            points: steps.iter().filter_map(|step| point(step, name)).collect(),
        });
        let marks = Marks {
            at: self.rate,
            value: Some(self.bound.most_us()),
        };
        out.push_str(&figure::over_values(
            "total time",
            "requests a second",
            &curves,
            marks,
        ));
    }

    fn table(&self, out: &mut String) {
        out.push_str("<h2>Steps</h2>\n");
        let head: Vec<&str> = ["requests/s", ""]
            .into_iter()
            .chain(POINTS.map(|(name, _)| name))
            .chain(["requests", "errors", "we busy", "limited by"])
            .collect();
        let rows = self.by_rate().into_iter().map(|step| {
            let mut row = vec![format!("{:.1}", step.rate), step.judgement().to_owned()];
            row.extend(POINTS.map(|(name, _)| step.total(name)));
            row.extend([
                step.requests.to_string(),
                step.errors.to_string(),
                format!("{:.0} %", 100.0 * step.busy_share),
                step.limited_by.to_string(),
            ]);
            row
        });
        out.push_str(&table(&head, rows));
    }
}

fn point(step: &Step, name: &str) -> Option<Point> {
    Some(Point {
        at: step.rate,
        value: step.total_us[name]? as f64,
        is_filled: step.holds,
    })
}

#[cfg(test)]
mod tests {
    use super::super::step::tests::step;
    use super::super::tests::peak;
    use crate::report::tests::results;

    #[test]
    fn a_page_that_stands_by_itself() {
        let mut it = peak();
        it.url = "http://h/<script>".to_owned();
        it.results = Some(results(1e9, 500));
        let html = it.page();
        // The curve of the steps, and the three figures of the load at the peak.
        assert_eq!(html.matches("<svg").count(), 4);
        assert!(html.contains("p99&lt;5ms up to 100.0 requests/s"));
        assert!(html.contains("does not hold") && html.contains("nobody"));
        assert!(
            html.contains("coordinated omission"),
            "the load at the peak"
        );
        assert!(html.contains("&lt;script&gt;") && !html.contains("<script"));
        assert!(!html.contains("NaN") && !html.contains(">inf"));
        it.steps.insert(0, step(200.0, false));
        assert_eq!(
            it.page().matches("<circle").count(),
            6,
            "of two tries the last"
        );
        // Two steps with three of the four percentiles, one of which holds.
        assert_eq!(html.matches("<circle").count(), 6);
        assert_eq!(html.matches("fill=\"Canvas\"").count(), 3);
        assert_eq!(html.matches("class=\"limit\"").count(), 2);
        assert!(!html.contains(" src=") && !html.contains(" href=") && !html.contains("@import"));
    }

    #[test]
    fn no_rate_has_a_page_too() {
        let mut it = peak();
        (it.rate, it.is_unfinished) = (None, true);
        it.steps.clear();
        let html = it.page();
        assert_eq!(html.matches("<svg").count(), 1);
        assert!(html.contains("at no rate") && html.contains("ended before it was over"));
        assert!(!html.contains("NaN") && !html.contains(">inf"));
    }
}
