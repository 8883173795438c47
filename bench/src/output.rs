//! Results: a table for people and, on request, JSON for programs.

use exos_host::{Error, Result, error::Context as _};
use std::fs::File;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

/// Where JSON goes, or a page.
pub(crate) enum JsonOutput {
    Standard,
    File { path: PathBuf, file: File },
}

impl JsonOutput {
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

    pub(crate) fn write(self, text: &str) -> Result<()> {
        match self {
            Self::Standard => std::io::stdout()
                .write_all(text.as_bytes())
                .context(|| "cannot write to standard output"),
            Self::File { path, mut file } => file
                .write_all(text.as_bytes())
                .context(|| format!("cannot write {}", path.display())),
        }
    }
}

/// Opens where the JSON goes: before the minutes of measuring, so that a file that cannot be written is told at once.
pub(crate) fn open(path: Option<&Path>) -> Result<Option<JsonOutput>> {
    path.map(JsonOutput::open).transpose()
}

/// Writes the table, on standard error when standard output is for the JSON, and the JSON.
pub(crate) fn write(json: Option<JsonOutput>, table: &str, text: &str) -> Result<()> {
    // A reader that went away has seen enough.
    let _ = match &json {
        Some(JsonOutput::Standard) => std::io::stderr().write_all(table.as_bytes()),
        _ => std::io::stdout().write_all(table.as_bytes()),
    };
    json.map_or(Ok(()), |json| json.write(&format!("{text}\n")))
}

/// Measures and tells: the table, JSON and a page with figures, as asked for.
pub(crate) fn tell<R>(
    (json, html): (Option<&Path>, Option<&Path>),
    measure: impl FnOnce() -> Result<R>,
    told: impl FnOnce(&R) -> Told,
) -> Result<()> {
    // Before the minutes of measuring: a file that cannot be written is told at once.
    let json = open(json)?;
    let html = open(html)?;
    let told = told(&measure()?);
    write(json, &told.table, &told.json)?;
    html.map_or(Ok(()), |html| html.write(&told.html))
}

/// What is told of a session.
pub(crate) struct Told {
    pub table: String,
    pub json: String,
    pub html: String,
}

/// Writes names, one a line. A reader that went away has seen enough.
pub(crate) fn list(names: Vec<String>) -> Result<()> {
    let text = names.join("\n") + "\n";
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Error::io("cannot write to standard output", error))
        }
        _ => Ok(()),
    }
}

/// The middle value, or the mean of the two middle ones.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    assert!(!values.is_empty(), "there is at least one run");
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 {
        values[middle]
    } else {
        (values[middle - 1] + values[middle]) / 2.0
    }
}

/// Ours by theirs, of each run by itself: what disturbs the machine for a while disturbs both.
pub(crate) fn ratios(ours: &[f64], theirs: &[f64]) -> Vec<f64> {
    let pairs = ours.iter().zip(theirs);
    pairs
        .map(|(ours, theirs)| ours / theirs.max(f64::MIN_POSITIVE))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_of_odd_and_even_numbers() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(median(vec![7.0]), 7.0);
    }

    #[test]
    fn ratios_of_runs() {
        assert_eq!(ratios(&[2.0, 9.0], &[4.0, 3.0]), [0.5, 3.0]);
    }
}
