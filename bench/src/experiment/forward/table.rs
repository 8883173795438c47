//! What was measured, as a table for people.

use super::{Case, Report};
use crate::report::{Ratio, named_rows};

/// Whom ours are compared with in the last columns: rate, and what a second of the core suffices for.
pub(super) const PEER: &str = "haproxy";

impl Report {
    /// As a table for people.
    pub(super) fn text(&self) -> String {
        let mut lines = vec![
            self.setting.title("forwarders"),
            self.versions().join("; "),
            String::new(),
            "cost us: what both cores need for a request more than without a forwarder; core us: of that, on the forwarder's; \
             added: to the median latency without a forwarder; x: by HAProxy's, requests/s and requests for a second of forwarding, \
             median of the runs' ratios"
                .to_owned(),
            head(),
        ];
        let rows: String = self.cases.iter().map(Case::rows).collect();
        lines.extend(rows.lines().map(str::to_owned));
        lines.extend(self.setting.remarks());
        lines.join("\n") + "\n"
    }

    pub(super) fn versions(&self) -> Vec<String> {
        let contenders = self.setting.servers.iter();
        contenders
            .map(|c| format!("{}: {}", c.name, c.version))
            .collect()
    }
}

fn head() -> String {
    format!(
        "{:<36} {:<12} {:>10} {:>7} {:>9} {:>8} {:>8} {:>7} {:>10} {:>8} {:>8} {:>6}  {:>6} {:>6}",
        "wire/connections/size",
        "forwarder",
        "requests/s",
        "MB/s",
        "packets/s",
        "cost us",
        "core us",
        "busy %",
        "limited by",
        "p50 us",
        "added",
        "errors",
        "x rate",
        "x cost"
    )
}

impl Case {
    pub(super) fn rows(&self) -> String {
        let rows = self.results.iter().map(|r| {
            let ratio = |of: &[Ratio]| {
                let found = Ratio::find(of, &r.contender, PEER);
                found.map_or(String::new(), |ratio| format!("{:.2}", ratio.median))
            };
            let [cost, added] = [r.forwarding_us_per_request, r.added_p50_us]
                .map(|us| us.map_or("-".to_owned(), |us| format!("{us:.1}")));
            format!(
                "{:<12} {:>10.0} {:>7.1} {:>9.0} {:>8} {:>8.1} {:>7.0} {:>10} {:>8.1} {:>8} {:>6}  {:>6} {:>6}",
                r.contender,
                r.requests_per_sec,
                r.megabytes_per_sec,
                r.packets_per_sec,
                cost,
                r.forwarder_core_us_per_request,
                100.0 * r.forwarder_core_busy,
                r.limited_by,
                r.latency_p50_us,
                added,
                r.errors,
                ratio(&self.rate_ratios),
                ratio(&self.capacity_ratios),
            )
        });
        named_rows(&self.name, rows)
    }
}

#[cfg(test)]
mod tests {
    use crate::experiment::forward::report::tests::report;
    use crate::report::Results as _;

    #[test]
    fn a_row_for_each_contender() {
        let table = report().table();
        let rows: Vec<&str> = table.lines().skip(4).collect();
        assert_eq!(rows.len(), 6);
        let words = |row: &str| {
            row.split_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        let exos = "exos 30000 1.0 300000 28.3 20.0 60 others 29.0 6.0 3 3.00 6.18";
        assert_eq!(words(rows[2]), words(exos));
        assert!(rows[1].starts_with("plain/new/100 ") && rows[1].contains("nobody"));
        assert_eq!(rows[4], "left out: nginx has no stream module");
    }
}
