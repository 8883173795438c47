//! Results. What was measured is data ([`Results`]), which goes into JSON as it is; text and pages are a [`Document`] of
//! sections with tables and figures. `figures` declares both in one list: each figure with its name and meaning in JSON, and its
//! column in tables; `case` does so for what was measured together.
//!
//! `setting` and `environment` are where and how it was measured, with web servers and without; `median` has medians and ratios of runs, and who was the limit.

mod case;
mod document;
mod environment;
pub(crate) mod figure;
mod figures;
mod median;
mod ratio;
mod setting;
mod table;
#[cfg(test)]
pub(crate) mod tests;

pub(crate) use case::{Case, Column, case};
pub use document::Document;
pub(crate) use document::Section;
pub use environment::Environment;
#[cfg(test)]
pub(crate) use environment::for_tests as environment_of_tests;
pub(crate) use figures::{
    Contender, Shown, each, figures, known_median, median_where_all_are_known, of_each, outcomes,
    sum, usual,
};
pub(crate) use median::{limited_by, median, median_of, percentile, ratios};
pub use ratio::Ratio;
#[cfg(test)]
pub(crate) use setting::tests::setting as setting_of_tests;
pub use setting::{Named, Setting};
pub use table::Table;
pub(crate) use table::{Head, Tabular};

use crate::stage::args::CommonArgs;
use exos_host::{Result, error::Context as _};
use exos_program::message;
use serde::Serialize;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Where JSON goes, or a page.
enum Output {
    Standard,
    File { path: PathBuf, file: File },
}

impl Output {
    fn open(path: &Path) -> Result<Self> {
        if path == Path::new("-") {
            return Ok(Self::Standard);
        }
        let file = File::create(path).context(|| format!("cannot write {}", path.display()))?;
        Ok(Self::File {
            path: path.to_owned(),
            file,
        })
    }

    fn write(self, text: &str) -> Result<()> {
        match self {
            Self::Standard => message::results(text),
            Self::File { path, mut file } => file
                .write_all(text.as_bytes())
                .context(|| format!("cannot write {}", path.display())),
        }
    }
}

/// Opens where the JSON goes: before the minutes of measuring, so that a file that cannot be written is told at once.
fn open(path: Option<&Path>) -> Result<Option<Output>> {
    path.map(Output::open).transpose()
}

/// Writes the table, on standard error when standard output is for the JSON, and the JSON.
fn write(json: Option<Output>, table: &str, text: &str) -> Result<()> {
    // A reader that went away has seen enough.
    let _ = match &json {
        Some(Output::Standard) => std::io::stderr().write_all(table.as_bytes()),
        _ => std::io::stdout().write_all(table.as_bytes()),
    };
    json.map_or(Ok(()), |json| json.write(&format!("{text}\n")))
}

/// What a session of an experiment measured.
pub trait Results: Serialize {
    /// For people.
    fn document(&self) -> Document;

    /// As tables for people.
    fn table(&self) -> String {
        self.document().text()
    }

    /// As a page of HTML that needs nothing else.
    fn html(&self) -> String {
        self.document().html()
    }

    /// As JSON (docs/reference/bench.md).
    fn json(&self) -> String {
        serde_json::to_string_pretty(self).expect("plain data becomes JSON")
    }
}

/// Lists the names of the cells where that was asked for; else measures, and writes the table, the JSON and the page with figures.
pub(crate) fn tell<R: Results>(
    args: &CommonArgs,
    names: impl FnOnce() -> Vec<String>,
    measure: impl FnOnce() -> Result<R>,
) -> Result<ExitCode> {
    if args.list {
        // A reader that went away has seen enough.
        message::results(&(names().join("\n") + "\n"))?;
        return Ok(ExitCode::SUCCESS);
    }
    write_results((args.json.as_deref(), args.html.as_deref()), measure)
}

/// Measures, and writes what came of it.
pub(crate) fn write_results<R: Results>(
    (json, html): (Option<&Path>, Option<&Path>),
    measure: impl FnOnce() -> Result<R>,
) -> Result<ExitCode> {
    // Before the minutes of measuring: a file that cannot be written is told at once.
    let json = open(json)?;
    let html = open(html)?;
    let results = measure()?;
    write(json, &results.table(), &results.json())?;
    html.map_or(Ok(()), |html| html.write(&results.html()))?;
    Ok(ExitCode::SUCCESS)
}
