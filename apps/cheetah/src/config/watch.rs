//! What the server says of its work: `[log]`.

use std::path::Path;

use clap::ValueEnum as _;

use super::schema::LogTable;
use super::source::Source;
use crate::log::{Format, LogArgs};

/// `[log]`. A relative path begins in `folder`.
pub(super) fn log(source: &Source, folder: &Path, table: &LogTable) -> LogArgs {
    let format = table.format.as_ref();
    LogArgs {
        file: table.file.as_ref().map(|file| match file.as_str() {
            "-" => file.into(),
            file => folder.join(file),
        }),
        format: format.and_then(|t| source.value(t, log_format)),
    }
}

fn log_format(text: &str) -> Result<Format, String> {
    Format::from_str(text, false)
        .map_err(|_| format!("{text:?} is no format; write common, combined or json"))
}
