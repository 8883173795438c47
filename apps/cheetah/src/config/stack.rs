//! The link and TCP: `[link]` and `[tcp]`, which say what the flags of every program say.

use exos_program::config::Source;
pub(super) use exos_program::config::link::links;
use exos_program::config::link::{CORES_MAX, LinkTables};
pub(super) use exos_program::config::user;
use exos_program::{Congestion, Ecn, LinkArgs, TcpArgs};

use super::schema::TcpTable;
use super::units::size_within;

/// Where packets come from, in the terms of the command line.
pub type LinkConfig = LinkArgs;
/// How connections behave, in the terms of the command line.
pub type TcpConfig = TcpArgs;

/// `cores` of `[link]`.
pub(super) fn cores(source: &Source, tables: &LinkTables) -> Option<u32> {
    let cores = source.number(tables.first()?.cores.as_ref()?, 1, CORES_MAX);
    cores.map(|cores| cores as u32)
}

/// `[tcp]`.
pub(super) fn tcp(source: &Source, table: &TcpTable) -> TcpConfig {
    let (congestion, ecn) = (table.congestion.as_ref(), table.ecn.as_ref());
    let buffer = table.receive_buffer.as_ref();
    TcpArgs {
        congestion: congestion.and_then(|t| source.value(t, str::parse::<Congestion>)),
        ecn: ecn.and_then(|t| source.value(t, str::parse::<Ecn>)),
        no_sack: table.sack == Some(false),
        receive_buffer: buffer
            .and_then(|t| source.value(t, |t| size_within(t, 2048, 1 << 30)))
            .map(|bytes| bytes as u32),
        nagle: table.nagle == Some(true),
    }
}
