//! `--find-peak`: the highest rate that meets a bound on latency, found by steps, with the curve of what they saw.
//!
//! A step is a load of its own at one rate. It holds when the bound does, when no request went without its response, and
//! when as many requests were begun as the rate says: a generator that falls behind finds no peaks.
//!
//! | file | what is in it |
//! |---|---|
//! | `search` | which rate is next |
//! | `step` | what a step saw, and whether it holds |
//! | `result` | the peak and its steps |
//! | `html` | a page with the curve |

mod html;
mod result;
mod search;
mod step;

use std::time::Duration;

use exos::signals::Signals;
use exos_host::Result;

use crate::options::LoadArgs;
use crate::report::Bound;
use crate::run::load;

pub use result::{Peak, Report};
pub use search::Search;
pub use step::Step;

/// The first rate: what any server does.
const FIRST_RATE: f64 = 100.0;

/// The measured time of a step, and before it, when nothing else is said.
const STEP_TIME: Duration = Duration::from_secs(3);
const STEP_WARM_UP: Duration = Duration::from_secs(1);

/// Searches the peak; each step's line is told.
///
/// # Errors
///
/// A load could not be begun, or its link was taken away.
pub fn find(
    args: &LoadArgs,
    bound: &Bound,
    signals: &Signals,
    mut told: impl FnMut(&str),
) -> Result<Peak> {
    let mut args = args.clone();
    // A step is told when it is over.
    (args.show.quiet, args.show.progress) = (true, false);
    // Asked once: a step may leave this thread on one core.
    args.idle = Some(args.idle());
    let (warm_up, duration) = step_times(args.warm_up, args.duration);
    (args.warm_up, args.duration) = (warm_up, Some(duration));
    let mut search = Search::new(FIRST_RATE);
    let (mut steps, mut at_peak) = (Vec::new(), None);
    while let Some(rate) = search.rate()
        && !signals.stop_requested()
    {
        args.set_rate(rate);
        let made = load(&args, signals);
        if signals.stop_requested() {
            // A step that was ended tells nothing, and those before it do.
            break;
        }
        let results = made?;
        let measured = duration.saturating_sub(warm_up);
        let step = Step::judge(rate, measured, bound, &results);
        told(&step.line());
        search.tell(step.holds);
        // Each that holds is at a higher rate than those before.
        if step.holds {
            at_peak = Some(results);
        }
        steps.push(step);
    }
    Ok(Peak {
        url: args.name(),
        bound: bound.clone(),
        rate: search.peak(),
        steps,
        results: at_peak,
        is_unfinished: search.rate().is_some(),
    })
}

/// How long the warm-up of a step takes, and all of it, by what was said of them: where no warm-up was, a quarter of a step that
/// is shorter than usual.
fn step_times(warm_up: Duration, duration: Option<Duration>) -> (Duration, Duration) {
    let warm_up = match duration {
        _ if !warm_up.is_zero() => warm_up,
        Some(all) => STEP_WARM_UP.min(all / 4),
        None => STEP_WARM_UP,
    };
    (warm_up, duration.unwrap_or(STEP_TIME + warm_up))
}

#[cfg(test)]
mod tests {
    use super::step::tests::step;
    use super::*;
    use crate::output::Found as _;
    use crate::report::Threshold;
    use crate::report::tests::results;
    use serde_json::{Value, json};

    /// A peak of two steps.
    pub(super) fn peak() -> Peak {
        Peak {
            url: "http://10.0.0.1/".to_owned(),
            bound: "p99<5ms".parse().unwrap(),
            rate: Some(100.0),
            steps: vec![step(200.0, false), step(100.0, true)],
            results: None,
            is_unfinished: false,
        }
    }

    #[test]
    fn how_long_steps_take() {
        let millis = Duration::from_millis;
        for (warm_up, duration, wanted) in [
            (0, None, (1000, 4000)),
            (0, Some(10_000), (1000, 10_000)),
            (0, Some(1000), (250, 1000)),
            (500, Some(1000), (500, 1000)),
            (2000, None, (2000, 5000)),
        ] {
            let times = step_times(millis(warm_up), duration.map(millis));
            assert_eq!(times, (millis(wanted.0), millis(wanted.1)));
        }
    }

    #[test]
    fn what_is_said() {
        let peak = peak();
        let text = peak.text();
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[1].trim_start().starts_with("100.0"), "{text}");
        assert!(
            lines[1].ends_with("25 %  holds") && lines[2].ends_with("does not hold"),
            "{text}"
        );
        assert!(
            text.ends_with("\np99<5ms up to 100.0 requests/s\n"),
            "{text}"
        );
        let json: Value = serde_json::from_str(&peak.json()).unwrap();
        assert_eq!(json["steps"][0]["total_us"]["p99"], 4000);
        assert_eq!(json["steps"][0]["limited_by"], "nobody");
        assert_eq!(
            (&json["peak_rate"], &json["bound"]),
            (&json!(100.0), &json!("p99<5ms"))
        );
    }

    /// The load at the peak had 900 responses of some 503 us.
    #[test]
    fn conditions_are_of_the_peak() {
        let mut peak = peak();
        peak.results = Some(results(1e9, 500));
        let met = |peak: &Peak, text: &str| {
            let condition: Threshold = text.parse().unwrap();
            condition.met_by_peak(peak.best())
        };
        assert_eq!(
            met(&peak, "peak<150").unwrap(),
            "failed: peak<150: it is 100/s"
        );
        for text in ["peak<100", "peak>100", "p99>600us", "errors>1"] {
            assert_eq!(met(&peak, text), None);
        }
        assert!(met(&peak, "p99>400us").is_some() && met(&peak, "peak<=100").is_some());
        (peak.rate, peak.results) = (None, None);
        for text in ["peak<1", "peak>1", "p99>5ms", "errors>0", "rate<1"] {
            let line = met(&peak, text).expect(text);
            assert!(line.ends_with(": there is no peak"), "{line}");
        }
    }
}
