//! What the server says of its work, and what it lets clients do: `[log]`, `[status]` and `[clients]`.

use std::path::{Path, PathBuf};

use clap::ValueEnum as _;
use exos::wire::Prefix;

use super::schema::{ClientsTable, LogTable, Number, StatusTable};
use crate::connections::{BoundsArgs, parse_shutdown_timeout};
use crate::log::{Format, LogArgs};
use crate::site::rules::access::networks::parse_network;
use crate::status::{StatusArgs, parse_path};
use exos_program::config::Source;

/// `[log]`. A relative path begins in `folder`.
pub(super) fn log(source: &Source, folder: &Path, table: &LogTable) -> LogArgs {
    let format = table.format.as_ref();
    LogArgs {
        file: table
            .file
            .as_ref()
            .map(|file| match file.get_ref().as_str() {
                "-" => PathBuf::from("-"),
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
            .filter_map(|t| source.value(t, parse_network))
            .collect(),
    }
}

/// `[clients]`.
pub(super) fn bounds(source: &Source, table: &ClientsTable) -> BoundsArgs {
    let number = |number: &Option<Number>| {
        let number = source.number(number.as_ref()?, 1, i64::from(u32::MAX));
        number.map(|number| number as u32)
    };
    BoundsArgs {
        max_connections: number(&table.max_connections),
        max_peer_connections: number(&table.max_peer_connections),
        max_peer_streams: number(&table.max_peer_streams),
        min_read_rate: number(&table.min_read_rate),
        min_head_rate: number(&table.min_head_rate),
        shutdown_timeout: table
            .shutdown_timeout
            .as_ref()
            .and_then(|t| source.value(t, parse_shutdown_timeout)),
    }
}

/// `proxy_protocol` of `[clients]`.
pub(super) fn proxies(source: &Source, table: &ClientsTable) -> Vec<Prefix> {
    let networks = table.proxy_protocol.iter();
    networks
        .filter_map(|text| source.value(text, parse_network))
        .collect()
}

fn log_format(text: &str) -> Result<Format, String> {
    Format::from_str(text, false)
        .map_err(|_| format!("{text:?} is no format; write common, combined or json"))
}
