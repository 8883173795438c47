use super::*;
use crate::report::{Case as _, Contender as _};
use crate::stage::cpu::{CoreTime, ProcessTime};

const FULL: Cell = Cell {
    kind: Kind::Full,
    size: SHORT,
};

/// Answers in a second, with as many handshakes; the server's process had half a second, and something to do for a quarter.
fn run(responses: u64, [full, resumed]: [u64; 2], busy_us: Option<f64>) -> TlsRun {
    let core = CoreTime {
        busy: 100,
        user: 50,
        system: 30,
        softirq: 20,
        idle: 0,
    };
    let used = Used {
        seconds: 1.0,
        process: ProcessTime {
            user: 20,
            system: 30,
        },
        server: core,
        client: core,
        softirqs_ns: None,
    };
    let report = serde_json::json!({
        "responses": responses, "measured_secs": 1.0, "busy_share": 0.5, "errors": { "timed_out": 2 },
        "response_bytes": 300 * responses, "times_us": { "total": { "p50": 70, "p99": 300 } },
        "tls": { "handshakes_full": full, "handshakes_resumed": resumed },
    });
    let report = LoadReport::read(&report.to_string()).expect("a report");
    TlsRun::new(&report, used, busy_us)
}

/// Full handshakes of two servers.
pub(in super::super) fn handshakes() -> Tls {
    let outcomes = [("exos", 20_000, Some(12.5)), ("nginx", 10_000, None)];
    let outcomes = outcomes.map(|(server, responses, busy_us)| {
        TlsOutcome::of(
            server.to_owned(),
            vec![run(responses, [responses, 0], busy_us)],
        )
    });
    Tls::new(FULL, 80.25, outcomes.into())
}

#[test]
fn work_is_the_time_in_which_there_was_something_to_do() {
    let ours = run(20_000, [20_000, 0], Some(12.5));
    // 50 ticks of 10 ms for 20,000 requests.
    assert_eq!(
        (ours.server_cpu_us_per_request, ours.work_us_per_request),
        (25.0, 12.5)
    );
    assert_eq!(
        (ours.latency_p50_us, ours.latency_p99_us, ours.errors),
        (70.0, 300.0, 2)
    );
    assert_eq!(
        (ours.requests_per_sec, ours.megabytes_per_sec),
        (20_000.0, 6.0)
    );
    let theirs = run(10_000, [10_000, 0], None);
    assert_eq!(
        (theirs.server_cpu_us_per_request, theirs.work_us_per_request),
        (50.0, 50.0)
    );
}

#[test]
fn handshakes_that_are_not_what_they_were_to_be_are_no_result() {
    for (kind, handshakes, is_right) in [
        (Kind::Full, [1000, 0], true),
        (Kind::Full, [1000, 1], false),
        (Kind::Full, [0, 0], false),
        (Kind::Resumed, [64, 10_000], true),
        (Kind::Resumed, [64, 68], true),
        (Kind::Resumed, [64, 0], false),
        (Kind::Resumed, [400, 100], false),
        (Kind::Persistent, [64, 0], true),
        (Kind::Persistent, [0, 0], false),
    ] {
        let cell = Cell { kind, ..FULL };
        let checked = run(10_000, handshakes, None).check(cell, 64);
        assert_eq!(
            checked.is_ok(),
            is_right,
            "{kind} {handshakes:?}: {checked:?}"
        );
    }
}

#[test]
fn each_is_compared_with_nginx() {
    let case = handshakes();
    let row = |server: &str| {
        let result = TlsOutcome::find(&case.results, server).expect(server);
        let more = Tls::MORE.iter();
        more.map(|column| column.shown(&case, result))
            .collect::<Vec<_>>()
    };
    assert_eq!(row("exos"), ["80.2", "642", "2.00", "4.00"]);
    assert_eq!(row("nginx"), ["80.2", "160", "-", "-"]);
}
