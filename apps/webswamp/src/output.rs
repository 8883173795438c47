//! Prints results, of a load that has just ended and of merged ones alike, and judges them by `--fail-if`.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use exos_host::error::Context as _;
use exos_host::{Error, Result};
use exos_program::message::results;

use crate::options::OutputArgs;
use crate::report::{Results, Threshold};

/// The exit status of a load that ran and met a condition of `--fail-if`.
const FAILED: u8 = 2;

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

impl<'a> Output<'a> {
    /// Where the results of one load go.
    ///
    /// # Errors
    ///
    /// A condition is of what one load does not have, or the page cannot be written.
    pub(crate) fn open(args: &'a OutputArgs) -> Result<Self> {
        if args.fail_if.iter().any(Threshold::is_of_peak) {
            return Err(Error::new("--fail-if peak: one load has no peak")
                .mend("say --find-peak with a bound, or --fail-if 'rate<...'"));
        }
        Self::open_for_peak(args)
    }

    /// Where a peak goes. Opens the page's file: before the load, so that one that cannot be written is told at once. What is in
    /// it stays until there is something else.
    ///
    /// # Errors
    ///
    /// The page cannot be written.
    pub(crate) fn open_for_peak(args: &'a OutputArgs) -> Result<Self> {
        let cannot = |path: &PathBuf| format!("cannot write {}", path.display());
        let page = args.html.as_ref().map(|path| {
            let mut options = File::options();
            let file = options.write(true).create(true).truncate(false).open(path);
            file.context(|| cannot(path))
        });
        Ok(Self {
            args,
            page: page.transpose()?,
        })
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_load_has_no_peak() {
        let args = OutputArgs {
            fail_if: vec!["peak<5".parse().expect("a condition")],
            ..OutputArgs::default()
        };
        let error = Output::open(&args).err().expect("of one load").to_string();
        assert!(error.contains("--find-peak"), "{error}");
        assert!(Output::open_for_peak(&args).is_ok());
    }

    #[test]
    fn a_page_that_cannot_be_written_is_told_at_once() {
        let args = OutputArgs {
            html: Some("/none/of/these".into()),
            ..OutputArgs::default()
        };
        let error = Output::open(&args)
            .err()
            .expect("there is no such directory")
            .to_string();
        assert!(error.contains("cannot write /none/of/these"), "{error}");
    }
}
