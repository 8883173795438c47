//! A page that needs nothing else: figures over time and of the distribution, and tables.

use std::fmt::Write as _;

use exos_program::figure::{self, Curve, Unit, number};
use exos_program::html::{escape, page, table};
use exos_program::zone;
use jiff::Timestamp;

use super::distribution::{Distribution, POINTS};
use super::numbers::micros;
use super::results::{Generator, Results};
use super::traffic::Traffic;
use super::verdict::Verdict;
use crate::statistics::{Second, Tls};

/// How the two times are to be read.
const OMISSION: &str = "Total times begin when requests were meant to begin, service times when they could. A server that stands \
                        still keeps requests from beginning, and service times do not tell of these (coordinated omission): where \
                        the two curves part, requests waited before they began. In a closed loop nobody means a request to begin \
                        before the one before it has ended, and the curves are one.";

/// Shares at which the curve of a distribution has points, beside those that the figure marks.
const CURVE_POINTS: u32 = 200;

impl Results {
    /// The page.
    pub fn html(&self) -> String {
        let urls: Vec<&str> = self.generators.iter().map(|g| g.url.as_str()).collect();
        let mut urls = urls;
        urls.dedup();
        let title = format!("exos load {}", urls.join(", "));
        let mut body = format!("<h1>{}</h1>\n", escape(&title));
        self.sections(&mut body);
        page(&title, &body)
    }

    /// What is on the page below its title.
    pub(crate) fn sections(&self, out: &mut String) {
        self.origin(out);
        self.summary(out);
        self.over_time(out);
        self.distribution(out);
        self.counts(out);
        self.traffic(out);
        self.parameters(out);
    }

    /// When, from where, to what and how: a line for each generator.
    fn origin(&self, out: &mut String) {
        for generator in &self.generators {
            let Generator {
                host,
                address,
                url,
                command,
                ..
            } = generator;
            let began = date_and_time(generator.started_unix_secs as i64);
            let from = if host.is_empty() {
                String::new()
            } else {
                format!(", from {}", escape(host))
            };
            let (address, url) = (escape(address), escape(url));
            let _ = writeln!(out, "<p>{began}{from}, to {url} at {address}</p>");
            if !command.is_empty() {
                let _ = writeln!(out, "<p><code>{}</code></p>", escape(command));
            }
        }
    }

    fn summary(&self, out: &mut String) {
        let verdict = Verdict::of(self).text();
        let lines = [
            format!(
                "{} requests/s, {:.2} MB/s of responses ({:.2} of content), {} connections/s, measured for {:.2} s; {} errors.",
                number(self.per_second(self.responses)),
                self.per_second(self.response_bytes) / 1e6,
                self.per_second(self.content_bytes) / 1e6,
                number(self.per_second(self.connections)),
                self.measured_secs,
                self.errors_all()
            ),
            format!("{}{}.", verdict[..1].to_uppercase(), &verdict[1..]),
        ];
        let tls = self.tls.as_ref().map(Tls::text);
        let http2 = self.http2.as_ref().map(|it| it.text(2));
        let http3 = self.http3.as_ref().map(|it| it.text(3));
        let rest = [
            tls,
            http2,
            http3,
            self.bad_checksums_text(),
            self.log_text(),
        ]
        .into_iter();
        let rest = rest.flatten().map(|line| line + ".");
        for line in lines.into_iter().chain(rest) {
            let _ = writeln!(out, "<p>{}</p>", escape(&line));
        }
    }

    fn over_time(&self, out: &mut String) {
        if self.seconds.is_empty() {
            // It took less than one.
            return;
        }
        let curve = |series: usize, of: fn(&Second) -> Option<f64>| Curve {
            series,
            values: self.seconds.iter().map(of).collect(),
        };
        out.push_str("<h2>Requests a second</h2>\n");
        out.push_str(&figure::legend([(2, "answered"), (3, "failed")]));
        let rates = [
            curve(2, |s| Some(s.responses as f64)),
            curve(3, |s| Some(s.errors as f64)),
        ];
        out.push_str(&figure::over_time(
            "requests a second",
            Unit::Count,
            &rates,
            false,
        ));
        out.push_str("<h2>Total times, second by second</h2>\n");
        out.push_str(&figure::legend([
            (0, "p50"),
            (4, "p90"),
            (1, "p99"),
            (3, "max"),
        ]));
        let times = [
            curve(0, |s| (s.responses > 0).then_some(s.median as f64)),
            curve(4, |s| (s.responses > 0).then_some(s.p90 as f64)),
            curve(1, |s| (s.responses > 0).then_some(s.p99 as f64)),
            curve(3, |s| (s.responses > 0).then_some(s.max as f64)),
        ];
        out.push_str(&figure::over_time("total time", Unit::Micros, &times, true));
        if self.warm_up_secs > 0.0 {
            let _ = writeln!(
                out,
                "<p>The first {:.1} s are the warm-up, which counts nowhere else.</p>",
                self.warm_up_secs
            );
        }
    }

