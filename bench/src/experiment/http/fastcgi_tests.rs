use super::*;
use crate::report::{Case as _, Contender as _};
use crate::stage::cpu::{CoreTime, ProcessTime};

/// Answers in two seconds, for which the application took 20 us each.
fn run(requests: u64) -> FastcgiRun {
    run_with(requests, 20).expect("a run")
}

fn run_with(requests: u64, application_us: u64) -> Result<FastcgiRun> {
    let core = CoreTime {
        busy: 200,
        user: 120,
        system: 60,
        softirq: 20,
        idle: 0,
    };
    let used = Used {
        seconds: 2.0,
        process: ProcessTime {
            user: 30,
            system: 50,
        },
        server: core,
        client: CoreTime { idle: 200, ..core },
        softirqs_ns: None,
    };
    let seen = Seen {
        requests,
        seconds: 2.0,
        bytes: requests * 250,
        latency_us: [100.0, 300.0],
        ..Seen::default()
    };
    FastcgiRun::new(&seen, used, application_us * 1000 * requests, Some(5.0))
}

/// Pages of php-fpm by two servers, each in both ways.
pub(in super::super) fn pages() -> Fastcgi {
    let cell = Cell {
        application: Application::PhpFpm,
        client: Client::Wrk,
        connection: Connection::Persistent,
        size: HELLO,
    };
    let outcomes = [
        ("exos", 40_000),
        ("exos-kept", 50_000),
        ("nginx", 20_000),
        ("nginx-kept", 40_000),
    ];
    let outcomes = outcomes
        .map(|(server, requests)| FastcgiOutcome::of(server.to_owned(), vec![run(requests)]));
    Fastcgi::new(cell, "PHP 8", outcomes.into())
}

#[test]
fn what_is_left_of_the_cores_time_is_the_servers() {
    // 200 ticks of 10 ms for 40,000 requests.
    let run = run(40_000);
    assert_eq!(run.core_us_per_request, 50.0);
    assert_eq!(run.application_us_per_request, 20.0);
    assert_eq!(run.rest_us_per_request, 30.0);
    assert_eq!(run.server_cpu_us_per_request, 20.0);
    assert_eq!(run.limited_by, "server");
}

#[test]
fn an_application_that_had_more_than_the_core_is_no_result() {
    assert!(run_with(40_000, 49).is_ok());
    let error = run_with(40_000, 50).expect_err("nothing is left");
    assert!(error.to_string().contains("50.0 us"), "{error}");
}

/// Connections that were to be kept and were not would be compared with nginx's that were.
#[test]
fn kept_connections_have_been_used_again() {
    for (opened, reused, is_right) in [
        (64, 10_000, true),
        (1064, 10_000, true),
        (64, 1, true),
        (64, 0, false),
        (5000, 5000, false),
        (0, 0, false),
    ] {
        for language in ["fastcgi", "proxy"] {
            let counters = serde_json::json!({
                format!("{language}_connections"): opened,
                format!("{language}_connections_reused"): reused,
            });
            let told = serde_json::json!({ "counters": counters });
            let checked = check_reuse(&told, language, 64);
            assert_eq!(
                checked.is_ok(),
                is_right,
                "{language} {opened} {reused}: {checked:?}"
            );
        }
    }
}

#[test]
fn each_is_compared_with_nginx_that_has_connections_of_its_kind() {
    let case = pages();
    let row = |server: &str| {
        let result = FastcgiOutcome::find(&case.results, server).expect(server);
        let more = Fastcgi::MORE.iter();
        more.map(|column| column.shown(&case, result))
            .collect::<Vec<_>>()
    };
    assert_eq!(row("exos"), ["2.00", "2.67", "-"]);
    assert_eq!(row("exos-kept"), ["1.25", "1.50", "-"]);
    assert_eq!(row("nginx-kept"), ["-", "-", "-"]);
}
