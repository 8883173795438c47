//! The rate of an open loop is what was asked for, whatever the server does: in each second, and in all.

use std::time::Duration;

use exos_webswamp::schedule::Arrivals;
use exos_webswamp::statistics::Second;

use crate::raw::peer::{GOES_ON, Talk};
use crate::raw::world::{LATENCY, Load, Seen, Setting, run};

const SECONDS: u64 = 10;

fn load(rate: f64, arrivals: Arrivals) -> Seen {
    let setting = Setting {
        load: Load::Open {
            rate,
            time: Duration::from_secs(SECONDS),
            connections: 1000,
            arrivals,
        },
        requests_per_connection: u32::MAX,
        timeout: Duration::from_secs(100),
        latency: LATENCY,
        think: Duration::ZERO,
    };
    let good = |talk: &mut Talk<'_>| {
        if talk.heard.is_request() {
            talk.say_some(Duration::ZERO, GOES_ON);
        } else {
            talk.well();
        }
    };
    run(&setting, good)
}

fn begun(seen: &Seen) -> Vec<u64> {
    let seconds = seen.statistics.seconds.done().iter();
    seconds
        .map(|second: &Second| second.begun)
        .take(SECONDS as usize)
        .collect()
}

/// Of a rate with a fraction, each second has the whole part or one more.
#[test]
fn rates_are_exact() {
    for rate in [1.0, 7.5, 333.3, 1000.0, 2345.6] {
        let seen = load(rate, Arrivals::Even);
        let each = begun(&seen);
        let all: u64 = each.iter().sum();
        let wanted = rate * SECONDS as f64;
        assert!((all as f64 - wanted).abs() < 1.0, "{rate}: {all}");
        let apart = each.iter().map(|&count| (count as f64 - rate).abs());
        assert!(apart.fold(0.0, f64::max) < 1.0, "{rate}: {each:?}");
        assert_eq!((seen.statistics.responses, seen.peer.requests), (all, all));
        // None was late.
        assert_eq!(
            (seen.statistics.slip.len(), seen.statistics.slip.max()),
            (all, 0)
        );
    }
}

/// By chance: the numbers of seconds vary as much as their mean (a Poisson process), and not at all evenly.
#[test]
fn chance_varies_as_much_as_it_should() {
    let rate = 1000.0;
    let each = begun(&load(rate, Arrivals::Poisson));
    let count = each.len() as f64;
    let mean = each.iter().sum::<u64>() as f64 / count;
    // Three standard errors of the mean of ten such numbers.
    assert!(
        (mean - rate).abs() < 3.0 * (rate / count).sqrt(),
        "{each:?}"
    );
    let squares: f64 = each.iter().map(|&n| (n as f64 - mean).powi(2)).sum();
    // Of chi squared with nine degrees of freedom, one in a thousand is below the first, one above the second.
    let dispersion = squares / mean;
    assert!((1.15..27.9).contains(&dispersion), "{dispersion}: {each:?}");
}
