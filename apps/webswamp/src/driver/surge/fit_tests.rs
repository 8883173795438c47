//! Goodness of fit: what is drawn, against the published distributions, and against ones of which a parameter is a tenth
//! too large, which must fail.

use std::collections::HashMap;
use std::time::Duration;

use super::documents::Documents;
use super::parameters::*;
use super::stream::Stream;
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::SeedableRng as _;

/// Kolmogorov's statistic of more than this has a probability of less than one in a thousand.
const KOLMOGOROV_MAX: f64 = 1.95;

/// The greatest distance between the samples' distribution and another, times the root of their number.
fn kolmogorov(samples: &mut [f64], cdf: impl Fn(f64) -> f64) -> f64 {
    samples.sort_by(f64::total_cmp);
    let n = samples.len() as f64;
    let steps = samples.iter().enumerate();
    let greatest = steps.map(|(below, &x)| {
        let (below, here) = (below as f64, cdf(x));
        (here - below / n).max((below + 1.0) / n - here)
    });
    greatest.fold(0.0, f64::max) * n.sqrt()
}

fn lognormal(mu: f64, sigma: f64) -> impl Fn(f64) -> f64 {
    move |x| 0.5 * (1.0 + libm::erf((x.ln() - mu) / (sigma * std::f64::consts::SQRT_2)))
}

fn pareto(k: f64, alpha: f64) -> impl Fn(f64) -> f64 {
    move |x| 1.0 - (k / x.max(k)).powf(alpha)
}

fn weibull(scale: f64, shape: f64) -> impl Fn(f64) -> f64 {
    move |x| 1.0 - (-(x / scale).powf(shape)).exp()
}

fn draws<T>(count: usize, draw: impl Fn(&Distributions, &mut Pcg64Mcg) -> T) -> Vec<T> {
    let mut random = Pcg64Mcg::seed_from_u64(20);
    let distributions = Distributions::published();
    (0..count)
        .map(|_| draw(&distributions, &mut random))
        .collect()
}

/// The right distribution fits, and each of the others does not.
fn judge<F: Fn(f64) -> f64>(mut samples: Vec<f64>, right: F, wrong: Vec<F>) {
    let found = kolmogorov(&mut samples, right);
    assert!(found < KOLMOGOROV_MAX, "{found}");
    for (n, cdf) in wrong.into_iter().enumerate() {
        let found = kolmogorov(&mut samples, cdf);
        assert!(found > KOLMOGOROV_MAX, "wrong one {n}: {found}");
    }
}

#[test]
fn file_sizes() {
    let sizes = draws(400_000, Distributions::file_bytes);
    let (tail, body): (Vec<f64>, Vec<f64>) = sizes.iter().partition(|&&bytes| bytes >= TAIL_BYTES);
    let within = |mu, sigma| {
        let cdf = lognormal(mu, sigma);
        let whole = cdf(TAIL_BYTES);
        move |x: f64| cdf(x) / whole
    };
    let tail_share = 1.0 - lognormal(BODY_MU, BODY_SIGMA)(TAIL_BYTES);
    let expected = tail_share * sizes.len() as f64;
    assert!((tail.len() as f64 - expected).abs() < 4.0 * expected.sqrt());
    judge(
        body,
        within(BODY_MU, BODY_SIGMA),
        vec![
            within(BODY_MU * 1.1, BODY_SIGMA),
            within(BODY_MU, BODY_SIGMA * 1.1),
        ],
    );
    judge(
        tail,
        pareto(TAIL_BYTES, TAIL_ALPHA),
        vec![
            pareto(TAIL_BYTES * 1.1, TAIL_ALPHA),
            pareto(TAIL_BYTES, TAIL_ALPHA * 1.1),
        ],
    );
}

