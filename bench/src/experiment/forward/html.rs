//! What was measured as a page of HTML that needs nothing else: the paper's Figure 7, what forwarding a request costs, and
//! a table of everything.

use super::table::PEER;
use super::{Case, Contender, Outcome, Report};
use crate::experiment::http::{Size, connections};
use crate::report::Ratio;
use exos_program::figure::{self, Bar, Bars, number};
use exos_program::html::{escape, page, table};
use std::fmt::Write as _;

/// How the numbers are to be read.
const READING: &str = "This is Figure 7 of the paper. Bars are requests a second by those of HAProxy, medians over the runs; the numbers \
     above are requests a second. The dashed line across a group is what client and server manage without anybody between \
     them: they share a core, and where a forwarder comes near it, it is they who limit.";

/// The same of the times.
const READING_COST: &str = "Bars are what both cores together needed for a request more than without a forwarder, by HAProxy's; the numbers above \
     are microseconds. This is what tells how much more a forwarder could do for faster clients and servers. Frames are delivered \
     in the time of who sends them, and a forwarder in the kernel works in that time alone: so the core of client and server is \
     looked at as well as the forwarder's.";

/// How the measurement was made.
const SETTING: &str = "Client, forwarder and server are three namespaces on a bridge; who forwards has a core for itself, client and server \
     have the other.";

impl Report {
    /// The page.
    pub(in crate::experiment::forward) fn page(&self) -> String {
        let mut out = String::from("<h1>Forwarders</h1>\n");
        let mut lines = vec![self.setting.title("Forwarding"), SETTING.to_owned()];
        lines.extend(self.versions());
        lines.extend(self.setting.remarks());
        for line in lines {
            let _ = writeln!(out, "<p>{}</p>", escape(&line));
        }
        if self.cases.iter().any(|case| case.result(PEER).is_some()) {
            let _ = write!(out, "<h2>Requests a second</h2>\n<p>{READING}</p>\n");
            out += &figure::legend(self.series());
            self.figures(
                &mut out,
                |result| Some(result.requests_per_sec),
                |case| {
                    let nobody = case.result(&Contender::Nobody.to_string())?;
                    Some(nobody.requests_per_sec)
                },
            );
            let _ = write!(
                out,
                "<h2>What forwarding a request costs</h2>\n<p>{READING_COST}</p>\n"
            );
            out += &figure::legend(self.series());
            self.figures(
                &mut out,
                |result| Some(result.forwarding_us_per_request?.max(0.0)),
                |_| None,
            );
        }
        out += "<h2>Everything</h2>\n";
        out += &table(&COLUMNS, self.cases.iter().flat_map(rows));
        page("exos bench forward", &out)
    }

    /// Those who forward, by their numbers, which have the same colours in all figures.
    fn series(&self) -> impl Iterator<Item = (usize, &str)> {
        let contenders = self.setting.servers.iter().enumerate();
        let named = contenders.map(|(at, contender)| (at, contender.name.as_str()));
        named.filter(|(_, name)| *name != Contender::Nobody.to_string())
    }

    /// A figure for each wire and kind of connection, with a group for each size: a value of each by that of the peer.
    fn figures(
        &self,
        out: &mut String,
        value: fn(&Outcome) -> Option<f64>,
        line: fn(&Case) -> Option<f64>,
    ) {
        let group = |case: &Case| {
            let baseline = case.result(PEER).and_then(value);
            let bar = |(series, name): (usize, &str)| {
                let value = value(case.result(name)?)?;
                Some(Bar {
                    series,
                    value: value / baseline?,
                    text: number(value),
                })
            };
            Bars {
                name: Size::of_bytes(case.size_bytes).to_string(),
                bars: self.series().map(bar).collect(),
                line: baseline.and_then(|baseline| Some(line(case)? / baseline)),
            }
        };
        let at_most = self.cases.iter().filter(|case| case.rate_per_sec.is_none());
        let at_most: Vec<&Case> = at_most.collect();
        for cases in at_most.chunk_by(|a, b| kind(a) == kind(b)) {
            let groups: Vec<Bars> = cases.iter().map(|case| group(case)).collect();
            let bars = figure::bars("by HAProxy", &groups, 1.0);
            let _ = write!(out, "<h3>{}</h3>\n{bars}", escape(&kind(cases[0])));
        }
    }
}

fn kind(case: &Case) -> String {
    let at = case
        .rate_per_sec
        .map_or(String::new(), |rate| format!(", {rate} requests/s"));
    format!("{} wire, {}{at}", case.wire, connections(case.connection))
}

const COLUMNS: [&str; 13] = [
    "wire, connections",
    "size",
    "forwarder",
    "requests/s",
    "MB/s",
    "packets/s",
    "cost µs",
    "core µs",
    "core busy",
    "limited by",
    "p50, p99 µs",
    "added µs",
    "× HAProxy: rate, cost",
];

fn rows(case: &Case) -> Vec<Vec<String>> {
    let row = |r: &Outcome| {
        let ratios = [&case.rate_ratios, &case.capacity_ratios].map(|of| {
            let found = Ratio::find(of, &r.contender, PEER);
            found.map_or("-".to_owned(), |ratio| {
                let [least, median, most] = [ratio.least, ratio.median, ratio.most].map(number);
                format!("{median} ({least} to {most})")
            })
        });
        vec![
            kind(case),
            Size::of_bytes(case.size_bytes).to_string(),
            r.contender.clone(),
            number(r.requests_per_sec),
            number(r.megabytes_per_sec),
            number(r.packets_per_sec),
            r.forwarding_us_per_request.map_or("-".to_owned(), number),
            number(r.forwarder_core_us_per_request),
            format!("{:.0} %", 100.0 * r.forwarder_core_busy),
            r.limited_by.to_owned(),
            [r.latency_p50_us, r.latency_p99_us].map(number).join(", "),
            r.added_p50_us.map_or("-".to_owned(), number),
            ratios.join(", "),
        ]
    };
    case.results.iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use crate::experiment::forward::report::tests::report;
    use crate::report::Results as _;

    #[test]
    fn the_page_has_two_figures_for_each_kind_and_needs_nothing_else() {
        let mut report = report();
        let html = report.html();
        assert_eq!(html.matches("<svg").count(), 2);
        assert!(html.contains("class=\"limit\""), "no forwarder, as a line");
        assert!(html.contains("plain wire, a connection for each request"));
        assert!(html.contains("haproxy &lt;1&gt;") && !html.contains("<1>"));
        for elsewhere in ["http://", "https://", "<script", "src=", "@import", "url("] {
            assert!(!html.contains(elsewhere), "{elsewhere}");
        }
        report.cases[0].rate_per_sec = Some(1000);
        assert_eq!(
            report.html().matches("<svg").count(),
            0,
            "rates that were asked for"
        );
    }
}
