//! Latency at a given rate.

use super::{connections, table};
use crate::experiment::http::{LatencyCase, LatencyOutcome, Report, Size};
use exos_program::figure::{self, number};
use exos_program::html::escape;
use std::fmt::Write as _;

impl Report {
    pub(super) fn figure_latency(&self, out: &mut String) {
        if self.latency.is_empty() {
            return;
        }
        *out += "<h2>Latency at half of nginx's highest rate</h2>\n<p>From when each request was meant to begin, whether \
                 or not a connection was free then.</p>\n";
        *out += &figure::legend(self.series());
        for case in &self.latency {
            let curves: Vec<_> = case.results.iter().map(|r| r.curve_us.clone()).collect();
            let title = format!(
                "{}, {}, {} requests a second",
                connections(case.connection),
                Size::of_bytes(case.size_bytes),
                number(case.rate_per_sec)
            );
            let svg =
                figure::distributions("time that this part of all requests took at most", &curves);
            let _ = write!(out, "<h3>{}</h3>\n{svg}", escape(&title));
        }
        let rows = self.latency.iter().flat_map(latency_rows);
        *out += &table(
            &[
                "connections",
                "server",
                "p50 µs",
                "p99 µs",
                "p99.9 µs",
                "longest µs",
                "not answered, errors",
            ],
            rows,
        );
    }
}

fn latency_rows(case: &LatencyCase) -> Vec<Vec<String>> {
    let row = |r: &LatencyOutcome| {
        let at = |share: f64| {
            let found = r.curve_us.iter().find(|(s, _)| *s == share);
            found.map_or(String::new(), |(_, us)| number(*us))
        };
        vec![
            connections(case.connection).to_owned(),
            r.server.clone(),
            at(50.0),
            at(99.0),
            at(99.9),
            at(100.0),
            (r.unanswered + r.errors).to_string(),
        ]
    };
    case.results.iter().map(row).collect()
}