#[test]
fn off_times() {
    let secs = |times: Vec<Duration>| times.iter().map(Duration::as_secs_f64).collect();
    judge(
        secs(draws(50_000, Distributions::active_off)),
        weibull(ACTIVE_SCALE, ACTIVE_SHAPE),
        vec![
            weibull(ACTIVE_SCALE * 1.1, ACTIVE_SHAPE),
            weibull(ACTIVE_SCALE, ACTIVE_SHAPE * 1.1),
        ],
    );
    judge(
        secs(draws(50_000, Distributions::inactive_off)),
        pareto(INACTIVE_SECS, INACTIVE_ALPHA),
        vec![
            pareto(INACTIVE_SECS * 1.1, INACTIVE_ALPHA),
            pareto(INACTIVE_SECS, INACTIVE_ALPHA * 1.1),
        ],
    );
}

/// Chi-squared of counts of whole numbers from 1 on, against a distribution of numbers that were rounded to them; those
/// from the last on are one class.
fn chi_squared(samples: &[u64], last: u64, up_to: impl Fn(u64) -> f64) -> f64 {
    let mut counts = vec![0u32; last as usize];
    samples
        .iter()
        .for_each(|&n| counts[n.clamp(1, last) as usize - 1] += 1);
    let terms = (1..).zip(counts).map(|(n, count)| {
        let above = if n == last { 1.0 } else { up_to(n) };
        let below = if n == 1 { 0.0 } else { up_to(n - 1) };
        let expected = (above - below) * samples.len() as f64;
        (f64::from(count) - expected).powi(2) / expected
    });
    terms.sum()
}

#[test]
fn embedded_references() {
    let counts: Vec<u64> = draws(100_000, |d, random| u64::from(d.embedded(random)));
    // Rounded down: n stands for all below n + 1.
    let law = |k, alpha| move |n: u64| pareto(k, alpha)(n as f64 + 1.0);
    // Eleven degrees of freedom: one in a thousand exceeds 31.3.
    assert!(chi_squared(&counts, 12, law(EMBEDDED_LEAST, EMBEDDED_ALPHA)) < 31.3);
    assert!(chi_squared(&counts, 12, law(EMBEDDED_LEAST, EMBEDDED_ALPHA * 1.1)) > 31.3);
    assert!(chi_squared(&counts, 12, law(EMBEDDED_LEAST * 1.1, EMBEDDED_ALPHA)) > 31.3);
}

#[test]
fn stack_distances() {
    let distances: Vec<u64> = draws(100_000, |d, random| d.distance(random) as u64);
    let law = |mu, sigma| move |n: u64| lognormal(mu, sigma)(n as f64);
    // 24 degrees of freedom: one in a thousand exceeds 51.2.
    assert!(chi_squared(&distances, 25, law(DISTANCE_MU, DISTANCE_SIGMA)) < 51.2);
    assert!(chi_squared(&distances, 25, law(DISTANCE_MU * 1.1, DISTANCE_SIGMA)) > 51.2);
    assert!(chi_squared(&distances, 25, law(DISTANCE_MU, DISTANCE_SIGMA * 1.1)) > 51.2);
}

/// The rounds of a stream of pages.
fn rounds(requests: &[u32], count: usize) -> Vec<Vec<u32>> {
    let mut stream = Stream::new(requests.to_vec(), 3);
    let length: u32 = requests.iter().sum();
    let mut round = || (0..length).map(|_| stream.take()).collect();
    (0..count).map(|_| round()).collect()
}

/// Each page is asked for exactly as often as Zipf's law says.
#[test]
fn popularity() {
    let requests = Documents::generate(2000, 1).requests();
    assert!(
        (requests[0] as usize, requests[1] as usize)
            == (requests.len(), requests.len().div_ceil(2))
    );
    for (round, pages) in rounds(&requests, 3).iter().enumerate() {
        let mut counts = vec![0; requests.len()];
        pages.iter().for_each(|&page| counts[page as usize] += 1);
        assert_eq!(counts, requests, "round {round}");
    }
}

