//! What was measured, as tables for people.

use super::Report;
use super::Size;
use super::cores::CoresCase;
use super::latency::LatencyCase;
use super::limit::LimitCase;
use super::outcome::Case;
use super::readers::ReadersCase;
use super::specialisations::matrices;
use crate::report::named_rows;

/// Whom everybody is compared with in the last column: who is compared with others first is nginx.
pub(super) const PEER: &str = "nginx";

impl Report {
    /// As tables for people.
    pub(super) fn text(&self) -> String {
        let mut lines = vec![self.setting.title("HTTP"), self.versions().join("; ")];
        let mut section = |title: &str, head: String, rows: Vec<String>| {
            if !rows.is_empty() {
                lines.extend([String::new(), title.to_owned()]);
                lines.extend((!head.is_empty()).then_some(head));
                lines.extend(rows.iter().map(|row| row.trim_end().to_owned()));
            }
        };
        section(
            "documents as fast as they go; CPU: time of the server's processes, core: all that its core did, for a \
             request; busy: the server's core and the client; limit: of the link's packets; x nginx: median of the runs' ratios",
            Case::head(),
            self.documents.iter().map(Case::rows).collect(),
        );
        section(
            "the link's packet limit: visits a second with frames that nobody looks at",
            format!("{:<36} {:>10}", "", "visits/s"),
            self.limits.iter().map(LimitCase::row).collect(),
        );
        section(
            "specialisations: how many times faster the server is with each than without it, least and most of the runs; \
             direct access: without all of them, by the same server on the kernel's sockets",
            String::new(),
            self.table2(),
        );
        section(
            "latency in us at half of nginx's highest rate, from when each request was meant to begin",
            LatencyCase::head(),
            self.latency.iter().map(LatencyCase::rows).collect(),
        );
        section(
            "fast readers of 1 KB beside slow readers of 1 MB; bytes: for each slow reader, of the server's process and of the kernel's sockets",
            ReadersCase::head(),
            self.readers.iter().map(ReadersCase::rows).collect(),
        );
        section(
            "exos on two cores against one; time for: requests a second that the busiest core has time for; busiest, all: \
             processor time of its loop, and of all threads, by all requests; uneven: responses of the busiest by the mean; \
             wrong core: of the frames",
            CoresCase::head(),
            self.cores.iter().map(CoresCase::rows).collect(),
        );
        lines.extend(self.setting.remarks());
        lines.join("\n") + "\n"
    }

    fn table2(&self) -> Vec<String> {
        let matrices = matrices(&self.specialisations);
        let mut lines = matrices.iter().map(|matrix| matrix.lines());
        lines.by_ref().collect::<Vec<_>>().join(&String::new())
    }

    pub(super) fn versions(&self) -> Vec<String> {
        let servers = self.setting.servers.iter();
        servers
            .map(|s| format!("{}: {}", s.name, s.version))
            .collect()
    }
}

impl Case {
    fn head() -> String {
        format!(
            "{:<36} {:<12} {:>10} {:>7} {:>7} {:>7} {:>8} {:>8} {:>6} {:>8} {:>8} {:>6}  {}",
            "",
            "server",
            "requests/s",
            "MB/s",
            "CPU us",
            "core us",
            "busy %",
            "limited",
            "limit",
            "p50 us",
            "p99 us",
            "errors",
            "x nginx"
        )
    }

    pub(super) fn rows(&self) -> String {
        let rows = self.results.iter().map(|result| {
            let limit = result.of_packet_limit.map_or(String::new(), |part| format!("{part:.2}"));
            let ratio = self.ratio(&result.server, PEER);
            let busy = [result.server_core_busy, result.client_busy].map(|part| 100.0 * part);
            format!(
                "{:<12} {:>10.0} {:>7.1} {:>7.1} {:>7.1} {:>8} {:>8} {limit:>6} {:>8.0} {:>8.0} {:>6}  {}",
                result.server,
                result.requests_per_sec,
                result.megabytes_per_sec,
                result.server_cpu_us_per_request,
                result.server_core_us_per_request,
                format!("{:.0}/{:.0}", busy[0], busy[1]),
                result.limited_by,
                result.latency_p50_us,
                result.latency_p99_us,
                result.errors,
                ratio.map_or(String::new(), |ratio| format!("{:.2}", ratio.median)),
            )
        });
        named_rows(&self.name, rows)
    }
}

