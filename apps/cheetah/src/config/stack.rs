//! The link and TCP: `[link]` and `[tcp]`, which say what the flags of every program say.

use std::net::IpAddr;
use std::path::PathBuf;

use exos::{LinkName, Prefixed};
use exos_program::{Congestion, Ecn, LinkArgs, TcpArgs, ViaName, mode};

use super::schema::{LinkTable, TcpTable};
use super::source::Source;
use super::units::size_within;

/// Where packets come from, in the terms of the command line.
pub type LinkConfig = LinkArgs;
/// How connections behave, in the terms of the command line.
pub type TcpConfig = TcpArgs;

/// More cores than any machine has.
const CORES_MAX: i64 = 4096;

/// `[link]`.
pub(super) fn link(source: &Source, table: &LinkTable) -> LinkConfig {
    let addresses = table.addresses.iter();
    let gateways = table.gateways.iter();
    let (name, via, how) = (&table.name, &table.via, &table.mode);
    let core = table.core.as_ref();
    LinkArgs {
        link: name
            .as_ref()
            .and_then(|t| source.value(t, str::parse::<LinkName>)),
        via: via
            .as_ref()
            .and_then(|t| source.value(t, str::parse::<ViaName>)),
        mode: how.as_ref().and_then(|t| source.value(t, mode)),
        xokd: table.xokd.as_ref().map(PathBuf::from),
        address: addresses
            .filter_map(|t| source.value(t, str::parse::<Prefixed>))
            .collect(),
        gateway: gateways.filter_map(|t| source.value(t, ip)).collect(),
        share_address: table.share_address,
        no_segmentation: table.segmentation == Some(false),
        core: core
            .and_then(|n| source.number(n, 0, CORES_MAX))
            .map(|n| n as usize),
    }
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

fn ip(text: &str) -> Result<IpAddr, String> {
    let help = "write one as 192.0.2.1 or 2001:db8::1";
    text.parse()
        .map_err(|_| format!("{text:?} is no address; {help}"))
}