    fn distribution(&self, out: &mut String) {
        let _ = write!(out, "<h2>How long requests took</h2>\n<p>{OMISSION}</p>\n");
        out.push_str(&figure::legend([(0, "total"), (1, "service")]));
        let curves = [
            curve_of(&self.times_us.total),
            curve_of(&self.times_us.service),
        ];
        out.push_str(&figure::distributions(
            "time that this part of all requests took at most",
            &curves,
        ));
        let head: Vec<&str> = ["", "count", "mean"]
            .into_iter()
            .chain(POINTS.map(|(name, _)| name))
            .collect();
        let measured = self.times_us.measured();
        let rows = measured.map(|(name, times)| {
            let mut row = vec![
                name.replace('_', " "),
                times.0.len().to_string(),
                time(times.0.mean().round() as u64),
            ];
            row.extend(POINTS.map(|(_, quantile)| time(times.at(quantile).unwrap_or(0))));
            row
        });
        out.push_str(&table(&head, rows));
    }

    fn counts(&self, out: &mut String) {
        out.push_str("<h2>Responses and errors</h2>\n");
        let all = self.requests().max(1) as f64;
        let row = |name: String, count: u64| {
            vec![
                name,
                count.to_string(),
                format!("{:.3} %", 100.0 * count as f64 / all),
            ]
        };
        let statuses = self
            .statuses
            .iter()
            .map(|(status, count)| row(format!("status {status}"), *count));
        let errors = self
            .errors
            .iter()
            .map(|(kind, count)| row(kind.replace('_', " "), *count));
        out.push_str(&table(&["", "requests", "of all"], statuses.chain(errors)));
    }

    fn traffic(&self, out: &mut String) {
        let Some(traffic) = Traffic::of(self) else {
            return;
        };
        out.push_str("<h2>What went over the link</h2>\n");
        let rows = traffic.rows().into_iter();
        let rows = rows.map(|(name, count)| vec![name.to_owned(), count.to_string()]);
        out.push_str(&table(&["", ""], rows));
        out.push_str("<p>Of the whole load, its warm-up and its end included.</p>\n");
    }

    fn parameters(&self, out: &mut String) {
        out.push_str("<h2>Who made the load</h2>\n");
        for generator in &self.generators {
            let known = generator
                .parameters
                .iter()
                .filter(|(_, value)| !value.is_null());
            let known = known.map(|(name, value)| vec![name.replace('_', " "), value.to_string()]);
            let own = [
                (
                    "server",
                    format!("{} at {}", generator.url, generator.address),
                ),
                ("began", date_and_time(generator.started_unix_secs as i64)),
                ("responses", generator.responses.to_string()),
                ("busy", generator.busy_text()),
                ("processor", format!("{:.2} s", generator.processor_secs)),
            ];
            let own = own.map(|(name, value)| vec![name.to_owned(), value]);
            out.push_str(&table(&["", ""], own.into_iter().chain(known)));
        }
    }
}

/// A time, with the unit's own sign.
fn time(us: u64) -> String {
    micros(us).replace(" us", " µs")
}

/// Local time and how it differs from UTC, as `2026-11-24 12:39:58 +0100`.
fn date_and_time(utc_secs: i64) -> String {
    let time = Timestamp::from_second(utc_secs).unwrap_or_default();
    let local = time.to_zoned(zone::local());
    local.strftime("%Y-%m-%d %H:%M:%S %z").to_string()
}

/// Points `[percent, value]`, closer the nearer the tail's end is.
fn curve_of(times: &Distribution) -> Vec<(f64, f64)> {
    let points =
        (0..=CURVE_POINTS).map(|n| 1.0 - 10f64.powf(-4.3 * f64::from(n) / f64::from(CURVE_POINTS)));
    let point = |quantile: f64| Some((100.0 * quantile, times.at(quantile)? as f64));
    points.filter_map(point).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::results;
    use super::*;

    #[test]
    fn a_page_that_stands_by_itself() {
        let mut it = results(1e9, 500);
        it.generators[0].url = "http://h/<script>".to_owned();
        let html = it.html();
        assert_eq!(html.matches("<svg").count(), 3);
        assert!(html.contains("&lt;script&gt;") && !html.contains("<script"));
        assert!(html.contains("coordinated omission") && html.contains("Limited by the server"));
        assert!(html.contains("What went over the link") && html.contains("packets sent"));
        assert!(html.contains("status 404") && html.contains(">reset<"));
        assert!(!html.contains("NaN") && !html.contains(">inf"));
        assert!(!html.contains("checksum"));
        it.counters.insert("drop_tcp_checksum".to_owned(), 3);
        assert!(it.html().contains("3 packets came with a wrong checksum"));
        // When, from where, how; and marks with units.
        assert!(
            html.contains("2001-09-0")
                && html.contains(", from loader, to http://h/&lt;script&gt; at 10.0.0.1:80")
        );
        assert!(html.contains("<code>exos load http://10.0.0.1/a</code>"));
        assert!(html.contains(">500 µs<") && !html.contains(">µs"));
        // Nothing is fetched from anywhere.
        assert!(!html.contains(" src=") && !html.contains(" href=") && !html.contains("@import"));
    }

    #[test]
    fn a_load_without_a_response_has_a_page_too() {
        let mut it = results(1e9, 500);
        (it.responses, it.measured_secs) = (0, 0.0);
        it.times_us.total.0.reset();
        it.times_us.service.0.reset();
        it.seconds.clear();
        let html = it.html();
        assert!(!html.contains("NaN") && !html.contains(">inf"));
        assert_eq!(html.matches("<svg").count(), 1, "no whole second");
    }

    #[test]
    fn the_tail_of_a_curve() {
        let times = &results(1e9, 500).times_us.total;
        let curve = curve_of(times);
        assert_eq!((curve.len(), curve[0].0), (201, 0.0));
        assert!(curve.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1));
        assert!(curve[200].0 > 99.99);
    }
}
