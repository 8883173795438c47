//! What one load through a forwarder showed: a run, the medians of some, and those of all contenders in a case.

use super::cell::Cell;
use super::contender::Contender;
use crate::experiment::cells::outcomes_of;
use crate::report::figure::Figure;
use crate::report::{Contender as _, Ratio, Section, case, known_median, limited_by};
use crate::report::{median, outcomes, sum, usual};
use crate::stage::cpu::{CoreTime, ticks_to_us};
use crate::stage::request::{Connection, Size};
use crate::stage::web::Seen;

/// Whom ours are compared with in tables and figures.
const PEER: &str = "haproxy";

/// And others of ours are, among them two cores.
const ONE_CORE: &str = "exos";

/// What forwarding a request costs at least: less is an error of measurement, and would make a ratio of nothing.
const COST_LEAST_US: f64 = 0.1;

/// What a rate counts as at least in a ratio: of nothing there is none.
const RATE_LEAST: f64 = 0.1;

case! {
    /// One wire, kind of connection and size; or a rate, at which latency is measured.
    pub struct CellResults in "wire/connections/size" from (cell: Cell) {
        /// `WIRE/CONNECTION/SIZE`, `latency/WIRE/CONNECTION/SIZE`, or `cores/WIRE/CONNECTION/SIZE`.
        name: String = cell.to_string();
        /// The kind of wire: `plain` or `offload`.
        wire: String = cell.wire.to_string();
        /// How requests were spread over connections.
        connection: Connection = cell.connection;
        /// The size of the document in bytes.
        size_bytes: u64 = cell.size.bytes();
        /// Requests a second that were asked for; `null`: as many as go.
        rate_per_sec: Option<u32> = cell.rate;
    } of {
        /// What each contender did.
        results: Outcome;
        /// Requests a second, of each of ours by each other contender; without a forwarder is none.
        rate_ratios: Vec<Ratio> = Ratio::among(forwarders(&results), |run| run.requests_per_sec.max(RATE_LEAST));
        /// Requests for which a second of a core suffices that does nothing but forward, of ours by those of each other.
        capacity_ratios: Vec<Ratio> = Ratio::among(forwarders(&results).filter(has_cost), Run::capacity);
    } columns {
        "x rate" (rate_ratios by PEER);
        "x cost" (capacity_ratios by PEER);
        "x exos" (rate_ratios by ONE_CORE);
    }
}

outcomes! {
    /// One contender in one case: medians over the runs, errors summed.
    pub struct Outcome of
    /// `nobody`: the client speaks to the server; `exos`: `exos forward`; `exos-cores`: with `--cores 2`; `exos-kernel`: with `--in-kernel`; `exos-packet` and
    /// `exos-packet-kernel`: the same with `--link packet:INTERFACE`; `exos-xokd`: with
    /// `--via xokd`; `exos-splice`: with `--splice`; `haproxy`, `nginx`, `nftables`.
    contender: String, "forwarder";
    /// One measurement.
    pub struct Run {
        /// Answers in a second.
        requests_per_sec: f64 as median, "requests/s" 0;
        /// A megabyte is 1,000,000 bytes, heads of answers included.
        megabytes_per_sec: f64 as median, "MB/s" 1;
        /// Packets that the forwarder's host received in a second, both ways together.
        packets_per_sec: f64 as median, "packets/s" 0;
        /// What both cores together needed for a request more than without a forwarder in the same run; `null` where that was not
        /// measured.
        forwarding_us_per_request: Option<f64> as known_median, "cost us" 1;
        /// Of that, time that the forwarder's core was busy.
        forwarder_core_us_per_request: f64 as median, "core us" 1;
        /// Part of the time that it was busy, 0 to 1.
        forwarder_core_busy: f64 as median, "busy %" 0 |r| 100.0 * r.forwarder_core_busy;
        /// Time that client and server had something to do, what they delivered to others included, microseconds for one request.
        others_us_per_request: f64 as median;
        /// Part of the time that client and server had something to do, 0 to 1.
        others_busy: f64 as median;
        /// Who had no time left: `forwarder`, `others` or `neither`; of several runs, in most.
        limited_by: &'static str as usual, "limited by";
        /// The median of the time of requests.
        latency_p50_us: f64 as median, "p50 us" 1;
        /// The 99th percentile.
        latency_p99_us: f64 as median, "p99 us" 1;
        /// By how much the median is more than without a forwarder in the same run; `null` where that was not measured.
        added_p50_us: Option<f64> as known_median, "added us" 1;
        /// Answers that were wrong or did not come, and connections that could not be made.
        errors: u64 as sum, "errors";
        /// Segments that our client sent again; `null` of wrk.
        resent: Option<u64> as sum;
    }
}

