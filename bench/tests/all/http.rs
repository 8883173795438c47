//! Short sessions on the real kernel. Without root, nginx, wrk or the exos program they say SKIPPED and pass. No speed is
//! looked at: that what was to be measured happened is.

use crate::common::{
    Missing, OF_SERVERS_REFUSED, Session, assert_refused, assert_unwritable_files_are_told,
    briefly_or_long, first_for_or_then_for, is_installed,
};
use exos_bench::Results as _;
use exos_bench::http::{Client, HttpArgs, Loaded, Outcome, Report, measure, run};

/// Measures in a lab that goes again, for this long each.
fn measured(
    test: &str,
    duration: &str,
    arguments: &[&str],
    missing: &mut Missing,
) -> Option<Report> {
    let session = Session::begin(&format!("b{test}"), &["nginx", "wrk"])?;
    let how = ["--runs", "1", "--duration", duration];
    let args: HttpArgs = session.args(&[arguments, &how].concat());
    let report = missing.measured(measure(&args));
    session.assert_nothing_is_left();
    report
}

/// What both clients do with ours, nginx and nginx on our stack, which runs unmodified in two ways: documents of one frame on all
/// kinds of connection, and of several on new ones by our client.
#[test]
fn both_clients_measure_beside_the_limit_of_the_link() {
    briefly_or_long(both_clients);
}

fn both_clients(duration: &str) -> Missing {
    let mut missing = Missing::default();
    let servers = ["--servers", "exos,nginx,run,run-intercept"];
    let cells = [
        "--groups",
        "documents",
        "--wire",
        "plain",
        "--sizes",
        "1K,10K",
    ];
    // New connections by wrk are measured with generators, persistent ones by packets with latencies.
    let only = [
        "packets/plain/new/1K",
        "wrk/plain/persistent/1K",
        "packets/plain/new/10K",
    ]
    .map(|cell| ["--only", cell])
    .concat();
    let Some(report) = measured(
        "d",
        duration,
        &[&servers[..], &cells, &only].concat(),
        &mut missing,
    ) else {
        return missing;
    };
    let cells = "either client, with 1K; and 10K";
    assert_eq!(report.documents.len(), 3, "{cells}");
    assert_eq!(report.limits.len(), 3);
    for limit in &report.limits {
        missing.unless(limit.per_sec > 100.0, limit);
    }
    // The kernel counts a process's time in ticks of 10 ms: one cell of a machine that lets it wait may have none.
    for server in 0..4 {
        let mut cells = report.documents.iter().map(|case| &case.results[server]);
        let is_counted = cells.any(|result| result.server_cpu_us_per_request > 0.0);
        missing.unless(is_counted, &report.documents);
    }
    for case in &report.documents {
        let names: Vec<&str> = case.results.iter().map(|r| r.server.as_str()).collect();
        assert_eq!(names, ["exos", "nginx", "exos-run", "exos-run-intercept"]);
        assert_eq!(case.ratios.len(), 9, "three of ours by each other");
        for result in &case.results {
            assert_is_measured(&case.load, result, &mut missing);
        }
    }
    missing
}

fn assert_is_measured(load: &Loaded, result: &Outcome, missing: &mut Missing) {
    let name = &load.name;
    if missing.unless(result.requests_per_sec > 1.0, &(name, result)) {
        let bytes = result.megabytes_per_sec * 1e6;
        assert!(bytes > result.requests_per_sec * load.size_bytes as f64 * 0.99);
    }
    missing.unless(result.server_core_us_per_request > 0.0, &(name, result));
    assert_eq!(result.errors, 0, "{name}: {result:?}");
    let of_limit = result.of_packet_limit.expect("the plain wire");
    missing.unless(of_limit > 0.0, &(name, result));
    let is_packets = load.client == Client::Packets;
    assert_eq!(result.runs[0].resent.is_some(), is_packets);
}

/// Without all that makes it fast, and on sockets, the server still answers rightly, and is measured.
#[test]
fn each_specialisation_is_measured() {
    briefly_or_long(specialisations);
}

