//! What one load showed: a run, the medians of some, and those of all generators in a case.

use super::cell::Cell;
use super::generator::Generator;
use super::output::Reported;
use crate::report::figure::Figure;
use crate::report::{self, Column, Ratio, Section, fixed, limited_by, median_of, percent};
use crate::stage::link::{Best, LinkWay, shown};
use crate::stage::request::{Connection, Size};
use schemars::JsonSchema;
use serde::Serialize;

/// Whom ours are compared with in the last columns: the paper's baseline, and the generator that most people use.
const PEERS: [&str; 2] = ["exos-sockets", "wrk"];

/// One server, kind of connection and size.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct CellResults {
    /// `SERVER/CONNECTION/SIZE`.
    pub name: String,
    /// Who was loaded: `exos`, `nginx` and the others of `exos bench http`.
    pub server: String,
    /// How requests were spread over connections.
    pub connection: Connection,
    /// The size of the document in bytes.
    pub size_bytes: u64,
    /// How many times a second two programs exchange the frames of such a visit, looking at nothing, by the best way of
    /// sending in each run: the median.
    pub packet_limit_per_sec: f64,
    /// The way of sending that was the best in most runs.
    pub packet_limit_way: Option<LinkWay>,
    /// What each generator did.
    pub results: Vec<Outcome>,
    /// Requests a second, of each of ours by each other generator.
    pub rate_ratios: Vec<Ratio>,
    /// Requests for which a second of the generator's time suffices, of ours by those of each other.
    pub capacity_ratios: Vec<Ratio>,
}

/// One generator in one case: medians over the runs, errors summed.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Outcome {
    /// `exos`: `exos load`; `exos-unmerged`: with `--no-merging`; `exos-sockets`: with `--sockets`; `wrk`, `ab`, `httperf`.
    pub generator: String,
    /// Whole answers in a second.
    pub requests_per_sec: f64,
    /// Part of the packet limit that was measured in the same run: the median.
    pub of_packet_limit: f64,
    /// Time that the generator's side was busy for a request, in microseconds.
    pub generator_us_per_request: f64,
    /// Part of the time that it had something to do, 0 to 1: what `exos load` says, of others how busy their core was in the
    /// middle half of the load.
    pub generator_busy: f64,
    /// Time that the server's side was busy for a request, in microseconds.
    pub server_us_per_request: f64,
    /// Part of the time that the server had something to do: what `exos serve` says (`busy_micros`), of others their core.
    pub server_busy: f64,
    /// Who had no time left: `generator`, `server` or `neither`.
    pub limited_by: &'static str,
    /// Errors of all runs.
    pub errors: u64,
    /// Every run.
    pub runs: Vec<Run>,
}

/// One measurement.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Run {
    /// Answers received in a second.
    pub requests_per_sec: f64,
    /// Part of the packet limit measured in this run.
    pub of_packet_limit: f64,
    /// Part of the time that the generator's side was busy, 0 to 1.
    pub generator_busy: f64,
    /// Part of the time that the server's side was busy, 0 to 1.
    pub server_busy: f64,
    /// Answers that were wrong or did not come, and connections that could not be made.
    pub errors: u64,
}

/// Parts of the time that the cores were busy.
#[derive(Clone, Copy, Debug)]
pub(super) struct Watched {
    pub generator: f64,
    pub server: f64,
}

impl Run {
    /// Of what the generator saw, what the cores did, and what the server says of itself. Who polls keeps a core busy all
    /// the time, so where it tells for which part it had something to do, that counts.
    pub(super) fn new(seen: Reported, watched: Watched, server: Option<f64>, limit: f64) -> Self {
        Self {
            requests_per_sec: seen.per_sec(),
            of_packet_limit: seen.per_sec() / limit,
            generator_busy: seen.busy.unwrap_or(watched.generator),
            server_busy: server.unwrap_or(watched.server),
            errors: seen.errors,
        }
    }

    fn generator_us(&self) -> f64 {
        1e6 * self.generator_busy / self.requests_per_sec
    }

    fn server_us(&self) -> f64 {
        1e6 * self.server_busy / self.requests_per_sec
    }
}

impl Outcome {
    /// The medians of some runs.
    pub(super) fn of(generator: Generator, runs: Vec<Run>) -> Self {
        let of = |value: fn(&Run) -> f64| median_of(&runs, value);
        let (server_busy, generator_busy) = (of(|r| r.server_busy), of(|r| r.generator_busy));
        Self {
            generator: generator.to_string(),
            requests_per_sec: of(|r| r.requests_per_sec),
            of_packet_limit: of(|r| r.of_packet_limit),
            generator_us_per_request: of(Run::generator_us),
            generator_busy,
            server_us_per_request: of(Run::server_us),
            server_busy,
            limited_by: match limited_by(server_busy, generator_busy) {
                "client" => "generator",
                other => other,
            },
            errors: runs.iter().map(|r| r.errors).sum(),
            runs,
        }
    }
}

