//! What the user may choose of every experiment that has a wire.

use exos_program::units::parse_seconds;
use std::path::PathBuf;

/// How cells are chosen, how often they are measured, and where the results go.
#[derive(clap::Args, Clone, Debug)]
pub struct CommonArgs {
    /// Measure only a few cells, once and briefly, to check that everything works
    #[arg(long)]
    pub quick: bool,
    /// Measure only cells (combinations) whose name contains this text, such as new/100 or send/20ms; see --list (repeatable)
    #[arg(long, value_name = "TEXT")]
    pub only: Vec<String>,
    /// List the names of all cells, and exit
    #[arg(long)]
    pub list: bool,
    /// How often to measure each cell, each time all competitors one after the other [default: 3, for sharing 5, with
    /// --quick 1]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    pub runs: Option<u32>,
    /// How long each measurement lasts: 300ms, 2, 1m; in whole seconds by ab and httperf [default: 2s, with --quick 1s; for sharing
    /// 3s, with --quick 1s; for tcp 4s; for link 1s, with --quick 200ms]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub duration: Option<f64>,
    /// Write the results as JSON to this file; - for standard output
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write a self-contained HTML report with charts to this file
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Name of the lab to make
    #[arg(long, default_value = "bench")]
    pub lab: String,
    /// Measure this exos program instead of the running one
    #[arg(long, value_name = "PROGRAM")]
    pub exos: Option<PathBuf>,
    /// The program whose helpers measure, instead of the running one: for tests, which are another
    #[arg(long, value_name = "PROGRAM", hide = true)]
    pub helpers: Option<PathBuf>,
}

impl CommonArgs {
    /// How often each cell is measured: this often unless the user says otherwise.
    pub(crate) fn runs(&self, default: u32) -> u32 {
        self.runs.unwrap_or(if self.quick { 1 } else { default })
    }

    /// How long each measurement lasts, in seconds: this long unless the user says otherwise.
    pub(crate) fn seconds(&self, default: f64) -> f64 {
        self.duration.unwrap_or(default)
    }

    /// Whether a cell was asked for.
    pub(crate) fn wants(&self, cell: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|text| cell.contains(text))
    }

    /// Of the cells of a group those that were asked for.
    pub(crate) fn wanted<C: ToString>(
        &self,
        is_asked: bool,
        cells: impl IntoIterator<Item = C>,
    ) -> Vec<C> {
        let is_wanted = |cell: &C| is_asked && self.wants(&cell.to_string());
        cells.into_iter().filter(is_wanted).collect()
    }
}

/// Shows values as the command line has them.
macro_rules! shown_as_on_the_command_line {
    ($($kind:ty),*) => {$(
        impl std::fmt::Display for $kind {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let value = clap::ValueEnum::to_possible_value(self).expect("every value has a name");
                f.pad(value.get_name())
            }
        }

        impl $crate::report::Shown for $kind {
            const IS_TEXT: bool = true;

            fn shown(&self, _: usize) -> String {
                self.to_string()
            }
        }
    )*};
}
pub(crate) use shown_as_on_the_command_line;

/// All values that an option knows, in the order in which help names them.
pub(crate) fn all<T: clap::ValueEnum>() -> Vec<T> {
    T::value_variants().to_vec()
}

/// The seconds that a measurement lasts for.
fn duration(text: &str) -> std::result::Result<f64, String> {
    let seconds = parse_seconds(text)?.as_secs_f64();
    match (0.1..=600.0).contains(&seconds) {
        true => Ok(seconds),
        false => Err("it must be from 100ms to 10m".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_has_a_unit_or_is_in_seconds_and_makes_sense() {
        for (text, seconds) in [("300ms", 0.3), ("2", 2.0), ("1.5s", 1.5), ("1m", 60.0)] {
            assert_eq!(duration(text), Ok(seconds));
        }
        for text in ["0", "99ms", "601", "1e6", "-1", "soon", "NaN"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }
}
