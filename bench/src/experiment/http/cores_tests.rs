//! Two cores against one, of made-up runs.

use super::*;
use serde_json::json;

/// In which a thousand requests were made, and each loop took this long for one.
fn run(client: Client, loops_us: &[f64], responses: &[u64]) -> CoresRun {
    let loops_ns: Vec<u64> = loops_us.iter().map(|us| (us * 1e6) as u64).collect();
    let loaded = Loaded {
        seen: Seen {
            requests: 50_000,
            seconds: 1.0,
            resent: Some(0),
            ..Seen::default()
        },
        requests_under_watch: 1000.0,
        used: cpu::ThreadTimes {
            all_ns: loops_ns.iter().sum::<u64>() + 1_000_000,
            loops_ns,
        },
    };
    let handed_on = if loops_us.len() > 1 { 100 } else { 0 };
    CoresRun::new(client, &loaded, responses.to_vec(), [200_000, handed_on])
}

fn results(cell: Cell, [one, two]: [Vec<CoresRun>; 2]) -> CoresResults {
    let results = [(1, one), (2, two)].map(|(cores, runs)| CoresOutcome::of(cores, runs));
    CoresResults::new(cell, results.into())
}

/// One core takes 5 us for a request, of two the busiest 2.7.
pub(in crate::experiment::http) fn cores() -> CoresResults {
    let cell = Cell {
        client: Client::Packets,
        connection: Connection::Persistent,
    };
    let one = vec![run(cell.client, &[5.0], &[100]); 3];
    let two = [[2.7, 2.3], [2.0, 3.0], [2.5, 2.5]];
    let two = two
        .map(|loops| run(cell.client, &loops, &[55, 45]))
        .to_vec();
    results(cell, [one, two])
}

/// The busiest loop is what counts, and a core that did all the work would be worth nothing more.
#[test]
fn two_cores_are_worth_what_the_busiest_has_time_for() {
    let case = cores();
    let factor = case.factor.as_ref().expect("of our client");
    assert!((factor.median - 5.0 / 2.7).abs() < 1e-9, "{factor:?}");
    assert!((factor.least - 5.0 / 3.0).abs() < 1e-9, "{factor:?}");
    assert!((factor.most - 2.0).abs() < 1e-9, "{factor:?}");
    let two = &case.results[1];
    assert!((two.imbalance - 1.1).abs() < 1e-9 && (two.handed_on - 0.0005).abs() < 1e-9);
    let cell = Cell {
        client: Client::Packets,
        connection: Connection::New,
    };
    let all_on_one = vec![run(cell.client, &[5.0, 0.0], &[100, 0])];
    let case = results(cell, [vec![run(cell.client, &[5.0], &[100])], all_on_one]);
    assert_eq!(case.factor.expect("of our client").median, 1.0);
    assert_eq!(case.results[1].imbalance, 2.0);
}

/// wrk works on the same cores, so nothing follows from the time that requests take.
#[test]
fn nothing_is_said_of_capacity_with_wrk() {
    let cell = Cell {
        client: Client::Wrk,
        connection: Connection::New,
    };
    let of = |loops: &[f64], responses: &[u64]| vec![run(cell.client, loops, responses)];
    let case = results(cell, [of(&[5.0], &[1]), of(&[2.0, 2.0], &[1, 1])]);
    assert!(case.factor.is_none() && case.results[1].capacity_per_sec.is_none());
    assert_eq!(case.results[1].handed_on, 0.0005);
}

#[test]
fn responses_as_the_server_tells_them() {
    let two = json!({"cores": [{"core": 0, "responses": 7}, {"core": 1, "responses": 9}]});
    assert_eq!(responses_of_cores(&two), [7, 9]);
    let one = json!({"counters": {"http_responses_200": 7, "http_responses_304": 1, "turns": 5}});
    assert_eq!(responses_of_cores(&one), [8]);
}
