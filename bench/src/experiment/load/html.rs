//! What was measured as a page of HTML that needs nothing else: the paper's Figure 6, what a request costs a generator, and
//! a table of everything.

use super::table::PEERS;
use super::{Case, Outcome, Report};
use crate::experiment::http::{Size, connections};
use crate::report::Ratio;
use exos_program::figure::{self, Bar, Bars, number};
use exos_program::html::{escape, page, table};
use std::fmt::Write as _;

/// How the numbers are to be read.
const READING: &str = "This is Figure 6 of the paper. Bars are requests a second by those of --sockets in the same run, then \
     the median over the runs; the numbers above are requests a second. The dashed line across a group is what the link \
     could carry of the frames of such a visit, were nobody to look at them.";

/// The same of the times.
const READING_COST: &str = "Bars are how long the generator's side was busy for a request, by the same of --sockets; the \
     numbers above are microseconds. Where a generator has time left, this tells what it could do with a faster server. \
     The kernel delivers packets in the time of the one that sends them, so a part of what the server receives is in here, \
     and a part of what the generator receives is not.";

impl Report {
    /// The page.
    pub(in crate::experiment::load) fn page(&self) -> String {
        let mut out = format!(
            "<h1>Load generators</h1>\n{}",
            self.setting.html(&self.versions())
        );
        let baseline = |case: &Case| case.result(PEERS[0]).is_some();
        if self.cases.iter().any(baseline) {
            let _ = write!(out, "<h2>Requests a second</h2>\n<p>{READING}</p>\n");
            out += &figure::legend(self.series());
            self.figures(
                &mut out,
                |result| result.requests_per_sec,
                |case| Some(case.packet_limit_per_sec),
            );
            let _ = write!(
                out,
                "<h2>What a request costs the generator</h2>\n<p>{READING_COST}</p>\n"
            );
            out += &figure::legend(self.series());
            self.figures(&mut out, |result| result.generator_us_per_request, |_| None);
        }
        out += "<h2>Everything</h2>\n<p>Busy: part of the time that generator and server had something to do.</p>\n";
        out += &table(&COLUMNS, self.cases.iter().flat_map(rows));
        page("exos bench load", &out)
    }

    /// The generators, by their numbers, which have the same colours in all figures.
    fn series(&self) -> impl Iterator<Item = (usize, &str)> {
        let generators = self.generators.iter().enumerate();
        generators.map(|(at, generator)| (at, generator.name.as_str()))
    }

    /// A figure for each server and kind of connection, with a group for each size: a value of each generator by that of
    /// the baseline.
    fn figures(
        &self,
        out: &mut String,
        value: fn(&Outcome) -> f64,
        line: fn(&Case) -> Option<f64>,
    ) {
        let group = |case: &Case| {
            let baseline = case.result(PEERS[0]).map(value);
            let bar = |(series, name): (usize, &str)| {
                let value = value(case.result(name)?);
                let by_baseline = value / baseline?;
                Some(Bar {
                    series,
                    value: by_baseline,
                    text: number(value),
                })
            };
            Bars {
                name: Size::of_bytes(case.size_bytes).to_string(),
                bars: self.series().map(bar).collect(),
                line: baseline.and_then(|baseline| Some(line(case)? / baseline)),
            }
        };
        for cases in self.cases.chunk_by(|a, b| kind(a) == kind(b)) {
            let title = escape(&kind(&cases[0]));
            let bars = figure::bars(
                "by --sockets",
                &cases.iter().map(group).collect::<Vec<_>>(),
                1.0,
            );
            let _ = write!(out, "<h3>{title}</h3>\n{bars}");
        }
    }
}

fn kind(case: &Case) -> String {
    format!("{}, {}", case.server, connections(case.connection))
}

const COLUMNS: [&str; 11] = [
    "server, connections",
    "size",
    "generator",
    "requests/s",
    "of packet limit",
    "generator µs",
    "server µs",
    "busy",
    "limited by",
    "errors",
    "× --sockets, × wrk",
];

fn rows(case: &Case) -> Vec<Vec<String>> {
    let percent = |part: f64| format!("{:.0} %", 100.0 * part);
    let row = |r: &Outcome| {
        let busy = [r.generator_busy, r.server_busy].map(percent);
        let ratios = PEERS.map(|peer| {
            let found = Ratio::find(&case.rate_ratios, &r.generator, peer);
            found.map_or("-".to_owned(), |ratio| {
                format!(
                    "{} ({} to {})",
                    number(ratio.median),
                    number(ratio.least),
                    number(ratio.most)
                )
            })
        });
        vec![
            kind(case),
            Size::of_bytes(case.size_bytes).to_string(),
            r.generator.clone(),
            number(r.requests_per_sec),
            percent(r.of_packet_limit),
            number(r.generator_us_per_request),
            number(r.server_us_per_request),
            busy.join(" / "),
            r.limited_by.to_owned(),
            r.errors.to_string(),
            ratios.join(", "),
        ]
    };
    case.results.iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use crate::experiment::load::Generator;
    use crate::experiment::load::report::tests::report;
    use crate::report::Results as _;

    #[test]
    fn the_page_has_two_figures_for_each_kind_and_needs_nothing_else() {
        let mut report = report();
        assert_eq!(
            report.html().matches("<svg").count(),
            0,
            "nothing to compare with"
        );
        report.generators[1].name = Generator::Sockets.to_string();
        report.cases[0].results[1].generator = Generator::Sockets.to_string();
        let html = report.html();
        assert_eq!(html.matches("<svg").count(), 2);
        assert!(
            html.contains("class=\"limit\""),
            "the packet limit as a line"
        );
        assert!(html.contains("exos, a connection for each request"));
        assert!(html.contains("&lt;x&gt;") && !html.contains("<x>"));
        for elsewhere in ["http://", "https://", "<script", "src=", "@import", "url("] {
            assert!(!html.contains(elsewhere), "{elsewhere}");
        }
    }
}
