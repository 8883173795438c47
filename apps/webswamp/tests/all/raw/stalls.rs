//! A stall of a second has its true weight: a thousand people who come in it wait for what is left of it.

use std::time::Duration;

use exos_webswamp::schedule::Arrivals;

use crate::raw::peer::{GOES_ON, Talk};
use crate::raw::world::{Load, Seen, Setting, run};

/// Nothing is said from then to then; what was heard is answered at its end.
const STALL: [Duration; 2] = [Duration::from_millis(1000), Duration::from_millis(2000)];

/// Requests a second, for three seconds.
const RATE: u64 = 1000;

fn stalling(talk: &mut Talk<'_>) {
    if !talk.heard.is_request() {
        return talk.well();
    }
    let [from, until] = STALL;
    let is_in_it = (from..until).contains(&talk.now);
    let left = if is_in_it {
        until - talk.now
    } else {
        Duration::ZERO
    };
    talk.acknowledge();
    talk.say_some(left, GOES_ON);
}

fn load(load: Load) -> Seen {
    let setting = Setting {
        load,
        requests_per_connection: u32::MAX,
        timeout: Duration::from_secs(100),
        // Whatever takes time is the server's doing.
        latency: Duration::ZERO,
        think: Duration::from_millis(1),
    };
    run(&setting, stalling)
}

fn open(connections: u32) -> Load {
    Load::Open {
        rate: RATE as f64,
        time: Duration::from_secs(3),
        connections,
        arrivals: Arrivals::Even,
    }
}

/// Requests that were begun in each second.
fn begun(seen: &Seen) -> Vec<u64> {
    let seconds = seen.statistics.seconds.done().iter();
    seconds.map(|second| second.begun).take(3).collect()
}

/// Requests that took about this many milliseconds or more, as histograms tell times apart.
fn late(histogram: &hdrhistogram::Histogram<u64>, millis: u64) -> u64 {
    histogram.count_between(histogram.lowest_equivalent(millis * 1000), u64::MAX)
}

/// A second in which nothing came, and who waited at its end.
fn assert_silent(seen: &Seen) {
    let silence = seen.statistics.silence;
    assert!((0.99..=1.0).contains(&silence.secs), "{silence:?}");
    assert!(
        (RATE - 10..=RATE).contains(&silence.requests),
        "{silence:?}"
    );
}

/// With one connection, the requests of that second are begun after it: only total tells.
#[test]
fn on_one_connection() {
    let seen = load(open(1));
    let it = &seen.statistics;
    assert_eq!((it.responses, it.errors.all()), (3 * RATE, 0));
    // The one that was under way, and nothing else.
    assert_eq!((late(&it.service, 1), late(&it.service, 1000)), (1, 1));
    assert_eq!(it.total.count_at(0), 2 * RATE);
    for millis in 1..=1000 {
        assert_eq!(
            late(&it.total, millis),
            1001 - millis,
            "{millis} ms or more"
        );
    }
    assert_eq!(begun(&seen), [1000, 1, 1999]);
    // Nobody held them up but the server: they had no connection.
    assert_eq!(it.slip.max(), 0);
    assert_silent(&seen);
}

/// With as many as are needed they are begun in time, and both tell.
#[test]
fn on_many_connections() {
    let seen = load(open(2000));
    let it = &seen.statistics;
    assert_eq!((it.responses, it.errors.all()), (3 * RATE, 0));
    for millis in 1..=1000 {
        for times in [&it.total, &it.service] {
            assert_eq!(late(times, millis), 1001 - millis, "{millis} ms or more");
        }
    }
    assert_eq!((it.connections, begun(&seen)), (RATE, vec![RATE; 3]));
    // New connections stand meanwhile, which is not the server's own word.
    assert_silent(&seen);
}

/// A closed loop of one client that thinks for a millisecond asks once in that second.
#[test]
fn in_a_closed_loop() {
    let seen = load(Load::Closed {
        clients: 1,
        requests: 2000,
    });
    let it = &seen.statistics;
    assert_eq!(
        (it.responses, late(&it.total, 1), late(&it.total, 1000)),
        (2000, 1, 1)
    );
    assert_eq!(it.total, it.service);
}
