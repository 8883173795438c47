//! Medians, ratios and tables of made-up runs.

use super::bounded::{Cell as BoundedCell, Memory, OfLog};
use super::carriers::tests::{handshakes, streams, streams_of_http3};
use super::cores::tests::cores;
use super::fastcgi::tests::pages;
use super::latency::Cell;
use super::load::{Alone, Load};
use super::specialisations::tests::specialised;
use super::*;
use crate::report::tests::{assert_has_rows, assert_page};
use crate::report::{Contender as _, Ratio, limited_by, setting_of_tests as setting};
use crate::stage::calls::{Bare, Calls};
use crate::stage::cpu::{CoreTime, ProcessTime};
use crate::stage::link::{Best, LinkWay};
use crate::stage::packets::Visited;
use crate::stage::request::{Connection, Errors, Size};
use crate::stage::web::{Measured, Seen, Server, Used};
use exos_lab::WireKind;

const LIMIT: Best = Best {
    per_sec: 50_000.0,
    way: LinkWay::Live,
};

fn used() -> Used {
    let core = CoreTime {
        busy: 150,
        user: 50,
        system: 80,
        softirq: 20,
        idle: 50,
    };
    Used {
        seconds: 2.0,
        process: ProcessTime {
            user: 40,
            system: 60,
        },
        server: core,
        client: core,
        softirqs_ns: Some(20_000_000),
    }
}

/// This many answers in two seconds.
pub(super) fn run(requests: u64) -> Run {
    let errors = Errors {
        timeout: 1,
        ..Errors::default()
    };
    let alone = Some(Alone {
        limit: LIMIT,
        bare: Some(Bare {
            call_us: 1.0,
            request_us: 3.0,
        }),
    });
    let measured = Measured {
        requests,
        duration_us: 2_000_000,
        bytes: requests * 250,
        p50_us: 100,
        p99_us: 300,
        errors,
    };
    let seen = Seen {
        calls: Some(Calls {
            count: requests,
            ns: Some(10_000 * requests),
        }),
        ..Seen::from(&measured)
    };
    Run::new(&seen, used(), None, alone)
}

#[test]
fn what_the_server_takes_is_all_but_what_client_and_wire_take() {
    let seen = Seen {
        requests: 20_000,
        seconds: 2.0,
        calls: Some(Calls {
            count: 10_000,
            ns: Some(600_000_000),
        }),
        ..Seen::default()
    };
    let side_us = |own_us, request_us| {
        let bare = Some(Bare {
            call_us: 4.0,
            request_us,
        });
        let alone = Alone { limit: LIMIT, bare };
        let run = Run::new(&seen, used(), own_us, Some(alone));
        let side = run.server_side_us_per_request.zip(run.capacity_per_sec);
        side.map(|(us, per_sec)| (us.round(), per_sec.round()))
    };
    // Its processes take 50 us, soft interrupts 1, and the client's calls 30, two of which are half a call's.
    assert_eq!(side_us(None, 19.0), Some((60.0, 16_667.0)));
    assert_eq!(side_us(Some(60.0), 19.0), Some((60.0, 16_667.0)));
    assert_eq!(side_us(Some(9.0), 18.0), Some((20.0, 50_000.0)));
    assert_eq!(side_us(Some(9.0), 30.0), Some((8.0, 125_000.0)));
    assert_eq!(side_us(Some(9.0), 38.0), None);
}

#[test]
fn no_capacity_is_told_where_one_of_the_runs_has_none() {
    let untold = Run {
        capacity_per_sec: None,
        ..run(20_000)
    };
    let of = |runs| Outcome::of("exos".to_owned(), runs).capacity_per_sec;
    assert_eq!(of(vec![run(20_000)]), run(20_000).capacity_per_sec);
    assert!(of(vec![run(20_000)]).is_some());
    assert_eq!(of(vec![run(20_000), untold, run(20_000)]), None);
}

#[test]
fn a_run_in_units() {
    let run = run(20_000);
    assert_eq!(
        (run.requests_per_sec, run.megabytes_per_sec),
        (10_000.0, 2.5)
    );
    // 100 ticks of 10 ms in two seconds, for 20,000 requests.
    assert!((run.server_cpu_us_per_request - 50.0).abs() < 1e-9);
    assert!((run.server_core_us_per_request - 75.0).abs() < 1e-9);
    assert!((run.server_softirq_us_per_request - 10.0).abs() < 1e-9);
    let core = run.client_core;
    assert_eq!(
        [core.user_us, core.system_us, core.softirq_us],
        [25.0, 40.0, 10.0]
    );
    assert_eq!(
        (run.server_core_busy, run.of_packet_limit),
        (0.75, Some(0.2))
    );
}

