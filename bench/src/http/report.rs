//! What was measured: medians for people, everything for programs (docs/json.md).

use super::{Connection, Errors, LatencyUs, Measured, Size};
use crate::cpu::{CoreTime, ProcessTime, ticks_to_us};
use crate::output::median;
use serde::Serialize;
use std::fmt::Write as _;

/// Everything that a session measured.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The kernel's release.
    pub kernel: String,
    /// The kind of wire: `plain` or `offload`.
    pub wire: String,
    /// The wire's MTU in bytes.
    pub mtu: u32,
    /// The congestion control that the kernel's TCP used.
    pub congestion_control: String,
    /// Connections that the client kept busy.
    pub connections: u32,
    /// How often each case was measured.
    pub runs: u32,
    /// How long one measurement was meant to last, in seconds.
    pub duration_secs: u32,
    /// The core of the server.
    pub server_core: usize,
    /// The core of the client.
    pub client_core: usize,
    /// What each server calls itself, in the order of the results.
    pub servers: Vec<String>,
    /// What distorts the numbers, a sentence each.
    pub notes: Vec<String>,
    /// The cases.
    pub cases: Vec<Case>,
}

/// One kind of connection and size.
#[derive(Clone, Debug, Serialize)]
pub struct Case {
    /// How requests were spread over connections.
    pub connection: Connection,
    /// The size of the document in bytes.
    pub size_bytes: u64,
    /// What each server did.
    pub results: Vec<Outcome>,
}

/// One server in one case: medians over the runs, errors summed.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// The server.
    pub server: String,
    /// Median over the runs.
    pub requests_per_sec: f64,
    /// Median over the runs; a megabyte is 1,000,000 bytes, heads of answers included.
    pub megabytes_per_sec: f64,
    /// Processor time of the server's processes for one request, in microseconds: median over the runs.
    pub server_cpu_us_per_request: f64,
    /// Time that the server's core was busy for one request, in microseconds: median over the runs.
    pub server_core_us_per_request: f64,
    /// Part of the time that the server's core was busy, 0 to 1: median over the runs.
    pub server_core_busy: f64,
    /// Part of the time that the client's core was busy, 0 to 1: median over the runs. Near 1 the client is what
    /// limits.
    pub client_core_busy: f64,
    /// Median over the runs of the median latency, in microseconds.
    pub latency_p50_us: f64,
    /// Median over the runs of the 99th percentile of latency, in microseconds.
    pub latency_p99_us: f64,
    /// Errors of all runs.
    pub errors: u64,
    /// Every run.
    pub runs: Vec<Run>,
}

/// One measurement.
#[derive(Clone, Debug, Serialize)]
pub struct Run {
    /// Answers received in a second.
    pub requests_per_sec: f64,
    /// Megabytes (1,000,000 bytes) received in a second.
    pub megabytes_per_sec: f64,
    /// Time of the server's processes in their own code, microseconds for one request.
    pub server_user_us_per_request: f64,
    /// Time of the server's processes in the kernel, microseconds for one request.
    pub server_system_us_per_request: f64,
    /// Time that the server's core was busy, microseconds for one request.
    pub server_core_us_per_request: f64,
    /// Part of the time that the server's core was busy, 0 to 1.
    pub server_core_busy: f64,
    /// Part of the time that the client's core was busy, 0 to 1.
    pub client_core_busy: f64,
    /// Latency as the client saw it.
    pub latency_us: LatencyUs,
    /// What went wrong.
    pub errors: Errors,
}

impl Run {
    /// Puts together what the client measured and what the processors did meanwhile.
    pub fn new(
        measured: Measured,
        process: ProcessTime,
        server: CoreTime,
        client: CoreTime,
    ) -> Self {
        let secs = measured.duration_us as f64 / 1e6;
        let per_request = |ticks: u64| ticks_to_us(ticks) / measured.requests as f64;
        Self {
            requests_per_sec: measured.requests as f64 / secs,
            megabytes_per_sec: measured.bytes as f64 / 1e6 / secs,
            server_user_us_per_request: per_request(process.user),
            server_system_us_per_request: per_request(process.system),
            server_core_us_per_request: per_request(server.busy),
            server_core_busy: server.busy_share(),
            client_core_busy: client.busy_share(),
            latency_us: measured.latency_us,
            errors: measured.errors,
        }
    }
}

impl Outcome {
    /// The medians of some runs.
    pub fn of(server: String, runs: Vec<Run>) -> Self {
        let median_of = |value: &dyn Fn(&Run) -> f64| median(runs.iter().map(value).collect());
        Self {
            server,
            requests_per_sec: median_of(&|r| r.requests_per_sec),
            megabytes_per_sec: median_of(&|r| r.megabytes_per_sec),
            server_cpu_us_per_request: median_of(&|r| {
                r.server_user_us_per_request + r.server_system_us_per_request
            }),
            server_core_us_per_request: median_of(&|r| r.server_core_us_per_request),
            server_core_busy: median_of(&|r| r.server_core_busy),
            client_core_busy: median_of(&|r| r.client_core_busy),
            latency_p50_us: median_of(&|r| r.latency_us.p50 as f64),
            latency_p99_us: median_of(&|r| r.latency_us.p99 as f64),
            errors: runs.iter().map(|r| r.errors.total()).sum(),
            runs,
        }
    }
}

impl Report {
    /// As JSON.
    pub fn json(&self) -> String {
        serde_json::to_string_pretty(self).expect("plain data becomes JSON")
    }

