//! The published parameters (Barford and Crovella 1998, the table of the distributions used in SURGE), and what draws
//! from them.
//!
//! | component | model | parameters |
//! |---|---|---|
//! | file sizes, body | lognormal | μ = 9.357, σ = 1.318 |
//! | file sizes, tail | Pareto | k = 133 kB, α = 1.1 |
//! | popularity | Zipf | exponent 1 |
//! | temporal locality | lognormal | μ = 1.5, σ = 0.80 |
//! | request sizes | Pareto | k = 1000, α = 1.0 |
//! | active OFF times | Weibull | α = 1.46 (scale), β = 0.382 (shape) |
//! | inactive OFF times | Pareto | k = 1, α = 1.5 |
//! | embedded references | Pareto | k = 1, α = 2.43 |
//!
//! Sizes are bytes, times seconds.

use std::time::Duration;

use rand_distr::{Distribution as _, LogNormal, Pareto, Weibull};
use rand_pcg::Pcg64Mcg;

/// μ of the lognormal body of file sizes.
pub const BODY_MU: f64 = 9.357;
/// Its σ.
pub const BODY_SIGMA: f64 = 1.318;
/// Where the tail of file sizes begins, in bytes.
pub const TAIL_BYTES: f64 = 133_000.0;
/// α of the Pareto tail of file sizes.
pub const TAIL_ALPHA: f64 = 1.1;
/// k of the Pareto distribution of request sizes, in bytes.
pub const REQUEST_BYTES: f64 = 1000.0;
/// Its α.
pub const REQUEST_ALPHA: f64 = 1.0;
/// k of the Pareto distribution of embedded references.
pub const EMBEDDED_LEAST: f64 = 1.0;
/// Its α.
pub const EMBEDDED_ALPHA: f64 = 2.43;
/// μ of the lognormal distribution of stack distances.
pub const DISTANCE_MU: f64 = 1.5;
/// Its σ.
pub const DISTANCE_SIGMA: f64 = 0.80;
/// Scale of the Weibull distribution of active OFF times, in seconds.
pub const ACTIVE_SCALE: f64 = 1.46;
/// Its shape.
pub const ACTIVE_SHAPE: f64 = 0.382;
/// k of the Pareto distribution of inactive OFF times, in seconds.
pub const INACTIVE_SECS: f64 = 1.0;
/// Its α.
pub const INACTIVE_ALPHA: f64 = 1.5;

/// The longest OFF time that is waited for: a day is beyond any load, and what the tails have beyond it too.
const OFF_MAX: f64 = 86_400.0;

/// What draws from these distributions.
#[derive(Clone, Debug)]
pub struct Distributions {
    body: LogNormal<f64>,
    tail: Pareto<f64>,
    embedded: Pareto<f64>,
    distance: LogNormal<f64>,
    active: Weibull<f64>,
    inactive: Pareto<f64>,
}

impl Distributions {
    /// Of the published parameters.
    pub fn published() -> Self {
        const GOOD: &str = "the parameters are published ones";
        Self {
            body: LogNormal::new(BODY_MU, BODY_SIGMA).expect(GOOD),
            tail: Pareto::new(TAIL_BYTES, TAIL_ALPHA).expect(GOOD),
            embedded: Pareto::new(EMBEDDED_LEAST, EMBEDDED_ALPHA).expect(GOOD),
            distance: LogNormal::new(DISTANCE_MU, DISTANCE_SIGMA).expect(GOOD),
            active: Weibull::new(ACTIVE_SCALE, ACTIVE_SHAPE).expect(GOOD),
            inactive: Pareto::new(INACTIVE_SECS, INACTIVE_ALPHA).expect(GOOD),
        }
    }

    /// The size of a file: of the body, or where that goes beyond the cut-off, of the tail.
    pub fn file_bytes(&self, random: &mut Pcg64Mcg) -> f64 {
        let bytes = self.body.sample(random);
        if bytes < TAIL_BYTES {
            bytes
        } else {
            self.tail.sample(random)
        }
    }

    /// Files that a page refers to, at least one.
    pub fn embedded(&self, random: &mut Pcg64Mcg) -> u32 {
        self.embedded.sample(random) as u32
    }

    /// How many other pages were asked for since the page that is asked for again, at least one: it itself counts.
    pub fn distance(&self, random: &mut Pcg64Mcg) -> usize {
        self.distance.sample(random).ceil() as usize
    }

    /// Between the files of a page.
    pub fn active_off(&self, random: &mut Pcg64Mcg) -> Duration {
        Duration::from_secs_f64(self.active.sample(random).min(OFF_MAX))
    }

    /// Between pages.
    pub fn inactive_off(&self, random: &mut Pcg64Mcg) -> Duration {
        Duration::from_secs_f64(self.inactive.sample(random).min(OFF_MAX))
    }
}