fn specialisations(duration: &str) -> Missing {
    let mut missing = Missing::default();
    let arguments = ["--servers", "exos,sockets", "--groups", "specialisations"];
    let cell = ["--only", "plain/new/10K"];
    let Some(report) = measured(
        "s",
        duration,
        &[&arguments[..], &cell].concat(),
        &mut missing,
    ) else {
        return missing;
    };
    let [case] = &report.specialisations[..] else {
        panic!("one cell: {:?}", report.specialisations)
    };
    assert_eq!(case.results.len(), 8, "{case:?}");
    for result in &case.results {
        missing.unless(result.requests_per_sec > 1.0, result);
        assert_eq!(result.errors, 0, "{result:?}");
    }
    assert_eq!(case.worth.len(), 8, "{case:?}");
    let worth = |what| {
        let found = case.worth.iter().find(|worth| worth.what == what);
        found.expect(what).ratio.median
    };
    let product = worth("direct") * worth("all");
    if missing.unless(product > 0.0 && product.is_finite(), case) {
        assert!((product / worth("total") - 1.0).abs() < 1e-6, "of one run");
    }
    assert!(report.html().contains("What each specialisation is worth"));
    missing
}

#[test]
fn latency_and_slow_readers_are_measured() {
    briefly_or_long(latency_and_readers);
}

fn latency_and_readers(duration: &str) -> Missing {
    let mut missing = Missing::default();
    let arguments = [
        "--servers",
        "exos,nginx",
        "--groups",
        "latency,readers",
        "--connection",
        "new,persistent",
        "--readers",
        "64",
    ];
    let Some(report) = measured("l", duration, &arguments, &mut missing) else {
        return missing;
    };
    assert_eq!(report.latency.len(), 2);
    for case in &report.latency {
        for result in &case.results {
            let times: Vec<f64> = result.curve_us.iter().map(|(_, us)| *us).collect();
            missing.unless(times.len() > 5 && times[0] > 0.0, result);
            assert!(times.is_sorted(), "{result:?}");
            assert_eq!(result.errors, 0, "{result:?}");
        }
    }
    let [readers] = &report.readers[..] else {
        panic!("one number of readers: {:?}", report.readers)
    };
    for result in &readers.results {
        let came = result.alone_per_sec > 0.0 && result.beside_per_sec > 0.0;
        missing.unless(came, result);
        assert_eq!(result.runs[0].readers_left, 64, "{result:?}");
    }
    let html = report.html();
    assert_eq!(
        html.matches("<svg").count(),
        2,
        "latency by kind of connection"
    );
    missing
}

/// Both cores answer, none of the client's frames is lost or goes to the wrong one, and what they cost is told.
#[test]
fn two_cores_are_measured_against_one() {
    first_for_or_then_for(["500ms", "5s"], two_cores);
}

fn two_cores(duration: &str) -> Missing {
    let mut missing = Missing::default();
    let arguments = ["--servers", "exos", "--groups", "cores"];
    let Some(report) = measured("c", duration, &arguments, &mut missing) else {
        return missing;
    };
    assert_eq!(report.cores.len(), 4, "two clients, new and persistent");
    for case in &report.cores {
        let [one, two] = &case.results[..] else {
            panic!("{case:?}")
        };
        assert_eq!((one.cores, two.cores), (1, 2));
        for result in [one, two] {
            let run = &result.runs[0];
            assert_eq!(result.errors, 0, "{}: {result:?}", case.name);
            assert_eq!(run.loops_us_per_request.len() as u32, result.cores);
            assert_eq!(run.responses.len() as u32, result.cores);
            let all_answer = run.responses.iter().all(|count| *count > 100);
            let all_work = run.loops_us_per_request.iter().all(|us| *us > 0.0);
            if missing.unless(all_answer && all_work, run) {
                assert!(result.cpu_us_per_request >= result.busiest_us_per_request);
                assert!(run.frames > run.responses.iter().sum(), "{run:?}");
                assert!((1.0..2.0).contains(&result.imbalance), "{result:?}");
            }
        }
        assert_eq!(one.handed_on, 0.0);
        assert_eq!(case.factor.is_some(), case.client == Client::Packets);
        if case.client == Client::Packets {
            // Answers to ARP: of 16 addresses, asked for three times at most by each of two cores, and what the kernel itself
            // asked to see whether the server is there. And of our client's 1,024 connections, which it resets at its end,
            // those whose first request was lost, so that neither core knows them and each asks the other.
            let most = 16 * 2 * 3 + 4 + 1024 * 2;
            assert!(two.runs[0].frames_handed_on <= most, "{two:?}");
        }
    }
    assert!(report.html().contains("Two cores against one"));
    missing
}