    /// As a table for people. The last column compares with the last server.
    pub fn table(&self) -> String {
        let mut out = String::new();
        let (wire, mtu, connections) = (&self.wire, self.mtu, self.connections);
        let (runs, secs) = (self.runs, self.duration_secs);
        let lines = [
            format!("HTTP over the {wire} wire, MTU {mtu}, {connections} connections; medians of {runs} runs of {secs} s"),
            format!("kernel {}, {}; {}", self.kernel, self.congestion_control, self.servers.join(", ")),
            "CPU: time of the server's processes; core: all that its core did, soft interrupts included; busy: its core/the client's".to_owned(),
            String::new(),
            format!(
                "{:<10}  {:>7}  {:<6} {:>10} {:>7} {:>8} {:>8} {:>9} {:>8} {:>8} {:>6}  {}",
                "connection",
                "size",
                "server",
                "requests/s",
                "MB/s",
                "CPU us",
                "core us",
                "busy %",
                "p50 us",
                "p99 us",
                "errors",
                self.versus()
            ),
        ];
        for line in lines {
            out += line.trim_end();
            out.push('\n');
        }
        self.cases.iter().for_each(|case| case.rows(&mut out));
        self.notes
            .iter()
            .for_each(|note| out += &format!("note: {note}\n"));
        out
    }

    /// The heading of the comparison: there is one when there are two servers or more.
    fn versus(&self) -> String {
        match self.cases.first().map(|case| case.results.as_slice()) {
            Some([_, .., last]) => format!("x {}", last.server),
            _ => String::new(),
        }
    }
}

impl Case {
    fn rows(&self, out: &mut String) {
        let size = Size::of_bytes(self.size_bytes).to_string();
        for (i, result) in self.results.iter().enumerate() {
            let (connection, size) = if i == 0 {
                (self.connection.to_string(), size.as_str())
            } else {
                (String::new(), "")
            };
            let row = format!(
                "{connection:<10}  {size:>7}  {:<6} {:>10.0} {:>7.1} {:>8.1} {:>8.1} {:>9} {:>8.0} {:>8.0} {:>6}  {}",
                result.server,
                result.requests_per_sec,
                result.megabytes_per_sec,
                result.server_cpu_us_per_request,
                result.server_core_us_per_request,
                format!(
                    "{:.0}/{:.0}",
                    100.0 * result.server_core_busy,
                    100.0 * result.client_core_busy
                ),
                result.latency_p50_us,
                result.latency_p99_us,
                result.errors,
                self.versus(i),
            );
            writeln!(out, "{}", row.trim_end()).expect("memory takes everything");
        }
    }

    /// How many times as many requests as the last server.
    fn versus(&self, i: usize) -> String {
        match self.results.as_slice() {
            [_, .., last] if i + 1 < self.results.len() => {
                format!(
                    "{:.2}",
                    self.results[i].requests_per_sec / last.requests_per_sec
                )
            }
            _ => String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(requests: u64) -> Run {
        let errors = Errors {
            timeout: 1,
            ..Errors::default()
        };
        let latency_us = LatencyUs {
            p50: 100,
            p90: 200,
            p99: 300,
            max: 4000,
        };
        let measured = Measured {
            requests,
            duration_us: 2_000_000,
            bytes: requests * 250,
            errors,
            latency_us,
        };
        let core = CoreTime {
            busy: 150,
            softirq: 20,
            idle: 50,
        };
        Run::new(
            measured,
            ProcessTime {
                user: 40,
                system: 60,
            },
            core,
            core,
        )
    }

    #[test]
    fn a_run_in_units() {
        let run = run(20_000);
        assert_eq!(
            (run.requests_per_sec, run.megabytes_per_sec),
            (10_000.0, 2.5)
        );
        // 100 ticks of 10 ms for 20,000 requests.
        assert!(
            (run.server_user_us_per_request + run.server_system_us_per_request - 50.0).abs() < 1e-9
        );
        assert!((run.server_core_us_per_request - 75.0).abs() < 1e-9);
        assert_eq!(run.server_core_busy, 0.75);
    }

    #[test]
    fn the_table_as_people_see_it() {
        let report = Report {
            kernel: "6.1.0".into(),
            wire: "plain".into(),
            mtu: 1500,
            congestion_control: "cubic".into(),
            connections: 64,
            runs: 3,
            duration_secs: 2,
            server_core: 0,
            client_core: 1,
            servers: vec!["exos 0.1.0".into(), "nginx/1.22.1".into()],
            notes: vec!["core 0 was 80 % busy before".into()],
            cases: vec![Case {
                connection: Connection::New,
                size_bytes: 1024,
                results: vec![
                    Outcome::of("exos".into(), vec![run(40_000), run(60_000), run(50_000)]),
                    Outcome::of("nginx".into(), vec![run(20_000), run(10_000), run(30_000)]),
                ],
            }],
        };
        let expected = "\
HTTP over the plain wire, MTU 1500, 64 connections; medians of 3 runs of 2 s
kernel 6.1.0, cubic; exos 0.1.0, nginx/1.22.1
CPU: time of the server's processes; core: all that its core did, soft interrupts included; busy: its core/the client's

connection     size  server requests/s    MB/s   CPU us  core us    busy %   p50 us   p99 us errors  x nginx
new            1 KB  exos        25000     6.2     20.0     30.0     75/75      100      300      3  2.50
                     nginx       10000     2.5     50.0     75.0     75/75      100      300      3
note: core 0 was 80 % busy before
";
        assert_eq!(report.table(), expected);
        let json: serde_json::Value = serde_json::from_str(&report.json()).expect("valid");
        assert_eq!(
            json["cases"][0]["results"][1]["runs"][0]["errors"]["timeout"],
            1
        );
        assert_eq!(json["cases"][0]["connection"], "new");
    }
}
