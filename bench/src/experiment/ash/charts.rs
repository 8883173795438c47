//! What the page shows of figures beside their tables: bars where several ways are compared at several lengths, and the paper's
//! Figure 5, round trips over the programs that want the server's core.

use crate::experiment::comparison::{ALONE, Comparison};
use crate::experiment::figure::{Figure, find};
use crate::report::figure::Figure as Chart;
use crate::report::median;
use exos_program::figure::{Marks, Point, Points, over_values};

/// Each on an axis of its own: on a machine that has much else to do they differ by a thousand.
const TIMES: &[[&str; 2]] = &[["Median", ""], ["99th percentile", "/p99"]];
const SERVERS: &[&str] = &[
    "handler",
    "handler-daemon",
    "polling",
    "sleeping",
    "kernel-polling",
    "kernel-sleeping",
];
const PASSED: &[[&str; 2]] = &[
    ["64 bytes", "64"],
    ["256", "256"],
    ["1,472", "1472"],
    ["4,096", "4096"],
    ["65,536", "65536"],
];

/// By the group whose section has them.
const COMPARISONS: [(&str, Comparison); 8] = [
    (
        "roundtrip",
        Comparison {
            title: "Round trip of a remote increment",
            note: "Tables 1 and 6.",
            label: "µs",
            names: "roundtrip/SERIESKIND",
            kinds: TIMES,
            groups: ALONE,
            series: SERVERS,
        },
    ),
    (
        "rate",
        Comparison {
            title: "Increments with 64 under way",
            note: "",
            label: "requests a second",
            names: "rate/GROUP/SERIES",
            kinds: ALONE,
            groups: &[
                ["12 bytes", "12"],
                ["100 bytes", "100"],
                ["1,000 bytes", "1000"],
            ],
            series: SERVERS,
        },
    ),
    (
        "receive",
        Comparison {
            title: "Messages that are only received",
            note: "Table 2.",
            label: "MB/s",
            names: "receive/GROUP/SERIESKIND",
            kinds: &[
                ["With the UDP checksum", ""],
                ["Without one", "/no-checksum"],
            ],
            groups: &[
                ["64 bytes", "64"],
                ["512 bytes", "512"],
                ["1,472 bytes", "1472"],
            ],
            series: &[
                "handler-copied",
                "handler-in-place",
                "handler-daemon-copied",
                "handler-daemon-in-place",
                "stack-copied",
                "stack-in-place",
                "socket",
                "kernel",
            ],
        },
    ),
    (
        "stream",
        Comparison {
            title: "A stream of TCP received by the stack in memory",
            note: "Table 3.",
            label: "MB/s",
            names: "stream/SERIESGROUP",
            kinds: ALONE,
            groups: &[
                ["checksums verified", ""],
                ["none to verify", "/no-checksum"],
            ],
            series: &["in-place", "copied"],
        },
    ),
    (
        "pipes",
        Comparison {
            title: "Copies",
            note: "Table 4.",
            label: "MB/s",
            names: "pipes/GROUP/KIND/SERIES",
            kinds: &[["In the nearest cache", "cache"], ["In memory", "memory"]],
            groups: PASSED,
            series: &["copy", "two-copies"],
        },
    ),
    (
        "pipes",
        Comparison {
            title: "Copies with more done to each byte",
            note: "Table 5.",
            label: "MB/s",
            names: "pipes/GROUP/KIND/SERIES",
            kinds: &[
                ["Checksum, in the nearest cache", "cache/sum"],
                ["Checksum, in memory", "memory/sum"],
                [
                    "Checksum and words turned round, in the nearest cache",
                    "cache/sum-and-swap",
                ],
                [
                    "Checksum and words turned round, in memory",
                    "memory/sum-and-swap",
                ],
            ],
            groups: PASSED,
            series: &["passes", "one-loop", "by-hand"],
        },
    ),
    (
        "get",
        Comparison {
            title: "A value of 100 bytes from a cache",
            note: "",
            label: "requests a second",
            names: "get/GROUP/SERIES",
            kinds: ALONE,
            groups: &[
                ["UDP, 256 under way", "udp"],
                ["TCP, 50 connections", "tcp"],
            ],
            series: CACHES,
        },
    ),
    (
        "get",
        Comparison {
            title: "The same, one at a time over TCP",
            note: "Table 7.",
            label: "µs",
            names: "get/tcp/SERIES/roundtripKIND",
            kinds: TIMES,
            groups: ALONE,
            series: CACHES,
        },
    ),
];
const CACHES: &[&str] = &["handler", "handler-daemon", "stack", "memcached"];

/// The charts of a group's section.
pub(super) fn of(title: &str, figures: &[Figure]) -> Vec<Chart> {
    let bars = Comparison::drawn_of(&COMPARISONS, title, figures);
    bars.chain(crowd(title, figures)).collect()
}

/// Figure 5: each way's mean round trip by the number of programs beside it.
fn crowd(title: &str, figures: &[Figure]) -> Option<Chart> {
    if title != "crowd" {
        return None;
    }
    let ways = SERVERS.iter().enumerate();
    let mut curves: Vec<Points> = ways
        .map(|(series, way)| Points {
            series,
            points: beside(way, figures),
        })
        .collect();
    curves.retain(|curve| !curve.points.is_empty());
    let series = curves
        .iter()
        .map(|curve| (curve.series, SERVERS[curve.series]));
    let about = (
        "Mean round trips beside programs that want the server's core",
        "Figure 5.",
    );
    let svg = over_values("", "programs beside it", &curves, Marks::default());
    Some(Chart::drawn(about, series, vec![(String::new(), svg)]))
}

/// What was measured of a way by itself, in all cells, and beside other programs.
fn beside(way: &str, figures: &[Figure]) -> Vec<Point> {
    let mut alone_us = Vec::new();
    let mut points = Vec::new();
    for figure in figures {
        let programs = figure.name.strip_prefix("crowd/");
        let programs = programs.and_then(|name| name.strip_suffix(way)?.strip_suffix('/'));
        let Some(programs) = programs.and_then(|programs| programs.parse().ok()) else {
            continue;
        };
        points.push((programs, figure.value));
        let ratios = find(figures, &format!("{}/alone", figure.name));
        let runs = figure
            .runs
            .iter()
            .zip(ratios.iter().flat_map(|ratios| &ratios.runs));
        alone_us.extend(runs.map(|(us, by_alone)| us / by_alone));
    }
    if !alone_us.is_empty() {
        points.insert(0, (0.0, median(alone_us)));
    }
    let point = |(at, value)| Point {
        at,
        value,
        is_filled: true,
    };
    points.into_iter().map(point).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::figure::Figures;

    /// Two runs of the handler beside one and ten programs: by itself it takes 3 µs in both.
    #[test]
    fn round_trips_by_themselves_are_those_beside_no_program() {
        let mut figures = Figures::default();
        for (programs, us) in [(1, 6.0), (1, 12.0), (10, 30.0), (10, 60.0)] {
            figures.add(format!("crowd/{programs}/handler"), "us", us);
            figures.add(format!("crowd/{programs}/handler/alone"), "", us / 3.0);
        }
        let figures = figures.into_vec();
        let points = beside("handler", &figures);
        let points: Vec<_> = points.iter().map(|point| (point.at, point.value)).collect();
        assert_eq!(points, [(0.0, 3.0), (1.0, 9.0), (10.0, 45.0)]);
        assert!(beside("polling", &figures).is_empty());
        let [chart] = &of("crowd", &figures)[..] else {
            panic!("Figure 5 alone");
        };
        assert_eq!(chart.html().matches("<circle").count(), 3);
    }
}
