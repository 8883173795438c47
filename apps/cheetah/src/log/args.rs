//! What the command line and a configuration say of the log.

use std::path::PathBuf;

use exos::Error;

use super::access_log::Log;
use super::line::Format;
use super::sink::Target;

/// Where the log goes, and its form.
#[derive(clap::Args, Clone, Debug, Default, PartialEq, Eq)]
pub struct LogArgs {
    /// Append a line for each response to this file; - for standard output
    #[arg(long = "log", value_name = "FILE|-")]
    pub file: Option<PathBuf>,
    /// Format of the lines [default: combined]
    #[arg(long = "log-format", value_enum, value_name = "FORMAT")]
    pub format: Option<Format>,
}

impl LogArgs {
    /// This, and what a file says where this says nothing.
    #[must_use]
    pub fn or(self, file: Self) -> Self {
        Self {
            file: self.file.or(file.file),
            format: self.format.or(file.format),
        }
    }

    /// Opens the log, if one is wanted, for this many loops; its thread runs on these cores.
    ///
    /// # Errors
    ///
    /// The file cannot be opened, or no thread be had.
    pub fn open(
        &self,
        unix_secs: u64,
        cores: &[usize],
        loops: usize,
    ) -> Result<Option<Vec<Log>>, Error> {
        let Some(target) = self.target() else {
            return Ok(None);
        };
        let format = self.format.unwrap_or_default();
        let logs = Log::open_for(target, format, unix_secs, cores, loops);
        logs.map(Some).map_err(|e| {
            let file = self.file.clone().unwrap_or_default();
            let what = format!("cannot open the log {}", file.display());
            Error::io(what, e).mend(
                "name a file in a directory that may be written, or a pipe that is being read",
            )
        })
    }

    /// Where lines go, if they are wanted. `-` is standard output.
    pub fn target(&self) -> Option<Target> {
        let file = self.file.as_ref()?;
        Some(match file.as_os_str().to_str() {
            Some("-") => Target::Output,
            _ => Target::File(file.clone()),
        })
    }
}
