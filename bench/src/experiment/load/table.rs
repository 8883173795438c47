//! What was measured, as a table for people.

use super::{Case, Report};
use crate::report::{Ratio, named_rows};

/// Whom ours are compared with in the last columns: the paper's baseline, and the generator that most people use.
pub(super) const PEERS: [&str; 2] = ["exos-sockets", "wrk"];

impl Report {
    /// As a table for people.
    pub(super) fn text(&self) -> String {
        let mut lines = vec![
            self.setting.title("load generators"),
            self.versions().join("; "),
            String::new(),
            "us: time of generator and of server for a request, busy: part of the time that they had something to do; limit: of \
             the link's packets; x: requests/s by those of --sockets and of wrk, median of the runs' ratios"
                .to_owned(),
            head(),
        ];
        let rows: String = self.cases.iter().map(Case::rows).collect();
        lines.extend(rows.lines().map(str::to_owned));
        lines.extend(self.setting.remarks());
        lines.join("\n") + "\n"
    }

    pub(super) fn versions(&self) -> Vec<String> {
        let servers = self
            .setting
            .servers
            .iter()
            .map(|s| format!("{} serves: {}", s.name, s.version));
        let generators = self
            .generators
            .iter()
            .map(|g| format!("{}: {}", g.name, g.version));
        servers.chain(generators).collect()
    }
}

fn head() -> String {
    format!(
        "{:<36} {:<14} {:>10} {:>6} {:>7} {:>7} {:>8} {:>10} {:>6}  {:>9} {:>6}",
        "server/connections/size",
        "generator",
        "requests/s",
        "limit",
        "gen us",
        "srv us",
        "busy %",
        "limited by",
        "errors",
        "x sockets",
        "x wrk"
    )
}

impl Case {
    pub(super) fn rows(&self) -> String {
        let rows = self.results.iter().map(|result| {
            let busy = [result.generator_busy, result.server_busy].map(|part| 100.0 * part);
            let ratio = |theirs| {
                let found = Ratio::find(&self.rate_ratios, &result.generator, theirs);
                found.map_or(String::new(), |ratio| format!("{:.2}", ratio.median))
            };
            format!(
                "{:<14} {:>10.0} {:>6.2} {:>7.1} {:>7.1} {:>8} {:>10} {:>6}  {:>9} {:>6}",
                result.generator,
                result.requests_per_sec,
                result.of_packet_limit,
                result.generator_us_per_request,
                result.server_us_per_request,
                format!("{:.0}/{:.0}", busy[0], busy[1]),
                result.limited_by,
                result.errors,
                ratio(PEERS[0]),
                ratio(PEERS[1]),
            )
        });
        named_rows(&self.name, rows)
    }
}

#[cfg(test)]
mod tests {
    use crate::experiment::load::report::tests::report;
    use crate::report::Results as _;

    #[test]
    fn a_row_for_each_generator() {
        let table = report().table();
        let rows: Vec<&str> = table.lines().skip(4).collect();
        let expected = [
            "server/connections/size              generator      requests/s  limit  gen us  srv us   busy % limited by errors  x sockets  x wrk",
            "exos/new/100                         exos                60000   0.60     8.3    10.0    50/60    neither      3              3.00",
            "                                     wrk                 20000   0.20    50.0    30.0   100/60  generator      3",
            "left out: httperf is not installed",
            "note: core 0 was busy",
        ];
        assert_eq!(rows, expected);
    }
}
