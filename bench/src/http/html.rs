//! What was measured as a page of HTML that needs nothing else: figures and tables.

use super::latency::LatencyCase;
use super::report::{Case, Report};
use super::table::PEER;
use super::{Client, Connection, Size};
use crate::figure::{self, Bars, escape, number};
use std::fmt::Write as _;

const STYLE: &str = include_str!("report.css");

/// How the numbers are to be read.
const READING: &str = "Bars are requests a second of ours by nginx's on the same wire, each ratio taken within one run, then the \
     median over the runs. The line at 1 is nginx; the dashed line above a group is what the link itself could do with \
     the frames of such a visit, were nobody to look at them (on the plain wire; super-packets, which large documents \
     leave as, may exceed it).";

impl Report {
    /// The page.
    pub fn html(&self) -> String {
        let mut out = format!(
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width\">\n\
             <title>exos bench http</title>\n<style>\n{STYLE}</style></head>\n<body>\n\
             <h1>Documents over HTTP</h1>\n{}",
            self.setting()
        );
        self.figure_documents(&mut out);
        self.figure_latency(&mut out);
        self.table_readers(&mut out);
        self.table_documents(&mut out);
        out + "</body></html>\n"
    }

    fn setting(&self) -> String {
        let mut lines = vec![format!(
            "Kernel {}, {}, MTU {}; {} connections at a time; medians of {} runs of {} s; the server on one core, the \
             client on another of the same machine.",
            self.kernel,
            self.congestion_control,
            self.mtu,
            self.connections,
            self.runs,
            self.duration_secs
        )];
        let servers = self
            .servers
            .iter()
            .map(|s| format!("{}: {}", s.name, s.version));
        lines.push(format!("{}.", servers.collect::<Vec<_>>().join("; ")));
        lines.extend(self.left_out.iter().map(|who| format!("Left out: {who}.")));
        lines.extend(self.notes.iter().map(|note| format!("Note: {note}.")));
        lines
            .iter()
            .map(|line| format!("<p>{}</p>\n", escape(line)))
            .collect()
    }

    /// Those of ours that were compared with nginx.
    fn ours(&self) -> Vec<String> {
        let names = self.servers.iter().map(|s| s.name.clone());
        let compared = |name: &String| self.documents.iter().any(|c| c.ratio(name, PEER).is_some());
        names.filter(compared).collect()
    }

    /// *Fast and Flexible*, Figure 4: a figure for each client, wire and kind of connection.
    fn figure_documents(&self, out: &mut String) {
        let ours = self.ours();
        if ours.is_empty() {
            return;
        }
        let _ = write!(
            out,
            "<h2>Requests a second, ours by nginx's</h2>\n<p>{READING}</p>\n"
        );
        *out += &figure::legend(&ours);
        let mut rest = &self.documents[..];
        let kind = |case: &Case| (case.client, case.wire.clone(), case.connection);
        let mut shown = Vec::new();
        while let Some((first, others)) = rest.split_first() {
            rest = others;
            let this = kind(first);
            if shown.contains(&this) {
                continue;
            }
            let cases: Vec<&Case> = self.documents.iter().filter(|c| kind(c) == this).collect();
            let title = title_of(first);
            let groups: Vec<Bars> = cases.iter().map(|case| self.group(case, &ours)).collect();
            let _ = write!(
                out,
                "<h3>{}</h3>\n{}",
                escape(&title),
                figure::bars("times nginx", &groups, 1.0)
            );
            shown.push(this);
        }
    }

    fn group(&self, case: &Case, ours: &[String]) -> Bars {
        let value = |name: &String| case.ratio(name, PEER).map(|ratio| ratio.median);
        let peer = case.results.iter().find(|r| r.server == PEER);
        let of_case = |l: &&super::LimitCase| {
            (l.connection, l.size_bytes) == (case.connection, case.size_bytes)
        };
        let limit = self
            .limits
            .iter()
            .find(of_case)
            .filter(|_| case.wire == "plain");
        Bars {
            name: Size::of_bytes(case.size_bytes).to_string(),
            values: ours.iter().map(value).collect(),
            line: limit
                .zip(peer)
                .map(|(l, peer)| l.per_sec / peer.requests_per_sec),
        }
    }

