//! Short sessions on the real kernel. Without root, nginx, wrk or the exos program they say SKIPPED and pass. No speed is
//! looked at: that what was to be measured happened is.

use crate::common::{
    Missing, OF_SERVERS_REFUSED, Session, assert_refused, assert_unwritable_files_are_told,
    first_for_or_then_for, is_installed,
};
use exos_bench::Results as _;
use exos_bench::forward::{self, ForwardArgs};
use exos_bench::load::{LoadArgs, measure, run};
use exos_host::netns::NetNs;

/// All that are installed load ours on new connections and nginx on standing ones, and are answered.
#[test]
fn every_generator_is_measured() {
    first_for_or_then_for(["300ms", "3s"], every_generator);
}

fn every_generator(duration: &str) -> Missing {
    let mut missing = Missing::default();
    let Some(session) = Session::begin("bl", &["nginx", "wrk"]) else {
        return missing;
    };
    let how = ["--quick", "--sizes", "1K", "--duration", duration];
    let only = ["--only", "exos/new", "--only", "nginx/persistent"];
    let args: LoadArgs = session.args(&[&how[..], &only].concat());
    let report = measure(&args).expect("all is there");
    session.assert_nothing_is_left();

    let others = ["ab", "httperf"].iter().filter(|name| is_installed(name));
    let h2load = usize::from(is_installed("h2load"));
    let generators = 4 + others.count();
    assert_eq!(
        report.generators.len(),
        generators + h2load,
        "{:?}",
        report.setting.left_out
    );
    let names: Vec<&str> = report.cases.iter().map(|case| case.name.as_str()).collect();
    assert_eq!(names, ["exos/new/1K", "nginx/persistent/1K"]);
    for case in &report.cases {
        assert_eq!(case.results.len(), generators, "{case:?}");
        missing.unless(case.packet_limit_per_sec > 100.0, case);
        assert!(case.packet_limit_way.is_some(), "{case:?}");
        for result in &case.results {
            let name = (&case.name, &result.generator);
            missing.unless(result.requests_per_sec > 1.0, &(name, result));
            assert_eq!(result.errors, 0, "{name:?}: {result:?}");
            for busy in [result.generator_busy, result.server_busy] {
                missing.unless(busy >= 0.001, &(name, result));
                assert!(busy <= 1.0, "{name:?}: {result:?}");
            }
            let us = result.generator_us_per_request * result.requests_per_sec;
            assert!(
                (us / 1e6 - result.generator_busy).abs() < 1e-6,
                "of one run"
            );
        }
        // Each of the three of ours by everybody else.
        assert_eq!(case.rate_ratios.len(), 3 * (generators - 1), "{case:?}");
    }
    let html = report.html();
    assert_eq!(
        html.matches("<svg").count(),
        4,
        "rate and cost, of each case"
    );
    assert!(report.table().contains("exos-unmerged"));
    missing
}

/// All that can load ours over TLS, with handshakes that are what they are to be, and by HTTP/2.
#[test]
fn generators_are_measured_over_tls_and_by_http2() {
    first_for_or_then_for(["300ms", "3s"], generators_over_tls);
}

