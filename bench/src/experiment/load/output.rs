//! What generators print of what they did.

use super::cell::Cell;
use super::generator::Generator;
use crate::stage::web::{H2load, LoadReport, Measured};
use exos_host::{Error, Result};

/// What a generator says of the time of its requests, in microseconds.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct Latency {
    pub p50_us: Option<f64>,
    pub p99_us: Option<f64>,
    pub mean_us: Option<f64>,
}

/// What a generator reports.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct Reported {
    /// Whole answers.
    pub requests: u64,
    /// How long it took.
    pub seconds: f64,
    /// Answers that were wrong or did not come, connections that could not be made.
    pub errors: u64,
    /// The part of the time in which it had something to do, where it knows.
    pub busy: Option<f64>,
    pub latency: Latency,
}

impl Reported {
    /// Answers a second.
    pub fn per_sec(self) -> f64 {
        self.requests as f64 / self.seconds
    }

    /// What a generator wrote.
    pub fn of(generator: Generator, output: &str, cell: Cell) -> Result<Self> {
        match generator {
            Generator::Wrk => answered(
                Some(Measured::read(output)?.into()),
                generator,
                output,
                cell,
            ),
            Generator::H2load => {
                let seen = H2load::read(output)?.into();
                answered(Some(seen), generator, output, cell)
            }
            Generator::Ab => answered(ab(output), generator, output, cell),
            Generator::Httperf => httperf(output, cell),
            _ => answered(exos(output, generator.polls()), generator, output, cell),
        }
    }
}

impl From<Measured> for Reported {
    fn from(measured: Measured) -> Self {
        Self {
            requests: measured.requests,
            seconds: measured.seconds(),
            errors: measured.errors.total(),
            busy: None,
            latency: Latency {
                p50_us: Some(measured.p50_us as f64),
                p99_us: Some(measured.p99_us as f64),
                mean_us: None,
            },
        }
    }
}

impl From<H2load> for Reported {
    fn from(measured: H2load) -> Self {
        Self {
            requests: measured.responses,
            seconds: measured.responses as f64 / measured.per_sec.max(f64::MIN_POSITIVE),
            errors: measured.errors,
            busy: None,
            latency: Latency {
                mean_us: Some(measured.mean_us),
                ..Latency::default()
            },
        }
    }
}

/// What httperf wrote.
pub(super) fn httperf(output: &str, cell: Cell) -> Result<Reported> {
    answered(parse_httperf(output), Generator::Httperf, output, cell)
}

/// An error where nothing is said, or nothing was answered.
fn answered(seen: Option<Reported>, who: Generator, output: &str, cell: Cell) -> Result<Reported> {
    let seen =
        seen.ok_or_else(|| Error::new(format!("{who} did not report what it measured: {output}")))?;
    if seen.requests == 0 || seen.seconds <= 0.0 {
        return Err(Error::new(format!(
            "{who} had not a single answer in {cell} ({} errors)",
            seen.errors
        )));
    }
    Ok(seen)
}

/// The object of `exos load --json`.
fn exos(output: &str, polls: bool) -> Option<Reported> {
    let printed = LoadReport::read(output).ok()?;
    Some(Reported {
        requests: printed.responses,
        seconds: printed.measured_secs,
        errors: printed.errors(),
        busy: polls.then_some(printed.busy_share),
        latency: Latency {
            p50_us: Some(printed.time_us("total", "p50")),
            p99_us: Some(printed.time_us("total", "p99")),
            mean_us: Some(printed.time_us("total", "mean")),
        },
    })
}

/// The lines of ab's summary: `Complete requests:      27` and the like. What is not there is none.
fn ab(output: &str) -> Option<Reported> {
    let line = |name: &str| {
        let mut lines = output.lines();
        let found = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        found?.split_ascii_whitespace().next()
    };
    let count = |name: &str| line(name).and_then(|n| n.parse::<u64>().ok());
    let errors = ["Failed requests", "Non-2xx responses", "Write errors"];
    Some(Reported {
        requests: count("Complete requests")?,
        seconds: line("Time taken for tests")?.parse().ok()?,
        errors: errors.into_iter().filter_map(count).sum(),
        busy: None,
        latency: Latency {
            // Of two such lines the first is of a request, the second by all connections together.
            mean_us: line("Time per request").and_then(|ms| Some(1000.0 * ms.parse::<f64>().ok()?)),
            ..Latency::default()
        },
    })
}