impl LimitCase {
    fn row(&self) -> String {
        let name = format!(
            "{}/{}",
            self.connection,
            Size::of_bytes(self.size_bytes).name()
        );
        format!("{name:<36} {:>10.0}", self.per_sec)
    }
}

impl LatencyCase {
    fn head() -> String {
        format!(
            "{:<36} {:<12} {:>10} {:>9} {:>9} {:>9} {:>9} {:>9} {:>6}  {}",
            "",
            "server",
            "requests/s",
            "p50",
            "p90",
            "p99",
            "p99.9",
            "longest",
            "errors",
            "p99 x nginx"
        )
    }

    pub(super) fn rows(&self) -> String {
        let rows = self.results.iter().map(|result| {
            let at = |share: f64| {
                let found = result.curve_us.iter().find(|(s, _)| *s == share);
                found.map_or(String::new(), |(_, us)| format!("{us:.0}"))
            };
            let mut ratios = self.p99_ratios.iter();
            let ratio = ratios.find(|r| r.ours == result.server && r.theirs == PEER);
            format!(
                "{:<12} {:>10.0} {:>9} {:>9} {:>9} {:>9} {:>9} {:>6}  {}",
                result.server,
                self.rate_per_sec,
                at(50.0),
                at(90.0),
                at(99.0),
                at(99.9),
                at(100.0),
                result.errors + result.unanswered,
                ratio.map_or(String::new(), |ratio| format!("{:.2}", ratio.median)),
            )
        });
        named_rows(&self.name, rows)
    }
}

impl ReadersCase {
    fn head() -> String {
        format!(
            "{:<36} {:<12} {:>10} {:>10} {:>6} {:>10} {:>10} {:>8} {:>6}",
            "",
            "server",
            "alone/s",
            "beside/s",
            "kept",
            "process B",
            "kernel B",
            "readers",
            "errors"
        )
    }

    pub(super) fn rows(&self) -> String {
        let rows = self.results.iter().map(|result| {
            let left = result.runs.iter().map(|run| run.readers_left).min();
            format!(
                "{:<12} {:>10.0} {:>10.0} {:>6.2} {:>10.0} {:>10.0} {:>8} {:>6}",
                result.server,
                result.alone_per_sec,
                result.beside_per_sec,
                result.kept,
                result.process_bytes_per_reader,
                result.kernel_bytes_per_reader,
                left.unwrap_or(0),
                result.errors,
            )
        });
        named_rows(&self.name, rows)
    }
}

impl CoresCase {
    fn head() -> String {
        format!(
            "{:<36} {:<6} {:>10} {:>10} {:>8} {:>8} {:>11} {:>6}  {}",
            "",
            "cores",
            "time for",
            "busiest us",
            "all us",
            "uneven",
            "wrong core",
            "errors",
            "factor"
        )
    }

    pub(super) fn rows(&self) -> String {
        let rows = self.results.iter().map(|result| {
            let capacity = result.capacity_per_sec;
            let factor = self.factor.as_ref().filter(|_| result.cores > 1);
            format!(
                "{:<6} {:>10} {:>10.2} {:>8.2} {:>8.3} {:>11} {:>6}  {}",
                result.cores,
                capacity.map_or(String::new(), |rate| format!("{rate:.0}")),
                result.busiest_us_per_request,
                result.cpu_us_per_request,
                result.imbalance,
                format!("{:.4} %", 100.0 * result.handed_on),
                result.errors,
                factor.map_or(String::new(), |f| format!(
                    "{:.2} ({:.2} to {:.2})",
                    f.median, f.least, f.most
                )),
            )
        });
        named_rows(&self.name, rows)
    }
}
