//! What was measured: a value for each run, its median, and what is asked of it.

use crate::report::figure::Figure as Chart;
use crate::report::{Document, Environment, Results, Section, Shown, Table, figures, median};
use schemars::JsonSchema;
use serde::Serialize;

/// What is asked of a figure.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Goal {
    /// This or more.
    AtLeast(f64),
    /// This or less.
    AtMost(f64),
}

impl Goal {
    /// Whether a value is as it should be.
    pub fn is_met(self, value: f64) -> bool {
        match self {
            Self::AtLeast(least) => value >= least,
            Self::AtMost(most) => value <= most,
        }
    }

    fn shown(self) -> String {
        match self {
            Self::AtLeast(least) => format!(">= {}", Digits(least).shown(0)),
            Self::AtMost(most) => format!("<= {}", Digits(most).shown(0)),
        }
    }
}

figures! {
    /// One figure.
    #[derive(PartialEq)]
    pub struct Figure {
        /// Its name, [see below](#names-of-figures).
        name: String, "figure";
        /// The median over the runs.
        value: f64, "median" |r| Digits(r.value);
        /// `req/s`, `msg/s`, `Mbit/s`, `MB/s`; `ns` or `us` for a packet or a round trip; `ms` for a program; `MB`; `of link`, `of share`, `of cap`, `of a core`, `of requests`, `of messages`, `of bytes` for parts; empty
        /// for a ratio.
        unit: &'static str, "";
        /// The value of each run; a ratio's is of one run.
        runs: Vec<f64>, "least" |r| r.of_runs(f64::min), "most" |r| r.of_runs(f64::max);
        /// What is asked of it; `null` for figures that explain others.
        goal: Option<Goal>, "goal" |r| r.goal.map_or(String::new(), Goal::shown);
        /// Whether the median is as asked; `null` where nothing is.
        met: Option<bool>, "" |r| if r.met == Some(false) { "<--" } else { "" };
    }
}

/// Everything that a session measured.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Report {
    /// Where and how it measured.
    #[serde(flatten)]
    pub environment: Environment,
    /// Everything that was measured.
    pub figures: Vec<Figure>,
    /// The command, and what it measures.
    #[serde(skip)]
    pub(super) about: (&'static str, &'static str),
    /// The charts of a group's section.
    #[serde(skip)]
    pub(super) charts: fn(&str, &[Figure]) -> Vec<Chart>,
}

impl Results for Report {
    fn document(&self) -> Document {
        let (command, title) = self.about;
        let with_charts = |section: Section| {
            let charts = (self.charts)(&section.title, &self.figures);
            section.with_figures(charts)
        };
        let sections = sections(&self.figures).into_iter();
        Document {
            command,
            title,
            lines: vec![self.environment.line(), goals_met(&self.figures)],
            sections: sections.map(with_charts).collect(),
            remarks: self.environment.remarks(),
        }
    }
}

/// The figures of a session, in the order in which they were first measured.
#[derive(Clone, Debug, Default)]
pub(crate) struct Figures(Vec<Figure>);

impl Figures {
    /// Notes a value that nothing is asked of.
    pub fn add(&mut self, name: impl Into<String>, unit: &'static str, value: f64) {
        self.put(name.into(), unit, None, value);
    }

    /// Notes a value that something is asked of.
    pub fn add_goal(
        &mut self,
        name: impl Into<String>,
        unit: &'static str,
        goal: Goal,
        value: f64,
    ) {
        self.put(name.into(), unit, Some(goal), value);
    }

    fn put(&mut self, name: String, unit: &'static str, goal: Option<Goal>, value: f64) {
        let at = self.0.iter().position(|figure| figure.name == name);
        let at = at.unwrap_or_else(|| {
            self.0.push(Figure {
                name,
                unit,
                value: 0.0,
                goal,
                met: None,
                runs: Vec::new(),
            });
            self.0.len() - 1
        });
        let figure = &mut self.0[at];
        figure.runs.push(value);
        figure.value = median(figure.runs.clone());
        figure.met = goal.map(|goal| goal.is_met(figure.value));
    }

    /// All of them.
    pub fn into_vec(self) -> Vec<Figure> {
        self.0
    }
}

impl Figure {
    fn of_runs(&self, fold: fn(f64, f64) -> f64) -> Digits {
        Digits(self.runs.iter().copied().reduce(fold).unwrap_or(0.0))
    }
}

/// The one of a name.
pub(super) fn find<'f>(figures: &'f [Figure], name: &str) -> Option<&'f Figure> {
    figures.iter().find(|figure| figure.name == name)
}

/// How many goals are met, for people.
pub(super) fn goals_met(figures: &[Figure]) -> String {
    let asked: Vec<bool> = figures.iter().filter_map(|figure| figure.met).collect();
    let met = asked.iter().filter(|met| **met).count();
    format!("{met} of {} goals met", asked.len())
}

/// A table for those figures in a row whose names begin with the same word.
pub(super) fn sections(figures: &[Figure]) -> Vec<Section> {
    let group = |figure: &Figure| figure.name.split('/').next().unwrap_or("").to_owned();
    let groups = figures.chunk_by(|a, b| group(a) == group(b));
    let section = |figures: &[Figure]| Section {
        title: group(&figures[0]),
        tables: vec![Table::of(figures)],
        ..Section::default()
    };
    groups.map(section).collect()
}

/// A number with as many digits as tell something.
struct Digits(f64);

impl Shown for Digits {
    fn shown(&self, _: usize) -> String {
        self.0.shown(match self.0.abs() {
            100.0.. => 0,
            10.0.. => 1,
            _ => 3,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_what_must_meet_the_goal() {
        let mut figures = Figures::default();
        for value in [0.9, 0.2, 0.5] {
            figures.add_goal("a/ratio", "", Goal::AtLeast(0.45), value);
            figures.add("a/time", "ns", 1000.0 * value);
        }
        let all = figures.into_vec();
        assert_eq!((all.len(), all[0].value, all[0].met), (2, 0.5, Some(true)));
        assert_eq!((all[1].value, all[1].met), (500.0, None));
        assert!(!Goal::AtMost(0.4).is_met(all[0].value));
        let rows = crate::report::Table::of(&all).rows_text();
        let row = rows.lines().next().expect("a row");
        assert!(
            row.starts_with("a/ratio") && row.ends_with(">= 0.450"),
            "{row}"
        );
    }
}