#[test]
fn who_limits_is_who_has_no_time_left() {
    assert_eq!(limited_by(0.99, 0.5), "server");
    assert_eq!(limited_by(1.0, 0.99), "client");
    assert_eq!(limited_by(0.6, 0.6), "neither");
}

/// The ratio is of each run: here the medians alone would say 1.
#[test]
fn ratios_are_taken_run_by_run() {
    let all = [
        ("exos".to_owned(), vec![10.0, 30.0, 20.0]),
        ("exos-xokd".to_owned(), vec![10.0, 30.0, 20.0]),
        ("nginx".to_owned(), vec![20.0, 10.0, 40.0]),
    ];
    let ratios = Ratio::all(&all);
    let names: Vec<_> = ratios
        .iter()
        .map(|r| (r.ours.as_str(), r.theirs.as_str()))
        .collect();
    let expected = [
        ("exos", "exos-xokd"),
        ("exos", "nginx"),
        ("exos-xokd", "exos"),
        ("exos-xokd", "nginx"),
    ];
    assert_eq!(names, expected);
    assert_eq!(
        (ratios[1].median, ratios[1].least, ratios[1].most),
        (0.5, 0.5, 3.0)
    );
}

fn visited(us: f64) -> Visited {
    Visited {
        latency_us: vec![(50.0, us), (99.0, 10.0 * us)],
        ..Visited::default()
    }
}

/// A report with one of everything.
fn report() -> Report {
    let results = vec![
        Outcome::of("exos".into(), vec![run(40_000), run(60_000), run(50_000)]),
        Outcome::of("nginx".into(), vec![run(20_000), run(10_000), run(30_000)]),
    ];
    let case = |size| {
        let load = Load {
            client: Client::Wrk,
            wire: WireKind::Plain,
            connection: Connection::New,
            size: Size::of_bytes(size),
        };
        Documents::new(load, results.clone())
    };
    let latency = vec![
        LatencyOutcome::of(Server::Exos, vec![visited(10.0)]),
        LatencyOutcome::of(Server::Nginx, vec![visited(40.0)]),
    ];
    let reader = ReadersRun {
        alone_per_sec: 1000.0,
        beside_per_sec: 900.0,
        kept: 0.9,
        process_bytes_per_reader: 700.0,
        kernel_bytes_per_reader: 0.0,
        readers_left: 64,
        errors: 0,
    };
    let memory = Some(Memory {
        bytes: 128 << 20,
        version: 2,
    });
    let bounded = |cell, of_log: Option<OfLog>| {
        let run = |per_sec| BoundedRun {
            per_sec,
            megabytes_per_sec: 100.0,
            p50_ms: 301.0,
            from_disk: of_log.map(|_| 0.125),
            memory_bytes: Some(128e6),
            process_bytes_per_connection: of_log.map_or(Some(1000.0), |_| None),
            kernel_bytes_per_connection: 0.0,
            resent_per_answer: 0.25,
            errors: 0,
        };
        let results = [("exos", 6000.0), ("nginx", 3000.0)]
            .map(|(server, per_sec)| BoundedOutcome::of(server.into(), vec![run(per_sec)]));
        let mut bounded = Bounded::new(cell, 2000, memory, of_log, results.to_vec());
        bounded.kept.insert("exos".into(), 0.75);
        bounded
    };
    let wide = |is_log| BoundedCell::Wide {
        round_trip_ms: 150,
        is_log,
    };
    let of_log = Some(OfLog {
        bytes: 128 << 20,
        mean_len: 18e3,
    });
    Report {
        schema: "exos.bench.http/2",
        setting: Setting {
            left_out: vec!["h2o is not installed; install it: apt install h2o".into()],
            notes: vec!["core 0 was 80 % busy <before>".into()],
            ..setting(&[
                ("exos", "exos 0.1.0".to_owned()),
                ("nginx", "nginx/1.22.1".to_owned()),
            ])
        },
        server_core: 0,
        client_core: 1,
        limits: vec![Limit::new(Connection::New, Size::of_bytes(1024), &[LIMIT])],
        documents: vec![case(1024), case(1 << 20)],
        latency: vec![Latency::new(Cell(Connection::New), &[5000.0], latency)],
        readers: vec![Readers {
            name: "readers/64".into(),
            readers: 64,
            fast_readers: 32,
            results: vec![ReadersOutcome::of("exos".into(), vec![reader])],
        }],
        log: vec![bounded(BoundedCell::Log(super::log::EQUAL), of_log)],
        wide: vec![bounded(wide(false), None), bounded(wide(true), of_log)],
        specialisations: vec![specialised(Size::of_bytes(100))],
        cores: vec![cores()],
        fastcgi: vec![pages()],
        tls: vec![handshakes()],
        http2: vec![streams()],
        http3: vec![streams_of_http3()],
        proxy: vec![super::proxy::tests::passed_on()],
    }
}

