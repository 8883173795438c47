//! The link and TCP: `[link]` and `[tcp]`, which say what the flags of every program say.

use std::net::IpAddr;
use std::path::PathBuf;

use exos::{LinkName, Prefixed};
use exos_program::{Congestion, Ecn, LinkArgs, TcpArgs, ViaName, mode};
use toml::Spanned;

use super::schema::{LinkTable, Numbers, TcpTable};
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
        core: table
            .core
            .as_ref()
            .map_or_else(Vec::new, |core| named(source, core)),
    }
}

/// The cores that are named.
fn named(source: &Source, core: &Spanned<Numbers>) -> Vec<usize> {
    let numbers = match core.get_ref() {
        Numbers::One(one) => std::slice::from_ref(one),
        Numbers::Many(several) => &several[..],
    };
    let number = |n: &i64| source.number(&Spanned::new(core.span(), *n), 0, CORES_MAX);
    numbers
        .iter()
        .filter_map(number)
        .map(|n| n as usize)
        .collect()
}

/// `cores` of `[link]`.
pub(super) fn cores(source: &Source, table: &LinkTable) -> Option<u32> {
    let cores = source.number(table.cores.as_ref()?, 1, CORES_MAX);
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

fn ip(text: &str) -> Result<IpAddr, String> {
    let help = "write one as 192.0.2.1 or 2001:db8::1";
    text.parse()
        .map_err(|_| format!("{text:?} is no address; {help}"))
}
