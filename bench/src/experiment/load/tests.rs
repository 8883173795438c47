//! What people and programs are told of made-up runs.

use super::*;
use crate::report::setting_of_tests as setting;
use crate::report::tests::{assert_has_rows, assert_page};

fn report() -> Report {
    Report {
        schema: "exos.bench.load/1",
        setting: Setting {
            left_out: vec!["httperf is not installed".into()],
            ..setting(&[("exos", "exos 1 <x>".into())])
        },
        server_core: 0,
        generator_core: 1,
        generators: Named::all(&["exos", "wrk"].map(|name| (name, format!("{name} 1")))),
        cases: vec![outcome::tests::case()],
        carriers: vec![carriers::tests::case()],
    }
}

#[test]
fn the_json_has_what_is_documented() {
    let json: serde_json::Value = serde_json::from_str(&report().json()).expect("valid");
    assert_eq!(json["schema"], "exos.bench.load/1");
    let case = &json["cases"][0];
    assert_eq!(case["name"], "exos/new/100");
    assert_eq!(case["connection"], "new");
    assert_eq!(case["rate_ratios"][0]["theirs"], "wrk");
    assert_eq!(case["capacity_ratios"][0]["theirs"], "wrk");
    assert_eq!(case["results"][1]["runs"][2]["requests_per_sec"], 25_000.0);
    let case = &json["carriers"][0];
    assert_eq!(case["name"], "exos/tls/persistent/100");
    assert_eq!(
        (&case["handshake"], &case["streams"]),
        (&"persistent".into(), &1.into())
    );
    assert_eq!(
        case["results"][0]["latency_p99_us"],
        serde_json::Value::Null
    );
    assert_eq!(case["capacity_ratios"][0]["theirs"], "wrk");
}

#[test]
fn a_row_for_each_generator() {
    let rows = [
        "exos serves: exos 1 <x>; exos: exos 1; wrk: wrk 1",
        "server/connections/size generator requests/s of limit gen us srv us busy % limited by errors limit by x sockets x wrk",
        "exos/new/100 exos 60000 0.60 8.3 10.0 50/60 neither 3 live - 3.00 (2.00 to 4.00)",
        "wrk 20000 0.20 50.0 30.0 100/60 generator 3 live - -",
        "server/carrier/size generator requests/s gen us srv us busy % limited by p50 us p99 us mean us errors x wrk x ab x h2load time x wrk time x ab time x h2load",
        "exos/tls/persistent/100 exos 60000 8.33 10.00 50/60 neither 90 - - 1 3.00 - - 6.00 - -",
        "wrk 20000 50.00 30.00 100/60 generator 90 - - 1 - - - - - -",
        "left out: httperf is not installed",
        "note: core 0 was busy",
    ];
    assert_has_rows(&report().table(), &rows);
}

#[test]
fn the_page_has_two_figures_for_each_kind_and_needs_nothing_else() {
    let mut report = report();
    // Nothing to compare with.
    assert_page(&report.html(), 0);
    report.generators[1].name = Generator::Sockets.to_string();
    report.cases[0].results[1].generator = Generator::Sockets.to_string();
    let html = report.html();
    assert_page(&html, 2);
    assert!(
        html.contains("class=\"limit\""),
        "the packet limit as a line"
    );
    assert!(html.contains("exos, a connection for each request"));
    assert!(html.contains("&lt;x&gt;") && !html.contains("<x>"));
}