/// How deep pages lay when they were asked for, of a round, computed again: pages that are not asked for again have left.
fn depths(before: &[u32], round: &[u32]) -> Vec<u64> {
    let mut last_use = HashMap::new();
    (0..).zip(round).for_each(|(n, &page)| {
        last_use.insert(page, n);
    });
    let mut stack: Vec<u32> = Vec::new();
    for &page in before.iter() {
        stack.retain(|&other| other != page);
        stack.push(page);
    }
    let mut depths = Vec::new();
    for (n, &page) in round.iter().enumerate() {
        let place = stack.iter().position(|&other| other == page).unwrap();
        depths.push((stack.len() - place) as u64);
        stack.remove(place);
        if last_use[&page] != n {
            stack.push(page);
        }
    }
    depths
}

/// The greatest distance between the depths' distribution and that of distances.
fn depths_off(depths: &[u64], mu: f64, sigma: f64) -> f64 {
    let up_to = |n: u64| depths.iter().filter(|&&depth| depth <= n).count() as f64;
    let off = |n: u64| (up_to(n) / depths.len() as f64 - lognormal(mu, sigma)(n as f64)).abs();
    (1..100).map(off).fold(0.0, f64::max)
}

/// The distances that the stream of pages comes to are the published ones, though each page is asked for as often as
/// its popularity says; and the most popular ones all the time.
#[test]
fn temporal_locality() {
    let requests = Documents::generate(4000, 1).requests();
    let rounds = rounds(&requests, 2);
    let depths = depths(&rounds[0], &rounds[1]);
    assert!(depths_off(&depths, DISTANCE_MU, DISTANCE_SIGMA) < 0.02);
    assert!(depths_off(&depths, DISTANCE_MU * 1.1, DISTANCE_SIGMA) > 0.02);
    assert!(depths_off(&depths, DISTANCE_MU, DISTANCE_SIGMA * 1.1) > 0.02);
    for page in 0..3 {
        let tenths = rounds[1].chunks(rounds[1].len() / 10);
        for (n, tenth) in tenths.take(10).enumerate() {
            let count = tenth.iter().filter(|&&other| other == page).count() as f64;
            let even = f64::from(requests[page as usize]) / 10.0;
            assert!(
                (count / even - 1.0).abs() < 0.2,
                "page {page}, tenth {n}: {count} of {even}"
            );
        }
    }
}

/// Sizes and weights of what is requested, the largest first; the weights' sum is one.
fn requested(pages: &[Vec<u64>]) -> Vec<(f64, f64)> {
    let ranked = (1..).zip(pages);
    let files =
        ranked.flat_map(|(rank, page)| page.iter().map(move |&b| (b, 1.0 / f64::from(rank))));
    let mut files: Vec<(u64, f64)> = files.collect();
    files.sort_by_key(|&(bytes, _)| std::cmp::Reverse(bytes));
    let all: f64 = files.iter().map(|(_, weight)| weight).sum();
    files
        .iter()
        .map(|&(bytes, weight)| (bytes as f64, weight / all))
        .collect()
}

/// The mean distance between the distribution of what is requested and a Pareto distribution.
fn requests_off(requested: &[(f64, f64)], k: f64, alpha: f64) -> f64 {
    let mut above = 0.0;
    let terms = requested.iter().map(|&(bytes, weight)| {
        above += weight;
        let wanted = 1.0 - pareto(k, alpha)(bytes);
        weight * (above - weight / 2.0 - wanted).abs()
    });
    terms.sum()
}

#[test]
fn request_sizes() {
    const OFF_MAX: f64 = 0.005;
    for (files, seed) in [(2000, 1), (2000, 2), (20_000, 3)] {
        let set = Documents::generate(files, seed);
        let sizes = requested(set.pages());
        let right = requests_off(&sizes, REQUEST_BYTES, REQUEST_ALPHA);
        assert!(right < OFF_MAX, "{files} files, seed {seed}: {right}");
        assert!(requests_off(&sizes, REQUEST_BYTES * 1.1, REQUEST_ALPHA) > OFF_MAX);
        assert!(requests_off(&sizes, REQUEST_BYTES, REQUEST_ALPHA * 1.1) > OFF_MAX);
    }
}
