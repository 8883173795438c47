//! The summary for people.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::distribution::{Distribution, POINTS};
use super::numbers::{add_counts, micros};
use super::results::{Generator, Results};
use super::traffic::Traffic;
use super::verdict::Verdict;

/// What the two ends of a time mean, where they differ.
const MEANING: &str = "total: from when a request was meant to begin; service: from when it began, which hides what waited before it\n";
/// What the two ends of a time mean, where they are one.
const MEANING_CLOSED: &str = "total is service: a closed loop means no request to begin before the one before it has ended\n";

/// Of a load whose requests, or whose time, were over before anything counted.
const NOTHING_MEASURED: &str = "nothing was measured: the load ended before its warm-up did\n";

/// Characters of the longest bar.
const BAR_WIDTH: usize = 40;

impl Results {
    /// A summary.
    pub fn text(&self) -> String {
        let mut text = format!(
            "{:.0} requests/s, {:.2} MB/s of responses ({:.2} of content), {:.0} connections/s, measured for {:.2} s\n",
            self.per_second(self.responses),
            self.per_second(self.response_bytes) / 1e6,
            self.per_second(self.content_bytes) / 1e6,
            self.per_second(self.connections),
            self.measured_secs,
        );
        let _ = writeln!(text, "{} responses{}", self.responses, self.statuses_text());
        let errors = self.errors.iter();
        let errors: String = errors
            .map(|(kind, count)| format!(", {count} {}", kind.replace('_', " ")))
            .collect();
        let all = self.errors_all();
        let word = if all == 1 { "error" } else { "errors" };
        let _ = writeln!(text, "{all} {word}{errors}");
        text.extend(self.tls.as_ref().map(|tls| tls.text() + "\n"));
        text.extend(self.http2.as_ref().map(|it| it.text(2) + "\n"));
        text.extend(self.http3.as_ref().map(|it| it.text(3) + "\n"));
        text.extend(self.bad_checksums_text().map(|line| line + "\n"));
        text.extend(self.log_text().map(|line| line + "\n"));
        if self.measured_secs == 0.0 {
            text.push_str(NOTHING_MEASURED);
        }
        let _ = writeln!(text, "{}", Verdict::of(self).text());
        text.push_str(&self.table());
        if !self.times_us.total.0.is_empty() {
            let differ = self.times_us.total != self.times_us.service;
            text.push_str(if differ { MEANING } else { MEANING_CLOSED });
            text.push('\n');
            text.push_str(&bars(&self.times_us.total));
            text.push('\n');
        }
        text.extend(Traffic::of(self).map(|traffic| traffic.text()));
        text.push_str(&self.effort_text());
        text
    }

    fn effort_text(&self) -> String {
        let processor: f64 = self.generators.iter().map(|g| g.processor_secs).sum();
        let each: String = self.generators.iter().map(Generator::cores_text).collect();
        format!(
            "we were busy for {:.0} % of the time{each}, and used a processor for {processor:.2} s\n",
            100.0 * self.busy_share()
        )
    }

    /// What is said of damaged packets, when there were any.
    pub(super) fn bad_checksums_text(&self) -> Option<String> {
        let count = self.bad_checksums().filter(|&count| count > 0)?;
        Some(format!(
            "{count} packets came with a wrong checksum, and were dropped"
        ))
    }

    /// What of logs was not asked for, where one was replayed; the logs of several generators together.
    pub(super) fn log_text(&self) -> Option<String> {
        let logs = || self.generators.iter().filter_map(|g| g.log.as_ref());
        let (mut requests, mut begun) = (0, 0);
        let mut left_out = BTreeMap::new();
        for log in logs() {
            (requests, begun) = (requests + log.requests, begun + log.begun);
            add_counts(&mut left_out, &log.left_out);
        }
        let reasons = left_out
            .iter()
            .map(|(why, count)| format!("{count} by {why}"));
        let reasons: Vec<String> = reasons.collect();
        let lines: u64 = left_out.values().sum();
        let mut text = format!("{begun} of the log's {requests} requests were begun");
        if lines > 0 {
            let _ = write!(
                text,
                "; {lines} lines were left out ({})",
                reasons.join(", ")
            );
        }
        logs().next().map(|_| text)
    }

    /// By class; a class of one code by that.
    fn statuses_text(&self) -> String {
        let mut text = String::new();
        for class in 0..6 {
            let codes: Vec<_> = self
                .statuses
                .range(class * 100..(class + 1) * 100)
                .collect();
            let of = |(code, count): &(&u16, &u64)| format!("{count} of {code}");
            let each: Vec<String> = codes.iter().map(of).collect();
            let _ = match &each[..] {
                [] => Ok(()),
                [one] => write!(text, ", {one}"),
                _ => {
                    let all: u64 = codes.iter().map(|(_, count)| **count).sum();
                    write!(text, ", {all} of {class}xx ({})", each.join(", "))
                }
            };
        }
        text
    }

    fn table(&self) -> String {
        let mut text = format!("\n{:11}{:>10}", "", "mean");
        for (name, _) in POINTS {
            let _ = write!(text, "{name:>10}");
        }
        text.push('\n');
        let measured = self.times_us.measured();
        for (name, times) in measured {
            let _ = write!(
                text,
                "{:<11}{:>10}",
                name.replace('_', " "),
                micros(times.0.mean().round() as u64)
            );
            for (_, quantile) in POINTS {
                let _ = write!(text, "{:>10}", micros(times.at(quantile).unwrap_or(0)));
            }
            text.push('\n');
        }
        text
    }
}