/// What was used meanwhile.
#[derive(Clone, Copy, Debug)]
pub(super) struct Used {
    pub seconds: f64,
    /// Microseconds in which who forwards was busy.
    pub forwarder_us: f64,
    /// The core of client and server.
    pub others: CoreTime,
    pub packets: u64,
}

impl Run {
    pub(super) fn new(seen: &Seen, used: &Used) -> Self {
        let rate = seen.per_sec();
        // Of none, all that was used is told.
        let requests = (rate * used.seconds).max(1.0);
        // Ours says for how long it had something to do; who sleeps otherwise has a core that is idle then.
        let others_busy = seen.busy.unwrap_or(used.others.busy_share());
        let others_us = match seen.busy {
            Some(busy) => busy * used.seconds * 1e6,
            None => ticks_to_us(used.others.busy),
        };
        let forwarder_busy = used.forwarder_us / 1e6 / used.seconds;
        Self {
            requests_per_sec: rate,
            megabytes_per_sec: seen.megabytes_per_sec(),
            packets_per_sec: used.packets as f64 / used.seconds,
            forwarding_us_per_request: None,
            forwarder_core_us_per_request: used.forwarder_us / requests,
            forwarder_core_busy: forwarder_busy,
            others_us_per_request: others_us / requests,
            others_busy,
            limited_by: limited_by_of(forwarder_busy, others_busy),
            latency_p50_us: seen.latency_us[0],
            latency_p99_us: seen.latency_us[1],
            added_p50_us: None,
            errors: seen.errors.total() + seen.unanswered,
            resent: seen.resent,
        }
    }

    /// Compares it with the same run without a forwarder: what that adds to the time of a request, and what it costs.
    fn compare(&mut self, direct: &Self) {
        let more = self.others_us_per_request - direct.others_us_per_request;
        self.forwarding_us_per_request = Some(self.forwarder_core_us_per_request + more);
        self.added_p50_us = Some(self.latency_p50_us - direct.latency_p50_us);
    }

    /// The requests for which a second of forwarding suffices.
    fn capacity(&self) -> f64 {
        let cost = self.forwarding_us_per_request;
        1e6 / cost.map_or(f64::NAN, |us| us.max(COST_LEAST_US))
    }
}

/// Who forwards is named first: the others look for packets even while they wait for it.
fn limited_by_of(forwarder_busy: f64, others_busy: f64) -> &'static str {
    match limited_by(others_busy, forwarder_busy) {
        "client" => "forwarder",
        "server" => "others",
        other => other,
    }
}

/// Nobody forwarding is no contender.
fn forwarders(results: &[Outcome]) -> impl Iterator<Item = &Outcome> {
    let nobody = Contender::Nobody.to_string();
    results.iter().filter(move |o| o.contender != nobody)
}

fn has_cost(outcome: &&Outcome) -> bool {
    outcome.forwarding_us_per_request.is_some()
}

impl CellResults {
    /// Of the runs of each contender.
    pub(super) fn of_runs(cell: Cell, contenders: &[Contender], mut runs: Vec<Vec<Run>>) -> Self {
        let is_nobody = |who: &Contender| *who == Contender::Nobody;
        let direct = contenders.iter().position(is_nobody);
        let direct = direct.map(|at| runs[at].clone());
        for (who, runs) in contenders.iter().zip(&mut runs) {
            let direct = direct.iter().flatten().filter(|_| !is_nobody(who));
            let pairs = runs.iter_mut().zip(direct);
            pairs.for_each(|(run, direct)| run.compare(direct));
        }
        Self::new(cell, outcomes_of(contenders, runs, Contender::to_string))
    }
}