impl CellResults {
    pub(super) fn new(cell: Cell, limits: &[Best], results: Vec<Outcome>) -> Self {
        let all = |value: fn(&Run) -> f64| {
            let of = |o: &Outcome| (o.generator.clone(), o.runs.iter().map(value).collect());
            Ratio::all(&results.iter().map(of).collect::<Vec<_>>())
        };
        Self {
            name: cell.to_string(),
            server: cell.server.to_string(),
            connection: cell.connection,
            size_bytes: cell.size.bytes(),
            packet_limit_per_sec: median_of(limits, |limit| limit.per_sec),
            packet_limit_way: Best::usual_way(limits),
            rate_ratios: all(|run| run.requests_per_sec),
            capacity_ratios: all(|run| 1e6 / run.generator_us()),
            results,
        }
    }

    fn ratio(&self, outcome: &Outcome, theirs: &str) -> String {
        Ratio::shown(&self.rate_ratios, &outcome.generator, theirs)
    }

    /// What a generator did.
    fn result(&self, generator: &str) -> Option<&Outcome> {
        let mut results = self.results.iter();
        results.find(|result| result.generator == generator)
    }
}

impl report::Tabular for CellResults {
    type Row = Outcome;
    const NAMES: &'static str = "server/connections/size";
    const COLUMNS: &'static [Column<Self, Self::Row>] = &[
        Column::text("generator", |_, r| r.generator.clone()),
        Column::number("requests/s", |_, r| fixed(r.requests_per_sec, 0)),
        Column::number("of limit", |_, r| fixed(r.of_packet_limit, 2)),
        Column::text("limit by", |case, _| shown(case.packet_limit_way)),
        Column::number("gen us", |_, r| fixed(r.generator_us_per_request, 1)),
        Column::number("srv us", |_, r| fixed(r.server_us_per_request, 1)),
        Column::number("busy %", |_, r| percent([r.generator_busy, r.server_busy])),
        Column::text("limited by", |_, r| r.limited_by.to_owned()),
        Column::number("errors", |_, r| r.errors.to_string()),
        Column::text("x sockets", |case, r| case.ratio(r, PEERS[0])),
        Column::text("x wrk", |case, r| case.ratio(r, PEERS[1])),
    ];

    fn name(&self) -> String {
        self.name.clone()
    }

    fn rows(&self) -> &[Outcome] {
        &self.results
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
        let value = |case: &&CellResults, name: &str| case.result(name).map(value);
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
    use super::*;
    use crate::stage::web::Server;

    pub(in crate::experiment::load) fn case() -> CellResults {
        let run = |rate, generator_busy| Run {
            requests_per_sec: rate,
            of_packet_limit: rate / 100_000.0,
            generator_busy,
            server_busy: 0.6,
            errors: 1,
        };
        let cell = Cell {
            server: Server::Exos,
            connection: Connection::New,
            size: Size::of_bytes(100),
        };
        // The ratios of the runs are 3, 4 and 2; the medians of the rates alone would say 3.
        let exos = vec![run(60_000.0, 0.5), run(80_000.0, 0.5), run(50_000.0, 0.5)];
        let wrk = vec![run(20_000.0, 1.0), run(20_000.0, 1.0), run(25_000.0, 1.0)];
        let results = vec![
            Outcome::of(Generator::Exos, exos),
            Outcome::of(Generator::Wrk, wrk),
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
        let exos = case.result("exos").expect("there");
        assert_eq!(exos.errors, 3);
        assert!((exos.generator_us_per_request - 0.5e6 / 60_000.0).abs() < 1e-9);
        assert!((exos.server_us_per_request - 10.0).abs() < 1e-9);
    }

    #[test]
    fn what_polls_is_as_busy_as_it_says() {
        let seen = |busy| Reported {
            requests: 100,
            seconds: 2.0,
            errors: 0,
            busy,
        };
        let watched = Watched {
            generator: 1.0,
            server: 0.9,
        };
        let busy = |run: Run| (run.generator_busy, run.server_busy);
        let polling = Run::new(seen(Some(0.4)), watched, Some(0.3), 1000.0);
        assert_eq!(busy(polling.clone()), (0.4, 0.3));
        assert_eq!(
            (polling.requests_per_sec, polling.of_packet_limit),
            (50.0, 0.05)
        );
        assert_eq!(busy(Run::new(seen(None), watched, None, 1.0)), (1.0, 0.9));
    }
}
