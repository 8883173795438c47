//! What one load showed: a run, the medians of some, and those of all generators in a case.

use super::cell::Cell;
use super::loaded::Loaded;
use crate::report::figure::Figure;
use crate::report::{Contender as _, Ratio, Section, Shown as _};
use crate::report::{case, median, median_of, outcomes, sum, usual};
use crate::stage::link::{Best, LinkWay};
use crate::stage::request::{Connection, Size};

/// Whom ours are compared with in the last columns: the paper's baseline, and the generator that most people use.
const PEERS: [&str; 2] = ["exos-sockets", "wrk"];

case! {
    /// One server, kind of connection and size.
    pub struct CellResults in "server/connections/size" from (cell: Cell, limits: &[Best]) {
        /// `SERVER/CONNECTION/SIZE`.
        name: String = cell.to_string();
        /// Who was loaded: `exos`, `nginx` and the others of `exos bench http`.
        server: String = cell.server.to_string();
        /// How requests were spread over connections.
        connection: Connection = cell.asked.connection();
        /// The size of the document in bytes.
        size_bytes: u64 = cell.size.bytes();
        /// How many times a second two programs exchange the frames of such a visit, looking at nothing, by the best way of
        /// sending in each run: the median.
        packet_limit_per_sec: f64 = median_of(limits, |limit| limit.per_sec);
        /// The way of sending that was the best in most runs.
        packet_limit_way: Option<LinkWay> = Best::usual_way(limits);
    } of {
        /// What each generator did.
        results: Outcome;
        /// Requests a second, of each of ours by each other generator.
        rate_ratios: Vec<Ratio> = Ratio::among(&results, |run| run.requests_per_sec);
        /// Requests for which a second of the generator's time suffices, of ours by those of each other.
        capacity_ratios: Vec<Ratio> = Ratio::among(&results, |run| 1e6 / run.generator_us_per_request);
    } columns {
        "limit by" (|case, _| case.packet_limit_way.shown(0));
        "x sockets" (rate_ratios by PEERS[0]);
        "x wrk" (rate_ratios by PEERS[1]);
    }
}

outcomes! {
    /// One generator in one case: medians over the runs, errors summed.
    pub struct Outcome of
    /// `exos`: `exos load`; `exos-unmerged`: with `--no-merging`; `exos-sockets`: with `--sockets`; `wrk`, `ab`, `httperf`.
    generator: String, "generator";
    /// One measurement.
    pub struct Run {
        /// Whole answers in a second.
        requests_per_sec: f64 as median, "requests/s" 0;
        /// Part of the packet limit that was measured in the same run.
        of_packet_limit: f64 as median, "of limit" 2;
        /// Time that the generator's side was busy for a request, in microseconds.
        generator_us_per_request: f64 as median, "gen us" 1;
        /// Part of the time that it had something to do, 0 to 1: what `exos load` says, of others how busy their core was in the
        /// middle half of the load.
        generator_busy: f64 as median;
        /// Time that the server's side was busy for a request, in microseconds.
        server_us_per_request: f64 as median, "srv us" 1;
        /// Part of the time that the server had something to do: what `exos serve` says (`busy_micros`), of others their core.
        server_busy: f64 as median, "busy %" 0 |r| [r.generator_busy, r.server_busy].map(|part| 100.0 * part);
        /// Who had no time left: `generator`, `server` or `neither`; of several runs, in most.
        limited_by: &'static str as usual, "limited by";
        /// Answers that were wrong or did not come, and connections that could not be made.
        errors: u64 as sum, "errors";
    }
}

impl Run {
    /// Of a load, beside what the link could carry.
    pub(super) fn new(loaded: &Loaded, limit: f64) -> Self {
        let per_sec = loaded.seen.per_sec();
        Self {
            requests_per_sec: per_sec,
            of_packet_limit: per_sec / limit,
            generator_us_per_request: 1e6 * loaded.generator_busy / per_sec,
            generator_busy: loaded.generator_busy,
            server_us_per_request: 1e6 * loaded.server_busy / per_sec,
            server_busy: loaded.server_busy,
            limited_by: loaded.limited_by(),
            errors: loaded.seen.errors,
        }
    }
}

const NOTE: &str = "us: time of generator and of server for a request; busy: part of the time that they had something to do; limit: of \
    the link's packets, by the best way of sending; x: requests/s by those of --sockets and of wrk, median of the runs' ratios.";

