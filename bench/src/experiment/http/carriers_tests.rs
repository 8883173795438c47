use super::*;
use crate::report::{Case as _, Contender as _};
use crate::stage::cpu::{CoreTime, ProcessTime};
use serde_json::json;

const fn short(client: Loader, asked: Asked) -> Cell {
    Cell {
        client,
        asked,
        size: SHORT,
    }
}

/// The processors in a second: the server's process had half of it.
fn run_of(seen: &Seen, busy_us: Option<f64>) -> CarrierRun {
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
    CarrierRun::new(seen, used, busy_us)
}

/// Answers in a second over TLS, with as many handshakes.
fn run(responses: u64, [full, resumed]: [u64; 2], busy_us: Option<f64>) -> CarrierRun {
    let report = json!({
        "responses": responses, "measured_secs": 1.0, "busy_share": 0.5, "errors": { "timed_out": 2 },
        "response_bytes": 300 * responses, "times_us": { "total": { "p50": 70, "p99": 300, "mean": 80 } },
        "tls": { "handshakes_full": full, "handshakes_resumed": resumed, "agreed": { AGREED: full + resumed } },
    });
    let seen = read(Loader::Exos, &report.to_string()).expect("a report");
    run_of(&seen, busy_us)
}

/// Full handshakes of two servers.
pub(in super::super) fn handshakes() -> CarrierResults {
    let outcomes = [("exos", 20_000, Some(12.5)), ("nginx", 10_000, None)];
    let outcomes = outcomes.map(|(server, responses, busy_us)| {
        let run = run(responses, [responses, 0], busy_us);
        CarrierOutcome::of(server.to_owned(), vec![run])
    });
    let cell = short(Loader::Exos, Asked::Tls(Kind::Full));
    CarrierResults::new(cell, 64, Some(80.25), outcomes.into())
}

/// Streams of a server of ours and another.
fn streams_of(client: Loader, asked: Asked, other: &str) -> CarrierResults {
    let outcomes = [("exos", 100_000, Some(2.5)), (other, 50_000, None)];
    let outcomes = outcomes.map(|(server, responses, busy_us)| {
        let seen = Seen::from(&H2load {
            responses,
            per_sec: responses as f64,
            bytes: 200 * responses,
            mean_us: 900.0,
            errors: 0,
            agreed: None,
        });
        CarrierOutcome::of(server.to_owned(), vec![run_of(&seen, busy_us)])
    });
    CarrierResults::new(short(client, asked), 64, None, outcomes.into())
}

pub(in super::super) fn streams() -> CarrierResults {
    streams_of(Loader::H2load, Asked::Http2(Carrier::Plain), "nginx")
}

pub(in super::super) fn streams_of_http3() -> CarrierResults {
    streams_of(Loader::Exos, Asked::Http3, "caddy")
}

#[test]
fn work_is_the_time_in_which_there_was_something_to_do() {
    let ours = run(20_000, [20_000, 0], Some(12.5));
    // 50 ticks of 10 ms for 20,000 requests.
    assert_eq!(
        (ours.server_cpu_us_per_request, ours.work_us_per_request),
        (25.0, 12.5)
    );
    let latency = (ours.latency_p50_us, ours.latency_p99_us);
    assert_eq!((latency, ours.errors), ((Some(70.0), Some(300.0)), 2));
    assert_eq!(
        (ours.requests_per_sec, ours.megabytes_per_sec),
        (20_000.0, 6.0)
    );
    assert_eq!((ours.client_busy, ours.latency_mean_us), (0.5, 80.0));
    let theirs = run(10_000, [10_000, 0], None);
    assert_eq!(
        (theirs.server_cpu_us_per_request, theirs.work_us_per_request),
        (50.0, 50.0)
    );
}

#[test]
fn handshakes_that_are_not_what_they_were_to_be_are_no_result() {
    for (asked, handshakes, is_right) in [
        (Asked::Tls(Kind::Full), [1000, 0], true),
        (Asked::Tls(Kind::Full), [1000, 1], false),
        (Asked::Tls(Kind::Full), [0, 0], false),
        (Asked::Tls(Kind::Resumed), [64, 10_000], true),
        (Asked::Tls(Kind::Resumed), [64, 68], true),
        (Asked::Tls(Kind::Resumed), [64, 0], false),
        (Asked::Tls(Kind::Resumed), [400, 100], false),
        (Asked::Tls(Kind::Persistent), [64, 0], true),
        (Asked::Tls(Kind::Persistent), [0, 0], false),
        (Asked::Http3, [0, 0], true),
    ] {
        let checked = run(10_000, handshakes, None).check(short(Loader::Exos, asked), 64);
        assert_eq!(
            checked.is_ok(),
            is_right,
            "{asked:?} {handshakes:?}: {checked:?}"
        );
    }
}

#[test]
fn what_is_agreed_upon_is_the_same_of_all_and_reported() {
    let seen = |agreed: &[&str]| Seen {
        agreed: agreed.iter().copied().map(str::to_owned).collect(),
        ..Seen::default()
    };
    let cell = short(Loader::Exos, Asked::Http3);
    for (agreed, other) in [
        (&[][..], None),
        (&[AGREED], None),
        (&["TLSv1.3 TLS_AES_256_GCM_SHA384 X25519"], Some("AES_256")),
        (&[AGREED, "TLSv1.3 (QUIC)"], Some("(QUIC)")),
    ] {
        let alike = agreed_alike(cell, "h2o", &seen(agreed));
        let said = alike.err().map(|error| error.to_string());
        let names = said
            .as_ref()
            .map(|said| said.contains(other.unwrap_or("nothing")));
        assert_eq!(names, other.map(|_| true), "{agreed:?}: {said:?}");
    }
    for case in [handshakes(), streams()] {
        let is_tls = case.handshake.is_some();
        let json = serde_json::to_value(&case).expect("JSON");
        for result in json["results"].as_array().expect("results") {
            assert_eq!(result["agreed"], json!(is_tls.then_some(AGREED)));
        }
    }
}

#[test]
fn each_is_compared_with_the_peer_that_speaks_the_same() {
    let rows = |case: &CarrierResults| -> Vec<Vec<String>> {
        let row = |result| {
            CarrierResults::MORE
                .iter()
                .map(move |column| column.shown(case, result))
        };
        case.results
            .iter()
            .map(|result| row(result).collect())
            .collect()
    };
    assert_eq!(
        rows(&handshakes()),
        [["80.2", "642", "2.00", "4.00"], ["80.2", "160", "-", "-"]]
    );
    // Over HTTP/3 with h2o, or with caddy where that is not there.
    let of_h2o = streams_of(Loader::Exos, Asked::Http3, "h2o");
    for streams in [streams(), streams_of_http3(), of_h2o] {
        assert_eq!(rows(&streams), [["-", "-", "2.00", "4.00"], ["-"; 4]]);
        assert_eq!((streams.connections, streams.streams), (4, 100));
        assert_eq!(streams.results[0].megabytes_per_sec, 20.0);
        assert_eq!(streams.results[0].latency_p50_us, None);
    }
}

#[test]
fn what_is_no_report_is_an_error() {
    assert!(read(Loader::Exos, "nothing").is_err() && read(Loader::H2load, "nothing").is_err());
}
