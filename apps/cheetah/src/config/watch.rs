//! What the server says of its work: `[log]` and `[status]`.

use std::path::Path;

use clap::ValueEnum as _;

use super::schema::{LogTable, StatusTable};
use super::source::Source;
use crate::log::{Format, LogArgs};
use crate::status::{Prefix, StatusArgs, parse_path};

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

/// `[status]`.
pub(super) fn status(source: &Source, table: &StatusTable) -> StatusArgs {
    let (path, allow) = (table.path.as_ref(), table.allow.iter());
    StatusArgs {
        path: path.and_then(|t| source.value(t, parse_path)),
        allow: allow
            .filter_map(|t| source.value(t, str::parse::<Prefix>))
            .collect(),
    }
}

fn log_format(text: &str) -> Result<Format, String> {
    Format::from_str(text, false)
        .map_err(|_| format!("{text:?} is no format; write common, combined or json"))
}