/// Of httperf's summary `Total: connections C requests R replies N test-duration T s`, `Errors: total E ...` and the
/// replies by status.
fn parse_httperf(output: &str) -> Option<Reported> {
    let after = |start: &str, word: &str| {
        let mut lines = output.lines().filter_map(|line| line.strip_prefix(start));
        lines.find_map(|line| {
            let mut words = line.split([' ', '=']).filter(|w| !w.is_empty());
            words.find(|w| *w == word)?;
            words.next()
        })
    };
    let count = |start, word| after(start, word)?.parse::<u64>().ok();
    let good = count("Reply status:", "2xx")?;
    let replies = count("Total:", "replies")?;
    Some(Reported {
        requests: good,
        seconds: after("Total:", "test-duration")?.parse().ok()?,
        errors: count("Errors:", "total")? + replies.saturating_sub(good),
        ..Reported::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::asked::Asked;

    fn seen(requests: u64, seconds: f64, errors: u64, busy: Option<f64>) -> Option<Reported> {
        Some(Reported {
            requests,
            seconds,
            errors,
            busy,
            ..Reported::default()
        })
    }

    /// With times in it.
    fn timed(
        seen: Option<Reported>,
        [p50_us, p99_us, mean_us]: [Option<f64>; 3],
    ) -> Option<Reported> {
        let latency = Latency {
            p50_us,
            p99_us,
            mean_us,
        };
        seen.map(|seen| Reported { latency, ..seen })
    }

    #[test]
    fn results_of_exos_load() {
        let text = r#"{"responses":7,"measured_secs":2.0,"busy_share":0.5,"errors":{"reset":1,"timeout":2},
            "times_us":{"total":{"p50":10.5,"p99":99.0,"mean":20.0}}}"#;
        let times = [Some(10.5), Some(99.0), Some(20.0)];
        assert_eq!(exos(text, true), timed(seen(7, 2.0, 3, Some(0.5)), times));
        assert_eq!(exos(text, false), timed(seen(7, 2.0, 3, None), times));
        assert_eq!(exos("{}", true), None);
        assert_eq!(exos("", true), None);
    }

    #[test]
    fn the_summary_of_ab() {
        let text = "Time taken for tests:   1.002 seconds\nComplete requests:      28335\nFailed requests:        2\n\
                    Non-2xx responses:      3\nRequests per second:    28287.87 [#/sec] (mean)\n\
                    Time per request:       2.250 [ms] (mean)\n\
                    Time per request:       0.035 [ms] (mean, across all concurrent requests)\n";
        let times = [None, None, Some(2250.0)];
        assert_eq!(ab(text), timed(seen(28335, 1.002, 5, None), times));
        let quiet = "Time taken for tests:   1.0 seconds\nComplete requests:      1\n";
        assert_eq!(ab(quiet), seen(1, 1.0, 0, None));
        assert_eq!(ab("Complete requests:      28335\n"), None);
    }

    #[test]
    fn the_summary_of_httperf() {
        let text = "Total: connections 9 requests 10 replies 8 test-duration 1.250 s\n\n\
                    Reply status: 1xx=0 2xx=7 3xx=0 4xx=1 5xx=0\n\n\
                    Errors: total 2 client-timo 2 socket-timo 0 connrefused 0 connreset 0\n\
                    Errors: fd-unavail 0 addrunavail 0 ftab-full 0 other 0\n";
        assert_eq!(parse_httperf(text), seen(7, 1.25, 3, None));
        assert_eq!(parse_httperf("Total: connections 9"), None);
    }

    #[test]
    fn results_of_h2load() {
        let measured = H2load {
            responses: 500,
            per_sec: 250.0,
            mean_us: 40.0,
            errors: 1,
            ..H2load::default()
        };
        let wanted = timed(seen(500, 2.0, 1, None), [None, None, Some(40.0)]);
        assert_eq!(Some(measured.into()), wanted);
    }

    #[test]
    fn who_had_no_answer_has_no_result() {
        let cell = Cell {
            server: crate::stage::web::Server::Nginx,
            asked: Asked::Plain(crate::stage::request::Connection::New),
            size: crate::stage::request::Size::of_bytes(100),
        };
        let none = seen(0, 1.0, 5, None);
        for (seen, said) in [
            (None, "did not report"),
            (none, "not a single answer in nginx/new/100"),
        ] {
            let error = answered(seen, Generator::Ab, "", cell).expect_err(said);
            assert!(error.what.contains(said), "{error}");
        }
    }
}
