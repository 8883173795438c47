//! What people and programs are told of made-up runs.

use super::bulk::tests::{bulk, outcome};
use super::*;
use crate::report::environment_of_tests;

#[test]
fn the_table_has_the_sections_that_were_measured() {
    let results = vec![
        outcome("exos", [10.0; 3]),
        outcome("linux", [10.0; 3]),
        outcome("linux-bbr", [11.0; 3]),
    ];
    let report = Report {
        environment: environment_of_tests(4.0),
        exos_congestion_control: "cubic".into(),
        rate_mbit_per_sec: 200,
        wire: Vec::new(),
        flood: Vec::new(),
        fair: Vec::new(),
        bulk: vec![bulk(results)],
    };
    let expected = "\
TCP beside Linux's
kernel 6.1.0, exos 0.1.0; medians of 3 runs of 4 s

Goodput in Mbit/s, CUBIC, a link of 200 Mbit/s; 0 of 1 cells below 0.95. x: exos / linux, median of the runs.
who sends/round trip/loss   exos  linux     x  x means  linux-bbr
bulk/send/1ms/0%           10.00  10.00  1.00     1.00      11.00

note: core 0 was busy
";
    assert_eq!(report.table(), expected);
    let json: serde_json::Value = serde_json::from_str(&report.json()).expect("valid");
    assert_eq!(json["bulk"][0]["results"][2]["contender"], "linux-bbr");
}
