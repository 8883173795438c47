//! Two cores against one.

use super::{connections, table};
use crate::experiment::http::{Client, CoresCase, CoresOutcome, Report};
use exos_program::figure::number;

/// How the numbers are to be read.
const READING: &str = "The client has to share the server's second core, so no rate is told. Instead the processor time \
     of each loop of the server, of which each has a core, is divided by the requests that all of them answered: what the \
     busiest has time for is what the server could do. Our client sends in bursts, and sleeps while they are answered. wrk \
     works all the time; with it only the frames are of interest that came to another core than their connection's, of \
     which the kernel's TCP sends some.";

impl Report {
    pub(super) fn table_cores(&self, out: &mut String) {
        if self.cores.is_empty() {
            return;
        }
        *out += &format!("<h2>Two cores against one</h2>\n<p>{READING}</p>\n");
        let rows = self.cores.iter();
        let rows = rows.flat_map(|case| case.results.iter().map(|result| row(case, result)));
        *out += &table(
            &[
                "client",
                "connections",
                "cores",
                "time for, requests/s",
                "busiest, \u{b5}s",
                "all threads, \u{b5}s",
                "uneven",
                "to the wrong core",
                "by one core",
            ],
            rows,
        );
    }
}

fn row(case: &CoresCase, result: &CoresOutcome) -> Vec<String> {
    let client = match case.client {
        Client::Wrk => "wrk",
        Client::Packets => "our client",
    };
    let factor = case.factor.as_ref().filter(|_| result.cores > 1);
    vec![
        client.to_owned(),
        connections(case.connection).to_owned(),
        result.cores.to_string(),
        result.capacity_per_sec.map_or(String::new(), number),
        format!("{:.2}", result.busiest_us_per_request),
        format!("{:.2}", result.cpu_us_per_request),
        format!("{:.3}", result.imbalance),
        format!("{:.4} %", 100.0 * result.handed_on),
        factor.map_or(String::new(), |factor| format!("{:.2}", factor.median)),
    ]
}
