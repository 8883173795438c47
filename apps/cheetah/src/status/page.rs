//! A snapshot as a page for people. It has no scripts; the browser asks again every few seconds.

use std::fmt::Write as _;
use std::time::Duration;

use exos::clock::unix_secs;
use exos_program::html::escape;

use super::snapshot::{Row, Snapshot};
use crate::acme::{Account, Shown};

const HEAD: &str = "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
    <meta http-equiv=\"refresh\" content=\"5\">\n\
    <meta name=\"viewport\" content=\"width=device-width\">\n<title>exos serve</title>\n\
    <style>body{font:1em/1.4 sans-serif;margin:2em auto;max-width:50em;padding:0 1em}\
    table{border-collapse:collapse;margin:0 0 1em}td,th{padding:.1em 1em .1em 0;text-align:left}\
    td:last-child{text-align:right;font-variant-numeric:tabular-nums}</style>\n<h1>exos serve</h1>\n";

/// The groups of counters: what their names begin with, and what the group is called.
const GROUPS: [(&str, &str); 7] = [
    ("http_responses_", "Responses by status"),
    ("http_", "HTTP"),
    ("tls_", "TLS"),
    ("acme_", "Automatic certificates"),
    ("cache_", "Cache"),
    ("link_", "Link"),
    ("", "Stack"),
];

pub(super) fn html(snapshot: &Snapshot, path: &str) -> String {
    let mut text = HEAD.to_owned();
    for link in snapshot.link.lines() {
        let _ = writeln!(text, "<p>{}</p>", escape(link));
    }
    let rows = overview(snapshot);
    table(
        &mut text,
        rows.iter().map(|(name, value)| (*name, value.clone())),
    );
    if !snapshot.acme.is_empty() {
        text.push_str("<h2>Automatic certificates</h2>\n");
        let account = snapshot.acme_account.iter().flat_map(account);
        table(
            &mut text,
            snapshot.acme.iter().map(certificate).chain(account),
        );
    }
    if !snapshot.cores.is_empty() {
        text.push_str("<h2>Cores</h2>\n");
        cores(&mut text, &snapshot.cores);
    }
    for (prefix, title) in GROUPS {
        let of_group = snapshot
            .counters
            .iter()
            .filter(|(name, _)| group(name) == prefix);
        let counted = of_group.filter(|(_, count)| *count > 0);
        let _ = writeln!(text, "<h2>{title}</h2>");
        table(
            &mut text,
            counted.map(|(name, count)| (&name[prefix.len()..], count.to_string())),
        );
    }
    let _ = writeln!(
        text,
        "<p>Counters since the start; those that are zero are left out. For programs: \
         <a href=\"{path}/metrics\">metrics</a>, <a href=\"{path}/status.json\">JSON</a>.</p>\n</html>"
    );
    text
}

/// The first group that has the counter.
fn group(name: &str) -> &'static str {
    let mut prefixes = GROUPS.iter().map(|(prefix, _)| *prefix);
    prefixes
        .find(|prefix| name.starts_with(prefix))
        .unwrap_or("")
}

fn overview(snapshot: &Snapshot) -> Vec<(&'static str, String)> {
    let rates = &snapshot.rates;
    vec![
        ("Running for", time(snapshot.uptime)),
        ("Open connections", snapshot.connections.to_string()),
        ("Connections in TIME-WAIT", snapshot.time_wait.to_string()),
        ("Responses", snapshot.responses.to_string()),
        ("Bytes of responses", snapshot.response_bytes.to_string()),
        ("Responses a second", format!("{:.1}", rates.responses)),
        ("Bytes a second", format!("{:.0}", rates.bytes)),
        ("Share of a core", format!("{:.1} %", 100.0 * rates.cores)),
        ("Rates are over", format!("{:.0} s", rates.over_secs)),
        ("Processor time", time(snapshot.cpu)),
        ("Documents in memory", snapshot.documents.to_string()),
        ("Bytes of documents", snapshot.content_bytes.to_string()),
        ("Bytes in the cache", snapshot.cache.held.to_string()),
        ("Bytes on their way out", snapshot.cache.leaving.to_string()),
        ("Bytes that it may have", snapshot.cache.limit.to_string()),
        (
            "Bytes in the shared file cache",
            snapshot.cache.lent.to_string(),
        ),
        ("Requests that wait", snapshot.waiting_requests.to_string()),
    ]
}

fn table<'a>(text: &mut String, rows: impl Iterator<Item = (&'a str, String)>) {
    text.push_str("<table>\n");
    for (name, value) in rows {
        let _ = writeln!(text, "<tr><td>{}<td>{}", escape(name), escape(&value));
    }
    text.push_str("</table>\n");
}

/// What becomes of a certificate that comes by itself.
fn certificate(shown: &Shown) -> (&str, String) {
    let left = |at: i64| time(Duration::from_secs((at - unix_secs() as i64).max(0) as u64));
    let has = match shown.expires {
        Some(at) => format!("ends in {}", left(at)),
        None => "has not come".to_owned(),
    };
    let next = left(shown.next_order);
    let advised = match shown.advised {
        Some((from, until)) => format!(
            ", as the authority advises (from {} to {} from now)",
            left(from),
            left(until)
        ),
        None => String::new(),
    };
    let text = match &shown.error {
        Some(error) => format!(
            "{has}; failures in a row: {}; the next attempt is in {next}, because {error}",
            shown.failures
        ),
        None => format!("{has}; the next is ordered in {next}{advised}"),
    };
    (&shown.name, text)
}