fn generators_over_tls(duration: &str) -> Missing {
    let mut missing = Missing::default();
    let Some(session) = Session::begin("bm", &["wrk", "openssl"]) else {
        return missing;
    };
    let how = ["--quick", "--duration", duration, "--connections", "8"];
    let args: LoadArgs = session.args(&[&how[..], &["--groups", "tls,http2"]].concat());
    let Some(report) = missing.measured(measure(&args)) else {
        return missing;
    };
    session.assert_nothing_is_left();

    assert!(report.cases.is_empty());
    let names: Vec<&str> = report
        .carriers
        .iter()
        .map(|case| case.name.as_str())
        .collect();
    let wanted = [
        "exos/tls/full/100",
        "exos/tls/resumed/100",
        "exos/tls/persistent/100",
        "exos/http2/plain/100",
        "exos/http2/tls/100",
    ];
    assert_eq!(names, wanted, "nginx would be the limit");
    let peers = [
        &["ab"][..],
        &["wrk"],
        &["wrk", "ab", "h2load"],
        &["h2load"],
        &["h2load"],
    ];
    for (case, peers) in report.carriers.iter().zip(peers) {
        let peers = peers.iter().filter(|name| is_installed(name));
        let wanted: Vec<&str> = ["exos", "exos-sockets"]
            .iter()
            .chain(peers)
            .copied()
            .collect();
        let generators: Vec<&str> = case.results.iter().map(|r| r.generator.as_str()).collect();
        assert_eq!(generators, wanted, "{}", case.name);
        for result in &case.results {
            let name = (&case.name, &result.generator);
            missing.unless(result.requests_per_sec > 1.0, &(name, result));
            assert_eq!(result.errors, 0, "{name:?}: {result:?}");
            let is_tls = !case.name.contains("plain");
            missing.unless(result.handshakes_full > 0 || !is_tls, &(name, result));
            assert!(
                result.handshakes_full == 0 || is_tls,
                "{name:?}: {result:?}"
            );
        }
    }
    assert!(report.table().contains("Over TLS and by HTTP/2"));
    missing
}

#[test]
fn what_cannot_be_measured_is_said_before_anything_is_made() {
    assert_refused(measure, &OF_SERVERS_REFUSED);
    let cases = [(["--servers", "handlers"], "exos-handlers")];
    assert_refused(measure, &cases);
}

#[test]
fn files_that_cannot_be_written_are_told_before_measuring() {
    assert_unwritable_files_are_told(run);
}

/// All that are installed forward what is asked for, on new connections as fast as it goes and on standing ones at a rate.
#[test]
fn every_forwarder_is_measured() {
    first_for_or_then_for(["300ms", "3s"], every_forwarder);
}

fn every_forwarder(duration: &str) -> Missing {
    let mut missing = Missing::default();
    let Some(session) = Session::begin("bf", &[]) else {
        return missing;
    };
    let contenders = "--contenders=nobody,exos,exos-kernel,exos-xokd,exos-splice,haproxy,nginx";
    let cells = ["--only", "plain/new", "--only", "latency"];
    let how = ["--quick", "--duration", duration, contenders];
    let args: ForwardArgs = session.args(&[&how[..], &cells].concat());
    let report = forward::measure(&args).expect("all is there");
    for host in ["client", "forwarder", "server", "switch"] {
        let left = NetNs::find(&format!("exos-{}-{host}", session.lab)).expect("readable");
        assert!(left.is_none(), "{host}");
    }
    let names: Vec<&str> = report.cases.iter().map(|case| case.name.as_str()).collect();
    assert_eq!(names, ["plain/new/100", "latency/plain/persistent/100"]);
    for case in &report.cases {
        assert_eq!(case.results.len(), report.setting.servers.len());
        assert!(case.results.len() >= 3, "{:?}", report.setting.left_out);
        for result in &case.results {
            let name = (&case.name, &result.contender);
            if missing.unless(result.requests_per_sec > 1.0, &(name, result)) {
                // Each is a packet to the server and one to the client at least, and nobody's pass by. The two are counted
                // by different programs, over moments that differ by much where a machine lets them wait.
                let passes = result.packets_per_sec * 20.0 >= result.requests_per_sec;
                let is_nobody = result.contender == "nobody";
                missing.unless(passes || is_nobody, &(name, result));
                assert!(!(passes && is_nobody), "{name:?}: {result:?}");
            }
            let alone = result.added_p50_us.is_none();
            assert_eq!(alone, result.contender == "nobody", "{name:?}: {result:?}");
        }
    }
    missing
}

#[test]
fn forwarders_that_cannot_be_measured_are_told_before() {
    assert_refused(forward::measure, &OF_SERVERS_REFUSED);
}
