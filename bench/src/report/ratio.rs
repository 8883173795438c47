//! Ratios: of each run, then the median.

use super::figures::Contender;
use super::median::{median, ratios};
use schemars::JsonSchema;
use serde::Serialize;
use std::fmt;

/// Ours by theirs: of each run, then the median, the least and the most.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Ratio {
    /// The one.
    pub ours: String,
    /// The other.
    pub theirs: String,
    /// Median over the runs.
    pub median: f64,
    /// The least of the runs.
    pub least: f64,
    /// The most.
    pub most: f64,
}

impl Ratio {
    /// Each of ours by everyone else.
    pub(crate) fn all(results: &[(String, Vec<f64>)]) -> Vec<Self> {
        let is_ours = |name: &str| name.starts_with("exos");
        let ours = results.iter().filter(|(name, _)| is_ours(name));
        ours.flat_map(|ours| {
            let others = results.iter().filter(|theirs| theirs.0 != ours.0);
            others.map(|theirs| Self::of(ours, theirs))
        })
        .collect()
    }

    /// Of a figure of what some did in turn: each of ours by everyone else.
    pub(crate) fn among<'a, O: Contender + 'a>(
        outcomes: impl IntoIterator<Item = &'a O>,
        figure: fn(&O::Run) -> f64,
    ) -> Vec<Self> {
        let outcomes = outcomes.into_iter();
        let rates = outcomes.map(|outcome| outcome.each_run(figure));
        Self::all(&rates.collect::<Vec<_>>())
    }

    /// One of some, where both were measured.
    pub(crate) fn find<'a>(all: &'a [Self], ours: &str, theirs: &str) -> Option<&'a Self> {
        let mut all = all.iter();
        all.find(|ratio| ratio.ours == ours && ratio.theirs == theirs)
    }

    /// One of some, as tables show it.
    pub(crate) fn shown(all: &[Self], ours: &str, theirs: &str) -> String {
        Self::find(all, ours, theirs).map_or("-".to_owned(), Self::to_string)
    }

    pub(crate) fn of(ours: &(String, Vec<f64>), theirs: &(String, Vec<f64>)) -> Self {
        let of_runs = ratios(&ours.1, &theirs.1);
        Self {
            ours: ours.0.clone(),
            theirs: theirs.0.clone(),
            least: of_runs.iter().copied().fold(f64::MAX, f64::min),
            most: of_runs.iter().copied().fold(0.0, f64::max),
            median: median(of_runs),
        }
    }
}

/// The median, and of several runs also the least and the most.
impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            median,
            least,
            most,
            ..
        } = self;
        match least == most {
            true => write!(f, "{median:.2}"),
            false => write!(f, "{median:.2} ({least:.2} to {most:.2})"),
        }
    }
}