    fn figure_latency(&self, out: &mut String) {
        if self.latency.is_empty() {
            return;
        }
        *out += "<h2>Latency at half of nginx's highest rate</h2>\n<p>From when each request was meant to begin, whether \
                 or not a connection was free then.</p>\n";
        let names: Vec<String> = self.servers.iter().map(|s| s.name.clone()).collect();
        *out += &figure::legend(&names);
        for case in &self.latency {
            let curves: Vec<_> = case.results.iter().map(|r| r.curve_us.clone()).collect();
            let title = format!(
                "{}, {}, {} requests a second",
                connections(case.connection),
                Size::of_bytes(case.size_bytes),
                number(case.rate_per_sec)
            );
            let svg = figure::distributions(
                "microseconds, and how many requests took no longer",
                &curves,
            );
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

    fn table_readers(&self, out: &mut String) {
        if self.readers.is_empty() {
            return;
        }
        *out += "<h2>Fast readers beside slow ones</h2>\n<p>Slow ones take a segment a second of 1 MB. Bytes are those \
                 that each of them adds to the server's process, and to the kernel's sockets on its side.</p>\n";
        let rows = self.readers.iter().flat_map(|case| {
            case.results.iter().map(|r| {
                vec![
                    case.readers.to_string(),
                    r.server.clone(),
                    number(r.alone_per_sec),
                    number(r.beside_per_sec),
                    format!("{:.2}", r.kept),
                    number(r.process_bytes_per_reader),
                    number(r.kernel_bytes_per_reader),
                ]
            })
        });
        *out += &table(
            &[
                "slow readers",
                "server",
                "requests/s without",
                "with",
                "kept",
                "process, bytes each",
                "kernel, bytes each",
            ],
            rows,
        );
    }

    fn table_documents(&self, out: &mut String) {
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
    let row = |r: &super::Outcome| {
        let busy = [r.server_core_busy, r.client_busy].map(percent);
        vec![
            title_of(case),
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

fn connections(connection: Connection) -> &'static str {
    match connection {
        Connection::New => "a connection for each request",
        Connection::Persistent => "standing connections",
    }
}

fn title_of(case: &Case) -> String {
    let client = match case.client {
        Client::Wrk => "wrk",
        Client::Packets => "our client",
    };
    format!(
        "{client}, {} wire, {}",
        case.wire,
        connections(case.connection)
    )
}

fn latency_rows(case: &LatencyCase) -> Vec<Vec<String>> {
    let row = |r: &super::LatencyOutcome| {
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

fn table(head: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let cells = |tag: &str, cells: &mut dyn Iterator<Item = String>| -> String {
        let cells: String = cells
            .map(|c| format!("<{tag}>{}</{tag}>", escape(&c)))
            .collect();
        format!("<tr>{cells}</tr>\n")
    };
    let head = cells("th", &mut head.iter().map(|h| (*h).to_owned()));
    let rows: String = rows.map(|row| cells("td", &mut row.into_iter())).collect();
    format!("<div class=\"wide\"><table>\n{head}{rows}</table></div>\n")
}

#[cfg(test)]
mod tests {
    use super::super::report::tests::report;

    #[test]
    fn the_page_has_a_figure_for_each_kind_and_needs_nothing_else() {
        let html = report().html();
        // One of documents, of two sizes, and one of latency.
        assert_eq!(html.matches("<svg").count(), 2);
        assert!(html.contains("1 KB</text>") && html.contains("1 MB</text>"));
        assert!(
            html.contains("class=\"limit\""),
            "the packet limit as a line"
        );
        assert!(html.contains("&lt;before&gt;") && !html.contains("<before>"));
        for elsewhere in ["http://", "https://", "<script", "src=", "@import", "url("] {
            assert!(!html.contains(elsewhere), "{elsewhere}");
        }
        for (opened, closed) in [
            ("<table", "</table"),
            ("<svg", "</svg"),
            ("<td", "</td"),
            ("<p", "</p"),
        ] {
            let opened = html.matches(opened).count();
            // `<p` also begins `<polyline`, which closes itself.
            let own = if closed == "</p" {
                html.matches("<polyline").count()
            } else {
                0
            };
            assert_eq!(opened - own, html.matches(closed).count(), "{closed}");
        }
    }
}