/// Both applications, where php-fpm is there, behind all servers that have FastCGI, which keep connections and do not.
#[test]
fn pages_of_applications_are_measured() {
    first_for_or_then_for(["300ms", "3s"], pages_of_applications);
}

fn pages_of_applications(duration: &str) -> Missing {
    let mut missing = Missing::default();
    let arguments = [
        "--servers",
        "exos,sockets,nginx,lighttpd",
        "--groups",
        "fastcgi",
    ];
    let cells = [
        "--connection",
        "persistent",
        "--only",
        "php-fpm",
        "--only",
        "/1K",
    ];
    let Some(report) = measured(
        "f",
        duration,
        &[&arguments[..], &cells].concat(),
        &mut missing,
    ) else {
        return missing;
    };
    let has_php = !report
        .setting
        .left_out
        .iter()
        .any(|why| why.contains("php-fpm"));
    assert_eq!(
        report.fastcgi.len(),
        1 + usize::from(has_php),
        "{:?}",
        report.fastcgi
    );
    for case in &report.fastcgi {
        let names: Vec<&str> = case.results.iter().map(|r| r.server.as_str()).collect();
        // Only ours shares buffers, with the responder.
        let connections = &["", "-kept"][..];
        let all = &["", "-kept", "-shared", "-fresh", "-static"][..];
        let of_ours = if case.name.contains("php-fpm") {
            connections
        } else {
            all
        };
        let each = [
            ("exos", of_ours),
            ("exos-sockets", of_ours),
            ("nginx", connections),
        ];
        let wanted = each.map(|(name, ways)| ways.iter().map(move |way| format!("{name}{way}")));
        let wanted: Vec<String> = wanted.into_iter().flatten().collect();
        assert_eq!(names, wanted);
        for result in &case.results {
            missing.unless(result.requests_per_sec > 1.0, &(&case.name, result));
            // A server takes a part of each request's time that can be seen, and not all of it where an application answers.
            let part = result.rest_us_per_request / result.core_us_per_request;
            let has_application = !result.server.ends_with("-static");
            let is_seen = part >= 0.02 && (part < 1.0 || !has_application);
            missing.unless(is_seen, &(&case.name, result));
            assert!(part.is_nan() || part <= 1.0, "{}: {result:?}", case.name);
            assert_eq!(result.errors, 0, "{}: {result:?}", case.name);
        }
    }
    assert!(report.html().contains("Pages of FastCGI applications"));
    missing
}

/// Ours on packets and on sockets, and nginx, over TLS: handshakes that resume sessions do, and answers are whole.
#[test]
fn documents_over_tls_are_measured() {
    briefly_or_long(documents_over_tls);
}

