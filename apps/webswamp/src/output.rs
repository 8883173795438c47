//! How results are told, of a load that has just ended and of merged ones alike.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use exos_host::error::Context as _;
use exos_host::{Error, Result};
use exos_program::message::results;

use crate::peak::Peak;
use crate::report::{Results, Style, Threshold};

/// The exit status of a load that ran and met a condition of `--fail-if`.
const FAILED: u8 = 2;

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

impl OutputArgs {
    /// Where the results of one load go.
    ///
    /// # Errors
    ///
    /// A condition is of what one load does not have, or the page cannot be written.
    pub(crate) fn open(&self) -> Result<Output<'_>> {
        if self.fail_if.iter().any(Threshold::is_of_peak) {
            return Err(Error::new("--fail-if peak: one load has no peak")
                .mend("say --find-peak with a bound, or --fail-if 'rate<...'"));
        }
        self.open_for_peak()
    }

    /// Where a peak goes. Opens the page's file: before the load, so that one that cannot be written is told at once. What is in
    /// it stays until there is something else.
    ///
    /// # Errors
    ///
    /// The page cannot be written.
    pub(crate) fn open_for_peak(&self) -> Result<Output<'_>> {
        let cannot = |path: &PathBuf| format!("cannot write {}", path.display());
        let page = self.html.as_ref().map(|path| {
            let mut options = File::options();
            let file = options.write(true).create(true).truncate(false).open(path);
            file.context(|| cannot(path))
        });
        Ok(Output {
            args: self,
            page: page.transpose()?,
        })
    }
}

/// Writes a page in place of what was there.
fn write_page(mut file: File, page: &str) -> io::Result<()> {
    // A pipe has no length.
    if file.metadata()?.is_file() {
        file.set_len(0)?;
    }
    file.write_all(page.as_bytes())
}

/// Where results go.
pub(crate) struct Output<'a> {
    args: &'a OutputArgs,
    page: Option<File>,
}

impl Output<'_> {
    /// Prints it, and a line on standard error for each condition that it meets.
    pub(crate) fn tell(self, found: &impl Found) -> Result<ExitCode> {
        let args = self.args;
        if let Some(page) = self.page {
            write_page(page, &found.html()).context(|| "cannot write the page")?;
        }
        results(&if args.json {
            found.json()
        } else {
            found.text()
        })?;
        let failed = args.fail_if.iter().filter_map(|one| found.meets(one));
        let failed: Vec<String> = failed.collect();
        for line in &failed {
            exos_program::warn!("exos load: {line}");
        }
        Ok(if failed.is_empty() {
            ExitCode::SUCCESS
        } else {
            FAILED.into()
        })
    }
}

/// What is told: the results of a load, or a peak.
pub(crate) trait Found {
    fn html(&self) -> String;
    fn json(&self) -> String;
    fn text(&self) -> String;
    /// How it meets a condition under which it has failed, as a line.
    fn meets(&self, condition: &Threshold) -> Option<String>;
}

impl Found for Results {
    fn html(&self) -> String {
        self.html()
    }

    fn json(&self) -> String {
        self.json()
    }

    fn text(&self) -> String {
        self.text()
    }

    fn meets(&self, condition: &Threshold) -> Option<String> {
        condition.met_by(self)
    }
}

impl Found for Peak {
    fn html(&self) -> String {
        self.html()
    }

    fn json(&self) -> String {
        self.json()
    }

    fn text(&self) -> String {
        self.text()
    }

    fn meets(&self, condition: &Threshold) -> Option<String> {
        condition.met_by_peak(self.best())
    }
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

    #[test]
    fn one_load_has_no_peak() {
        let args = OutputArgs {
            fail_if: vec!["peak<5".parse().expect("a condition")],
            ..OutputArgs::default()
        };
        let error = args.open().err().expect("of one load").to_string();
        assert!(error.contains("--find-peak"), "{error}");
        assert!(args.open_for_peak().is_ok());
    }

    #[test]
    fn a_page_that_cannot_be_written_is_told_at_once() {
        let args = OutputArgs {
            html: Some("/none/of/these".into()),
            ..OutputArgs::default()
        };
        let error = args
            .open()
            .err()
            .expect("there is no such directory")
            .to_string();
        assert!(error.contains("cannot write /none/of/these"), "{error}");
    }
}
