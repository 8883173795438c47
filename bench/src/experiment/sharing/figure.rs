//! What was measured: a value for each run, its median, and what is asked of it.

use crate::report::median;
use serde::Serialize;

/// What is asked of a figure.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Goal {
    /// It should be so much or more.
    AtLeast(f64),
    /// It should be so much or less.
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
}

/// One figure.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Figure {
    /// Its name.
    pub name: String,
    /// What it is counted in; empty for a ratio.
    pub unit: &'static str,
    /// The median of the runs.
    pub value: f64,
    /// What is asked of it, of those that something is asked of.
    pub goal: Option<Goal>,
    /// Whether the median is as it should be.
    pub met: Option<bool>,
    /// The value of each run.
    pub runs: Vec<f64>,
}

/// The figures of a session, in the order in which they were first measured.
#[derive(Clone, Debug, Default)]
pub(super) struct Figures(Vec<Figure>);

impl Figures {
    /// Notes a value that nothing is asked of.
    pub fn add(&mut self, name: &str, unit: &'static str, value: f64) {
        self.put(name, unit, None, value);
    }

    /// Notes a value that something is asked of.
    pub fn add_goal(&mut self, name: &str, unit: &'static str, goal: Goal, value: f64) {
        self.put(name, unit, Some(goal), value);
    }

    fn put(&mut self, name: &str, unit: &'static str, goal: Option<Goal>, value: f64) {
        let at = self.0.iter().position(|figure| figure.name == name);
        let at = at.unwrap_or_else(|| {
            self.0.push(Figure {
                name: name.to_owned(),
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
    /// A line for people.
    pub(super) fn row(&self) -> String {
        let goal = match self.goal {
            Some(Goal::AtLeast(least)) => format!(">= {}", number(least)),
            Some(Goal::AtMost(most)) => format!("<= {}", number(most)),
            None => String::new(),
        };
        let mark = if self.met == Some(false) { "  <--" } else { "" };
        let all = |f: fn(f64, f64) -> f64| self.runs.iter().copied().reduce(f).unwrap_or(0.0);
        let row = format!(
            "{:<44} {:>10} {:<10} {:>10} {:>10}  {goal}{mark}",
            self.name,
            number(self.value),
            self.unit,
            number(all(f64::min)),
            number(all(f64::max)),
        );
        row.trim_end().to_owned()
    }
}

/// As many digits as tell something.
fn number(value: f64) -> String {
    match value.abs() {
        100.0.. => format!("{value:.0}"),
        10.0.. => format!("{value:.1}"),
        _ => format!("{value:.3}"),
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
        let row = all[0].row();
        assert!(
            row.starts_with("a/ratio") && row.ends_with(">= 0.450"),
            "{row}"
        );
    }
}