fn documents_over_tls(duration: &str) -> Missing {
    let mut missing = Missing::default();
    let servers = "exos,sockets,nginx,h2o,haproxy";
    let arguments = ["--servers", servers, "--groups", "tls"];
    // Few connections, each of which comes back often.
    let cells = [
        "--only",
        "tls/resumed",
        "--only",
        "persistent/100K",
        "--connections",
        "4",
    ];
    let Some(report) = measured(
        "t",
        duration,
        &[&arguments[..], &cells].concat(),
        &mut missing,
    ) else {
        return missing;
    };
    assert_eq!(report.tls.len(), 2, "{:?}", report.tls);
    for case in &report.tls {
        let names: Vec<&str> = case.results.iter().map(|r| r.server.as_str()).collect();
        // It has no document of 100 KB itself.
        let has_haproxy = is_installed("haproxy") && case.size_bytes < 1000;
        let all = ["exos", "exos-sockets", "nginx", "haproxy"];
        assert_eq!(names, all[..3 + usize::from(has_haproxy)]);
        assert!(case.cryptography_us.is_some_and(|us| us > 0.0), "{case:?}");
        for result in &case.results {
            let name = &case.name;
            if missing.unless(result.requests_per_sec > 1.0, &(name, result)) {
                let bytes = result.megabytes_per_sec * 1e6;
                assert!(bytes > result.requests_per_sec * case.size_bytes as f64 * 0.99);
            }
            assert_eq!(result.errors, 0, "{name}: {result:?}");
            missing.unless(result.handshakes_full > 0, &(name, result));
        }
    }
    assert!(report.html().contains("Documents over TLS"));
    missing
}

/// Ours on packets and on sockets, caddy, and h2o where it has HTTP/3: answers are whole. Else it is said that h2o is left out.
#[test]
fn documents_over_http3_are_measured() {
    briefly_or_long(documents_over_http3);
}

fn documents_over_http3(duration: &str) -> Missing {
    let mut missing = Missing::default();
    let servers = "exos,sockets,nginx,h2o,caddy";
    let arguments = ["--servers", servers, "--groups", "http3"];
    let Some(report) = measured("q", duration, &arguments, &mut missing) else {
        return missing;
    };
    let mut left_out = report.setting.left_out.iter();
    let is_without = left_out.any(|it| it.starts_with("http3: h2o "));
    let has_h2o = is_installed("h2o") && !is_without;
    if !has_h2o {
        eprintln!("SKIPPED: documents over HTTP/3 by h2o: none of 2.3 or later is in PATH");
    }
    assert_eq!(report.http3.len(), 2, "{:?}", report.http3);
    for case in &report.http3 {
        let names: Vec<&str> = case.results.iter().map(|r| r.server.as_str()).collect();
        let all = [("h2o", has_h2o), ("caddy", is_installed("caddy"))];
        let others = all.iter().filter(|(_, is_there)| *is_there);
        let others: Vec<&str> = others.map(|(name, _)| *name).collect();
        assert_eq!(names, [&["exos", "exos-sockets"], &others[..]].concat());
        let name = &case.name;
        for result in &case.results {
            if missing.unless(result.requests_per_sec > 1.0, &(name, result)) {
                let bytes = result.megabytes_per_sec * 1e6;
                assert!(bytes > result.requests_per_sec * case.size_bytes as f64 * 0.99);
            }
            assert_eq!(result.errors, 0, "{name}: {result:?}");
            missing.unless(result.handshakes_full > 0, &(name, result));
            assert_eq!(result.handshakes_resumed, 0, "{name}: {result:?}");
        }
        // It is compared with the first of them that is there.
        if let Some(other) = others.first() {
            let mut ratios = case.ratios.iter();
            let is_told = ratios.any(|it| it.ours == "exos" && it.theirs == **other);
            assert!(is_told, "{name}: {:?}", case.ratios);
        }
    }
    missing
}

/// Ours, nginx and h2o within a bound on memory: a log on a plain wire, and many connections over a long one.
#[test]
fn servers_with_bounded_memory_are_measured() {
    briefly_or_long(bounded_memory);
}