const FIGURE_RATE: (&str, &str) = (
    "Requests a second, by those of --sockets",
    "The paper's Figure 6. The numbers are requests a second. The dashed line across a group is what the link could carry of the \
     frames of such a visit, were nobody to look at them.",
);

const FIGURE_COST: (&str, &str) = (
    "What a request costs the generator, by the same of --sockets",
    "How long the generator's side was busy for a request; the numbers are microseconds. Where a generator has time left, this \
     tells what it could do with a faster server. The kernel delivers packets in the time of the one that sends them, so a part of \
     what the server receives is in here, and a part of what the generator receives is not.",
);

pub(super) fn section(cases: &[CellResults], series: &[&str]) -> Section {
    let kind = |case: &&CellResults| format!("{}, {}", case.server, case.connection.title());
    let size = |case: &&CellResults| Size::of_bytes(case.size_bytes).to_string();
    let bars = |about, value: fn(&Outcome) -> f64, line: fn(&CellResults) -> Option<f64>| {
        let peer = ("by --sockets", PEERS[0]);
        let value = |case: &&CellResults, name: &str| Outcome::find(&case.results, name).map(value);
        Figure::by_peer(about, peer, series, cases, (kind, size), value, |case| {
            line(case)
        })
    };
    let figures = [
        bars(
            FIGURE_RATE,
            |r| r.requests_per_sec,
            |case| Some(case.packet_limit_per_sec),
        ),
        bars(FIGURE_COST, |r| r.generator_us_per_request, |_| None),
    ];
    Section::of("All generators", NOTE, cases).with_figures(figures.into_iter().flatten())
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::output::Reported;
    use super::*;
    use crate::experiment::asked::Asked;
    use crate::stage::web::Server;

    pub(in crate::experiment::load) fn case() -> CellResults {
        let run = |rate: f64, generator| {
            let seen = Reported {
                requests: rate as u64,
                seconds: 1.0,
                errors: 1,
                ..Reported::default()
            };
            let loaded = Loaded::of_tests(seen, [generator, 0.6], serde_json::Value::Null);
            Run::new(&loaded, 100_000.0)
        };
        let cell = Cell {
            server: Server::Exos,
            asked: Asked::Plain(Connection::New),
            size: Size::of_bytes(100),
        };
        // The ratios of the runs are 3, 4 and 2; the medians of the rates alone would say 3.
        let exos = vec![run(60_000.0, 0.5), run(80_000.0, 0.5), run(50_000.0, 0.5)];
        let wrk = vec![run(20_000.0, 1.0), run(20_000.0, 1.0), run(25_000.0, 1.0)];
        let results = vec![
            Outcome::of("exos".into(), exos),
            Outcome::of("wrk".into(), wrk),
        ];
        let limit = |per_sec, way| Best { per_sec, way };
        let limits = [
            limit(100_000.0, LinkWay::Live),
            limit(90_000.0, LinkWay::Ring),
            limit(110_000.0, LinkWay::Live),
        ];
        CellResults::new(cell, &limits, results)
    }

    #[test]
    fn ratios_are_of_runs_and_of_the_generators_time() {
        let case = case();
        let is = |of: &[Ratio], expected: [f64; 3]| {
            let found = [of[0].least, of[0].median, of[0].most];
            let mut pairs = found.iter().zip(expected);
            assert!(pairs.all(|(a, b)| (a - b).abs() < 1e-9), "{found:?}");
        };
        is(&case.rate_ratios, [2.0, 3.0, 4.0]);
        // It was busy for half of the time, wrk for all of it.
        is(&case.capacity_ratios, [4.0, 6.0, 8.0]);
        assert_eq!(
            case.rate_ratios.len(),
            1,
            "ours by theirs, not theirs by ours"
        );
        assert_eq!(case.packet_limit_per_sec, 100_000.0);
        assert_eq!(case.packet_limit_way, Some(LinkWay::Live));
    }

    #[test]
    fn who_was_the_limit() {
        let case = case();
        let limits: Vec<_> = case.results.iter().map(|r| r.limited_by).collect();
        assert_eq!(limits, ["neither", "generator"]);
        let exos = Outcome::find(&case.results, "exos").expect("there");
        assert_eq!(exos.errors, 3);
        assert!((exos.generator_us_per_request - 0.5e6 / 60_000.0).abs() < 1e-9);
        assert!((exos.server_us_per_request - 10.0).abs() < 1e-9);
        assert_eq!(
            (exos.requests_per_sec, exos.of_packet_limit),
            (60_000.0, 0.6)
        );
    }
}
