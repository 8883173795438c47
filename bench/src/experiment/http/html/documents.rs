//! Documents as fast as they go.

use super::{table, title_of};
use crate::experiment::http::outcome::{Case, Outcome};
use crate::experiment::http::table::PEER;
use crate::experiment::http::{LimitCase, Report, Size};
use exos_program::figure::{self, Bar, Bars, number};
use exos_program::html::escape;
use std::fmt::Write as _;

/// How the numbers are to be read.
const READING: &str = "This is Figure 4 of the paper, ours over theirs. Bars are requests a second of ours by nginx's on the same wire, each ratio taken within one run, then the \
     median over the runs. The line at 1 is nginx; the dashed line across a group is what the link itself could do with \
     the frames of such a visit, were nobody to look at them (on the plain wire; super-packets, which large documents \
     leave as, may exceed it).";

/// The same of the times.
const READING_CPU: &str = "Bars are processor time of the server's processes for a request by nginx's, medians both; the numbers \
     above are microseconds. The kernel delivers packets in the time of the one that sends them, so part of receiving is the \
     client's time, and of what the client sends part is in here. What a busy server spends on waiting is in here too.";

impl Report {
    /// *Fast and Flexible*, Figure 4: a figure for each client, wire and kind of connection.
    pub(super) fn figure_documents(&self, out: &mut String) {
        let compared = |name: &str| self.documents.iter().any(|c| c.ratio(name, PEER).is_some());
        let ours: Vec<_> = self.series().filter(|(_, name)| compared(name)).collect();
        if ours.is_empty() {
            return;
        }
        let _ = write!(
            out,
            "<h2>Requests a second, ours by nginx's</h2>\n<p>{READING}</p>\n"
        );
        *out += &figure::legend(ours.iter().copied());
        self.figures(out, "times nginx", |case| {
            let bar = |&(series, name): &(usize, &str)| {
                let value = case.ratio(name, PEER)?.median;
                let text = number(value);
                Some(Bar {
                    series,
                    value,
                    text,
                })
            };
            Bars {
                name: Size::of_bytes(case.size_bytes).to_string(),
                bars: ours.iter().map(bar).collect(),
                line: self.limit_by_peer(case),
            }
        });
    }

    /// Processor time for a request, where there is somebody to compare it with.
    pub(super) fn figure_cpu(&self, out: &mut String) {
        let mut cases = self.documents.iter();
        if !cases.any(|case| result(case, PEER).is_some()) {
            return;
        }
        let _ = write!(
            out,
            "<h2>Processor time for a request</h2>\n<p>{READING_CPU}</p>\n"
        );
        *out += &figure::legend(self.series());
        self.figures(out, "by nginx's", |case| {
            let time = |name: &str| Some(result(case, name)?.server_cpu_us_per_request);
            let peer = time(PEER).filter(|us| *us > 0.0);
            let bar = |(series, name): (usize, &str)| {
                let us = time(name)?;
                let (value, text) = (us / peer?, number(us));
                Some(Bar {
                    series,
                    value,
                    text,
                })
            };
            Bars {
                name: Size::of_bytes(case.size_bytes).to_string(),
                bars: self.series().map(bar).collect(),
                line: None,
            }
        });
    }

    /// A figure for each client, wire and kind of connection, with a group for each size.
    fn figures(&self, out: &mut String, label: &str, group: impl Fn(&Case) -> Bars) {
        let kind = |case: &Case| (case.client, case.wire.clone(), case.connection);
        let mut shown = Vec::new();
        for first in &self.documents {
            let this = kind(first);
            if shown.contains(&this) {
                continue;
            }
            let cases = self.documents.iter().filter(|case| kind(case) == this);
            let title = title_of(first.client, &first.wire, first.connection);
            let _ = write!(
                out,
                "<h3>{}</h3>\n{}",
                escape(&title),
                figure::bars(label, &cases.map(&group).collect::<Vec<_>>(), 1.0)
            );
            shown.push(this);
        }
    }

    /// The link's packet limit by what nginx did.
    fn limit_by_peer(&self, case: &Case) -> Option<f64> {
        let of_case =
            |l: &&LimitCase| (l.connection, l.size_bytes) == (case.connection, case.size_bytes);
        let limit = self.limits.iter().find(of_case);
        let limit = limit.filter(|_| case.wire == "plain")?;
        Some(limit.per_sec / result(case, PEER)?.requests_per_sec)
    }

    pub(super) fn table_documents(&self, out: &mut String) {
        if self.documents.is_empty() {
            return;
        }
        *out += "<h2>Everything about documents</h2>\n<p>CPU: time of the server's processes for a request; core: all \
                 that its core did, soft interrupts included. Busy: the server's core and the client; ours looks for \
                 packets while it waits, so its core is always busy under load, and it is the client's time that tells \
                 who waits for whom.</p>\n";
        let rows = self.documents.iter().flat_map(document_rows);
        *out += &table(&DOCUMENT_COLUMNS, rows);
    }
}

fn result<'a>(case: &'a Case, server: &str) -> Option<&'a Outcome> {
    case.results.iter().find(|result| result.server == server)
}

const DOCUMENT_COLUMNS: [&str; 14] = [
    "client, wire, connections",
    "size",
    "server",
    "requests/s",
    "MB/s",
    "of packet limit",
    "CPU µs",
    "core µs",
    "busy",
    "limited by",
    "p50 µs",
    "p99 µs",
    "errors",
    "× nginx",
];

fn document_rows(case: &Case) -> Vec<Vec<String>> {
    let percent = |part: f64| format!("{:.0} %", 100.0 * part);
    let row = |r: &Outcome| {
        let busy = [r.server_core_busy, r.client_busy].map(percent);
        vec![
            title_of(case.client, &case.wire, case.connection),
            Size::of_bytes(case.size_bytes).to_string(),
            r.server.clone(),
            number(r.requests_per_sec),
            number(r.megabytes_per_sec),
            r.of_packet_limit.map_or(String::new(), percent),
            number(r.server_cpu_us_per_request),
            number(r.server_core_us_per_request),
            busy.join(" / "),
            r.limited_by.to_owned(),
            number(r.latency_p50_us),
            number(r.latency_p99_us),
            r.errors.to_string(),
            case.ratio(&r.server, PEER)
                .map_or(String::new(), |x| number(x.median)),
        ]
    };
    case.results.iter().map(row).collect()
}
