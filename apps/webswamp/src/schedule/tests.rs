use super::*;
use proptest::prelude::*;

fn all(phases: &[Phase], arrivals: Arrivals) -> Vec<f64> {
    let start = Instant::from_millis(7);
    let mut schedule = Schedule::new(phases.to_vec(), arrivals, 1, start);
    let end = start + Duration::from_secs(3600);
    let times = std::iter::from_fn(|| schedule.take(end));
    times.map(|at| (at - start).as_secs_f64()).collect()
}

fn phase(secs: f64, from: f64, to: f64) -> Phase {
    let time = Duration::from_secs_f64(secs);
    Phase { time, from, to }
}

#[test]
fn a_constant_rate_is_exact() {
    let times = all(&[phase(100.0, 333.0, 333.0)], Arrivals::Even);
    assert_eq!(times.len(), 33_300);
    for (n, time) in times.iter().enumerate() {
        assert!((time - n as f64 / 333.0).abs() < 2e-6, "{n}: {time}");
    }
}

#[test]
fn steps_and_ramps_follow_one_another() {
    let phases = [
        phase(1.0, 10.0, 10.0),
        phase(2.0, 0.0, 100.0),
        phase(1.0, 0.0, 0.0),
        phase(1.0, 100.0, 0.0),
    ];
    let times = all(&phases, Arrivals::Even);
    let within = |from: f64, to: f64| times.iter().filter(|&&t| t >= from && t < to).count();
    assert_eq!(within(0.0, 1.0), 10);
    assert_eq!(within(1.0, 2.0), 25);
    assert_eq!(within(2.0, 3.0), 75);
    assert_eq!(within(3.0, 4.0), 0);
    assert!((37..=38).contains(&within(4.0, 4.5)));
    assert!((12..=13).contains(&within(4.5, 5.0)));
    assert!(times.is_sorted());
}

/// Counts of equal intervals have mean and variance alike, and distances an exponential's quartiles.
#[test]
fn chance_is_poissons() {
    let times = all(&[phase(1000.0, 100.0, 100.0)], Arrivals::Poisson);
    let mut counts = vec![0.0; 10_000];
    times
        .iter()
        .for_each(|t| counts[(t * 10.0) as usize] += 1.0);
    let mean = counts.iter().sum::<f64>() / 1e4;
    let variance = counts.iter().map(|c| (c - mean) * (c - mean)).sum::<f64>() / 1e4;
    assert!((mean - 10.0).abs() < 0.15, "{mean}");
    assert!((variance / mean - 1.0).abs() < 0.06, "{variance}");
    let mut gaps: Vec<f64> = times.windows(2).map(|w| w[1] - w[0]).collect();
    gaps.sort_by(f64::total_cmp);
    let median = gaps[gaps.len() / 2] * 100.0;
    assert!((median - 2f64.ln()).abs() < 0.02, "{median}");
}

#[test]
fn a_log_is_followed_second_by_second() {
    let beat = |second, count| Beat { second, count };
    let beats = [beat(0, 1), beat(2, 4), beat(7, 2)];
    let start = Instant::from_millis(500);
    for (speed, wanted) in [
        (1.0, [0, 2000, 2250, 2500, 2750, 7000, 7500]),
        (2.0, [0, 1000, 1125, 1250, 1375, 3500, 3750]),
        (0.5, [0, 4000, 4500, 5000, 5500, 14000, 15000]),
    ] {
        let mut schedule = Schedule::replay(beats.into(), speed, start);
        let end = start + Duration::from_secs(3600);
        let times = std::iter::from_fn(|| schedule.take(end));
        let times: Vec<_> = times.map(|at| (at - start).as_millis() as u64).collect();
        assert_eq!(times, wanted);
        assert_eq!(schedule.next(), None);
    }
    assert_eq!(Schedule::replay([].into(), 1.0, start).next(), None);
}

#[test]
fn nothing_comes_early() {
    let start = Instant::START;
    let mut schedule = Schedule::new(vec![phase(1.0, 10.0, 10.0)], Arrivals::Even, 1, start);
    assert_eq!(schedule.take(start), Some(start));
    assert_eq!(schedule.take(start + Duration::from_millis(99)), None);
    let second = start + Duration::from_millis(100);
    assert_eq!(schedule.next(), Some(second));
    assert_eq!(schedule.take(second), Some(second));
}

/// All moments of a schedule, in microseconds.
fn moments(mut schedule: Schedule) -> Vec<u64> {
    let end = Instant::from_micros(u64::MAX);
    let moments = std::iter::from_fn(|| schedule.take(end));
    moments.map(Instant::micros).collect()
}

fn any_phase() -> impl Strategy<Value = Phase> {
    let rate = || prop_oneof![Just(0.0), 0.0..300.0];
    (1u32..2000, rate(), rate())
        .prop_map(|(millis, from, to)| phase(f64::from(millis) / 1000.0, from, to))
}

fn any_schedule() -> impl Strategy<Value = Schedule> {
    let start = Instant::from_millis(7);
    let chance = prop::bool::ANY.prop_map(|is_chance| match is_chance {
        true => Arrivals::Poisson,
        false => Arrivals::Even,
    });
    let rates = (
        prop::collection::vec(any_phase(), 0..4),
        chance,
        any::<u64>(),
    );
    let beats = prop::collection::vec((1u64..4, 1u32..9), 0..6);
    prop_oneof![
        rates.prop_map(move |(phases, arrivals, seed)| {
            Schedule::new(phases, arrivals, seed, start)
        }),
        (beats, 0.1f64..10.0).prop_map(move |(beats, speed)| {
            let mut second = 0;
            let beats = beats.into_iter().map(|(gap, count)| {
                second += gap;
                Beat { second, count }
            });
            Schedule::replay(beats.collect(), speed, start)
        }),
    ]
}

proptest! {
    /// An end leaves the moments before it as they are.
    #[test]
    fn an_end_cuts_off_what_comes_later(schedule in any_schedule(), of in 1u32..4, millis in 7u64..5000) {
        let schedule = schedule.part(Part::all(of).next().unwrap());
        let end = Instant::from_millis(millis);
        let before = moments(schedule.clone()).into_iter().filter(|&at| at < end.micros());
        prop_assert_eq!(moments(schedule.until(end)), before.collect::<Vec<_>>());
    }

    /// The parts of several cores are the whole, to the microsecond: the moment of number n is in the part with n.
    #[test]
    fn parts_make_the_whole(schedule in any_schedule(), of in 1u32..7) {
        let whole = moments(schedule.clone());
        for part in Part::all(of) {
            let its = moments(schedule.clone().part(part));
            prop_assert_eq!(its.len() as u64, part.count(whole.len() as u64));
            for (place, moment) in its.into_iter().enumerate() {
                prop_assert_eq!(moment, whole[part.number(place as u64) as usize]);
            }
        }
    }
}