/// Ends of ranges of times: 1, 2, 5, 10, ... microseconds.
fn edges() -> impl Iterator<Item = u64> {
    (0..10).flat_map(|power| [1, 2, 5].map(|digit| digit * 10u64.pow(power)))
}

/// How many took how long, a bar for each range between the shortest and the longest.
fn bars(times: &Distribution) -> String {
    let histogram = &times.0;
    let mut from = 0;
    let mut ranges = Vec::new();
    for edge in edges() {
        let is_within = edge >= histogram.min() && from <= histogram.max();
        if is_within {
            ranges.push((edge, histogram.count_between(from, edge)));
        }
        from = edge + 1;
    }
    let most = ranges
        .iter()
        .map(|(_, count)| *count)
        .max()
        .unwrap_or(0)
        .max(1);
    let mut text = String::new();
    for (edge, count) in ranges {
        let share = 100.0 * count as f64 / histogram.len().max(1) as f64;
        let _ = writeln!(
            text,
            "{:>13} {:<BAR_WIDTH$} {share:>7.3} %",
            format!("<= {}", edge_text(edge)),
            bar(count, most)
        );
    }
    text
}

fn edge_text(edge: u64) -> String {
    match edge {
        0..1000 => format!("{edge} us"),
        1000..1_000_000 => format!("{} ms", edge / 1000),
        _ => format!("{} s", edge / 1_000_000),
    }
}

/// In eighths of a character; what is there at all is seen.
fn bar(count: u64, most: u64) -> String {
    let eighths = (count as f64 / most as f64 * 8.0 * BAR_WIDTH as f64).round() as usize;
    let eighths = eighths.max(usize::from(count > 0));
    let rest = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"][eighths % 8];
    "█".repeat(eighths / 8) + rest
}

#[cfg(test)]
mod tests {
    use super::super::tests::results;
    use super::*;
    use crate::driver::replay::Extent;
    use crate::statistics::histogram;

    #[test]
    fn a_summary() {
        let mut it = results(1e9, 500);
        it.statuses.insert(403, 2);
        let text = it.text();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[0],
            "100 requests/s, 0.01 MB/s of responses (0.00 of content), 100 connections/s, measured for 9.00 s"
        );
        assert_eq!(
            lines[1],
            "900 responses, 891 of 200, 11 of 4xx (2 of 403, 9 of 404)"
        );
        assert_eq!(lines[2], "1 error, 1 reset");
        assert!(lines[3].starts_with("limited by the server: "), "{text}");
        assert!(text.contains("total is service"));
        assert!(!text.contains("checksum"), "{text}");
        it.counters.insert("drop_tcp_checksum".to_owned(), 3);
        it.counters.insert("drop_ipv4_checksum".to_owned(), 1);
        let damaged = "4 packets came with a wrong checksum, and were dropped";
        assert_eq!(it.text().lines().nth(3), Some(damaged));
        let mut late = histogram();
        late.record_n(9000, 900).unwrap();
        it.times_us.total.0 = late;
        assert!(it.text().contains("which hides what waited"));
    }

    #[test]
    fn what_was_not_asked_for() {
        let log = |begun, left_out: &[(&str, u64)]| {
            let left_out = left_out.iter().map(|(why, n)| ((*why).to_owned(), *n));
            Some(Extent {
                requests: 1000,
                begun,
                left_out: left_out.collect(),
            })
        };
        let mut it = results(1e9, 500);
        assert_eq!(it.log_text(), None);
        it.generators[0].log = log(900, &[]);
        let whole = "900 of the log's 1000 requests were begun";
        assert_eq!(it.text().lines().nth(3), Some(whole));
        it.generators.push(it.generators[0].clone());
        it.generators[0].log = log(1000, &[("format", 2), ("target", 1)]);
        it.generators[1].log = log(500, &[("format", 1)]);
        assert_eq!(
            it.log_text().unwrap(),
            "1500 of the log's 2000 requests were begun; 4 lines were left out (3 by format, 1 by target)"
        );
        assert_eq!(Results::from_json(&it.json()).unwrap(), it);
    }

    #[test]
    fn bars_are_as_long_as_they_are_many() {
        let mut histogram = histogram();
        for (value, count) in [(60, 40), (150, 10), (1900, 1)] {
            histogram.record_n(value, count).unwrap();
        }
        let text = bars(&Distribution(histogram));
        let rows: Vec<(&str, usize)> = text
            .lines()
            .map(|row| {
                (
                    row.split('█').next().unwrap().trim(),
                    row.matches('█').count(),
                )
            })
            .collect();
        assert_eq!(rows[0], ("<= 100 us", 40));
        assert_eq!(rows[1], ("<= 200 us", 10));
        assert_eq!(rows.len(), 5, "{text}");
        assert!(text.lines().nth(2).unwrap().ends_with(" 0.000 %"));
        assert!(text.lines().last().unwrap().contains('█'), "{text}");
        assert_eq!(
            (bar(0, 10), bar(1, 1_000_000)),
            (String::new(), "▏".to_owned())
        );
    }
}
