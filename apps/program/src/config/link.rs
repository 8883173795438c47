//! The link: `[link]`, which says what the flags of every program say.

use std::net::IpAddr;
use std::path::PathBuf;

use exos::{Prefixed, Route};
use serde::Deserialize;
use toml::Spanned;

use super::{Number, Source, Text};
use crate::{LinkArgs, LinkName, NamedLink, ViaName, mode};

/// More cores than any machine has.
pub const CORES_MAX: i64 = 4096;

/// A number, or several.
#[derive(Deserialize)]
#[serde(untagged, expecting = "write a number, or a list of such")]
pub enum Numbers {
    /// One.
    One(i64),
    /// Several.
    Many(Vec<i64>),
}

/// `[link]`: where packets come from.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default, expecting = "a table: [link]")]
pub struct LinkTable {
    /// `--link`.
    pub name: Option<Text>,
    /// `--via`.
    pub via: Option<Text>,
    /// `--mode`.
    pub mode: Option<Text>,
    /// `--xokd`.
    pub xokd: Option<String>,
    /// `--address`.
    pub addresses: Vec<Text>,
    /// `--gateway`.
    pub gateways: Vec<Text>,
    /// `--route`.
    pub routes: Vec<Text>,
    /// `--share-address`.
    pub share_address: bool,
    /// Without: `--no-segmentation`.
    pub segmentation: Option<bool>,
    /// `--core`.
    pub core: Option<Spanned<Numbers>>,
    /// On how many cores a program runs that can run on several.
    pub cores: Option<Number>,
    /// Links beside this one, for a program that can run on several.
    pub other: Vec<Spanned<OtherTable>>,
}

/// `[[link.other]]`: another link, and what is ours on it.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default, expecting = "a table: [[link.other]]")]
pub struct OtherTable {
    /// `--link`.
    pub name: Option<Text>,
    /// `--address`.
    pub addresses: Vec<Text>,
    /// `--gateway`.
    pub gateways: Vec<Text>,
    /// `--route`.
    pub routes: Vec<Text>,
}

/// What the flags of the command line say.
pub fn link(source: &Source, table: &LinkTable) -> LinkArgs {
    let (name, via, how) = (&table.name, &table.via, &table.mode);
    LinkArgs {
        link: name
            .as_ref()
            .and_then(|t| source.value(t, str::parse::<LinkName>)),
        others: others(source, table),
        via: via
            .as_ref()
            .and_then(|t| source.value(t, str::parse::<ViaName>)),
        mode: how.as_ref().and_then(|t| source.value(t, mode)),
        xokd: table.xokd.as_ref().map(PathBuf::from),
        address: addresses(source, &table.addresses),
        gateway: gateways(source, &table.gateways),
        route: routes(source, &table.routes),
        share_address: table.share_address,
        no_segmentation: table.segmentation == Some(false),
        core: table
            .core
            .as_ref()
            .map_or_else(Vec::new, |core| named(source, core)),
    }
}

/// The links beside the first, of which there is one then.
fn others(source: &Source, table: &LinkTable) -> Vec<NamedLink> {
    let other = |other: &Spanned<OtherTable>| {
        let OtherTable {
            name,
            addresses: ours,
            gateways: routers,
            routes: ways,
        } = other.get_ref();
        if table.name.is_none() {
            let what =
                "there is another link, and no first one; add name = \"xdp:INTERFACE\" to [link]";
            source.note_missing(&other.span(), what);
        }
        let Some(name) = name else {
            source.note_missing(
                &other.span(),
                "the link has no name; add name = \"xdp:INTERFACE\"",
            );
            return None;
        };
        Some(NamedLink {
            name: source.value(name, str::parse::<LinkName>)?,
            address: addresses(source, ours),
            gateway: gateways(source, routers),
            route: routes(source, ways),
        })
    };
    table.other.iter().filter_map(other).collect()
}

fn addresses(source: &Source, texts: &[Text]) -> Vec<Prefixed> {
    let address = |t| source.value(t, str::parse::<Prefixed>);
    texts.iter().filter_map(address).collect()
}

fn gateways(source: &Source, texts: &[Text]) -> Vec<IpAddr> {
    texts.iter().filter_map(|t| source.value(t, ip)).collect()
}

fn routes(source: &Source, texts: &[Text]) -> Vec<Route> {
    let route = |t| source.value(t, str::parse::<Route>);
    texts.iter().filter_map(route).collect()
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

fn ip(text: &str) -> Result<IpAddr, String> {
    let help = "write one as 192.0.2.1 or 2001:db8::1";
    text.parse()
        .map_err(|_| format!("{text:?} is no address; {help}"))
}