fn bounded_memory(duration: &str) -> Missing {
    let mut missing = Missing::default();
    let arguments = ["--servers", "exos,nginx,h2o", "--groups", "log,wide"];
    let cells = ["--only", "log/0.5", "--only", "wide/20"];
    let how = [
        "--round-trips",
        "20",
        "--wide-connections",
        "50",
        "--memory",
        "64M",
    ];
    let Some(report) = measured(
        "m",
        duration,
        &[&arguments[..], &cells, &how].concat(),
        &mut missing,
    ) else {
        return missing;
    };
    // Without control groups there is one document over the long wire, and a note.
    let has_groups = report.wide[0].memory_bytes.is_some();
    let notes = &report.setting.notes;
    assert_ne!(
        has_groups,
        notes.iter().any(|note| note.contains("log is left out"))
    );
    let cases = report.log.iter().chain(&report.wide);
    let names: Vec<&str> = cases.clone().map(|case| case.name.as_str()).collect();
    match has_groups {
        true => assert_eq!(names, ["log/0.5", "wide/20", "wide/20/log"]),
        false => assert_eq!(names, ["wide/20"]),
    }
    for case in cases {
        assert_eq!(case.control_groups.is_some(), has_groups);
        let told = |note: &String| note.contains("version 1 of control groups");
        assert_eq!(case.control_groups == Some(1), notes.iter().any(told));
        if let Some(bytes) = case.request_bytes {
            assert!((17e3..19e3).contains(&bytes), "{}: {bytes}", case.name);
        }
        let servers: Vec<&str> = case.results.iter().map(|r| r.server.as_str()).collect();
        let has_h2o = is_installed("h2o") && case.round_trip_ms.is_none();
        assert_eq!(
            servers,
            ["exos", "nginx", "h2o"][..2 + usize::from(has_h2o)]
        );
        for result in &case.results {
            assert_eq!(result.errors, 0, "{}: {result:?}", case.name);
            if missing.unless(result.per_sec > 1.0, &(&case.name, result)) {
                // Heads included; a log has short documents, too.
                let of_answer = 1e6 * result.megabytes_per_sec / result.per_sec;
                assert!((1e3..1e5).contains(&of_answer), "{}: {result:?}", case.name);
            }
            let kept = case.kept[&result.server];
            assert!(kept.is_finite(), "{}: {case:?}", case.name);
            let may = case.memory_bytes.map(|bytes| bytes as f64);
            assert_eq!(result.memory_bytes.is_some(), has_groups);
            assert!(result.memory_bytes <= may, "{}: {result:?}", case.name);
        }
    }
    missing
}

/// Ours on packets and on sockets, nginx and HAProxy pass requests on, in plain text and over TLS.
#[test]
fn requests_that_are_passed_on_are_measured() {
    first_for_or_then_for(["300ms", "3s"], requests_passed_on);
}

fn requests_passed_on(duration: &str) -> Missing {
    let mut missing = Missing::default();
    let servers = [
        "--servers",
        "exos,sockets,nginx,haproxy,h2o",
        "--groups",
        "proxy",
    ];
    let cells = ["--only", "persistent/100", "--connections", "8"];
    let Some(report) = measured(
        "p",
        duration,
        &[&servers[..], &cells].concat(),
        &mut missing,
    ) else {
        return missing;
    };
    let has_haproxy = is_installed("haproxy");
    let names: Vec<&str> = report.proxy.iter().map(|case| case.name.as_str()).collect();
    assert_eq!(
        names,
        ["proxy/plain/persistent/100", "proxy/tls/persistent/100"]
    );
    for case in &report.proxy {
        let names: Vec<&str> = case.results.iter().map(|r| r.server.as_str()).collect();
        let all = ["exos", "exos-sockets", "nginx", "haproxy"];
        assert_eq!(names, all[..3 + usize::from(has_haproxy)]);
        for result in &case.results {
            missing.unless(result.requests_per_sec > 1.0, &(&case.name, result));
            let part = result.rest_us_per_request / result.core_us_per_request;
            missing.unless((0.02..1.0).contains(&part), &(&case.name, result));
            assert!(part.is_nan() || part <= 1.0, "{}: {result:?}", case.name);
            assert_eq!(result.errors, 0, "{}: {result:?}", case.name);
        }
    }
    assert!(report.html().contains("Requests that are passed on"));
    missing
}

#[test]
fn what_cannot_be_measured_is_said_before_anything_is_made() {
    assert_refused(measure, &OF_SERVERS_REFUSED);
    let cases = [
        (["--readers", "0"], "--readers"),
        (["--uid", "0"], "--uid"),
        (["--memory", "10M"], "from 64M"),
    ];
    assert_refused(measure, &cases);
}

#[test]
fn files_that_cannot_be_written_are_told_before_measuring() {
    assert_unwritable_files_are_told(run);
}