#[test]
fn the_tables_as_people_see_them() {
    let rows = [
        "Documents over HTTP",
        "kernel 6.1.0, cubic, MTU 1500, 64 connections; medians of 3 runs of 2 s",
        "exos: exos 0.1.0; nginx: nginx/1.22.1",
        "documents/wrk/plain/new/1K exos 25000 6.2 0.50 20.0 30.0 10.0+16.0+4.0 10.0+16.0+4.0 26.40 37879 75/75 neither 100 300 3 2.00 (1.67 to 6.00) 1.81 (1.52 to 4.70)",
        "nginx 10000 2.5 0.20 50.0 75.0 25.0+40.0+10.0 25.0+40.0+10.0 57.00 17544 75/75 neither 100 300 3 - -",
        "new/1K 50000 live",
        "packets/plain/new 100",
        "direct access, by sockets 2.00",
        "latency/new/1K exos 10 - 100 - - 0 5000 0.25",
        "readers/64 exos 1000 900 0.90 700 0 64 0",
        "log/1 exos 6000 100.0 301.0 0.125 128 - 0 0.25 0 0.75 2.00",
        "wide/150 exos 6000 100.0 301.0 - 128 1000 0 0.25 0 0.75 2.00",
        "wide/150/log exos 6000 100.0 301.0 0.125 128 - 0 0.25 0 0.75 2.00",
        "nginx 3000 100.0 301.0 0.125 128 - 0 0.25 0 1.00 -",
        "cores/packets/persistent/1K 1 200000 5.00 6.00 1.000 0.0000 0 -",
        "2 370370 2.70 6.00 1.100 0.0500 0 1.85 (1.67 to 2.00)",
        "fastcgi/php-fpm/wrk/persistent/100 exos 20000 5.0 50.0 20.0 20.0 5.0 30.0 0.40 100/50 server 100 300 0 2.00 2.67 -",
        "tls/full/100 exos 20000 6.0 25.00 12.50 100/50 server 70 300 80 2 80.2 642 2.00 4.00",
        "http2/h2load/plain/100 exos 100000 20.0 5.00 2.50 100/100 client - - 900 0 - - 2.00 4.00",
        "http3/exos/100 exos 100000 20.0 5.00 2.50 100/100 client - - 900 0 - - 2.00 4.00",
        "proxy/plain/persistent/100 exos 20000 5.0 50.0 20.0 20.0 5.0 30.0 0.40 100/50 server 100 300 0 2.00 - 2.67 -",
        "left out: h2o is not installed; install it: apt install h2o",
        "note: core 0 was 80 % busy <before>",
    ];
    assert_has_rows(&report().table(), &rows);
    let json: serde_json::Value = serde_json::from_str(&report().json()).expect("valid");
    let case = &json["documents"][0];
    assert_eq!(
        case["results"][1]["runs"][0]["errors_by_kind"]["timeout"],
        1
    );
    assert_eq!(
        (&case["connection"], &case["client"]),
        (&"new".into(), &"wrk".into())
    );
}

#[test]
fn the_page_has_a_figure_for_each_kind_and_needs_nothing_else() {
    let html = report().html();
    // One of documents and one of what they cost, of two sizes, and one of latency; one of a log, and two of round trips.
    assert_page(&html, 6);
    assert!(html.contains("1.0 x memory</text>") && html.contains("150 ms</text>"));
    assert!(html.contains("1 KB</text>") && html.contains("1 MB</text>"));
    assert!(
        html.contains("class=\"limit\""),
        "the packet limit as a line"
    );
    assert!(html.contains("&lt;before&gt;") && !html.contains("<before>"));
    for (opened, closed) in [
        ("<table", "</table"),
        ("<svg", "</svg"),
        ("<td", "</td"),
        ("<p", "</p"),
    ] {
        let opened = html.matches(opened).count();
        // `<p` also begins `<polyline`, which closes itself.
        let own = if closed == "</p" {
            html.matches("<polyline").count()
        } else {
            0
        };
        assert_eq!(opened - own, html.matches(closed).count(), "{closed}");
    }
}
