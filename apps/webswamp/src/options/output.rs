//! How a load is shown while it runs, and where its results go.

use std::path::PathBuf;

use crate::report::{Style, Threshold};

/// How a load is shown while it runs.
#[derive(clap::Args, Clone, Copy, Debug, Default)]
pub struct ShowArgs {
    /// Print a progress line each second to standard error, even if that is not a terminal
    #[arg(long)]
    pub(crate) progress: bool,
    /// Show no progress while the load runs
    #[arg(short, long, conflicts_with = "progress")]
    pub(crate) quiet: bool,
}

impl ShowArgs {
    /// On a terminal, or elsewhere.
    pub(crate) fn style(self, is_terminal: bool) -> Style {
        match (self.quiet, is_terminal, self.progress) {
            (true, _, _) | (false, false, false) => Style::Nothing,
            (false, true, _) => Style::Block,
            (false, false, true) => Style::Lines,
        }
    }
}

/// How results are told.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct OutputArgs {
    /// Print the results as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Also write a self-contained HTML page with charts
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Exit with status 2 if this condition holds, such as 'p99>5ms', 'service:p99.9>1s', 'rate<1000',
    /// 'error-share>0.1%', or 'peak<10000' with --find-peak (repeatable)
    #[arg(long, value_name = "CONDITION")]
    pub(crate) fail_if: Vec<Threshold>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_it_is_shown() {
        for (progress, quiet, styles) in [
            (false, false, [Style::Block, Style::Nothing]),
            (true, false, [Style::Block, Style::Lines]),
            (false, true, [Style::Nothing, Style::Nothing]),
        ] {
            let args = ShowArgs { progress, quiet };
            assert_eq!(
                [true, false].map(|is_terminal| args.style(is_terminal)),
                styles
            );
        }
    }
}