const NOTE: &str = "Client, forwarder and server are three namespaces on a bridge; who forwards has a core for itself, client and server have \
    the other. cost us: what both cores need for a request more than without a forwarder; core us: of that, on the forwarder's; \
    added us: to the median latency without a forwarder; x: by HAProxy's, requests/s and requests for a second of forwarding, median \
    of the runs' ratios; x exos: requests/s by those of exos on one core. In cells `cores` client and server have what cores are left.";

const FIGURE_RATE: (&str, &str) = (
    "Requests a second, by those of HAProxy",
    "The paper's Figure 7. The numbers are requests a second. The dashed line across a group is what client and server manage without \
     anybody between them: they share a core, and where a forwarder comes near it, it is they who limit.",
);

const FIGURE_COST: (&str, &str) = (
    "What forwarding a request costs, by HAProxy's",
    "What both cores together needed for a request more than without a forwarder; the numbers are microseconds. This is what tells \
     how much more a forwarder could do for faster clients and servers. Frames are delivered in the time of who sends them, and a \
     forwarder in the kernel works in that time alone: so the core of client and server is looked at as well as the forwarder's.",
);

pub(super) fn section(cases: &[CellResults], series: &[&str]) -> Section {
    let nobody = Contender::Nobody.to_string();
    let series: Vec<&str> = series
        .iter()
        .copied()
        .filter(|name| *name != nobody)
        .collect();
    let kind = |case: &&CellResults| format!("{} wire, {}", case.wire, case.connection.title());
    let size = |case: &&CellResults| Size::of_bytes(case.size_bytes).to_string();
    let bars = |about, value: fn(&Outcome) -> Option<f64>, line: fn(&Outcome) -> Option<f64>| {
        let peer = ("by HAProxy", PEER);
        let is_drawn =
            |case: &&CellResults| case.rate_per_sec.is_none() && !case.name.starts_with("cores/");
        let as_fast_as_it_goes = cases.iter().filter(is_drawn);
        let value =
            |case: &&CellResults, name: &str| Outcome::find(&case.results, name).and_then(value);
        let line = |case: &&CellResults| Outcome::find(&case.results, &nobody).and_then(line);
        Figure::by_peer(
            about,
            peer,
            &series,
            as_fast_as_it_goes,
            (kind, size),
            value,
            line,
        )
    };
    let rate = |r: &Outcome| Some(r.requests_per_sec);
    let cost = |r: &Outcome| r.forwarding_us_per_request.map(|us| us.max(0.0));
    let figures = [
        bars(FIGURE_RATE, rate, rate),
        bars(FIGURE_COST, cost, |_| None),
    ];
    Section::of("All forwarders", NOTE, cases).with_figures(figures.into_iter().flatten())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::stage::request::Errors;
    use exos_lab::WireKind;

    pub(in crate::experiment::forward) fn run(rate: f64, core_us: f64, p50: f64) -> Run {
        Run {
            requests_per_sec: rate,
            megabytes_per_sec: 1.0,
            packets_per_sec: rate * 10.0,
            forwarding_us_per_request: None,
            forwarder_core_us_per_request: core_us,
            forwarder_core_busy: rate * core_us / 1e6,
            others_us_per_request: 1e6 / rate,
            others_busy: 1.0,
            limited_by: limited_by_of(rate * core_us / 1e6, 1.0),
            latency_p50_us: p50,
            latency_p99_us: p50 * 2.0,
            added_p50_us: None,
            errors: 1,
            resent: Some(0),
        }
    }

    pub(in crate::experiment::forward) fn case() -> CellResults {
        let cell = Cell::of(WireKind::Plain, Connection::New, Size::of_bytes(100));
        let of =
            |runs: [(f64, f64, f64); 3]| runs.map(|(rate, us, p50)| run(rate, us, p50)).to_vec();
        let runs = vec![
            of([(40e3, 0.0, 10.0), (44e3, 0.0, 20.0), (42e3, 0.0, 30.0)]),
            // Rates of the runs are 3, 4 and 2 times the other's; medians alone would say 3.
            of([(30e3, 20.0, 15.0), (40e3, 20.0, 29.0), (25e3, 20.0, 36.0)]),
            of([
                (10e3, 100.0, 70.0),
                (10e3, 98.0, 70.0),
                (12.5e3, 80.0, 70.0),
            ]),
        ];
        let who = [Contender::Nobody, Contender::Exos, Contender::Haproxy];
        CellResults::of_runs(cell, &who, runs)
    }

    #[test]
    fn ratios_and_what_is_added_are_of_runs() {
        let case = case();
        assert_eq!(case.rate_ratios.len(), 1, "nobody is no contender");
        let is = |of: &[Ratio], expected: [f64; 3]| {
            let found = [of[0].least, of[0].median, of[0].most];
            let mut pairs = found.iter().zip(expected);
            assert!(pairs.all(|(a, b)| (a - b).abs() < 1e-9), "{found:?}");
        };
        is(&case.rate_ratios, [2.0, 3.0, 4.0]);
        // Others took 25, 22.73 and 23.81 microseconds without a forwarder, with ours 33.33, 25 and 40: what is more counts as its.
        let cost = |n: usize, core: f64, rate: f64| core + 1e6 / rate - 1e6 / [40e3, 44e3, 42e3][n];
        let costs = [
            cost(0, 20.0, 30e3),
            cost(1, 20.0, 40e3),
            cost(2, 20.0, 25e3),
        ];
        let theirs = [
            cost(0, 100.0, 10e3),
            cost(1, 98.0, 10e3),
            cost(2, 80.0, 12.5e3),
        ];
        let ratios = [0, 1, 2].map(|n: usize| theirs[n] / costs[n]);
        assert!(ratios[2] < ratios[0] && ratios[0] < ratios[1]);
        is(&case.capacity_ratios, [ratios[2], ratios[0], ratios[1]]);
        let found = case.results[1].forwarding_us_per_request;
        assert!((found.expect("told") - costs[0]).abs() < 1e-9);
        assert_eq!(case.results[0].forwarding_us_per_request, None);
        let added: Vec<_> = case.results.iter().map(|r| r.added_p50_us).collect();
        assert_eq!(added, [None, Some(6.0), Some(50.0)]);
    }

    /// A forwarder through which nothing comes is told of like the others.
    #[test]
    fn nothing_comes_through() {
        let seen = Seen {
            seconds: 1.0,
            errors: Errors {
                timeout: 3,
                ..Errors::default()
            },
            busy: Some(0.5),
            latency_us: [f64::NAN; 2],
            ..Seen::default()
        };
        let used = Used {
            seconds: 0.8,
            forwarder_us: 8e5,
            others: CoreTime::default(),
            packets: 7,
        };
        let silent = Run::new(&seen, &used);
        let measured = [
            silent.requests_per_sec,
            silent.forwarder_core_us_per_request,
        ];
        assert_eq!((measured, silent.errors), ([0.0, 8e5], 3));
        let cell = Cell::of(WireKind::Offload, Connection::New, Size::of_bytes(100));
        let other = run(1000.0, 20.0, 15.0);
        let who = [Contender::Nobody, Contender::Exos, Contender::ExosKernel];
        let runs = [other.clone(), silent, other].map(|run| vec![run]);
        let case = CellResults::of_runs(cell, &who, runs.into());
        let medians: Vec<f64> = case.rate_ratios.iter().map(|ratio| ratio.median).collect();
        assert_eq!(medians, [1e-4, 1e4], "{:?}", case.rate_ratios);
    }

    #[test]
    fn who_was_the_limit() {
        let case = case();
        let limits: Vec<_> = case.results.iter().map(|r| r.limited_by).collect();
        assert_eq!(limits, ["others", "others", "forwarder"]);
        assert_eq!(
            Outcome::find(&case.results, "exos").expect("there").errors,
            3
        );
    }
}