/// By which account certificates come.
fn account(account: &Account) -> Vec<(&str, String)> {
    let mut rows = vec![("Authority", account.directory.clone())];
    match &account.contact {
        None => rows.push(("Account", "none yet".to_owned())),
        Some(contact) => {
            let agreed = contact.agreed_at.map_or(String::new(), |at| {
                let ago = Duration::from_secs((unix_secs() as i64 - at).max(0) as u64);
                format!("; terms of service agreed to {} ago", time(ago))
            });
            rows.push(("Account", format!("{}{agreed}", contact.mail.join(", "))));
        }
    }
    rows
}

/// A row for each core.
fn cores(text: &mut String, rows: &[Row]) {
    text.push_str("<table>\n<tr><th>Core");
    for (name, _) in rows.iter().take(1).flat_map(Row::columns) {
        let _ = write!(text, "<th>{}", name.replace('_', " "));
    }
    for row in rows {
        let _ = write!(text, "\n<tr><td>{}", escape(&row.place()));
        for (_, count) in row.columns() {
            let _ = write!(text, "<td>{count}");
        }
    }
    text.push_str("\n</table>\n");
}

fn time(time: Duration) -> String {
    let secs = time.as_secs();
    let (days, hours, minutes) = (secs / 86_400, secs / 3600 % 24, secs / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{:.1} s", time.as_secs_f64()),
        (0, 0, _) => format!("{minutes} min {} s", secs % 60),
        (0, ..) => format!("{hours} h {minutes} min"),
        _ => format!("{days} d {hours} h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_says_everything_without_scripts() {
        let counters = [
            ("http_responses_200", 7),
            ("http_log_lines", 0),
            ("link_rx", 9),
            ("tcp_x", 5),
        ];
        let snapshot = Snapshot {
            link: "a <b> & c".to_owned(),
            uptime: Duration::from_secs(90),
            counters: counters.map(|(n, c)| (n.to_owned(), c)).to_vec(),
            ..Snapshot::default()
        };
        let page = html(&snapshot, "/.exos");
        for part in [
            "<p>a &lt;b&gt; &amp; c</p>",
            "<tr><td>Running for<td>1 min 30 s\n",
            "<h2>Responses by status</h2>\n<table>\n<tr><td>200<td>7\n",
            "<h2>HTTP</h2>\n<table>\n</table>",
            "<h2>Link</h2>\n<table>\n<tr><td>rx<td>9\n",
            "<a href=\"/.exos/metrics\">",
            "<h2>Stack</h2>\n<table>\n<tr><td>tcp_x<td>5\n",
        ] {
            assert!(page.contains(part), "no {part:?} in {page}");
        }
        assert!(!page.contains("<script"));
    }

    #[test]
    fn certificates_that_come_by_themselves_are_told_of() {
        let now = unix_secs() as i64;
        let shown = Shown {
            name: "a.test".to_owned(),
            expires: Some(now + 90 * 86_400 + 60),
            next_order: now + 60 * 86_400 + 60,
            advised: Some((now + 55 * 86_400 + 60, now + 65 * 86_400 + 60)),
            ..Shown::default()
        };
        let failed = Shown {
            name: "b.test".to_owned(),
            failures: 3,
            error: Some("of this test".to_owned()),
            ..Shown::default()
        };
        let contact = crate::acme::store::Contact {
            mail: vec!["a@b.test".to_owned()],
            agreed_at: Some(now - 86_400),
            is_refused: false,
        };
        let page = |contact| {
            html(
                &Snapshot {
                    acme: vec![shown.clone(), failed.clone()],
                    acme_account: Some(Account {
                        directory: "https://ca.test/dir".to_owned(),
                        contact,
                    }),
                    ..Snapshot::default()
                },
                "/.exos",
            )
        };
        let text = page(Some(contact));
        for part in [
            "ends in 90 d 0 h; the next is ordered in 60 d 0 h, as the authority advises (from 55 d 0 h to 65 d 0 h from now)",
            "has not come; failures in a row: 3; the next attempt is in 0.0 s, because of this test",
            "<td>Authority<td>https://ca.test/dir",
            "<td>Account<td>a@b.test; terms of service agreed to 1 d 0 h ago",
        ] {
            assert!(text.contains(part), "no {part:?} in {text}");
        }
        assert!(page(None).contains("<td>Account<td>none yet"));
    }

    #[test]
    fn cores_have_rows_where_there_are_several() {
        let row = |core, responses| Row {
            core,
            responses,
            ..Row::default()
        };
        let page = |rows| html(&Snapshot::default().with(rows), "/.exos");
        let both = page(vec![row(4, 17), row(6, 19)]);
        assert!(
            both.contains("<h2>Cores</h2>\n<table>\n<tr><th>Core<th>connections<th>"),
            "{both}"
        );
        assert!(
            both.contains("<tr><td>4<td>0<td>0<td>17<td>")
                && both.contains("<tr><td>6<td>0<td>0<td>19<td>"),
            "{both}"
        );
        assert!(!page(vec![row(4, 17)]).contains("Cores"));
    }

    #[test]
    fn times() {
        for (secs, text) in [
            (0.25, "0.2 s"),
            (61.0, "1 min 1 s"),
            (7_260.0, "2 h 1 min"),
            (180_000.0, "2 d 2 h"),
        ] {
            assert_eq!(time(Duration::from_secs_f64(secs)), text);
        }
    }
}
