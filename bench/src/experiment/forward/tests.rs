//! What people and programs are told of made-up runs.

use super::*;
use crate::report::setting_of_tests as setting;
use crate::report::tests::{assert_has_rows, assert_page};

fn report() -> Report {
    let names = ["nobody", "exos", "haproxy"].map(|name| (name, format!("{name} <1>")));
    Report {
        schema: "exos.bench.forward/1",
        setting: Setting {
            left_out: vec!["nginx has no stream module".into()],
            ..setting(&names)
        },
        forwarder_core: 0,
        others_core: 1,
        cases: vec![outcome::tests::case()],
    }
}

#[test]
fn the_json_has_what_is_documented() {
    let json: serde_json::Value = serde_json::from_str(&report().json()).expect("valid");
    assert_eq!(json["schema"], "exos.bench.forward/1");
    let case = &json["cases"][0];
    assert_eq!(case["name"], "plain/new/100");
    assert_eq!(case["rate_per_sec"], serde_json::Value::Null);
    assert_eq!(case["rate_ratios"][0]["theirs"], "haproxy");
    assert_eq!(case["capacity_ratios"][0]["ours"], "exos");
    assert_eq!(case["results"][1]["runs"][2]["requests_per_sec"], 25e3);
    assert_eq!(case["results"][2]["added_p50_us"], 50.0);
}

#[test]
fn a_row_for_each_contender() {
    let rows = [
        "plain/new/100 nobody 42000 1.0 420000 - 0.0 0 others 20.0 40.0 - 3 - - -",
        "exos 30000 1.0 300000 28.3 20.0 60 others 29.0 58.0 6.0 3 3.00 (2.00 to 4.00) 6.18 (3.76 to 7.87) -",
        "left out: nginx has no stream module",
    ];
    assert_has_rows(&report().table(), &rows);
}

#[test]
fn the_page_has_two_figures_for_each_kind_and_needs_nothing_else() {
    let mut report = report();
    let html = report.html();
    assert_page(&html, 2);
    assert!(html.contains("class=\"limit\""), "no forwarder, as a line");
    assert!(html.contains("plain wire, a connection for each request"));
    assert!(html.contains("haproxy &lt;1&gt;") && !html.contains("<1>"));
    report.cases[0].rate_per_sec = Some(1000);
    // Rates that were asked for.
    assert_page(&report.html(), 0);
}

#[test]
fn cores_are_measured_where_there_is_time_or_they_are_asked_for() {
    let names = |arguments: &[&str]| {
        #[derive(clap::Parser)]
        struct Cli {
            #[command(flatten)]
            args: ForwardArgs,
        }
        let words = ["bench"].iter().chain(arguments);
        let cli = <Cli as clap::Parser>::try_parse_from(words).expect("a valid command line");
        cli.args.names()
    };
    let of_cores = ["cores/offload/new/1K", "cores/offload/persistent/1K"];
    let all = names(&[]);
    assert_eq!(all[all.len() - 2..], of_cores);
    assert!(
        names(&["--quick"])
            .iter()
            .all(|name| !name.starts_with("cores"))
    );
    let of_cores = ["cores/offload/new/100", "cores/offload/persistent/100"];
    assert_eq!(names(&["--quick", "--only", "cores"]), of_cores);
    assert!(names(&["--only", "cores", "--contenders", "haproxy"]).is_empty());
    assert_eq!(names(&["--quick", "--contenders", "exos-cores"]).len(), 0);
}
